/* An experiment that is right, and mistakes in it that the compiler has to find. Each is switched on by its macro. */
#include <nitro.h>

struct dataset {
    int rows;
};
__attribute__((unused)) static double half(double x) {
    return x / 2;
}

/* A row more, with a mistake in it. */
#if defined FIELD_TWICE
#define MORE(FIELD, DEVICE, GRAPH_CONST) FIELD(int, hidden, 1, "a second field of that name")
#elif defined FIELD_WITHOUT_TYPE
#define MORE(FIELD, DEVICE, GRAPH_CONST) FIELD(untyped, 1, "no type")
#elif defined FIELD_OF_UNKNOWN_TYPE
#define MORE(FIELD, DEVICE, GRAPH_CONST) FIELD(unknown_type, odd, 1, "a type that is none")
#elif defined FIELD_WITH_UNKNOWN_MARKER
#define MORE(FIELD, DEVICE, GRAPH_CONST) CONSTANT(int, odd, 1, "a marker that is none")
#elif defined DEVICE_POINTER
#define MORE(FIELD, DEVICE, GRAPH_CONST) DEVICE(struct dataset *, odd, NULL, "no input of a program")
#elif defined DEVICE_TEXT
#define MORE(FIELD, DEVICE, GRAPH_CONST) DEVICE(const char *, odd, NULL, "no input of a program")
#elif defined CONSTANT_ARRAY
#define MORE(FIELD, DEVICE, GRAPH_CONST) GRAPH_CONST(nt_array *, odd, NULL, "no constant of a program")
#elif defined CONSTANT_STRUCT
#define MORE(FIELD, DEVICE, GRAPH_CONST) GRAPH_CONST(struct dataset, odd, {1}, "no constant of a program")
#else
#define MORE(FIELD, DEVICE, GRAPH_CONST)
#endif

#define DIGITS(FIELD, DEVICE, GRAPH_CONST)                 \
    MORE(FIELD, DEVICE, GRAPH_CONST)                       \
    FIELD(struct dataset *, data, NULL, "a dataset")       \
    FIELD(nt_array *, images, NULL, "an array")            \
    GRAPH_CONST(int, hidden, 256, "units")                 \
    DEVICE(float, smoothing, 0.1f, "label smoothing")      \
    FIELD(int, batch_size, 128, "images in a micro-batch") \
    FIELD(bool, wide, false, "a bool")                     \
    FIELD(double, scale, 0.5, "a double")                  \
    FIELD(const char *, folder, "data", "a string")

NT_EXPERIMENT(Digits, DIGITS)

/* A second experiment in the file, with a Host field of the same name. */
#define OTHER(FIELD, DEVICE, GRAPH_CONST) FIELD(int, batch_size, 64, "images in a micro-batch")

NT_EXPERIMENT(Other, OTHER)

static nt_status build_data(const Digits *e, nt_data *data) {
    nt_split(data, "train", .batch = e->batch_size);
    return nt_data_status(data);
}

static nt_tensor forward(const Digits_view *e, nt_model *m, nt_batch *batch) {
    nt_tensor x = nt_field(batch, "image");
#ifdef DEVICE_FIELD_AS_SIZE
    x = nt_dense(m, "a", x, e->smoothing);
#endif
#ifdef DEVICE_FIELD_AS_VALUE
    float smoothing = e->smoothing;
    if (smoothing > 0) x = nt_relu(x);
#endif
#ifdef DEVICE_FIELD_COMPARED
    if (e->smoothing > 0) x = nt_relu(x);
#endif
#ifdef DEVICE_FIELD_IN_ARITHMETIC
    x = nt_mul(x, 2 * e->smoothing);
#endif
#ifdef DEVICE_FIELD_AS_CONDITION
    if (e->smoothing) x = nt_relu(x);
#endif
#ifdef HOST_FIELD_AS_SIZE
    x = nt_dense(m, "a", x, e->batch_size);
#endif
#ifdef HOST_FIELD_IN_ARITHMETIC
    x = nt_dense(m, "a", x, e->batch_size / 2);
#endif
#ifdef HOST_FIELD_AS_OPERAND
    x = nt_mul(x, e->scale);
#endif
#ifdef HOST_FIELD_AS_VALUE
    bool wide = e->wide;
    if (wide) x = nt_relu(x);
#endif
#ifdef HOST_FIELD_ON_THE_RIGHT
    x = nt_mul(x, 0.5 + e->scale);
#endif
#ifdef HOST_FIELD_NEGATED
    x = nt_mul(x, -e->scale);
#endif
#ifdef HOST_FIELD_COMPARED
    if (e->batch_size > 8) x = nt_relu(x);
#endif
#ifdef HOST_FIELD_EQUAL
    if (e->batch_size == 8) x = nt_relu(x);
#endif
#ifdef HOST_FIELD_AS_CONDITION
    if (e->wide) x = nt_relu(x);
#endif
#ifdef HOST_FIELD_ASSIGNED
    int size = e->batch_size;
    x = nt_dense(m, "a", x, size);
#endif
#ifdef HOST_FIELD_AS_ARGUMENT
    x = nt_mul(x, half(e->scale));
#endif
#ifdef HOST_FIELD_AS_INDEX
    static const int sizes[] = {8, 16};
    x = nt_dense(m, "a", x, sizes[e->batch_size]);
#endif
#ifdef HOST_FIELD_INDEXED
    x = nt_mul(x, e->folder[0]);
#endif
#ifdef HOST_FIELD_CAST
    x = nt_mul(x, (double)e->scale);
#endif
#ifdef HOST_FIELD_FOLLOWED
    x = nt_dense(m, "a", x, e->data->rows);
#endif
#ifdef HOST_ARRAY_AS_CONSTANT
    x = nt_add(x, nt_constant(e->images));
#endif
#ifdef HOST_FIELD_AS_TEXT
    x = nt_field(batch, e->folder);
#endif
#ifdef HOST_ARRAY_AS_OPERAND
    x = nt_relu(nt_host_field((const nt_host_batch *)0, "image"));
#endif
#ifdef MISSPELT_OPERATION
    x = nt_rleu(x);
#endif
    return nt_dense(m, "logits", x, e->hidden);
}

static nt_tensor loss(const Digits_view *e, nt_tensor logits, nt_batch *batch) {
    return nt_cross_entropy(logits, nt_field(batch, "label"), .label_smoothing = e->smoothing);
}

static void metrics(const Digits *e, nt_metrics *out, const nt_array *logits, const nt_host_batch *batch) {
    (void)e;
#ifdef TRACED_OPERATION_IN_HOST_HOOK
    nt_field(batch, "label");
#endif
    nt_metric_mean(out, "accuracy", (double)nt_count_correct(logits, nt_host_field(batch, "label")), 1);
}

#ifdef HOOK_WITHOUT_RESULT
static double learning_rate(const Digits *e) {
    (void)e;
}
#else
static double learning_rate(const Digits *e) {
    return e->scale;
}
#endif

#ifdef HOOK_OF_ANOTHER_TYPE
#define LOSS forward
#else
#define LOSS loss
#endif

#ifdef HOOK_OF_ANOTHER_EXPERIMENT
static double other_rate(const Digits *e) {
    return e->scale;
}
#else
static double other_rate(const Other *e) {
    return e->batch_size;
}
#endif

NT_DEFINE(Digits, DIGITS, .build_data = build_data, .forward = forward, .loss = LOSS, .metrics = metrics,
          .learning_rate = learning_rate);
NT_DEFINE(Other, OTHER, .learning_rate = other_rate);
