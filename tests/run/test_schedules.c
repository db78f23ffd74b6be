/* Schedules of a run: what their names mean, the values of each step, and that they compile nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "run/run_internal.h"
#include "toy.h"

/* ---- an experiment with many names ------------------------------------------------------------------------------ */

/* Its declaration must not stand on the line of that of Toy: a tag of the view has the line in it. */
#define NAMES(FIELD, DEVICE, GRAPH_CONST)                      \
    GRAPH_CONST(int, hidden, 8, "hidden units")                \
    DEVICE(float, smoothing, 0.125f, "label smoothing")        \
    DEVICE(float, learning_rate, 1.0f, "a setting too")        \
    DEVICE(float, device, 0.0f, "has the name of a namespace") \
    DEVICE(int, count, 0, "a whole number")                    \
    FIELD(int, batch, 16, "samples in a micro-batch")          \
    FIELD(int, rows, 128, "samples in train")                  \
    FIELD(bool, groups, false, "hidden is a group of its own")
NT_EXPERIMENT(Names, NAMES)

static nt_schedule declared; /* of smoothing; no kind: none */

static nt_status build_data(const Names *e, nt_data *data) {
    nt_split(data, "train", .batch = e->batch);
    nt_split_field(data, "train", "x", toy_points(e->rows, false));
    nt_split_field(data, "train", "label", toy_labels(e->rows, 0));
    return nt_data_status(data);
}

static nt_tensor forward(const Names_view *e, nt_model *m, nt_batch *batch) {
    nt_tensor x = nt_tanh(nt_dense(m, "hidden", nt_field(batch, "x"), e->hidden));
    return nt_dense(m, "logits", x, 2);
}

/* Reads every Device field, so that each is an argument. */
static nt_tensor loss(const Names_view *e, nt_tensor logits, nt_batch *batch) {
    nt_tensor loss = nt_cross_entropy(logits, nt_field(batch, "label"), .label_smoothing = e->smoothing);
    nt_tensor others = nt_add(nt_mul(e->device, e->learning_rate), nt_convert(e->count, NT_F32));
    return nt_add(loss, nt_mul(others, 1e-3));
}

static const char *param_group(const Names *e, const char *path) {
    static char name[32];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(path, "."), path);
    return e->groups && strcmp(name, "hidden") == 0 ? name : NULL;
}

static double rate_ratio(const Names *e, const char *group) {
    (void)e;
    return strcmp(group, "hidden") == 0 ? 0.1 : 1;
}

static nt_rule optimizer(const Names *e, const char *group) {
    (void)group;
    (void)e;
    return nt_adam();
}

static bool forgets_the_name;
static void schedules(const Names *e, nt_schedules *out) {
    (void)e;
    if (forgets_the_name) nt_schedule_set(out, NULL, nt_schedule_constant(1));
    if (declared.kind) nt_schedule_set(out, "smoothing", declared);
}

NT_DEFINE(Names, NAMES, .build_data = build_data, .forward = forward, .loss = loss, .optimizer = optimizer,
          .param_group = param_group, .rate_ratio = rate_ratio, .schedules = schedules);

/* Places in the list. */
enum { HIDDEN, SMOOTHING, LEARNING_RATE, DEVICE, COUNT };

static nt_run *make(const Names *e, nt_run_options options) {
    nt_run *run;
    assert_ok(nt_run_new(Names_experiment(), e, &options, &run));
    return run;
}

/* A list of one. */
static const nt_named_schedule *only(const char *name, nt_schedule schedule) {
    static nt_named_schedule list[2];
    list[0] = (nt_named_schedule){name, schedule};
    return list;
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

static void assert_bound(const char *name, int field, int group) {
    Names e = Names_defaults();
    e.groups = true;
    nt_run_options options = quiet_options(NULL);
    options.schedules = only(name, nt_schedule_constant(0.25));
    nt_run *run = make(&e, options);
    assert_int_equal(run->resident.binding_count, 1);
    assert_true(run->resident.schedules_from_option);
    assert_int_equal(run->resident.bindings[0].field, field);
    assert_int_equal(run->resident.bindings[0].group, group);
    assert_int_equal(nt__field_scheduled(&run->resident, SMOOTHING), field == SMOOTHING);
    assert_int_equal(nt__field_scheduled(&run->resident, LEARNING_RATE), field == LEARNING_RATE);
    assert_int_equal(run->resident.rates[0].binding != NULL, field < 0 && group != 1);
    assert_int_equal(run->resident.rates[1].binding != NULL, field < 0 && group != 0);
    nt_run_free(run);
}

static void names_find_what_they_mean(void **state) {
    (void)state;
    assert_bound("smoothing", SMOOTHING, -1);
    assert_bound("device.smoothing", SMOOTHING, -1);
    assert_bound("device.device", DEVICE, -1);
    assert_bound("device.learning_rate", LEARNING_RATE, -1);
    assert_bound("opt.learning_rate", -1, -1);
    assert_bound("opt.default.learning_rate", -1, 0);
    assert_bound("opt.hidden.learning_rate", -1, 1);
}

static void names_that_mean_nothing_are_refused(void **state) {
    (void)state;
    static const char device_fields[] = "Device fields: smoothing, learning_rate, device, count";
    static const char scalars[] = "scalars of the optimizer: learning_rate";
    static const struct {
        const char *name, *parts[3];
    } cases[] = {
        {"learning_rate",
         {"it is both a Device field and a scalar of the optimizer: write device.learning_rate or opt.learning_rate"}},
        {"lr", {"it is the name of nothing that can be scheduled", device_fields, "the rate is learning_rate, not lr"}},
        {"eta", {device_fields, scalars}},
        {"hidden",
         {"field hidden is GraphConst, and only a Device field can change from step to step: mark it DEVICE"}},
        {"batch", {"field batch is Host"}},
        {"device.batch", {"field batch is Host"}},
        {"device.nothing", {"there is no Device field 'nothing'", device_fields}},
        {"opt.eta", {"the optimizer has no scalar 'eta'", scalars}},
        {"opt.smoothing", {"the optimizer has no scalar 'smoothing'", scalars}},
        {"beta1", {"beta1 of rule Adam is a constant of the program and cannot be scheduled", scalars}},
        {"opt.epsilon", {"epsilon of rule Adam is a constant of the program"}},
        {"opt.hidden.beta2", {"beta2 of rule Adam is a constant of the program"}},
        {"opt.tail.learning_rate", {"there is no parameter group 'tail'", "groups: default, hidden"}},
        {"opt.hidden.deep.learning_rate", {"A path has one level: opt.GROUP.learning_rate"}},
        {"hidden.learning_rate", {"nothing that can be scheduled", "Did you mean opt.hidden.learning_rate?"}},
        {"device", {"the names device and opt stand in front of others: write device.NAME", "is device.device"}},
        {"opt", {"write opt.NAME"}},
        {"device.", {"there is no Device field ''"}},
        {"", {"it has no name"}},
    };
    Names e = Names_defaults();
    e.groups = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char prefix[80];
        nt_run *run;
        nt_run_options options = quiet_options(NULL);
        options.schedules = only(cases[i].name, nt_schedule_constant(1));
        snprintf(prefix, sizeof prefix, "schedule '%s' of the run's option: ", cases[i].name);
        assert_fails(nt_run_new(Names_experiment(), &e, &options, &run), NT_INVALID, prefix);
        for (size_t part = 0; part < 3 && cases[i].parts[part]; part++)
            assert_fails(NT_INVALID, NT_INVALID, cases[i].parts[part]);
        assert_null(run);
    }
}

static void assert_list_refused(const nt_named_schedule *list, const char *part) {
    Names e = Names_defaults();
    nt_run *run;
    nt_run_options options = quiet_options(NULL);
    options.schedules = list;
    assert_fails(nt_run_new(Names_experiment(), &e, &options, &run), NT_INVALID, part);
    assert_int_equal(nt__engine_counts_now().all_buffers.live_count, 0);
}

static void odd_lists_are_refused(void **state) {
    (void)state;
    nt_schedule one = nt_schedule_constant(1);
    assert_list_refused((nt_named_schedule[]){{"smoothing", one}, {"device.smoothing", one}, {0}},
                        "schedule 'device.smoothing' of the run's option: schedule 'smoothing' sets the same value");
    assert_list_refused((nt_named_schedule[]){{"opt.learning_rate", one}, {"opt.learning_rate", one}, {0}},
                        "sets the same value");
    assert_list_refused(only("smoothing", (nt_schedule){0}), "schedule 'smoothing' of the run's option: it has no");
    assert_list_refused(only("smoothing", nt_schedule_constant(NAN)), "must be finite");
}

/* The option replaces the hook's table, also with an empty one. */
static void the_option_replaces_the_hook(void **state) {
    (void)state;
    Names e = Names_defaults();
    nt_run_options options = quiet_options(NULL);
    declared = nt_schedule_constant(0.5);
    nt_run *run = make(&e, options);
    assert_int_equal(run->resident.binding_count, 1);
    assert_false(run->resident.schedules_from_option);
    assert_true(nt__field_scheduled(&run->resident, SMOOTHING));
    nt_run_free(run);
    options.schedules = only("count", nt_schedule_constant(3));
    run = make(&e, options);
    assert_int_equal(run->resident.binding_count, 1);
    assert_int_equal(run->resident.bindings[0].field, COUNT);
    nt_run_free(run);
    options.schedules = (nt_named_schedule[]){{0}};
    run = make(&e, options);
    assert_int_equal(run->resident.binding_count, 0);
    nt_run_free(run);
    declared = nt_schedule_constant(NAN);
    options = quiet_options(NULL);
    assert_fails(nt_run_new(Names_experiment(), &e, &options, &run), NT_INVALID,
                 "schedule 'smoothing' of the schedules hook: constant with value nan");
    declared = (nt_schedule){0};
    forgets_the_name = true;
    assert_fails(nt_run_new(Names_experiment(), &e, &options, &run), NT_INVALID,
                 "schedules of Names: nt_schedule_set: name is NULL");
    forgets_the_name = false;
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

typedef struct asked {
    int64_t steps[64], total;
    size_t count;
} asked;

static double record(int64_t step, int64_t total, void *context) {
    asked *a = context;
    a->total = total;
    if (a->count < 64) a->steps[a->count++] = step;
    return 0.5 / (double)step;
}

/* 32 micro-batches with accum 16 are two steps, and the function is asked for these two, once each. */
static void a_function_is_asked_once_a_step(void **state) {
    (void)state;
    asked a = {0};
    Names e = Names_defaults();
    e.batch = 4;
    nt_run_options options = quiet_options(NULL);
    options.accum = (nt_maybe_int){true, 16};
    options.max_epochs = (nt_maybe_int){true, 3};
    options.max_steps = (nt_maybe_int){true, 2};
    options.schedules = only("opt.learning_rate", nt_schedule_of(record, &a));
    nt_run *run = make(&e, options);
    assert_int_equal(a.count, 0);
    assert_int_equal(run->resident.horizon, 6); /* max_epochs (batches / accum), whatever max_steps is */
    assert_ok(nt_train(run));
    assert_int_equal(nt_run_step(run), 2);
    assert_int_equal(a.count, 2);
    assert_int_equal(a.steps[0], 1);
    assert_int_equal(a.steps[1], 2);
    assert_int_equal(a.total, 6);
    assert_true(run->resident.rates[0].value == 0.25);
    nt_run_free(run);
}

/* The steps of a schedule: 1 to N, over epochs, without gaps. */
static void steps_go_on_over_epochs(void **state) {
    (void)state;
    static heard h;
    memset(&h, 0, sizeof h);
    asked a = {0};
    Names e = Names_defaults();
    nt_run_options options = quiet_options(&h);
    options.accum = (nt_maybe_int){true, 2};
    options.max_epochs = (nt_maybe_int){true, 3};
    options.schedules = only("smoothing", nt_schedule_of(record, &a));
    nt_run *run = make(&e, options);
    assert_ok(nt_train(run));
    assert_int_equal(a.count, 12);
    assert_int_equal(h.count, 12);
    for (size_t i = 0; i < 12; i++) {
        assert_int_equal(a.steps[i], i + 1);
        assert_int_equal(h.steps[i], i + 1);
    }
    assert_true(((const Names *)run->task.fields)->smoothing == (float)(0.5 / 12)); /* an f64 lands as f32 */
    nt_run_free(run);
}

/* Another loss, the other fields untouched, nothing compiled. */
static void a_scheduled_field_reaches_the_program(void **state) {
    (void)state;
    Names e = Names_defaults();
    nt_array *weights[2];
    uint64_t misses[2];
    nt_cache_reset();
    for (int i = 0; i < 2; i++) {
        nt_run_options options = quiet_options(NULL);
        if (i) options.schedules = only("smoothing", nt_schedule_linear(0, 0.875, .steps = 7));
        nt_run *run = make(&e, options);
        assert_ok(nt_train(run));
        const Names *fields = run->task.fields;
        assert_true(fields->smoothing == (i ? 0.875f : 0.125f)); /* the value of step 8 */
        assert_true(fields->learning_rate == 1 && fields->device == 0 && fields->count == 0);
        weights[i] = nt_run_parameter(run, "logits.weight");
        misses[i] = nt_cache_stats().misses;
        nt_run_free(run);
    }
    assert_int_equal(misses[0], 2);
    assert_int_equal(misses[1], 2);
    assert_memory_not_equal(weights[0]->data, weights[1]->data, weights[0]->bytes);
    for (int64_t i = 0; i < nt_shape_elements(weights[1]->shape); i++)
        assert_true(isfinite(nt_array_get(weights[1], i)));
    nt_array_free(weights[0]);
    nt_array_free(weights[1]);
}

static void values_must_fit_the_field(void **state) {
    (void)state;
    Names e = Names_defaults();
    nt_run_options options = quiet_options(NULL);
    options.schedules = only("count", nt_schedule_linear(0, 8));
    nt_run *run = make(&e, options);
    assert_ok(nt_train(run)); /* 0, 1, 2, ... */
    assert_int_equal(((const Names *)run->task.fields)->count, 7);
    nt_run_free(run);
    options.schedules = only("count", nt_schedule_linear(0, 1));
    run = make(&e, options);
    assert_fails(nt_train(run), NT_INVALID,
                 "step 2 of epoch 1, micro-batch 2 of split 'train': schedule 'count' of the run's option: count (int) "
                 "cannot be 0.125");
    nt_run_free(run);
    options.schedules = only("smoothing", nt_schedule_constant(1e300));
    run = make(&e, options);
    assert_fails(nt_train(run), NT_INVALID, "smoothing (float) cannot be 1e+300");
    nt_run_free(run);
    options.schedules = only("opt.learning_rate", nt_schedule_constant(1e300));
    run = make(&e, options);
    assert_fails(nt_train(run), NT_INVALID, "learning_rate 1e+300 is inf in f32");
    nt_run_free(run);
}

static double nan_from(int64_t step, int64_t total, void *context) {
    (void)total;
    return step >= *(const int64_t *)context ? NAN : (double)step;
}

static double small_nan_from(int64_t step, int64_t total, void *context) {
    return nan_from(step, total, context) / 16;
}

static void a_value_that_is_not_finite_ends_the_run(void **state) {
    (void)state;
    int64_t from = 5;
    Names e = Names_defaults();
    nt_run_options options = quiet_options(NULL);
    options.schedules = only("smoothing", nt_schedule_of(small_nan_from, &from));
    nt_run *run = make(&e, options);
    assert_fails(nt_train(run), NT_INVALID,
                 "schedule 'smoothing' of the run's option gave nan for step 5 of 8: a value must be finite");
    assert_int_equal(nt_run_step(run), 4);
    nt_run_free(run);
    assert_int_equal(nt__engine_counts_now().all_buffers.live_count, 0);
}

static double falling(int64_t step, int64_t total, void *context) {
    (void)total;
    (void)context;
    return (double)(5 - step);
}

/* When the run is made, and where a function of the user's gives it at its step. */
static void a_negative_rate_ends_the_run(void **state) {
    (void)state;
    Names e = Names_defaults();
    nt_run_options options = quiet_options(NULL);
    options.schedules = only("opt.learning_rate", nt_schedule_linear(0.25, -0.25));
    nt_run *run;
    assert_fails(nt_run_new(Names_experiment(), &e, &options, &run), NT_INVALID,
                 "schedule 'opt.learning_rate' of the run's option gave -0.0625 for step 6 of 8: a learning rate must "
                 "not be negative");
    options.schedules = only("opt.learning_rate", nt_schedule_of(falling, NULL));
    run = make(&e, options);
    assert_fails(
        nt_train(run), NT_INVALID,
        "schedule 'opt.learning_rate' of the run's option gave -1 for step 6 of 8: a learning rate must not be "
        "negative");
    assert_int_equal(nt_run_step(run), 5);
    nt_run_free(run);
    options.schedules = only("device.learning_rate", nt_schedule_constant(-1)); /* no rate */
    run = make(&e, options);
    assert_ok(nt_train(run));
    nt_run_free(run);
}

static char notice[400];
static int notices;
static void keep_notice(const char *line, void *context) {
    (void)context;
    notices++;
    snprintf(notice, sizeof notice, "%s", line);
}

/* Past the horizon the value of the last step is kept, said once; one that answers is left alone. */
static void past_the_horizon(void **state) {
    (void)state;
    int64_t from = 9;
    asked a = {0};
    Names e = Names_defaults();
    nt_run_options options = quiet_options(NULL);
    options.schedules = (nt_named_schedule[]){
        {"opt.learning_rate", nt_schedule_of(nan_from, &from)}, {"smoothing", nt_schedule_of(record, &a)}, {0}};
    nt_run *run = make(&e, options);
    nt_notice_function before = nt_set_notice(keep_notice, NULL);
    notices = 0;
    for (run->resident.step = 6; run->resident.step < 12; run->resident.step++) {
        assert_ok(nt__schedules_apply(&run->resident));
        assert_true(run->resident.rates[0].value == (run->resident.step < 8 ? (double)run->resident.step + 1 : 8));
    }
    assert_int_equal(notices, 1);
    assert_string_equal(notice,
                        "schedule 'opt.learning_rate' gave nan for step 9, past its horizon of 8 steps: the value of "
                        "step 8, 8, is kept. Train for as many epochs as the run was made for");
    assert_int_equal(a.count, 6);
    assert_int_equal(a.steps[5], 12);
    nt_set_notice(before, NULL);
    nt_run_free(run);
}

static void training_past_the_end_is_told_once(void **state) {
    (void)state;
    Names e = Names_defaults();
    nt_run_options options = quiet_options(NULL);
    options.quiet = false;
    options.schedules = (nt_named_schedule[]){{"opt.learning_rate", nt_schedule_linear(0.25, 0)},
                                              {"smoothing", nt_schedule_linear(0.25, 0, .steps = 2)},
                                              {"device.device", nt_schedule_constant(1)},
                                              {0}};
    nt_run *run = make(&e, options);
    nt_notice_function before = nt_set_notice(keep_notice, NULL);
    notices = 0;
    for (run->resident.step = 0; run->resident.step < 8; run->resident.step++)
        assert_ok(nt__schedules_apply(&run->resident));
    assert_int_equal(notices, 0);
    for (; run->resident.step < 12; run->resident.step++) assert_ok(nt__schedules_apply(&run->resident));
    assert_int_equal(notices, 1);
    assert_string_equal(notice, "Names: schedule opt.learning_rate is over at step 8: it stays at 0 from here on");
    nt_set_notice(before, NULL);
    nt_run_free(run);
}

static void what_the_option_drops_is_told(void **state) {
    (void)state;
    Names e = Names_defaults();
    nt_run_options options = quiet_options(NULL);
    options.quiet = false;
    declared = nt_schedule_constant(0.5);
    nt_notice_function before = nt_set_notice(keep_notice, NULL);
    notices = 0;
    options.schedules = only("smoothing", nt_schedule_constant(0.25));
    nt_run_free(make(&e, options));
    assert_int_equal(notices, 0);
    options.schedules = only("count", nt_schedule_constant(3));
    nt_run_free(make(&e, options));
    assert_int_equal(notices, 1);
    assert_string_equal(notice, "Names: the schedules given replace all of the schedules hook; without a schedule now: "
                                "smoothing");
    nt_set_notice(before, NULL);
    declared = (nt_schedule){0};
}

/* What a field was given and has a schedule is said at setup. */
static void a_given_value_that_is_not_used_is_told(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool rate, field, quiet;
        const char *line; /* NULL: none */
    } cases[] = {
        {"opt.learning_rate", false, true, false, NULL},
        {"opt.hidden.learning_rate", true, false, false, NULL},
        {"smoothing", true, true, false,
         "Names: smoothing has a schedule (the run's option); the given 0.25 is not used"},
        {"smoothing", true, false, false, NULL},
    };
    nt_notice_function before = nt_set_notice(keep_notice, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Names e = Names_defaults();
        e.groups = true;
        if (cases[i].field) e.smoothing = 0.25f;
        nt_run_options options = quiet_options(NULL);
        options.quiet = cases[i].quiet;
        options.schedules = only(cases[i].name, nt_schedule_constant(0.5));
        options.learning_rate = (nt_maybe_double){cases[i].rate, 0.1};
        notices = 0;
        nt_run_free(make(&e, options));
        assert_int_equal(notices, cases[i].line != NULL);
        if (cases[i].line) assert_string_equal(notice, cases[i].line);
    }
    nt_set_notice(before, NULL);
}

static void the_log_has_the_schedules(void **state) {
    (void)state;
    char folder[] = "/tmp/nitro-schedules-XXXXXX", path[64], line[2048];
    assert_non_null(mkdtemp(folder));
    Names e = Names_defaults();
    nt_run_options options = {.quiet = true, .run_dir = folder, .checkpoint = {true, false}};
    options.schedules = (nt_named_schedule[]){
        {"opt.learning_rate", nt_schedule_linear(0.1, 0)}, {"smoothing", nt_schedule_constant(0.5)}, {0}};
    nt_run *run = make(&e, options);
    assert_ok(nt_train(run));
    nt_run_free(run);
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    assert_non_null(strstr(line, "opt.learning_rate linear(0.1 0), smoothing constant(0.5)"));
    assert_int_equal(remove(path), 0);
    assert_int_equal(remove(folder), 0);
}

/* ---- rates ------------------------------------------------------------------------------------------------------ */

static void assert_rates(double base, const nt_named_schedule *list, double first, double second) {
    Names e = Names_defaults();
    e.groups = true;
    nt_run_options options = quiet_options(NULL);
    options.schedules = list;
    options.learning_rate = (nt_maybe_double){base > 0, base};
    nt_run *run = make(&e, options);
    assert_ok(nt_train(run));
    const double wanted[] = {first, second};
    for (int g = 0; g < 2; g++) {
        float element;
        assert_true(fabs(run->resident.rates[g].value - wanted[g]) < 1e-15);
        assert_ok(nt__buffer_read(run->traced.engine, &run->resident.rates[g].buffer, &element));
        assert_true(element == (float)run->resident.rates[g].value);
    }
    nt_run_free(run);
}

static void a_group_has_its_ratio_of_the_rate(void **state) {
    (void)state;
    nt_schedule bare = nt_schedule_constant(3e-3), own = nt_schedule_constant(1e-2);
    nt_cache_reset();
    assert_rates(1e-3, NULL, 1e-3, 1e-4);
    assert_rates(1e-3, only("opt.hidden.learning_rate", nt_schedule_constant(1e-5)), 1e-3, 1e-6);
    assert_rates(0, (nt_named_schedule[]){{"opt.learning_rate", bare}, {"opt.hidden.learning_rate", own}, {0}}, 3e-3,
                 1e-3);
    assert_rates(0, (nt_named_schedule[]){{"opt.hidden.learning_rate", own}, {"opt.learning_rate", bare}, {0}}, 3e-3,
                 1e-3);
    assert_rates(0, only("opt.learning_rate", nt_schedule_cosine(1e-3, 0)), 1e-3 * (1 + cos(acos(-1) * 7 / 8)) / 2,
                 1e-4 * (1 + cos(acos(-1) * 7 / 8)) / 2);
    assert_int_equal(nt_cache_stats().misses, 2);
}

typedef struct ratio_check {
    nt_run *run;
    double values[8];
    int count;
} ratio_check;

static void check_ratio(const nt_event *event, void *context) {
    ratio_check *c = context;
    if (event->kind != NT_EVENT_STEP) return;
    assert_true(fabs(c->run->resident.rates[1].value / c->run->resident.rates[0].value - 0.1) < 1e-15);
    if (c->count < 8) c->values[c->count++] = c->run->resident.rates[0].value;
}

static void the_ratio_stays_over_the_steps(void **state) {
    (void)state;
    ratio_check c = {0};
    Names e = Names_defaults();
    e.groups = true;
    nt_run_options options = {.no_log = true, .quiet = true, .on_event = check_ratio, .event_context = &c};
    options.schedules = only("opt.learning_rate", nt_schedule_linear(1e-2, 1e-3));
    assert_ok(nt_run_new(Names_experiment(), &e, &options, &c.run));
    assert_ok(nt_train(c.run));
    assert_int_equal(c.count, 8);
    for (int i = 1; i < 8; i++) assert_true(c.values[i] <= c.values[i - 1]);
    nt_run_free(c.run);
}

/* ---- nothing compiles ------------------------------------------------------------------------------------------- */

typedef struct missed {
    uint64_t after[100];
    int64_t count;
} missed;

static void count_misses(const nt_event *event, void *context) {
    missed *m = context;
    if (event->kind == NT_EVENT_STEP && m->count < 100) m->after[m->count++] = nt_cache_stats().misses;
}

static void a_hundred_steps_compile_nothing(void **state) {
    (void)state;
    static missed m;
    memset(&m, 0, sizeof m);
    Names e = Names_defaults();
    nt_run_options options = {.no_log = true, .quiet = true, .on_event = count_misses, .event_context = &m};
    options.max_epochs = (nt_maybe_int){true, 100};
    options.max_steps = (nt_maybe_int){true, 100};
    options.schedules = (nt_named_schedule[]){
        {"opt.learning_rate", nt_schedule_cosine(0.0123456789, 0)}, {"smoothing", nt_schedule_linear(0.3, 0)}, {0}};
    nt_cache_reset();
    nt_run *run = make(&e, options);
    assert_ok(nt_train(run));
    assert_int_equal(m.count, 100);
    for (int i = 0; i < 100; i++) assert_int_equal(m.after[i], 2);
    uint32_t bits;
    float rate = 0.0123456789f;
    char hexadecimal[16];
    memcpy(&bits, &rate, sizeof bits);
    snprintf(hexadecimal, sizeof hexadecimal, "%08X", bits);
    assert_null(strstr(nt__program_text(run->traced.programs.optimizer), hexadecimal));
    nt_run_free(run);
}

/* A handle for evaluation resolves nothing. */
static nt_status only_val(const void *e, nt_data *data) {
    (void)e;
    nt_split(data, "val", .batch = 16);
    nt_split_field(data, "val", "x", toy_points(32, false));
    nt_split_field(data, "val", "label", toy_labels(32, 0));
    return nt_data_status(data);
}

static void without_training_there_are_no_schedules(void **state) {
    (void)state;
    nt_experiment evaluated = *Names_experiment();
    evaluated.hooks.build_data = only_val;
    Names e = Names_defaults();
    nt_run_options options = quiet_options(NULL);
    options.schedules = only("nothing", nt_schedule_constant(1));
    nt_run *run;
    assert_fails(nt_run_new(&evaluated, &e, &options, &run), NT_INVALID, "schedules is for training");
    options.evaluate_only = true; /* the same options as in training are no mistake */
    assert_ok(nt_run_new(&evaluated, &e, &options, &run));
    assert_int_equal(run->resident.binding_count, 0);
    assert_ok(nt_validate(run, NULL));
    nt_run_free(run);
}

static void memory_may_be_short_at_every_point(void **state) {
    (void)state;
    declared = nt_schedule_linear(0, 0.5);
    Names e = Names_defaults();
    e.groups = true;
    nt_run_options options = quiet_options(NULL);
    options.max_steps = (nt_maybe_int){true, 2};
    nt_run *run = make(&e, options);
    assert_ok(nt_train(run)); /* the programs are in memory now */
    nt_run_free(run);
    nt_notice_function before = nt_set_notice(NULL, NULL);
    options.trace_transfers = true;
    size_t live = nt__memory().live, n = 1;
    for (nt_status status = NT_OUT_OF_MEMORY; status != NT_OK; n++) {
        nt__memory_fail_at(n);
        status = nt_run_new(Names_experiment(), &e, &options, &run);
        if (status == NT_OK) status = nt_train(run);
        nt__memory_fail_at(0);
        nt_run_free(run);
        if (status != NT_OK && status != NT_OUT_OF_MEMORY)
            fail_msg("allocation %zu: %s: %s", n, nt_status_name(status), nt_error_message());
        assert_true(nt__memory().live <= live);
        assert_int_equal(nt__engine_counts_now().all_buffers.live_count, 0);
    }
    assert_true(n > 100);
    nt_set_notice(before, NULL);
    declared = (nt_schedule){0};
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_find_what_they_mean),
        cmocka_unit_test(names_that_mean_nothing_are_refused),
        cmocka_unit_test(odd_lists_are_refused),
        cmocka_unit_test(the_option_replaces_the_hook),
        cmocka_unit_test(a_function_is_asked_once_a_step),
        cmocka_unit_test(steps_go_on_over_epochs),
        cmocka_unit_test(a_scheduled_field_reaches_the_program),
        cmocka_unit_test(values_must_fit_the_field),
        cmocka_unit_test(a_value_that_is_not_finite_ends_the_run),
        cmocka_unit_test(a_negative_rate_ends_the_run),
        cmocka_unit_test(past_the_horizon),
        cmocka_unit_test(training_past_the_end_is_told_once),
        cmocka_unit_test(what_the_option_drops_is_told),
        cmocka_unit_test(a_given_value_that_is_not_used_is_told),
        cmocka_unit_test(the_log_has_the_schedules),
        cmocka_unit_test(a_group_has_its_ratio_of_the_rate),
        cmocka_unit_test(the_ratio_stays_over_the_steps),
        cmocka_unit_test(a_hundred_steps_compile_nothing),
        cmocka_unit_test(without_training_there_are_no_schedules),
        cmocka_unit_test(memory_may_be_short_at_every_point),
    };
    return cmocka_run_group_tests_name("schedules", tests, NULL, shut_down);
}
