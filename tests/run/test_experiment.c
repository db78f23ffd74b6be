/* Experiments in runs: arrays as inputs, Host data that nobody touches, presets, derived values, writes to a live run,
 * what is shown and logged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "run/run_internal.h"
#include "base/files.h"
#include "toy.h"

/* A dataset of the user's own; its pages cannot be read. */
struct dataset {
    float pixels[1 << 16];
};

#define RICH(FIELD, DEVICE, GRAPH_CONST)                                    \
    GRAPH_CONST(int, classes, 2, "of the labels; derived")                  \
    GRAPH_CONST(size_t, hidden, 8, "hidden units")                          \
    DEVICE(double, scale, 1, "of the inputs")                               \
    DEVICE(int64_t, shift, 0, "of the inputs")                              \
    DEVICE(nt_array *, table, NULL, "f32[4], added to the inputs")          \
    DEVICE(nt_arrays *, frozen, NULL, "gain f32[4] and offset f32[1]")      \
    FIELD(int, batch, 16, "samples in a micro-batch")                       \
    FIELD(int, max_epochs, 2, "passes")                                     \
    FIELD(struct dataset *, data, NULL, "a pointer that nobody may follow") \
    FIELD(nt_array *, images, NULL, "an array that nobody may look at")     \
    FIELD(const char *, note, "none", "a text")                             \
    FIELD(int, derive_by, 0, "what the derive hook does")
NT_EXPERIMENT(Rich, RICH)

static double scale_in_build_data;

static nt_status rich_data(const Rich *e, nt_data *data) {
    scale_in_build_data = e->scale;
    const char *const splits[] = {"train", "val"};
    for (int i = 0; i < 2; i++) {
        nt_split(data, splits[i], .batch = e->batch, .drop_last = true);
        nt_split_field(data, splits[i], "x", toy_points(64, false));
        nt_split_field(data, splits[i], "label", toy_labels(64, 0));
    }
    return nt_data_status(data);
}

static nt_tensor rich_forward(const Rich_view *e, nt_model *m, nt_batch *batch) {
    nt_tensor x = nt_mul(nt_field(batch, "x"), nt_convert(e->scale, NT_F32));
    x = nt_add(nt_add(x, nt_convert(e->shift, NT_F32)), e->table);
    x = nt_add(nt_mul(x, nt_member(e->frozen, "gain")), nt_member(e->frozen, "offset"));
    x = nt_tanh(nt_dense(m, "hidden", x, (int64_t)e->hidden));
    return nt_dense(m, "logits", x, e->classes);
}

static nt_tensor rich_loss(const Rich_view *e, nt_tensor logits, nt_batch *batch) {
    (void)e;
    return nt_cross_entropy(logits, nt_field(batch, "label"));
}

static double rich_rate(const Rich *e) {
    return 0.01 * e->classes;
}

enum { NOTHING, CLASSES, ARRAYS, FAILURE, SILENT_FAILURE };

static nt_array *filled(int64_t count, double value) {
    nt_array *array = nt_array_new(NT_F32, nt_dims(count));
    for (int64_t i = 0; array && i < count; i++) nt_array_set(array, i, value);
    return array;
}

/* Sees the data and Device fields as host values. */
static nt_status rich_derive(Rich *e, const nt_data *data) {
    const nt_array *labels = nt_data_array(data, "train", "label");
    if (!labels) return nt_error_status();
    if (e->derive_by == CLASSES) e->classes = 1 + (int)nt_array_get(labels, 0) + 3;
    if (e->derive_by == CLASSES) e->max_epochs = 1;
    if (e->derive_by == ARRAYS) e->scale = e->scale * 2 + (double)nt_data_rows(data, "train") / 64;
    if (e->derive_by == ARRAYS) e->table = filled(4, 5);
    if (e->derive_by == FAILURE) return nt_data_array(data, "train", "mask") ? NT_OK : nt_error_status();
    return e->derive_by == SILENT_FAILURE ? NT_INVALID : NT_OK;
}

static void small_batches(Rich *e) {
    e->batch = 8;
}

static void wide(Rich *e) {
    e->hidden = 32;
}

NT_DEFINE(Rich, RICH, .build_data = rich_data, .forward = rich_forward, .loss = rich_loss, .learning_rate = rich_rate,
          .derive = rich_derive,
          .presets = NT_PRESETS(Rich, {"noted", "only Host fields", NULL}, {"small", "small batches", small_batches},
                                {"wide", "a wide layer", wide}));

/* ---- making ----------------------------------------------------------------------------------------------------- */

/* Fields with arrays; give_back frees them, also while a run has them. */
static Rich with_arrays(void) {
    Rich e = Rich_defaults();
    e.table = filled(4, 0);
    e.frozen = nt_arrays_new();
    assert_int_equal(nt_arrays_put(e.frozen, "gain", filled(4, 1)), NT_OK);
    assert_int_equal(nt_arrays_put(e.frozen, "offset", filled(1, 0)), NT_OK);
    return e;
}

static void give_back(Rich *e) {
    nt_array_free(e->table);
    nt_arrays_free(e->frozen);
    e->table = NULL;
    e->frozen = NULL;
}

static nt_run *make_with(const Rich *e, nt_run_options options) {
    nt_run *run;
    assert_ok(nt_run_new(Rich_experiment(), e, &options, &run));
    return run;
}

static nt_run *make(const Rich *e) {
    return make_with(e, quiet_options(NULL));
}

static nt_run *make_and_give_back(Rich e) {
    nt_run *run = make(&e);
    give_back(&e);
    return run;
}

static double val_loss(nt_run *run) {
    nt_results results;
    assert_ok(nt_validate(run, &results));
    assert_int_equal(results.count, 1);
    return results.values[0].value;
}

static uint64_t misses(void) {
    return nt_cache_stats().misses;
}

static nt__transfer uploads(void) {
    return nt__engine_counts_now().uploads[NT__DEVICE_FIELD];
}

/* ---- Device fields that are arrays ------------------------------------------------------------------------------ */

/* Scalars, arrays and sets are inputs of their own; they are uploaded once, whatever runs. */
static void arrays_are_inputs(void **state) {
    (void)state;
    nt_run_free(make_and_give_back(with_arrays())); /* opens the engine */
    nt__transfer before = uploads();
    size_t live = nt__memory().live;
    nt_run *run = make_and_give_back(with_arrays());
    assert_int_equal(run->traced.device_fields.count, 5);
    assert_true(scale_in_build_data == 1); /* A plain value on the host */
    assert_int_equal(uploads().count - before.count, 5);
    assert_int_equal(uploads().bytes - before.bytes, 8 + 8 + 16 + 16 + 4);
    assert_int_equal(nt__engine_counts_now().buffers[NT__DEVICE_FIELD].live_count, 5);
    double first = val_loss(run);
    assert_ok(nt_train(run));
    assert_true(val_loss(run) != first);
    assert_int_equal(uploads().count - before.count, 5);
    nt_run_free(run);
    assert_int_equal(nt__engine_counts_now().buffers[NT__DEVICE_FIELD].live_count, 0);
    nt_cache_reset();
    assert_int_equal(nt__memory().live, live);
}

/* Other elements compile nothing, and are what the programs see. Another shape is another program. */
static void other_elements_compile_nothing(void **state) {
    (void)state;
    Rich e = with_arrays();
    nt_run *run = make(&e);
    double plain = val_loss(run);
    uint64_t before = misses();
    nt_run_free(run);
    for (int i = 0; i < 4; i++) nt_array_set(e.table, i, 0.5);
    nt_array_set(nt_arrays_find(e.frozen, "gain"), 0, -2);
    run = make(&e);
    double other = val_loss(run);
    assert_int_equal(misses(), before);
    assert_true(other != plain);
    nt_run_free(run);
    nt_array_free(e.table);
    e.table = filled(1, 0.5);
    run = make(&e);
    val_loss(run);
    assert_true(misses() > before);
    nt_run_free(run);
    give_back(&e);
}

static void a_missing_array_is_refused(void **state) {
    (void)state;
    nt_run *run;
    nt_run_options options = quiet_options(NULL);
    Rich e = with_arrays();
    nt_array *table = e.table;
    e.table = NULL;
    assert_fails(
        nt_run_new(Rich_experiment(), &e, &options, &run), NT_INVALID,
        "in rich_forward: add: DEVICE field table (nt_array *) of Rich is NULL: set it before the run is made, or "
        "in derive");
    e.table = table;
    nt_arrays_free(e.frozen);
    e.frozen = NULL;
    assert_fails(nt_run_new(Rich_experiment(), &e, &options, &run), NT_INVALID,
                 "in rich_forward: member: DEVICE field frozen (nt_arrays *) of Rich is NULL: set it");
    e.frozen = nt_arrays_new();
    assert_fails(nt_run_new(Rich_experiment(), &e, &options, &run), NT_INVALID,
                 "in rich_forward: member: frozen has no array '");
    assert_non_null(strstr(nt_error_message(), "'; it has: none"));
    give_back(&e);
    assert_fails(nt_run_new(Rich_experiment(), NULL, &options, &run), NT_INVALID, "DEVICE field table");
}

/* ---- arrays that derive makes ----------------------------------------------------------------------------------- */

#define DERIVED(FIELD, DEVICE, GRAPH_CONST)                      \
    DEVICE(nt_array *, weights, NULL, "of the classes; derived") \
    DEVICE(nt_arrays *, unread, NULL, "nobody reads it")         \
    DEVICE(float, mean, 0, "of the data; derived")               \
    FIELD(int, batch, 16, "samples in a micro-batch")            \
    GRAPH_CONST(int, reads, 0, "how forward reads the weights")
NT_EXPERIMENT(Derived, DERIVED)

static nt_status derived_data(const Derived *e, nt_data *data) {
    nt_split(data, "train", .batch = e->batch, .drop_last = true);
    nt_split_field(data, "train", "x", toy_points(64, false));
    nt_split_field(data, "train", "label", toy_labels(64, 0));
    nt_split(data, "test", .batch = e->batch);
    nt_split_field(data, "test", "x", toy_points(64, false));
    nt_split_field(data, "test", "label", toy_labels(64, 0));
    return nt_data_status(data);
}

static nt_status derived_derive(Derived *e, const nt_data *data) {
    (void)data;
    e->weights = filled(2, 3);
    e->mean = 0.5f;
    return e->weights ? NT_OK : nt_error_status();
}

enum { NOT, BY_A_PRODUCT, BY_ASKING, BY_A_LAYER };

static nt_tensor derived_forward(const Derived_view *e, nt_model *m, nt_batch *batch) {
    nt_tensor x = nt_dense(m, "logits", nt_sub(nt_field(batch, "x"), e->mean), 2);
    if (e->reads == BY_ASKING) return nt_rank(e->weights) == 1 ? nt_add(x, 1) : nt_add(x, 2);
    if (e->reads == BY_A_LAYER) return nt_layer_norm(m, "norm", e->weights);
    return e->reads == BY_A_PRODUCT ? nt_mul(x, e->weights) : x;
}

static nt_tensor derived_loss(const Derived_view *e, nt_tensor logits, nt_batch *batch) {
    return nt_cross_entropy(logits, nt_field(batch, "label"), .class_weights = e->weights);
}

NT_DEFINE(Derived, DERIVED, .build_data = derived_data, .derive = derived_derive, .forward = derived_forward,
          .loss = derived_loss);

static char noticed[512];
static void notice_line(const char *line, void *context) {
    (void)context;
    if (strncmp(line, "compiled ", 9) != 0) snprintf(noticed, sizeof noticed, "%s", line);
}

/* What no program reads may be NULL: the loss is no part of a prediction, and no program has the set. */
static void an_array_that_nobody_reads_may_be_missing(void **state) {
    (void)state;
    nt_run *run;
    nt_array *x = toy_points(5, false), *out;
    nt_run_options options = quiet_options(NULL);
    assert_ok(nt_run_new(Derived_experiment(), NULL, &options, &run));
    assert_ok(nt_train(run));
    assert_ok(nt_evaluate(run, "test", NULL));
    assert_fails(nt_set_device(run, "unread", (nt_arrays *)NULL), NT_INVALID,
                 "field unread of Derived was NULL when the run was made, and no program reads it");
    nt_run_free(run);
    options.evaluate_only = true;
    assert_ok(nt_run_new(Derived_experiment(), NULL, &options, &run));
    assert_ok(nt_evaluate(run, "test", NULL));
    nt_run_free(run);
    options.no_data = true;
    options.quiet = false;
    assert_ok(nt_run_new(Derived_experiment(), NULL, &options, &run));
    nt_notice_function before = nt_set_notice(notice_line, NULL);
    assert_ok(nt_predict(run, &(nt_named_array){"x", x}, 1, &out));
    nt_set_notice(before, NULL);
    assert_non_null(strstr(noticed, "derive is not called without data"));
    assert_non_null(strstr(noticed, "the values that the run was given: mean"));
    assert_null(nt_get_device(run, "weights"));
    assert_non_null(strstr(nt_error_message(), "field weights of Derived was NULL when the run was made"));
    nt_array_free(out);
    nt_array_free(x);
    nt_run_free(run);
}

/* What a prediction reads has to be given: nobody derives it. */
static void a_prediction_names_the_array_that_it_misses(void **state) {
    (void)state;
    nt_run *run;
    nt_array *x = toy_points(5, false), *out;
    nt_run_options options = quiet_options(NULL);
    options.no_data = true;
    for (int reads = BY_A_PRODUCT; reads <= BY_A_LAYER; reads++) {
        Derived e = Derived_defaults();
        e.reads = reads;
        assert_ok(nt_run_new(Derived_experiment(), &e, &options, &run));
        assert_fails(nt_predict(run, &(nt_named_array){"x", x}, 1, &out), NT_INVALID,
                     "DEVICE field weights (nt_array *) of Derived is NULL: a run without data, as that of nitro "
                     "predict, does not call derive. Set the field in C before nt_run_new, or predict with a run that "
                     "has data");
        assert_non_null(strstr(nt_error_message(), reads == BY_A_PRODUCT ? "in derived_forward: mul: DEVICE"
                                                                         : "in derived_forward: DEVICE"));
        nt_run_free(run);
    }
    Derived e = Derived_defaults();
    e.reads = BY_A_PRODUCT;
    e.weights = filled(2, 1);
    assert_ok(nt_run_new(Derived_experiment(), &e, &options, &run));
    assert_ok(nt_predict(run, &(nt_named_array){"x", x}, 1, &out));
    nt_array_free(out);
    nt_array_free(x);
    nt_run_free(run);
    nt_array_free(e.weights);
}

/* ---- Host data -------------------------------------------------------------------------------------------------- */

static char *shown(const nt_run *run, nt_form form) {
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    assert_ok(nt_run_print(run, form, out));
    fclose(out);
    return text;
}

/* Two datasets after Host fields, whose pages cannot be read: one a pointer, one an nt_array with its header. */
static void host_data_is_never_touched(void **state) {
    (void)state;
    static heard h;
    memset(&h, 0, sizeof h);
    void *pages = mmap(NULL, sizeof(struct dataset), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    Rich e = with_arrays();
    e.data = pages;
    e.images = pages;
    nt_run_options options = quiet_options(&h);
    options.no_log = false;
    options.run_dir = scratch("host");
    options.max_epochs = (nt_maybe_int){true, 3};
    nt_run *run = make_with(&e, options);
    assert_ok(nt_train(run));
    assert_int_equal(h.epochs, 3);
    assert_int_equal(h.evaluated, 3 * 4);
    val_loss(run);
    char *line = shown(run, NT_LINE);
    assert_non_null(strstr(line, "data = struct dataset *, images = nt_array *"));
    free(line);
    uint64_t before = misses();
    nt_run_free(run);
    e.data = NULL;
    e.images = NULL;
    run = make(&e);
    assert_ok(nt_train(run));
    val_loss(run);
    assert_int_equal(misses(), before);
    nt_run_free(run);
    give_back(&e);
    munmap(pages, sizeof(struct dataset));
}

/* ---- presets ---------------------------------------------------------------------------------------------------- */

static nt_run *make_preset(const char *preset) {
    Rich e, arrays = with_arrays();
    assert_ok(nt_preset(Rich_experiment(), preset, &e));
    e.table = arrays.table;
    e.frozen = arrays.frozen;
    e.note = preset;
    nt_run_options options = quiet_options(NULL);
    options.preset = preset;
    nt_run *run = make_with(&e, options);
    give_back(&arrays);
    assert_ok(nt_train(run));
    return run;
}

/* Presets that differ in Host fields share all programs; with another GraphConst value they do not. */
static void presets_share_programs_where_they_can(void **state) {
    (void)state;
    nt_cache_reset();
    uint64_t before = misses();
    nt_run_free(make_preset("noted"));
    uint64_t first = misses() - before;
    assert_int_equal(first, 3); /* gradient, optimizer, evaluation */
    Rich e = with_arrays();
    e.note = "another text";
    e.derive_by = NOTHING;
    nt_run *run = make_and_give_back(e);
    assert_ok(nt_train(run));
    nt_run_free(run);
    assert_int_equal(misses() - before, first);
    nt_run_free(make_preset("wide"));
    assert_int_equal(misses() - before, 2 * first);
}

/* The handle knows the name; without fields it sets them. An unknown one is refused. */
static void a_run_knows_its_preset(void **state) {
    (void)state;
    nt_run *run;
    nt_run_options options = quiet_options(NULL);
    options.preset = "wide";
    Rich e = with_arrays();
    run = make_with(&e, options);
    char *line = shown(run, NT_LINE);
    assert_non_null(strstr(line, "hidden = 8, "));
    assert_non_null(strstr(line, "), preset wide; seed 42, max_epochs 2, "));
    assert_null(strchr(line, '\n'));
    free(line);
    nt_run_free(run);
    options.preset = "tiny";
    assert_fails(nt_run_new(Rich_experiment(), &e, &options, &run), NT_INVALID,
                 "experiment Rich has no preset 'tiny'; it has: noted, small, wide");
    give_back(&e);
    Toy toy = Toy_defaults();
    assert_fails(nt_run_new(Toy_experiment(), &toy, &options, &run), NT_INVALID, "it declares none");
}

/* ---- derived values --------------------------------------------------------------------------------------------- */

/* A derived GraphConst is in the programs and their reports; settings and the hooks of the host see what
 * was derived. */
static void derived_constants_reach_programs_and_settings(void **state) {
    (void)state;
    Rich e = with_arrays();
    nt_cache_reset();
    nt_run *run = make(&e);
    assert_ok(nt_train(run));
    assert_int_equal(run->task.settings.max_epochs, 2);
    nt_run_free(run);
    uint64_t before = misses();
    e.derive_by = CLASSES;
    run = make_and_give_back(e);
    const Rich *derived = run->task.fields;
    assert_true(derived->classes == 4 || derived->classes == 5);
    assert_int_equal(run->traced.outputs_type.shape.dims[1], derived->classes);
    assert_int_equal(run->task.settings.max_epochs, 1);
    assert_true(run->task.settings.learning_rate == 0.01 * derived->classes);
    assert_ok(nt_train(run));
    assert_true(misses() > before);
    bool reported = false;
    const nt_cache_report_t *report;
    for (size_t i = 0; (report = nt_cache_report(i)); i++)
        reported |= strstr(report->moved, "GraphConst classes") != NULL;
    assert_true(reported);
    assert_true(run->task.derived[0]);
    assert_false(run->task.derived[1]);
    char *table = shown(run, NT_TABLE);
    assert_non_null(strstr(table, derived->classes == 4 ? "classes     GraphConst  4 (derived)\n"
                                                        : "classes     GraphConst  5 (derived)\n"));
    assert_non_null(strstr(table, "\n  hidden      GraphConst  8\n"));
    free(table);
    nt_run_free(run);
}

/* A derived Device value is an input like any other. An array that derive makes passes to the run. */
static void derived_device_values_compile_nothing(void **state) {
    (void)state;
    Rich e = with_arrays();
    e.scale = 1.5;
    nt_run *run = make(&e);
    val_loss(run);
    nt_run_free(run);
    uint64_t before = misses();
    e.derive_by = ARRAYS;
    run = make_and_give_back(e);
    val_loss(run);
    assert_int_equal(misses(), before);
    nt_array *scale = nt_get_device(run, "scale"), *table = nt_get_device(run, "table");
    assert_true(nt_array_get(scale, 0) == 1.5 * 2 + 1);
    assert_true(nt_array_get(table, 3) == 5);
    nt_array_free(scale);
    nt_array_free(table);
    nt_run_free(run);
}

static void a_derive_that_fails_ends_setup(void **state) {
    (void)state;
    nt_run *run;
    nt_run_options options = quiet_options(NULL);
    Rich e = with_arrays();
    e.derive_by = FAILURE;
    assert_fails(nt_run_new(Rich_experiment(), &e, &options, &run), NT_NOT_FOUND,
                 "derive of Rich: split 'train' has no field 'mask'; it has: x, label");
    e.derive_by = SILENT_FAILURE;
    assert_fails(nt_run_new(Rich_experiment(), &e, &options, &run), NT_INVALID,
                 "derive of Rich: the hook returned 'invalid");
    give_back(&e);
}

/* ---- writes to a live run --------------------------------------------------------------------------------------- */

static double value_of(nt_run *run, const char *field, int64_t index) {
    nt_array *value = nt_get_device(run, field);
    if (!value) fail_msg("%s: %s", field, nt_error_message());
    double element = nt_array_get(value, index);
    nt_array_free(value);
    return element;
}

/* Any number of writes, no compile; a value of another numeric type is converted. */
static void a_live_run_takes_other_values(void **state) {
    (void)state;
    nt_run *run = make_and_give_back(with_arrays());
    double first = val_loss(run);
    uint64_t compiled = misses();
    assert_ok(nt_set_device(run, "scale", 0.5f));
    assert_ok(nt_set_device(run, "shift", 3));
    assert_true(value_of(run, "scale", 0) == 0.5);
    assert_true(value_of(run, "shift", 0) == 3);
    assert_true(val_loss(run) != first);
    assert_ok(nt_set_device(run, "shift", INT64_MAX));
    nt_array *shift = nt_get_device(run, "shift");
    assert_int_equal(*(const int64_t *)shift->data, INT64_MAX);
    assert_ok(nt_set_device(run, "shift", 0.0));
    assert_ok(nt_set_device(run, "scale", 1));

    nt_array *table = nt_array_new(NT_F64, nt_dims(4));
    nt_array_set(table, 2, 0.1);
    assert_ok(nt_set_device(run, "table", table));
    assert_true(value_of(run, "table", 2) == (double)0.1f);
    nt_array *gain = filled(4, 3), *zero = nt_array_new(NT_I64, (nt_shape){0});
    assert_ok(nt_set_device(run, "frozen.gain", gain));
    assert_ok(nt_set_device(run, "shift", zero));
    assert_true(value_of(run, "frozen.gain", 3) == 3);
    assert_true(value_of(run, "frozen.offset", 0) == 0);
    assert_true(val_loss(run) != first);
    nt_arrays *set = nt_arrays_new();
    assert_ok(nt_arrays_put(set, "offset", filled(1, 7)));
    assert_ok(nt_arrays_put(set, "gain", filled(4, 1)));
    assert_ok(nt_set_device(run, "frozen", set));
    assert_true(value_of(run, "frozen.offset", 0) == 7);
    assert_true(value_of(run, "frozen.gain", 0) == 1);
    nt_array_set(nt_arrays_find(set, "offset"), 0, 0);
    nt_array_set(table, 2, 0);
    assert_ok(nt_set_device(run, "frozen", set));
    assert_ok(nt_set_device(run, "table", table));
    assert_true(val_loss(run) == first);
    assert_int_equal(misses(), compiled);
    /* Of each number that was written, the value before stays until the next write: a program may still read it. */
    assert_int_equal(nt__engine_counts_now().buffers[NT__DEVICE_FIELD].live_count, 5 + 2);
    nt_array_free(shift);
    nt_array_free(table);
    nt_array_free(gain);
    nt_array_free(zero);
    nt_arrays_free(set);
    nt_run_free(run);
}

/* In its order; nothing has changed after any. */
static void what_a_live_run_refuses(void **state) {
    (void)state;
    nt_run *run = make_and_give_back(with_arrays());
    nt_array *long_table = filled(5, 9), *fractions = filled(1, 0.5), *right = filled(4, 9);
    nt_arrays *set = nt_arrays_new();
    assert_ok(nt_arrays_put(set, "gain", filled(4, 9)));
    nt__transfer before = uploads();
    const char *names =
        "nt_set_device: Rich has no field 'Scale'; it has: classes, hidden, scale, shift, table, frozen, "
        "batch, max_epochs, data, images, note, derive_by";
    assert_fails(nt_set_device(run, "Scale", 1), NT_INVALID, names);
    assert_fails(nt_set_device(run, "scal", 1), NT_INVALID, "no field 'scal'");
    assert_fails(nt_set_device(run, "batch", 1), NT_INVALID,
                 "field batch of Rich is Host: no program sees it, so a live run has nothing to set. Make a new run");
    assert_fails(
        nt_set_device(run, "hidden", 9), NT_INVALID,
        "field hidden of Rich is GraphConst, a constant of the programs: another value is another program. Make a "
        "new run, which uses again every program that the value does not change; or mark the field DEVICE");
    assert_fails(nt_set_device(run, "shift", 0.5), NT_INVALID, "shift (int64_t) cannot be 0.5");
    assert_fails(nt_set_device(run, "shift", fractions), NT_INVALID,
                 "field shift of Rich: element 0 is 0.5, which i64 cannot hold");
    assert_fails(nt_set_device(run, "table", 1), NT_INVALID, "field table of Rich is f32[4] and cannot be a number");
    assert_fails(nt_set_device(run, "table", set), NT_INVALID, "is f32[4] and cannot be a set of arrays");
    assert_fails(nt_set_device(run, "table", (nt_array *)NULL), NT_INVALID, "nt_set_device: value is NULL");
    assert_fails(nt_set_device(run, "frozen", right), NT_INVALID,
                 "field frozen of Rich is a set of arrays and cannot be "
                 "one array; give an nt_arrays, or FIELD.NAME");
    assert_fails(nt_set_device(run, "frozen.bias", right), NT_INVALID,
                 "field frozen of Rich is {gain: f32[4], offset: f32[1]} and has no array 'bias'");
    assert_fails(nt_set_device(run, "frozen", set), NT_INVALID, "field frozen of Rich has 2 arrays and the new set 1");
    assert_ok(nt_arrays_put(set, "bias", filled(1, 9)));
    assert_fails(nt_set_device(run, "frozen", set), NT_INVALID, "the set has no array 'offset'; it has: gain, bias");
    assert_fails(nt_set_device(run, "table", long_table), NT_INVALID,
                 "field table of Rich is f32[4] and the new array is f32[5]: the shape of an array is part of the "
                 "programs. Make a new run with it");
    assert_fails(nt_set_device(run, "scale", right), NT_INVALID, "is f64[] and the new array is f32[4]");
    assert_null(nt_get_device(run, "batch"));
    assert_non_null(strstr(nt_error_message(), "nt_get_device: field batch of Rich is Host"));
    assert_null(nt_get_device(run, "hidden"));
    assert_null(nt_get_device(run, "none"));
    assert_null(nt_get_device(run, "frozen"));
    assert_non_null(strstr(nt_error_message(), "name an array of it: FIELD.NAME"));
    assert_int_equal(uploads().count, before.count);
    assert_true(value_of(run, "scale", 0) == 1);
    assert_true(value_of(run, "table", 0) == 0);
    assert_true(value_of(run, "frozen.gain", 0) == 1);
    nt_array_free(long_table);
    nt_array_free(fractions);
    nt_array_free(right);
    nt_arrays_free(set);
    nt_run_free(run);
}

/* The schedule would overwrite the value at the next step; reading is no harm. A schedule gives numbers. */
static void a_scheduled_field_is_left_to_its_schedule(void **state) {
    (void)state;
    static const nt_named_schedule none = {.name = NULL};
    nt_named_schedule schedules[] = {{"scale", nt_schedule_constant(0.25)}, none};
    Rich e = with_arrays();
    nt_run_options options = quiet_options(NULL);
    options.schedules = schedules;
    nt_run *run = make_with(&e, options);
    assert_fails(
        nt_set_device(run, "scale", 1), NT_INVALID,
        "nt_set_device: field scale of Rich has a schedule, which would overwrite this value at the next step");
    assert_ok(nt_set_device(run, "shift", 1));
    assert_ok(nt_train(run));
    assert_true(value_of(run, "scale", 0) == 0.25);
    nt_run_free(run);
    schedules[0].name = "table";
    assert_fails(nt_run_new(Rich_experiment(), &e, &options, &run), NT_INVALID,
                 "Device field table is an nt_array *, and a schedule gives numbers; nt_set_device sets arrays");
    give_back(&e);
}

/* Every allocation of a write fails in turn: the field is then what it was. */
static void a_write_without_memory_changes_nothing(void **state) {
    (void)state;
    nt_run *run = make_and_give_back(with_arrays());
    nt_arrays *set = nt_arrays_new();
    assert_ok(nt_arrays_put(set, "gain", filled(4, 2)));
    assert_ok(nt_arrays_put(set, "offset", filled(1, 2)));
    nt_array *one = filled(4, 3);
    size_t n = 1, live = nt__memory().live;
    for (nt_status status = NT_OUT_OF_MEMORY; status == NT_OUT_OF_MEMORY; n++) {
        nt__memory_fail_at(n);
        status = nt_set_device(run, "frozen", set);
        nt__memory_fail_at(0);
        if (status == NT_OUT_OF_MEMORY) assert_true(value_of(run, "frozen.gain", 0) == 1);
        if (status == NT_OUT_OF_MEMORY) assert_int_equal(nt__memory().live, live);
    }
    assert_true(n > 4);
    assert_true(value_of(run, "frozen.gain", 0) == 2);
    n = 1;
    for (nt_status status = NT_OUT_OF_MEMORY; status == NT_OUT_OF_MEMORY; n++) {
        nt__memory_fail_at(n);
        status = nt_set_device(run, "frozen.gain", one);
        nt__memory_fail_at(0);
        if (status == NT_OUT_OF_MEMORY) assert_true(value_of(run, "frozen.gain", 0) == 2);
    }
    assert_true(n > 3);
    assert_true(value_of(run, "frozen.gain", 0) == 3);
    nt_array_free(one);
    nt_arrays_free(set);
    nt_run_free(run);
}

/* A listener may write between two steps. */
static void set_scale(const nt_event *event, void *context) {
    nt_run **run = context;
    if (event->kind == NT_EVENT_STEP) assert_ok(nt_set_device(*run, "scale", (double)event->step));
}

static void a_listener_may_write(void **state) {
    (void)state;
    nt_run *run;
    Rich e = with_arrays();
    nt_run_options options = {.no_log = true, .quiet = true, .on_event = set_scale, .event_context = &run};
    run = make_with(&e, options);
    give_back(&e);
    assert_ok(nt_train(run));
    assert_true(value_of(run, "scale", 0) == 8);
    nt_run_free(run);
}

/* ---- the log ---------------------------------------------------------------------------------------------------- */

static void the_log_has_the_parameters(void **state) {
    (void)state;
    char *text, path[SCRATCH_PATH];
    size_t length;
    Rich e = with_arrays();
    e.images = e.table;
    nt_run_options options = quiet_options(NULL);
    options.no_log = false;
    options.run_dir = scratch("logged");
    options.preset = "noted";
    options.max_epochs = (nt_maybe_int){true, 0};
    nt_run *run = make_with(&e, options);
    assert_ok(nt_train(run));
    nt_run_free(run);
    give_back(&e);
    snprintf(path, sizeof path, "%s/metrics.jsonl", scratch("logged"));
    assert_ok(nt__read_file(path, &text, &length));
    *strchr(text, '\n') = 0;
    json_t *line = json_loads(text, 0, NULL);
    assert_non_null(line);
    const char *frozen, *table, *note, *preset;
    int classes, hidden, batch, seed, epochs, accum;
    assert_int_equal(json_unpack(line, "{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i}", "frozen", &frozen, "table",
                                 &table, "note", &note, "preset", &preset, "classes", &classes, "hidden", &hidden,
                                 "batch", &batch, "seed", &seed, "max_epochs", &epochs, "accum", &accum),
                     0);
    assert_string_equal(frozen, "{gain: f32[4], offset: f32[1]}");
    assert_string_equal(table, "f32[4]");
    assert_string_equal(note, "none");
    assert_string_equal(preset, "noted");
    assert_int_equal(classes, 2);
    assert_int_equal(hidden, 8);
    assert_int_equal(batch, 16);
    assert_int_equal(seed, 42);
    assert_int_equal(epochs, 0); /* The option wins over the field */
    assert_int_equal(accum, 1);
    assert_null(json_object_get(line, "data"));
    assert_null(json_object_get(line, "images"));
    json_decref(line);
    nt__free(text);
}

/* ---- setup without memory --------------------------------------------------------------------------------------- */

static void every_allocation_of_setup_can_fail(void **state) {
    (void)state;
    nt_run *run;
    nt_run_options options = quiet_options(NULL);
    options.preset = "wide";
    Rich e = with_arrays();
    e.derive_by = ARRAYS;
    nt_run_free(make_with(&e, options));
    size_t live = nt__memory().live, step = 1;
    nt_status status = NT_OUT_OF_MEMORY;
    for (size_t n = 1; status != NT_OK; n += step) {
        nt__memory_fail_at(n);
        status = nt_run_new(Rich_experiment(), &e, &options, &run);
        nt__memory_fail_at(0);
        if (status == NT_OK) break;
        assert_null(run);
        assert_int_equal(nt__memory().live, live);
        step = n < 100 ? 1 : 7;
    }
    nt_run_free(run);
    give_back(&e);
}

static int tear_down(void **state) {
    return shut_down(state) | scratch_remove(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_are_inputs),
        cmocka_unit_test(other_elements_compile_nothing),
        cmocka_unit_test(a_missing_array_is_refused),
        cmocka_unit_test(an_array_that_nobody_reads_may_be_missing),
        cmocka_unit_test(a_prediction_names_the_array_that_it_misses),
        cmocka_unit_test(host_data_is_never_touched),
        cmocka_unit_test(presets_share_programs_where_they_can),
        cmocka_unit_test(a_run_knows_its_preset),
        cmocka_unit_test(derived_constants_reach_programs_and_settings),
        cmocka_unit_test(derived_device_values_compile_nothing),
        cmocka_unit_test(a_derive_that_fails_ends_setup),
        cmocka_unit_test(a_live_run_takes_other_values),
        cmocka_unit_test(what_a_live_run_refuses),
        cmocka_unit_test(a_scheduled_field_is_left_to_its_schedule),
        cmocka_unit_test(a_write_without_memory_changes_nothing),
        cmocka_unit_test(a_listener_may_write),
        cmocka_unit_test(the_log_has_the_parameters),
        cmocka_unit_test(every_allocation_of_setup_can_fail),
    };
    return cmocka_run_group_tests_name("experiments in runs", tests, scratch_make, tear_down);
}
