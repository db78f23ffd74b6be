/* An experiment that is right, and mistakes in it that the compiler has to find. Each is switched on by its macro. */
#include <nitro.h>

#define DIGITS(FIELD, DEVICE, GRAPH_CONST)                 \
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
