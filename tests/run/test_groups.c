/* Parameter groups: the layout that a run shows, one buffer and one update a group, and an optimizer program that does
 * not grow with the number of arrays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/run_internal.h"
#include "toy.h"

/* ---- a model of as many arrays as one likes --------------------------------------------------------------------- */

#define MANY(FIELD, DEVICE, GRAPH_CONST)                              \
    GRAPH_CONST(int, arrays, 10, "parameters, each of 2000 / arrays") \
    GRAPH_CONST(bool, wide, false, "the last parameter is f64")       \
    FIELD(int, groups, 1, "1: default; 2: every other array in odd")  \
    FIELD(bool, own_groups, false, "a group for each array")
NT_EXPERIMENT(Many, MANY)

enum { ELEMENTS = 2000 };

static nt_status build_data(const Many *e, nt_data *data) {
    (void)e;
    nt_split(data, "train", .batch = 2);
    nt_split_field(data, "train", "x", toy_points(8, false));
    return nt_data_status(data);
}

/* The sum of all parameters, times x. */
static nt_tensor forward(const Many_view *e, nt_model *m, nt_batch *batch) {
    nt_tensor sum = nt_tensor_number(0);
    for (int i = 0; i < e->arrays; i++) {
        char name[16];
        bool wide = e->wide && i == e->arrays - 1;
        snprintf(name, sizeof name, "p%d", i);
        nt_tensor x =
            nt_parameter(m, name, nt_dims(ELEMENTS / e->arrays), .init = nt_ones(), .dtype = wide ? NT_F64 : NT_F32);
        nt_tensor part = nt_convert(nt_mean(x), NT_F32);
        sum = i ? nt_add(sum, part) : part;
    }
    return nt_mul(nt_field(batch, "x"), sum);
}

static nt_tensor loss(const Many_view *e, nt_tensor outputs, nt_batch *batch) {
    (void)e;
    (void)batch;
    return nt_mean(nt_square(outputs));
}

/* The name is written into the same memory each time, as a user might. */
static const char *param_group(const Many *e, const char *path) {
    static char name[16];
    int number = atoi(path + 1);
    snprintf(name, sizeof name, "%s", e->own_groups ? path : "odd");
    return e->own_groups || (e->groups == 2 && number % 2 == 1) ? name : NULL;
}

NT_DEFINE(Many, MANY, .build_data = build_data, .forward = forward, .loss = loss, .param_group = param_group);

static nt_run *make_with(Many e, int accum) {
    nt_run *run;
    nt_run_options options = quiet_options(NULL);
    options.accum = (nt_maybe_int){true, accum};
    options.gradient_clip_norm = (nt_maybe_double){true, 1};
    assert_ok(nt_run_new(Many_experiment(), &e, &options, &run));
    return run;
}

static nt_run *make(Many e) {
    return make_with(e, 1);
}

/* ---- the layout ------------------------------------------------------------------------------------------------- */

static void assert_parameter(const nt_run *run, size_t index, const char *path, const char *group, int64_t offset,
                             int64_t length) {
    nt_parameter_info info;
    assert_true(nt_run_parameter_at(run, index, &info));
    assert_string_equal(info.path, path);
    assert_string_equal(info.group, group);
    assert_int_equal(info.offset, offset);
    assert_int_equal(info.length, length);
    assert_int_equal(info.dtype, NT_F32);
    assert_true(nt_shape_equal(info.shape, nt_dims(length)));
}

static void the_layout_can_be_read(void **state) {
    (void)state;
    Many e = Many_defaults();
    e.groups = 2;
    nt_run *run = make(e);
    assert_parameter(run, 0, "p0", "default", 0, 200);
    assert_parameter(run, 1, "p1", "odd", 0, 200);
    assert_parameter(run, 2, "p2", "default", 200, 200);
    assert_parameter(run, 3, "p3", "odd", 200, 200);
    assert_parameter(run, 9, "p9", "odd", 800, 200);
    assert_false(nt_run_parameter_at(run, 10, &(nt_parameter_info){0}));
    assert_int_equal(run->traced.layout.group_count, 2);
    assert_int_equal(run->traced.layout.groups[1].length, 1000);
    nt_run_free(run);
}

static const char *nameless(const void *e, const char *path) {
    (void)e;
    return strcmp(path, "p3") == 0 ? "" : NULL;
}

static const char *all_in_one(const void *e, const char *path) {
    (void)e;
    (void)path;
    return "body";
}

static const char *wide_apart(const void *e, const char *path) {
    (void)e;
    return strcmp(path, "p9") == 0 ? "wide" : "body";
}

static double negative(const void *e, const char *group) {
    (void)e;
    (void)group;
    return -0.5;
}

static void what_is_refused(void **state) {
    (void)state;
    nt_run *run;
    Many e = Many_defaults();
    nt_run_options options = quiet_options(NULL);
    nt_experiment changed = *Many_experiment();
    changed.hooks.param_group = nameless;
    assert_fails(nt_run_new(&changed, &e, &options, &run), NT_INVALID,
                 "the param_group hook gave an empty name for parameter 'p3'");
    e.wide = true;
    changed.hooks.param_group = all_in_one;
    assert_fails(nt_run_new(&changed, &e, &options, &run), NT_INVALID,
                 "parameter 'p9' is f64 and 'p0' is f32, and both are in group 'body'");
    assert_fails(NT_INVALID, NT_INVALID, "test_groups.c:");
    changed.hooks.rate_ratio = negative;
    changed.hooks.param_group = wide_apart;
    assert_fails(nt_run_new(&changed, &e, &options, &run), NT_INVALID,
                 "the rate_ratio hook gave -0.5 for group 'body'");
}

/* ---- the optimizer program: the seed's promise ------------------------------------------------------------------ */

/* The number of updates: each group's parameters are one subtraction. */
static char *optimizer_text(int arrays, int groups) {
    Many e = Many_defaults();
    e.arrays = arrays;
    e.groups = groups;
    nt_run *run = make(e);
    assert_int_equal(run->traced.layout.row_count, arrays);
    assert_int_equal(run->traced.layout.group_count, groups);
    char *text = nt__strdup(nt__program_text(run->traced.programs.optimizer));
    assert_non_null(text);
    nt_run_free(run);
    return text;
}

static void the_optimizer_does_not_see_the_arrays(void **state) {
    (void)state;
    char *texts[3];
    for (int groups = 1; groups <= 2; groups++) {
        texts[0] = optimizer_text(10, groups);
        texts[1] = optimizer_text(100, groups);
        texts[2] = optimizer_text(1000, groups);
        assert_string_equal(texts[0], texts[1]);
        assert_string_equal(texts[0], texts[2]);
        for (int i = 0; i < 3; i++) nt__free(texts[i]);
    }
}

static nt_rule lamb(const void *e, const char *group) {
    (void)e;
    (void)group;
    return nt_lamb();
}

/* Nor does LAMB's, which has a ratio of each array: but for the sizes of the tables that say where they lie. */
static void a_ratio_of_each_array_does_not_grow_with_them(void **state) {
    (void)state;
    size_t lengths[2];
    nt_experiment experiment = *Many_experiment();
    experiment.hooks.optimizer = lamb;
    for (int i = 0; i < 2; i++) {
        Many e = Many_defaults();
        e.arrays = i ? 1000 : 10;
        nt_run *run;
        nt_run_options options = quiet_options(NULL);
        assert_ok(nt_run_new(&experiment, &e, &options, &run));
        lengths[i] = strlen(nt__program_text(run->traced.programs.optimizer));
        assert_int_equal(run->traced.training[0].spared_count, e.arrays);
        nt_run_free(run);
    }
    assert_true(lengths[1] < lengths[0] + 200);
}

/* Its text grows with the groups, and only with them. */
static void it_grows_with_the_groups(void **state) {
    (void)state;
    size_t lengths[4];
    for (int i = 1; i <= 4; i++) {
        Many e = Many_defaults();
        e.arrays = i;
        e.own_groups = true;
        nt_run *run = make(e);
        assert_int_equal(run->traced.layout.group_count, i);
        lengths[i - 1] = strlen(nt__program_text(run->traced.programs.optimizer));
        nt_run_free(run);
    }
    assert_true(lengths[1] > lengths[0] + lengths[0] / 2);
    assert_true(lengths[3] > lengths[1] + lengths[1] / 2);
}

/* G parameters, G accumulators, G states of each kind cross the boundary. */
static size_t count_role(const nt__program *program, nt__role role) {
    size_t count, found = 0;
    const nt__argument *arguments = nt__program_arguments(program, &count);
    for (size_t i = 0; i < count; i++) found += arguments[i].role == (int)role;
    return found;
}

static void g_of_each_cross_the_boundary(void **state) {
    (void)state;
    Many e = Many_defaults();
    e.arrays = 100;
    e.groups = 2;
    nt_run *run = make_with(e, 2);
    assert_int_equal(count_role(run->traced.programs.gradient, NT__ROLE_PARAMETERS), 2);
    assert_int_equal(count_role(run->traced.programs.gradient, NT__ROLE_ACCUMULATOR), 2);
    assert_int_equal(count_role(run->traced.programs.optimizer, NT__ROLE_PARAMETERS), 2);
    assert_int_equal(count_role(run->traced.programs.optimizer, NT__ROLE_ACCUMULATOR), 2);
    assert_int_equal(count_role(run->traced.programs.optimizer, NT__ROLE_STATE), 2 * 5);
    assert_int_equal(count_role(run->traced.programs.optimizer, NT__ROLE_RATE), 2);
    nt_run_free(run);
}

/* ---- training with groups --------------------------------------------------------------------------------------- */

/* Which group a parameter is in changes where it lies and not what it becomes. */
static void groups_do_not_change_the_numbers(void **state) {
    (void)state;
    nt_array *results[2];
    for (int i = 0; i < 2; i++) {
        Many e = Many_defaults();
        e.groups = i + 1;
        nt_run *run = make(e);
        assert_ok(nt_train(run));
        results[i] = nt_run_parameter(run, "p3");
        assert_non_null(results[i]);
        nt_run_free(run);
    }
    assert_memory_equal(results[0]->data, results[1]->data, results[0]->bytes);
    assert_true(nt_array_get(results[0], 0) < 1);
    nt_array_free(results[0]);
    nt_array_free(results[1]);
}

/* A group of f64 beside one of f32, each with a rate of its own type. */
static double frozen(const void *e, const char *group) {
    (void)e;
    return strcmp(group, "body") == 0 ? 0 : 2;
}

static void a_ratio_of_0_trains_nothing(void **state) {
    (void)state;
    Many e = Many_defaults();
    e.wide = true;
    nt_experiment changed = *Many_experiment();
    changed.hooks.param_group = wide_apart;
    changed.hooks.rate_ratio = frozen;
    nt_run *run;
    nt_run_options options = quiet_options(NULL);
    options.learning_rate = (nt_maybe_double){true, 1e-3};
    assert_ok(nt_run_new(&changed, &e, &options, &run));
    assert_int_equal(run->resident.rates[0].buffer.type.dtype, NT_F32);
    assert_int_equal(run->resident.rates[1].buffer.type.dtype, NT_F64);
    assert_true(run->resident.rates[1].value == 2e-3);
    assert_ok(nt_train(run));
    nt_array *still = nt_run_parameter(run, "p0"), *moved = nt_run_parameter(run, "p9");
    for (int64_t i = 0; i < 200; i++) {
        assert_true(nt_array_get(still, i) == 1);
        assert_true(nt_array_get(moved, i) < 1);
    }
    nt_array_free(still);
    nt_array_free(moved);
    nt_run_free(run);
}

/* ---- clipping with accumulation --------------------------------------------------------------------------------- */

#define SLOPES(FIELD, DEVICE, GRAPH_CONST) FIELD(int, unused, 0, "none")
NT_EXPERIMENT(Slopes, SLOPES)

/* One row a micro-batch: the gradients are [2, 0] and [0, 2]. */
static nt_status slopes_data(const Slopes *e, nt_data *data) {
    static const float rows[] = {2, 0, 0, 2};
    (void)e;
    nt_split(data, "train", .batch = 1);
    return nt_split_field(data, "train", "x", nt_array_from(NT_F32, nt_dims(2, 2), rows));
}

static nt_tensor slopes_forward(const Slopes_view *e, nt_model *m, nt_batch *batch) {
    (void)e;
    nt_tensor x = nt_field(batch, "x");
    nt_tensor a = nt_mul(nt_slice(x, nt_dims(0, 0), nt_dims(1, 1)), nt_reshape(nt_parameter(m, "a", nt_dims(1)), 1, 1));
    return nt_add(
        a, nt_mul(nt_slice(x, nt_dims(0, 1), nt_dims(1, 2)), nt_reshape(nt_parameter(m, "b", nt_dims(1)), 1, 1)));
}

static nt_tensor slopes_loss(const Slopes_view *e, nt_tensor outputs, nt_batch *batch) {
    (void)e;
    (void)batch;
    return nt_mean(outputs);
}

static nt_rule slopes_rule(const Slopes *e, const char *group) {
    (void)group;
    (void)e;
    return nt_sgd();
}

/* Each parameter is a group of its own. */
static const char *slopes_group(const Slopes *e, const char *path) {
    (void)e;
    return path;
}

NT_DEFINE(Slopes, SLOPES, .build_data = slopes_data, .forward = slopes_forward, .loss = slopes_loss,
          .optimizer = slopes_rule, .param_group = slopes_group);

/* The mean gradient [1, 1] is clipped to norm 1 over both groups; micro-batch by micro-batch it would be [0.5, 0.5]. */
static void the_mean_is_clipped_over_all_groups(void **state) {
    (void)state;
    nt_run *run;
    nt_run_options options = quiet_options(NULL);
    options.accum = (nt_maybe_int){true, 2};
    options.gradient_clip_norm = (nt_maybe_double){true, 1};
    options.learning_rate = (nt_maybe_double){true, 1};
    assert_ok(nt_run_new(Slopes_experiment(), NULL, &options, &run));
    assert_int_equal(run->traced.layout.group_count, 2);
    assert_ok(nt_train(run));
    static const char *const paths[] = {"a", "b"};
    for (int i = 0; i < 2; i++) {
        nt_array *value = nt_run_parameter(run, paths[i]);
        assert_true(fabs(nt_array_get(value, 0) + sqrt(0.5)) < 1e-6);
        nt_array_free(value);
    }
    nt_run_free(run);
}

/* Saving and loading go by path: the file of one grouping fits another. */
static void a_file_fits_any_grouping(void **state) {
    (void)state;
    Many e = Many_defaults();
    nt_run *run = make(e);
    assert_ok(nt_train(run));
    assert_ok(nt_run_save(run, scratch("many.safetensors")));
    nt_array *saved = nt_run_parameter(run, "p7");
    nt_run_free(run);
    e.groups = 2;
    run = make(e);
    assert_ok(nt_run_load(run, scratch("many.safetensors")));
    nt_array *loaded = nt_run_parameter(run, "p7");
    assert_memory_equal(saved->data, loaded->data, saved->bytes);
    nt_array_free(saved);
    nt_array_free(loaded);
    nt_run_free(run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_layout_can_be_read),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(the_optimizer_does_not_see_the_arrays),
        cmocka_unit_test(a_ratio_of_each_array_does_not_grow_with_them),
        cmocka_unit_test(it_grows_with_the_groups),
        cmocka_unit_test(g_of_each_cross_the_boundary),
        cmocka_unit_test(groups_do_not_change_the_numbers),
        cmocka_unit_test(a_ratio_of_0_trains_nothing),
        cmocka_unit_test(the_mean_is_clipped_over_all_groups),
        cmocka_unit_test_setup_teardown(a_file_fits_any_grouping, scratch_make, scratch_remove),
    };
    return cmocka_run_group_tests_name("groups", tests, NULL, shut_down);
}
