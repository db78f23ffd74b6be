/* What a model needs travels with its weights: GraphConst fields, what derive set, what layers compute in. A run that
 * only evaluates or predicts has it from the file, others are told what differs or refuse it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "notices.h"
#include "checkpoint/records.h"
#include "run/run_internal.h"
#include "toy.h"

/* ---- an experiment whose derive sets a field of each kind ------------------------------------------------------- */

#define NORM(FIELD, DEVICE, GRAPH_CONST)                           \
    GRAPH_CONST(int, act, 0, "0 tanh, 1 square")                   \
    GRAPH_CONST(int, classes, 0, "set by derive")                  \
    GRAPH_CONST(const char *, kind, "plain", "doubles in \"big\"") \
    DEVICE(float, scale, 1, "of the outputs")                      \
    DEVICE(double, mean, 0, "set by derive")                       \
    DEVICE(nt_array *, shift, NULL, "set by derive")               \
    DEVICE(nt_arrays *, tables, NULL, "set by derive")             \
    FIELD(double, top, 0, "set by derive")                         \
    FIELD(const char *, origin, NULL, "set by derive")             \
    FIELD(float, level, 0.1f, "of the data")                       \
    FIELD(int, batch, 8, "samples")
NT_EXPERIMENT(Norm, NORM)

enum { ROWS = 32 };
static double hidden_number = 0.75; /* as a variable that derive sets */
static bool derive_uses_it;

static nt_status norm_data(const Norm *e, nt_data *data) {
    nt_array *x = nt_array_new(NT_F32, nt_dims(ROWS, 3)), *y = nt_array_new(NT_F32, nt_dims(ROWS, 2));
    for (int i = 0; x && y && i < 3 * ROWS; i++) nt_array_set(x, i, (double)e->level + (i * 37 % 17) / 8.0);
    for (int i = 0; x && y && i < 2 * ROWS; i++) nt_array_set(y, i, i % 3);
    nt_split(data, "train", .batch = e->batch);
    nt_split_field(data, "train", "x", nt_array_retain(x));
    nt_split_field(data, "train", "y", nt_array_retain(y));
    nt_split(data, "val", .batch = e->batch, .shares = "train");
    nt_split_field(data, "val", "x", x);
    nt_split_field(data, "val", "y", y);
    return nt_data_status(data);
}

static nt_status norm_derive(Norm *e, const nt_data *data) {
    const nt_array *x = nt_data_array(data, "train", "x");
    nt_array *a = nt_array_new(NT_F32, nt_dims(1)), *b = nt_array_new(NT_I32, nt_dims(2));
    e->classes = 2;
    e->mean = nt_array_get(x, 1);
    e->top = nt_array_get(x, 2) + 1.0 / 3;
    e->origin = "it is \"said\"\tso";
    e->shift = nt_array_new(NT_F32, nt_dims(3));
    e->tables = nt_arrays_new();
    for (int i = 0; i < 3; i++) nt_array_set(e->shift, i, nt_array_get(x, i));
    nt_array_set(a, 0, nt_array_get(x, 0));
    nt_array_set(b, 1, 7);
    nt_arrays_put(e->tables, "a", a);
    nt_arrays_put(e->tables, "b", b);
    if (derive_uses_it) hidden_number = 12.5;
    return NT_OK;
}

static nt_tensor norm_forward(const Norm_view *e, nt_model *m, nt_batch *batch) {
    nt_tensor x = nt_dense(m, "h", nt_sub(nt_field(batch, "x"), e->shift), 4);
    x = e->act ? nt_square(x) : nt_tanh(x);
    if (strcmp(e->kind, "plain") != 0) x = nt_mul(x, 2);
    x = nt_mul(nt_convert(nt_dense(m, "out", x, e->classes), NT_F32), e->scale);
    x = nt_add(x, nt_convert(e->mean, NT_F32));
    return nt_add(x, nt_mul(nt_member(e->tables, "a"), hidden_number));
}

static nt_tensor norm_loss(const Norm_view *e, nt_tensor out, nt_batch *batch) {
    (void)e;
    return nt_mse(out, nt_field(batch, "y"));
}

NT_DEFINE(Norm, NORM, .build_data = norm_data, .derive = norm_derive, .forward = norm_forward, .loss = norm_loss);

/* ---- runs ------------------------------------------------------------------------------------------------------- */

static nt__text warnings;

static nt_status keep_warning(const char *line, void *context) {
    (void)context;
    nt__text_add(&warnings, "%s\n", line);
    return NT_OK;
}

static void forget_lines(void) {
    nt__text_free(&warnings);
    nt__text_free(&notices);
}

#define assert_warned(part)                             \
    if (!warnings.data || !strstr(warnings.data, part)) \
    fail_msg("no '%s' in:\n%s", part, warnings.data ? warnings.data : "")
#define assert_not_warned() \
    if (warnings.length) fail_msg("warned: %s", warnings.data)

static const char *folder(void) {
    static char path[SCRATCH_PATH];
    snprintf(path, sizeof path, "%s", scratch("trained"));
    return path;
}

static const char *parameters(void) {
    static char path[SCRATCH_PATH + 32];
    snprintf(path, sizeof path, "%s/parameters.safetensors", folder());
    return path;
}

static Norm trained_fields(void) {
    Norm e = Norm_defaults();
    e.act = 1;
    e.kind = "big \"one\"\n\\";
    e.scale = 1.7f;
    return e;
}

/* One epoch, with its checkpoint and its parameters in the folder; val_loss at the end and what it predicts. */
static double train_with(const Norm *e, nt_run_options options, nt_array **predictions) {
    nt_run *run;
    nt_results results;
    nt_array *x = nt_array_new(NT_F32, nt_dims(5, 3));
    scratch_remove_path(folder());
    options.run_dir = folder();
    options.quiet = true;
    assert_ok(nt_run_new(Norm_experiment(), e, &options, &run));
    assert_ok(nt_train(run));
    assert_ok(nt_validate(run, &results));
    double loss = results.values[0].value;
    assert_ok(nt_run_save(run, parameters()));
    if (predictions) assert_ok(nt_predict(run, &(nt_named_array){"x", x}, 1, predictions));
    nt_run_free(run);
    nt_array_free(x);
    forget_lines();
    return loss;
}

static nt_status evaluating(const Norm *e, nt_run_options options, nt_run **out) {
    options.run_dir = folder();
    options.no_log = options.evaluate_only = true;
    return nt_run_new(Norm_experiment(), e, &options, out);
}

static double validated(nt_run *run) {
    nt_results results;
    assert_ok(nt_validate(run, &results));
    return results.values[0].value;
}

/* ---- the values are there --------------------------------------------------------------------------------------- */

static void assert_fields(const nt_run *run) {
    const Norm *e = run->task.fields;
    assert_int_equal(e->act, 1);
    assert_int_equal(e->classes, 2);
    assert_string_equal(e->kind, "big \"one\"\n\\");
    assert_true(e->scale == 1.7f && e->mean == (double)(0.1f + 3 / 8.0f));
    assert_true(e->top == (double)(0.1f + 6 / 8.0f) + 1.0 / 3);
    assert_string_equal(e->origin, "it is \"said\"\tso");
    assert_true(nt_array_get(e->shift, 1) == (double)(0.1f + 3 / 8.0f));
    assert_int_equal(nt_arrays_count(e->tables), 2);
    assert_string_equal(nt_arrays_name(e->tables, 1), "b");
    assert_true(nt_array_get(nt_arrays_at(e->tables, 1), 1) == 7);
}

/* From the file of parameters and from a checkpoint, in an evaluation and in a prediction without data. */
static void the_model_that_was_trained_is_there(void **state) {
    (void)state;
    Norm e = trained_fields();
    nt_array *expected, *got, *x = nt_array_new(NT_F32, nt_dims(5, 3));
    double loss = train_with(&e, (nt_run_options){.seed = {true, 7}}, &expected);
    const char *const sources[] = {parameters(), "latest:latest"};
    nt_run *run;
    for (int i = 0; i < 2; i++) {
        assert_ok(evaluating(NULL, (nt_run_options){.weights = sources[i]}, &run));
        assert_told("act = 1, ");
        assert_told("scale = 1.7");
        assert_told("seed = 7");
        assert_fields(run);
        assert_int_equal(run->task.settings.seed, 7);
        assert_true(validated(run) == loss);
        nt_run_free(run);
        nt_run_options options = {.weights = sources[i], .no_data = true, .quiet = true, .run_dir = folder()};
        assert_ok(nt_run_new(Norm_experiment(), NULL, &options, &run));
        assert_ok(nt_predict(run, &(nt_named_array){"x", x}, 1, &got));
        assert_fields(run);
        assert_memory_equal(got->data, expected->data, expected->bytes);
        assert_ok(nt_run_save(run, scratch("again.safetensors")));
        nt_run_free(run);
        nt_array_free(got);
    }
    assert_not_warned();
    /* Also from a file that was written by a handle without data. */
    assert_ok(evaluating(NULL, (nt_run_options){.weights = scratch("again.safetensors")}, &run));
    assert_fields(run);
    assert_true(validated(run) == loss);
    nt_run_free(run);
    assert_ok(evaluating(NULL, (nt_run_options){.trained_weights = true}, &run));
    assert_true(validated(run) == loss);
    nt_run_free(run);
    assert_not_warned();
    nt_array_free(expected);
    nt_array_free(x);
}

static void other_values_are_refused_with_both(void **state) {
    (void)state;
    Norm e = trained_fields(), other = e;
    const char *const act[] = {"act"}, *const mean[] = {"mean"};
    nt_run *run;
    train_with(&e, (nt_run_options){0}, NULL);
    other.act = 2;
    nt_run_options options = {.weights = parameters()};
    assert_fails(evaluating(&other, options, &run), NT_INVALID, "act: 1 in the file, 2 here");
    other = Norm_defaults();
    other.mean = 9;
    assert_fails(evaluating(&other, options, &run), NT_INVALID,
                 "mean (set by derive): 0.4749999940395355 in the file, 9 here");
    other.mean = 0;
    other.kind = "small";
    assert_fails(evaluating(&other, options, &run), NT_INVALID,
                 "kind: \"big \\\"one\\\"\\x0a\\\\\" in the file, \"small\" here");
    /* A default that was given on purpose. */
    options.given_fields = act;
    options.given_field_count = 1;
    assert_fails(evaluating(NULL, options, &run), NT_INVALID, "act: 1 in the file, 0 here");
    options.given_fields = mean;
    options.weights = "latest:latest";
    assert_ok(evaluating(NULL, options, &run)); /* it was 0 before derive in training too */
    nt_run_free(run);
    options.given_fields = (const char *const[]){"axe"};
    assert_fails(evaluating(NULL, options, &run), NT_INVALID, "given_fields has 'axe', which is no field of Norm");
    /* A Device field may be another one at any time. */
    other = Norm_defaults();
    other.scale = 3;
    options.given_field_count = 0;
    assert_ok(evaluating(&other, options, &run));
    assert_true(((const Norm *)run->task.fields)->scale == 3);
    nt_run_free(run);
    assert_not_warned();
}

static void what_derive_finds_elsewhere_is_told(void **state) {
    (void)state;
    Norm e = trained_fields();
    nt_run *run;
    train_with(&e, (nt_run_options){0}, NULL);
    Norm other = Norm_defaults();
    other.level = 2;
    assert_ok(evaluating(&other, (nt_run_options){.weights = parameters(), .quiet = true}, &run));
    assert_fields(run);
    assert_warned("derive sets other values than in training; those of the file are used:");
    assert_warned("\n  mean (set by derive): 0.4749999940395355 in the file, 2.375 by this data");
    assert_warned("\n  shift (set by derive): the file has other arrays than f32[3] by this data");
    assert_warned("\n  tables (set by derive): the file has other arrays than {a: f32[1], b: i32[2]} by this data");
    nt_run_free(run);
}

/* ---- other runs are told, or refuse ----------------------------------------------------------------------------- */

static void a_run_that_has_its_fields_compares(void **state) {
    (void)state;
    Norm e = trained_fields(), other = Norm_defaults();
    const char *const all[] = {"*=*"};
    nt_run *run;
    train_with(&e, (nt_run_options){0}, NULL);
    other.level = 2;
    nt_run_options options = {.weights = parameters(), .no_log = true, .quiet = true};
    assert_ok(nt_run_new(Norm_experiment(), &other, &options, &run)); /* it trains with its own */
    assert_warned("its arrays were trained with other values than the run has:\n  act: 1 in the file, 0 here");
    assert_warned("\n  mean (set by derive): 0.4749999940395355 in the file, 2.375 here");
    forget_lines();
    assert_fails(nt_run_load(run, parameters()), NT_INVALID, "other GraphConst values than run 'Norm' has");
    assert_fails(nt_run_load(run, parameters()), NT_INVALID, "act: 1 in the file, 0 here");
    assert_not_warned();
    assert_ok(nt_run_load_mapped(run, parameters(), all, 1));
    assert_warned("act: 1 in the file, 0 here");
    nt_run_free(run);
    forget_lines();
    options.weights = NULL;
    assert_ok(nt_run_new(Norm_experiment(), &e, &options, &run));
    assert_ok(nt_run_load(run, parameters()));
    assert_not_warned();
    nt_run_free(run);
    /* Without data too, before the first prediction. */
    options.no_data = true;
    assert_ok(nt_run_new(Norm_experiment(), &other, &options, &run));
    assert_fails(nt_run_load(run, parameters()), NT_INVALID, "act: 1 in the file, 0 here");
    nt_run_free(run);
    forget_lines();
}

static void files_of_other_experiments_are_named(void **state) {
    (void)state;
    Norm e = trained_fields();
    nt_experiment renamed = *Norm_experiment();
    renamed.name = "Other";
    nt_run *run;
    train_with(&e, (nt_run_options){0}, NULL);
    const char *const sources[] = {parameters(), "latest:latest"};
    nt_run_options options = {.run_dir = folder(), .no_log = true, .quiet = true};
    for (int i = 0; i < 2; i++) {
        options.evaluate_only = true;
        options.weights = sources[i];
        assert_ok(nt_run_new(&renamed, NULL, &options, &run));
        assert_warned("is of experiment 'Norm': fields are taken from it by their names");
        assert_fields(run);
        nt_run_free(run);
        forget_lines();
        options.evaluate_only = false;
        assert_ok(nt_run_new(&renamed, &e, &options, &run));
        assert_warned("the experiment: Norm in the file, Other here");
        assert_fails(nt_run_load(run, sources[i]), NT_INVALID, "is of experiment 'Norm', and this is 'Other'");
        nt_run_free(run);
        forget_lines();
    }
    options.weights = NULL;
    options.resume = "latest:latest";
    assert_fails(nt_run_new(&renamed, &e, &options, &run), NT_INVALID, "the checkpoint is of experiment 'Norm'");
}

static void the_type_to_compute_in_travels(void **state) {
    (void)state;
    Norm e = trained_fields();
    nt_run *run;
    double loss = train_with(&e, (nt_run_options){.compute_dtype = "bf16"}, NULL);
    assert_ok(evaluating(NULL, (nt_run_options){.weights = parameters()}, &run));
    assert_told("compute_dtype = bf16");
    assert_true(validated(run) == loss);
    assert_fails(nt_run_load(run, scratch("absent")), NT_NOT_FOUND, "absent");
    nt_run_free(run);
    assert_ok(evaluating(NULL, (nt_run_options){.weights = parameters(), .compute_dtype = "f32", .quiet = true}, &run));
    assert_true(validated(run) != loss);
    assert_not_warned();
    assert_ok(nt_run_load(run, parameters()));
    assert_warned("compute_dtype: bf16 in the file, f32 here");
    nt_run_free(run);
    forget_lines();
}

/* ---- definitions that moved ------------------------------------------------------------------------------------- */

/* The definition with other rows: `act` under another name or of another type. */
static nt_experiment changed(nt_field_info *fields, const char *name, nt_field_type type) {
    nt_experiment now = *Norm_experiment();
    memcpy(fields, now.fields, sizeof *fields * now.field_count);
    fields[0].name = name;
    fields[0].type = type;
    now.fields = fields;
    return now;
}

static void fields_that_came_or_went_are_told(void **state) {
    (void)state;
    Norm e = Norm_defaults();
    nt_field_info fields[16];
    nt_run *run;
    train_with(&e, (nt_run_options){0}, NULL);
    nt_run_options options = {.weights = parameters(), .run_dir = folder(), .no_log = true, .evaluate_only = true};
    options.quiet = true;
    nt_experiment now = changed(fields, "activation", NT_FIELD_INT);
    assert_ok(nt_run_new(&now, NULL, &options, &run));
    assert_warned("act: 0 in the file, and Norm has no such field");
    assert_warned("activation: the file has no such field; 0 here");
    nt_run_free(run);
    forget_lines();
    now = changed(fields, "act", NT_FIELD_UINT);
    assert_ok(nt_run_new(&now, NULL, &options, &run));
    assert_warned("act: int in the file, unsigned here");
    nt_run_free(run);
    forget_lines();
    e.act = -1;
    train_with(&e, (nt_run_options){0}, NULL);
    assert_fails(nt_run_new(&now, NULL, &options, &run), NT_INVALID,
                 "was trained with: act (int): '-1' is out of range");
}

/* Written before there was anything but arrays, or by others. */
static void a_file_that_says_nothing_is_told(void **state) {
    (void)state;
    Norm e = trained_fields();
    nt__safetensors file;
    nt_run *run;
    char old[SCRATCH_PATH];
    snprintf(old, sizeof old, "%s", scratch("old.safetensors"));
    train_with(&e, (nt_run_options){0}, NULL);
    assert_ok(nt__safetensors_read(parameters(), &file));
    nt__named_array arrays[4];
    size_t count = 0;
    for (size_t i = 0; i < file.count; i++)
        if (strncmp(file.arrays[i].name, "fields/", 7) != 0) arrays[count++] = file.arrays[i];
    assert_int_equal(count, 4);
    assert_ok(nt__safetensors_write(old, arrays, count, NULL, 0));
    nt__safetensors_free(&file);
    assert_ok(evaluating(&e, (nt_run_options){.weights = old, .quiet = true}, &run));
    assert_warned(
        "old.safetensors does not say with which fields it was trained, so the GraphConst fields and what derive "
        "sets could not be compared");
    forget_lines();
    assert_ok(nt_run_load(run, old));
    assert_warned("does not say with which fields it was trained");
    nt_run_free(run);
    forget_lines();
    assert_fails(nt_run_new(Norm_experiment(), &e,
                            &(nt_run_options){.weights = "nowhere", .no_data = true, .run_dir = folder()}, &run),
                 NT_NOT_FOUND, "nowhere");
}

/* ---- short memory ----------------------------------------------------------------------------------------------- */

static nt_status adopt_and_predict(void) {
    nt_run_options options = {.weights = parameters(), .no_data = true, .quiet = true, .run_dir = folder()};
    nt_run *run;
    nt_array *x = nt_array_new(NT_F32, nt_dims(5, 3)), *out = NULL;
    if (!x) return NT_OUT_OF_MEMORY;
    nt_status status = nt_run_new(Norm_experiment(), NULL, &options, &run);
    if (status == NT_OK) status = nt_predict(run, &(nt_named_array){"x", x}, 1, &out);
    nt_array_free(out);
    nt_array_free(x);
    nt_run_free(run);
    return status;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    Norm e = trained_fields();
    train_with(&e, (nt_run_options){0}, NULL);
    assert_ok(adopt_and_predict());
    forget_lines();
    size_t live = nt__memory().live, failures = 0;
    nt_set_notice(NULL, NULL); /* its lines would take memory */
    for (size_t n = 1;; n++) {
        size_t before = nt__memory().total;
        nt__memory_fail_at(n);
        nt_status status = adopt_and_predict();
        bool reached = nt__memory().total - before >= n;
        nt__memory_fail_at(0);
        forget_lines();
        if (nt__memory().live != live) fail_msg("allocation %zu: %zu blocks, %zu before", n, nt__memory().live, live);
        assert_int_equal(nt__engine_counts_now().all_buffers.live_count, 0);
        if (!reached) break;
        if (status != NT_OUT_OF_MEMORY)
            fail_msg("allocation %zu: %s: %s", n, nt_status_name(status), nt_error_message());
        failures++;
    }
    nt_set_notice(keep_notice, NULL);
    assert_true(failures > 100);
}

/* ---- variables do not travel ------------------------------------------------------------------------------------ */

static void a_variable_that_derive_sets_is_missed(void **state) {
    (void)state;
    Norm e = trained_fields();
    nt_array *out, *x = nt_array_new(NT_F32, nt_dims(5, 3));
    nt_run *run;
    derive_uses_it = true;
    train_with(&e, (nt_run_options){0}, NULL);
    nt_run_options options = {.weights = parameters(), .no_data = true, .quiet = true, .run_dir = folder()};
    assert_ok(nt_run_new(Norm_experiment(), NULL, &options, &run));
    hidden_number = 0.75; /* as in another process, where derive is not called */
    assert_fails(nt_predict(run, &(nt_named_array){"x", x}, 1, &out), NT_INVALID,
                 "forward of Norm computes with other numbers than when ");
    assert_fails(nt_predict(run, &(nt_named_array){"x", x}, 1, &out), NT_INVALID,
                 "(12.5 is not among them any more, 0.75 is a new one). Without data derive is not called");
    hidden_number = 12.5;
    assert_ok(nt_predict(run, &(nt_named_array){"x", x}, 1, &out));
    nt_array_free(out);
    nt_run_free(run);
    assert_not_warned();
    derive_uses_it = false;
    hidden_number = 0.75; /* with data it may be right: the code was edited */
    assert_ok(evaluating(NULL, (nt_run_options){.weights = parameters(), .quiet = true}, &run));
    assert_warned("forward computes with other numbers than when ");
    nt_run_free(run);
    nt_array_free(x);
    forget_lines();
}

static int set_up(void **state) {
    nt_set_warning(keep_warning, NULL);
    nt_set_notice(keep_notice, NULL);
    return scratch_make(state);
}

static int tear_down(void **state) {
    forget_lines();
    nt_set_warning(NULL, NULL);
    return shut_down(state) | scratch_remove(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_that_was_trained_is_there),   cmocka_unit_test(other_values_are_refused_with_both),
        cmocka_unit_test(what_derive_finds_elsewhere_is_told),   cmocka_unit_test(a_run_that_has_its_fields_compares),
        cmocka_unit_test(files_of_other_experiments_are_named),  cmocka_unit_test(the_type_to_compute_in_travels),
        cmocka_unit_test(fields_that_came_or_went_are_told),     cmocka_unit_test(a_file_that_says_nothing_is_told),
        cmocka_unit_test(a_variable_that_derive_sets_is_missed), cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("adopt", tests, set_up, tear_down);
}
