/* Prediction: forward on given arrays, with and without data, what is
 * refused, and what is alive afterwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "run/run_internal.h"
#include "toy.h"

static nt_run *make(const nt_experiment *experiment, const Toy *e, nt_run_options options) {
    nt_run *run;
    assert_ok(nt_run_new(experiment, e, &options, &run));
    return run;
}

static nt_run_options without_data(void) {
    nt_run_options options = quiet_options(NULL);
    options.no_data = true;
    return options;
}

static nt_array *predict(nt_run *run, const char *name, const nt_array *x) {
    nt_array *out;
    assert_ok(nt_predict(run, &(nt_named_array){name, x}, 1, &out));
    assert_non_null(out);
    return out;
}

static void refuse_at(nt_run *run, const nt_named_array *fields, size_t count, nt_status wanted, const char *part,
                      int line) {
    nt_array *out = (nt_array *)&out;
    assert_fails_at(nt_predict(run, fields, count, &out), wanted, part, line);
    assert_null(out);
}
#define refuse(run, wanted, part, ...)                    \
    refuse_at(run, (const nt_named_array[]){__VA_ARGS__}, \
              sizeof((const nt_named_array[]){__VA_ARGS__}) / sizeof(nt_named_array), wanted, part, __LINE__)

static nt_array *points(int rows) {
    nt_array *x = toy_points(rows, false);
    assert_non_null(x);
    return x;
}

/* Rows `first` to `first + rows - 1` are the same in both, bit for bit: each row goes through the same program. */
static void assert_rows(const nt_array *part, const nt_array *whole, int64_t first) {
    int64_t width = whole->shape.dims[1];
    assert_int_equal(part->shape.dims[1], width);
    for (int64_t i = 0; i < part->shape.dims[0] * width; i++)
        if (nt_array_get(part, i) != nt_array_get(whole, first * width + i))
            fail_msg("element %lld: %g, %g", (long long)i, nt_array_get(part, i),
                     nt_array_get(whole, first * width + i));
}

/* ---- the numbers ------------------------------------------------------------------------------------------------ */

static nt_array *logits_seen; /* what the metrics hook saw of a whole split; NULL while nobody looks */
static int64_t rows_seen;

static void keep_logits(const void *e, nt_metrics *out, const nt_array *logits, const nt_host_batch *batch) {
    (void)e;
    (void)batch;
    if (logits_seen) memcpy((float *)logits_seen->data + rows_seen * 2, logits->data, logits->bytes);
    rows_seen += logits->shape.dims[0];
    nt_metric_sum(out, "rows", (double)logits->shape.dims[0]);
}

/* The numbers of an evaluation, in the order of the input, for every number of rows. The first row of a
 * split is row 0 of what toy_points makes. */
static void predicts_what_evaluation_sees(void **state) {
    (void)state;
    nt_experiment keeping = *Toy_experiment();
    keeping.hooks.metrics = keep_logits;
    Toy e = Toy_defaults(); /* 40 rows in val, batches of 16 */
    nt_run *run = make(&keeping, &e, quiet_options(NULL));
    assert_ok(nt_train(run));
    logits_seen = nt_array_new(NT_F32, nt_dims(40, 2));
    rows_seen = 0;
    assert_ok(nt_validate(run, NULL));
    assert_int_equal(rows_seen, 40);
    static const int counts[] = {40, 32, 16, 1, 15, 17, 39};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        nt_array *x = points(counts[i]), *out = predict(run, i % 2 ? NULL : "x", x);
        assert_int_equal(out->dtype, NT_F32);
        assert_true(nt_shape_equal(out->shape, nt_dims(counts[i], 2)));
        assert_rows(out, logits_seen, 0);
        assert_int_equal(nt__engine_counts_now().buffers[NT__BATCH].live_count, 0);
        assert_int_equal(nt__engine_counts_now().buffers[NT__STAGED].live_count, 0);
        assert_int_equal(nt__engine_counts_now().buffers[NT__OUTPUT].live_count, 0);
        nt_array_free(out);
        nt_array_free(x);
    }
    nt_array_free(logits_seen);
    logits_seen = NULL;
    nt_run_free(run);
    assert_int_equal(nt__engine_counts_now().all_buffers.live_count, 0);
}

static void no_rows_give_no_rows(void **state) {
    (void)state;
    nt_cache_reset();
    Toy e = Toy_defaults();
    nt_array *nothing = nt_array_new(NT_F32, nt_dims(0, 4));
    for (int no_data = 0; no_data < 2; no_data++) {
        nt_run *run = make(Toy_experiment(), &e, no_data ? without_data() : quiet_options(NULL));
        nt_array *out = predict(run, "x", nothing);
        assert_true(nt_shape_equal(out->shape, nt_dims(0, 2)));
        assert_int_equal(nt_cache_stats().misses, 0);
        nt_array_free(out);
        nt_run_free(run);
    }
    nt_array_free(nothing);
}

/* A handle that never trained predicts with its initial values. */
static void an_untrained_handle_predicts(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_array *x = points(3);
    nt_run *run = make(Toy_experiment(), &e, quiet_options(NULL));
    nt_array *before = predict(run, "x", x), *again = predict(run, "x", x);
    assert_rows(again, before, 0);
    assert_int_equal(nt_run_epoch(run), 0);
    assert_ok(nt_train(run));
    nt_array *after = predict(run, "x", x);
    assert_true(nt_array_get(after, 0) != nt_array_get(before, 0));
    nt_array_free(before);
    nt_array_free(again);
    nt_array_free(after);
    nt_array_free(x);
    nt_run_free(run);
}

/* ---- programs --------------------------------------------------------------------------------------------------- */

static void forward_is_compiled_once(void **state) {
    (void)state;
    nt_cache_reset();
    Toy e = Toy_defaults();
    nt_array *x = points(40), *few = points(3);
    nt_run *run = make(Toy_experiment(), &e, quiet_options(NULL));
    nt_array_free(predict(run, "x", x));
    assert_int_equal(nt_cache_stats().misses, 1);
    assert_string_equal(nt_cache_report(0)->program, "forward");
    nt_array_free(predict(run, "x", few));
    assert_ok(nt_validate(run, NULL)); /* of batches of 16 and 8 rows */
    assert_int_equal(nt_cache_stats().misses, 3);
    nt_array_free(predict(run, NULL, x));
    assert_int_equal(nt_cache_stats().misses, 3);
    assert_ok(nt_train(run));
    assert_int_equal(nt_cache_stats().misses, 5);
    nt_array_free(predict(run, "x", x));
    assert_int_equal(nt_cache_stats().misses, 5);
    nt_run_free(run);
    /* A handle without data has the same forward program. */
    run = make(Toy_experiment(), &e, without_data());
    nt_array_free(predict(run, "x", x));
    nt_array_free(predict(run, "x", few));
    assert_int_equal(nt_cache_stats().misses, 5);
    nt_run_free(run);
    nt_array_free(x);
    nt_array_free(few);
}

static nt_tensor smoothed_forward(const void *view, nt_model *m, nt_batch *batch) {
    const Toy_view *e = view;
    return nt_mul(toy_forward(e, m, batch), e->smoothing);
}

/* Another Device value compiles nothing. */
static void a_device_value_compiles_nothing(void **state) {
    (void)state;
    nt_cache_reset();
    nt_experiment smoothed = *Toy_experiment();
    smoothed.hooks.forward = smoothed_forward;
    Toy e = Toy_defaults();
    nt_array *x = points(5), *outs[2];
    for (int i = 0; i < 2; i++) {
        e.smoothing = i ? 0.5f : 0.25f;
        nt_run *run = make(&smoothed, &e, i ? without_data() : quiet_options(NULL));
        outs[i] = predict(run, "x", x);
        nt_run_free(run);
    }
    assert_int_equal(nt_cache_stats().misses, 1);
    for (int64_t i = 0; i < 10; i++) assert_true(nt_array_get(outs[1], i) == 2 * nt_array_get(outs[0], i));
    nt_array_free(outs[0]);
    nt_array_free(outs[1]);
    nt_array_free(x);
}

/* The value of a live handle is written between two predictions, and before the first one without data. */
static void a_device_value_is_written_between_predictions(void **state) {
    (void)state;
    enum { SMOOTHING = 1 };
    nt_experiment smoothed = *Toy_experiment();
    smoothed.hooks.forward = smoothed_forward;
    Toy e = Toy_defaults();
    e.smoothing = 0.25f;
    assert_string_equal(smoothed.fields[SMOOTHING].name, "smoothing");
    nt_array *x = points(5);
    for (int no_data = 0; no_data < 2; no_data++) {
        nt_run *run = make(&smoothed, &e, no_data ? without_data() : quiet_options(NULL));
        if (no_data) assert_ok(nt__device_field_write_number(&run->resident, SMOOTHING, 0.75));
        if (no_data) assert_ok(nt__device_field_write_number(&run->resident, SMOOTHING, 0.25));
        nt_array *before = predict(run, "x", x);
        uint64_t misses = nt_cache_stats().misses;
        assert_ok(nt__device_field_write_number(&run->resident, SMOOTHING, 0.5));
        nt_array *after = predict(run, "x", x);
        assert_int_equal(nt_cache_stats().misses, misses);
        for (int64_t i = 0; i < 10; i++) assert_true(nt_array_get(after, i) == 2 * nt_array_get(before, i));
        nt_array_free(before);
        nt_array_free(after);
        nt_run_free(run);
    }
    nt_array_free(x);
    assert_int_equal(nt__engine_counts_now().all_buffers.live_count, 0);
}

/* Only what forward reads goes to the device, one upload a batch. */
static void only_what_forward_reads_is_transferred(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_array *x = points(40), *label = toy_labels(40, 0);
    nt_run *run = make(Toy_experiment(), &e, quiet_options(NULL));
    nt__transfer before = nt__engine_counts_now().uploads[NT__STAGED];
    nt_array *out;
    assert_ok(nt_predict(run, (const nt_named_array[]){{"label", label}, {"x", x}}, 2, &out));
    nt__transfer after = nt__engine_counts_now().uploads[NT__STAGED];
    assert_int_equal(after.count - before.count, 3);
    assert_int_equal(after.bytes - before.bytes, 3 * 16 * 4 * sizeof(float));
    nt_array_free(out);
    nt_array_free(x);
    nt_array_free(label);
    nt_run_free(run);
}

/* ---- a handle without data -------------------------------------------------------------------------------------- */

static int builds;
static nt_status counted_build_data(const void *e, nt_data *data) {
    builds++;
    return toy_build_data(e, data);
}

static void a_handle_without_data_needs_none(void **state) {
    (void)state;
    nt_experiment counted = *Toy_experiment();
    counted.hooks.build_data = counted_build_data;
    Toy e = Toy_defaults();
    nt_array *x = points(21);
    nt_run *trained = make(Toy_experiment(), &e, quiet_options(NULL));
    assert_ok(nt_train(trained));
    assert_ok(nt_run_save(trained, scratch("toy.safetensors")));
    nt_array *wanted = predict(trained, "x", x);
    nt_run_free(trained);

    static const char *const names[] = {"x", NULL};
    for (int i = 0; i < 2; i++) {
        nt_run *run = make(&counted, &e, without_data());
        assert_null(nt_run_parameter(run, "hidden.weight"));
        assert_fails(NT_INVALID, NT_INVALID, "has no parameters yet: it was made with no_data");
        assert_fails(nt_run_save(run, scratch("never.safetensors")), NT_INVALID, "has no parameters yet");
        assert_ok(nt_run_load(run, scratch("toy.safetensors")));
        nt_array *out = predict(run, names[i], x);
        assert_rows(out, wanted, 0);
        nt_array *bias = nt_run_parameter(run, "logits.bias");
        assert_non_null(bias);
        assert_ok(nt_run_save(run, scratch("again.safetensors")));
        assert_ok(nt_run_load(run, scratch("again.safetensors")));
        nt_array *again = predict(run, "x", x);
        assert_rows(again, wanted, 0);
        nt_array_free(again);
        nt_array_free(bias);
        nt_array_free(out);
        nt_run_free(run);
        assert_int_equal(nt__engine_counts_now().all_buffers.live_count, 0);
    }
    assert_int_equal(builds, 0);
    nt_array_free(wanted);
    nt_array_free(x);
}

static void a_handle_without_data_only_predicts(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_array *x = points(2);
    nt_run *run = make(Toy_experiment(), &e, without_data());
    for (int i = 0; i < 2; i++) {
        assert_fails(nt_train(run), NT_INVALID, "was made with no_data, so it only predicts: it has no split to train");
        assert_fails(nt_validate(run, NULL), NT_INVALID, "it has no split to evaluate. Make one without no_data");
        assert_false(nt_run_has_split(run, "train"));
        nt_array_free(predict(run, "x", x)); /* the same with a layout */
    }
    nt_run_free(run);
    nt_array_free(x);
}

static int64_t widest;
static nt_tensor note_width(const void *view, nt_model *m, nt_batch *batch) {
    widest = nt_shape_of(nt_field(batch, "x")).dims[0];
    return toy_forward(view, m, batch);
}

/* The option, else the experiment's integer field, else 128. */
static void the_batch_size_is_chosen(void **state) {
    (void)state;
    nt_experiment noting = *Toy_experiment();
    noting.hooks.forward = note_width;
    nt_field_info fields[16];
    assert_true(noting.field_count <= 16);
    memcpy(fields, noting.fields, noting.field_count * sizeof *fields);
    Toy e = Toy_defaults();
    nt_array *x = points(20), *outs[4];
    static const int64_t wanted[] = {7, 16, 128, 128};
    for (int i = 0; i < 4; i++) {
        nt_run_options options = without_data();
        if (i == 0) options.batch = (nt_maybe_int){true, 7};
        for (size_t f = 0; i > 1 && f < noting.field_count; f++)
            if (strcmp(fields[f].name, "batch") == 0) fields[f].name = "samples";
        if (i == 3) fields[noting.field_count - 1].name = "batch"; /* a bool is none */
        if (i > 1) noting.fields = fields;
        nt_run *run = make(&noting, &e, options);
        outs[i] = predict(run, "x", x);
        assert_int_equal(widest, wanted[i]);
        for (int64_t at = 0; at < 40; at++) /* Not bitwise, for it is another program */
            assert_true(fabs(nt_array_get(outs[i], at) - nt_array_get(outs[0], at)) < 1e-5);
        nt_run_free(run);
    }
    for (int i = 0; i < 4; i++) nt_array_free(outs[i]);
    nt_array_free(x);

    nt_run *run;
    nt_run_options options = without_data();
    options.batch = (nt_maybe_int){true, 0};
    assert_fails(nt_run_new(Toy_experiment(), &e, &options, &run), NT_INVALID, "batch is 0; a batch has at least 1");
    options = quiet_options(NULL);
    options.batch = (nt_maybe_int){true, 8};
    assert_fails(nt_run_new(Toy_experiment(), &e, &options, &run), NT_INVALID, "batch is given as 8, but the splits");
    e.batch = -4;
    options = without_data();
    assert_fails(nt_run_new(Toy_experiment(), &e, &options, &run), NT_INVALID, "batch is -4");
}

/* What failed leaves no trace: other arrays, and another file, can be tried on the same handle. */
static void a_failed_first_prediction_settles_nothing(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_array *x = points(20), *wide = nt_array_new(NT_F32, nt_dims(20, 5)), *label = toy_labels(20, 0),
             *doubles = nt_array_new(NT_F64, nt_dims(20, 5)), *flat = nt_array_new(NT_F32, (nt_shape){0});
    nt_run *other = make(Toy_experiment(), &e, without_data());
    nt_array_free(predict(other, "x", wide));
    assert_ok(nt_run_save(other, scratch("wide.safetensors")));
    nt_run_free(other);

    nt_run *run = make(Toy_experiment(), &e, without_data());
    assert_ok(nt_run_load(run, scratch("wide.safetensors")));
    refuse(run, NT_INVALID, "toy.h:", {"points", x});
    refuse(run, NT_INVALID, "field: the batch has no field 'x'; its fields are: points, label", {"points", x},
           {"label", label});
    refuse(run, NT_INVALID, "wide.safetensors does not fit experiment 'Toy'", {"x", x});
    refuse(run, NT_INVALID, "hidden.weight: f32[4,8] in the model, f32[5,8] in the file", {"x", x});
    refuse(run, NT_INVALID, "input 'x' is f32[20,4], training had f32[n,5], and the model does not fit it", {"x", x});
    refuse(run, NT_INVALID, "input 'x' is f64[20,5], training had f32[n,5]: save it as float32", {NULL, doubles});
    refuse(run, NT_INVALID, "input 'x' is f32[], training had f32[n,5]: axis 0 counts the samples", {"x", flat});
    assert_int_equal(nt__engine_counts_now().all_buffers.live_count, 1); /* the Device field */
    assert_null(nt_run_parameter(run, "hidden.weight"));
    nt_array_free(predict(run, "x", wide));
    refuse(run, NT_INVALID, "field 'x' has rows of f32[4], and the model is laid out for rows of f32[5]", {"x", x});
    nt_run_free(run);

    run = make(Toy_experiment(), &e, without_data());
    assert_fails(nt_run_load(run, scratch("absent.safetensors")), NT_NOT_FOUND, "absent.safetensors");
    assert_ok(nt_run_load(run, scratch("wide.safetensors")));
    nt_run_free(run); /* with a file that nobody used */
    nt_array_free(x);
    nt_array_free(wide);
    nt_array_free(label);
    nt_array_free(doubles);
    nt_array_free(flat);
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static nt_tensor two_fields(const void *view, nt_model *m, nt_batch *batch) {
    nt_tensor label = nt_convert(nt_reshape(nt_field(batch, "label"), -1, 1), NT_F32);
    return nt_add(toy_forward(view, m, batch), label);
}

static nt_tensor no_field(const void *view, nt_model *m, nt_batch *batch) {
    (void)view;
    (void)batch;
    return nt_broadcast(nt_parameter(m, "w", nt_dims(1, 2)), nt_dims(16, 2));
}

static nt_tensor claims_labels(const void *view, nt_model *m, nt_batch *batch) {
    nt_tensor logits = toy_forward(view, m, batch);
    return nt_cross_entropy(logits, nt_field(batch, "label"), .reduction = NT_NONE);
}

static nt_status evaluation_data(const void *fields, nt_data *data) {
    return toy_split(fields, data, "val", 40, false);
}

static void fields_are_checked(void **state) {
    (void)state;
    nt_experiment two = *Toy_experiment();
    two.hooks = (nt_hooks){.build_data = evaluation_data, .forward = two_fields};
    Toy e = Toy_defaults();
    nt_array *x = points(9), *label = toy_labels(9, 0), *short_label = toy_labels(8, 0);
    nt_array *doubles = nt_array_new(NT_F64, nt_dims(9, 4)), *flat = nt_array_new(NT_F32, (nt_shape){0});
    for (int no_data = 0; no_data < 2; no_data++) {
        nt_run *run = make(&two, &e, no_data ? without_data() : quiet_options(NULL));
        nt_array *out;
        assert_ok(nt_predict(run, (const nt_named_array[]){{"number", flat}, {"x", x}, {"label", label}}, 3, &out));
        nt_array_free(out);
        refuse(run, NT_NOT_FOUND,
               "prediction of Toy: field 'label' is missing. forward reads: x, label; given: x f32[9,4], number f32[]",
               {"x", x}, {"number", flat});
        refuse(run, NT_INVALID, "an array without a name stands for the only field", {NULL, x}, {"label", label});
        refuse(run, NT_INVALID, "forward reads: x, label; given: (without a name) f32[9,4]", {NULL, x});
        refuse(run, NT_INVALID, "2 arrays have no field's name", {NULL, x}, {NULL, label});
        refuse(run, NT_INVALID, "field 'x' is given twice", {"x", x}, {"label", label}, {"x", x});
        refuse(run, NT_INVALID, "has rows of f64[4], and the model is laid out for rows of f32[4]", {"x", doubles},
               {"label", label});
        refuse(run, NT_INVALID, "field 'x' is f32[] and has no sample axis", {"x", flat}, {"label", label});
        refuse(run, NT_INVALID, "field 'label' has 8 rows, field 'x' has 9", {"x", x}, {"label", short_label});
        refuse(run, NT_INVALID, "the array of field 'x' is NULL", {"x", NULL});
        refuse(run, NT_INVALID, "the name of array 1 is empty", {"", x});
        nt_run_free(run);
    }
    nt_run *run = make(&two, &e, without_data());
    assert_fails(nt_predict(run, NULL, 0, &(nt_array *){NULL}), NT_INVALID, "no array is given");
    assert_fails(nt_predict(run, &(nt_named_array){"x", x}, 1, NULL), NT_INVALID, "nt_predict: out is NULL");
    assert_fails(nt_predict(NULL, &(nt_named_array){"x", x}, 1, &(nt_array *){NULL}), NT_INVALID,
                 "nt_predict: run is NULL");
    /* The one that has a name is read as well: the other is needed and one too many. */
    refuse(run, NT_INVALID, "an array without a name stands for the only field", {NULL, x}, {"label", label});
    nt_run_free(run);
    nt_array_free(x);
    nt_array_free(label);
    nt_array_free(short_label);
    nt_array_free(doubles);
    nt_array_free(flat);
}

static void forward_must_read_a_field(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_array *x = points(9);
    nt_experiment none = *Toy_experiment();
    none.hooks = (nt_hooks){.build_data = evaluation_data, .forward = no_field};
    nt_run *run = make(&none, &e, quiet_options(NULL));
    refuse(run, NT_INVALID, "forward reads no field of the batch", {"x", x});
    refuse(run, NT_INVALID, "stands for the only field", {NULL, x});
    nt_run_free(run);
    nt_array_free(x);
}

/* Claims of traced code hold for given arrays as they do for splits. */
static void claims_are_checked(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_array *x = points(9), *label = toy_labels(9, 7);
    nt_experiment claiming = *Toy_experiment();
    claiming.hooks = (nt_hooks){.build_data = evaluation_data, .forward = claims_labels};
    for (int no_data = 0; no_data < 2; no_data++) {
        nt_run *run = make(&claiming, &e, no_data ? without_data() : quiet_options(NULL));
        refuse(run, NT_INVALID, "test_predict.c:", {"x", x}, {"label", label});
        refuse(run, NT_INVALID,
               "split 'prediction', field 'label', row 5: 7 is not in 0..1; correct the data, or the number", {"x", x},
               {"label", label});
        nt_run_free(run);
    }
    nt_array_free(x);
    nt_array_free(label);
}

/* ---- stopping, listening ---------------------------------------------------------------------------------------- */

typedef struct listener {
    nt_run *run;
    int64_t batches, stop_at;
} listener;

static void hear(const nt_event *event, void *context) {
    listener *l = context;
    if (event->kind != NT_EVENT_PREDICTING) return;
    assert_int_equal(event->batch, ++l->batches);
    assert_int_equal(event->batches, 3);
    nt_array *out;
    assert_fails(nt_predict(l->run, NULL, 0, &out), NT_INVALID, "is training, evaluating or predicting");
    if (event->batch == l->stop_at) nt_stop_request();
}

/* A stop is looked for before each batch. */
static void a_stop_ends_it_at_the_next_batch(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_array *x = points(40);
    listener l = {0};
    nt_run_options options = without_data();
    options.on_event = hear;
    options.event_context = &l;
    l.run = make(Toy_experiment(), &e, options);
    nt_array_free(predict(l.run, "x", x));
    assert_int_equal(l.batches, 3);
    l.batches = 0;
    l.stop_at = 2;
    refuse(l.run, NT_INTERRUPTED, "prediction of Toy: split 'prediction': stopped as asked", {"x", x});
    assert_int_equal(l.batches, 2);
    nt_stop_clear();
    nt_run_free(l.run);
    nt_array_free(x);
    assert_int_equal(nt__engine_counts_now().all_buffers.live_count, 0);
}

static char told[4096];

static void keep_line(const char *line, void *context) {
    (void)context;
    snprintf(told, sizeof told, "%s", line);
}

static void transfers_are_told(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_array *x = points(40);
    nt_run_options options = quiet_options(NULL);
    options.trace_transfers = true;
    nt_run *run = make(Toy_experiment(), &e, options);
    nt_notice_function before = nt_set_notice(keep_line, NULL);
    nt_array_free(predict(run, "x", x));
    nt_set_notice(before, NULL);
    assert_string_equal(told, "transfers of a prediction: up: batch batch.x 3 x 256 B; down: output outputs 3 x 128 B");
    nt_run_free(run);
    nt_array_free(x);
}

/* ---- short memory ----------------------------------------------------------------------------------------------- */

static nt_status load_and_predict(void) {
    Toy e = Toy_defaults();
    nt_run_options options = without_data();
    nt_run *run;
    nt_array *x = toy_points(10, false), *out = NULL;
    if (!x) return NT_OUT_OF_MEMORY;
    nt_status status = nt_run_new(Toy_experiment(), &e, &options, &run);
    if (status == NT_OK) status = nt_run_load(run, scratch("toy.safetensors"));
    if (status == NT_OK) status = nt_predict(run, &(nt_named_array){NULL, x}, 1, &out);
    nt_array_free(out);
    nt_array_free(x);
    nt_run_free(run);
    return status;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    assert_ok(load_and_predict());
    size_t live = nt__memory().live, failures = 0;
    for (size_t n = 1;; n++) {
        size_t before = nt__memory().total;
        nt__memory_fail_at(n);
        nt_status status = load_and_predict();
        bool reached = nt__memory().total - before >= n;
        nt__memory_fail_at(0);
        if (nt__memory().live != live) fail_msg("allocation %zu: %zu blocks, %zu before", n, nt__memory().live, live);
        if (nt__engine_counts_now().all_buffers.live_count != 0) fail_msg("allocation %zu: a buffer is alive", n);
        if (!reached) break;
        /* The JSON library takes some failures for bad JSON. */
        if (status == NT_OK) fail_msg("allocation %zu failed and nobody noticed", n);
        if (status != NT_OUT_OF_MEMORY)
            fail_msg("allocation %zu: %s: %s", n, nt_status_name(status), nt_error_message());
        failures++;
    }
    assert_true(failures > 50);
}

/* The same handle, whose first prediction fails at every allocation, predicts in the end. */
static void one_handle_outlives_every_failure(void **state) {
    (void)state;
    Toy e = Toy_defaults();
    nt_array *x = points(10), *out = NULL;
    nt_run *run = make(Toy_experiment(), &e, without_data());
    size_t live = nt__memory().live, n = 0;
    while (!out) {
        nt__memory_fail_at(++n);
        nt_status status = nt_predict(run, &(nt_named_array){"x", x}, 1, &out);
        nt__memory_fail_at(0);
        if (status == NT_OK) break;
        assert_int_equal(status, NT_OUT_OF_MEMORY);
        /* Once it is laid out, that stays. */
        if (nt__engine_counts_now().buffers[NT__PARAMETERS].live_count == 0) assert_int_equal(nt__memory().live, live);
    }
    assert_true(n > 30);
    nt_array_free(out);
    nt_array_free(x);
    nt_run_free(run);
}

static int end(void **state) {
    scratch_remove(state);
    return shut_down(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predicts_what_evaluation_sees),
        cmocka_unit_test(no_rows_give_no_rows),
        cmocka_unit_test(an_untrained_handle_predicts),
        cmocka_unit_test(forward_is_compiled_once),
        cmocka_unit_test(a_device_value_compiles_nothing),
        cmocka_unit_test(a_device_value_is_written_between_predictions),
        cmocka_unit_test(only_what_forward_reads_is_transferred),
        cmocka_unit_test(a_handle_without_data_needs_none),
        cmocka_unit_test(a_handle_without_data_only_predicts),
        cmocka_unit_test(the_batch_size_is_chosen),
        cmocka_unit_test(a_failed_first_prediction_settles_nothing),
        cmocka_unit_test(fields_are_checked),
        cmocka_unit_test(forward_must_read_a_field),
        cmocka_unit_test(claims_are_checked),
        cmocka_unit_test(a_stop_ends_it_at_the_next_batch),
        cmocka_unit_test(transfers_are_told),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(one_handle_outlives_every_failure),
    };
    return cmocka_run_group_tests(tests, scratch_make, end);
}
