/* What losses and layers need the numbers that they are given to be: fields of all splits, of sources and predictions,
 * Device fields, schedules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "toy.h"

enum { ROWS = 8, CLASSES = 3 };

/* What is given to the loss. */
typedef enum kind { SOFT, KL, BINARY, HINGE, SMOOTHED, WEIGHTED, TEMPERATURE, DROPPED, BERNOULLI, COUNTED } kind;
/* How the targets get there. */
typedef enum way { DIRECT, SCALED, CUT } way;

#define GIVEN(FIELD, DEVICE, GRAPH_CONST)                                          \
    GRAPH_CONST(int, kind, SOFT, "what is given to the loss")                      \
    GRAPH_CONST(int, way, DIRECT, "how the targets get there")                     \
    DEVICE(float, s, 0.5f, "a number")                                             \
    DEVICE(nt_array *, w, NULL, "weights of the classes")                          \
    FIELD(int, split, 0, "the targets are wrong in train, val or test: 0, 1 or 2") \
    FIELD(int, row, 5, "in this row")                                              \
    FIELD(double, value, 0, "which has this number; 0: none has")                  \
    FIELD(double, other, 0, "of the other classes of each row")                    \
    FIELD(double, derived, 0, "what derive sets s to; 0: nothing")                 \
    FIELD(bool, reads, false, "the data come from a source")                       \
    FIELD(bool, bytes, false, "targets are u8")
NT_EXPERIMENT(Given, GIVEN)

static nt_array *targets(const Given *e, int split) {
    nt_array *y = nt_array_new(e->bytes ? NT_U8 : NT_F32, nt_dims(ROWS, CLASSES));
    for (int i = 0; i < ROWS * CLASSES; i++) nt_array_set(y, i, i % CLASSES == i / CLASSES % CLASSES ? 1 : e->other);
    if (e->value != 0 && split == e->split) nt_array_set(y, e->row * CLASSES + 1, e->value);
    return y;
}

static nt_array *points(void) {
    nt_array *x = nt_array_new(NT_F32, nt_dims(ROWS, CLASSES));
    for (int i = 0; i < ROWS * CLASSES; i++) nt_array_set(x, i, (i * 5 % 7) / 7.0);
    return x;
}

typedef struct rows {
    nt_array *x, *y;
} rows;

static nt_status read_rows(void *context, nt_request *request) {
    const rows *all = context;
    const nt_array *whole[] = {all->x, all->y};
    for (int f = 0; f < 2; f++) {
        size_t bytes = whole[f]->bytes / ROWS;
        for (int64_t i = 0; i < request->count; i++)
            memcpy((char *)request->fields[f]->data + (size_t)i * bytes,
                   (const char *)whole[f]->data + (size_t)request->rows[i] * bytes, bytes);
    }
    return NT_OK;
}

static void close_rows(void *context) {
    rows *all = context;
    nt_array_free(all->x);
    nt_array_free(all->y);
    free(all);
}

static void add_source(const Given *e, nt_data *data, const char *name, int split) {
    static const nt_source_field fields[] = {{"x", NT_F32, {1, {CLASSES}}}, {"y", NT_F32, {1, {CLASSES}}}};
    rows *all = malloc(sizeof *all);
    *all = (rows){points(), targets(e, split)};
    nt_split_source(data, name,
                    (nt_source){.name = "given",
                                .context = all,
                                .rows = ROWS,
                                .fields = fields,
                                .field_count = 2,
                                .read = read_rows,
                                .close = close_rows});
}

static nt_status build_data(const Given *e, nt_data *data) {
    static const char *const names[] = {"train", "val", "test"};
    for (int i = 0; i < 3; i++) {
        nt_split(data, names[i], .batch = 4);
        if (e->reads) {
            add_source(e, data, names[i], i);
            continue;
        }
        nt_split_field(data, names[i], "x", points());
        nt_split_field(data, names[i], "y", targets(e, i));
    }
    return nt_data_status(data);
}

static nt_status derive(Given *e, const nt_data *data) {
    (void)data;
    if (e->derived != 0) e->s = (float)e->derived;
    return NT_OK;
}

static nt_tensor forward(const Given_view *e, nt_model *m, nt_batch *b) {
    nt_tensor x = nt_dense(m, "o", nt_field(b, "x"), CLASSES);
    if (e->kind == DROPPED) x = nt_dropout(m, "drop", x, e->s);
    if (e->kind == BERNOULLI)
        x = nt_where(nt_random_bernoulli(nt_random_key(m, "coin"), e->s, nt_shape_of(x)), x, nt_neg(x));
    return x;
}

static nt_tensor loss(const Given_view *e, nt_tensor z, nt_batch *b) {
    nt_tensor y = nt_convert(nt_reshape(nt_field(b, "y"), -1, CLASSES), NT_F32);
    if (e->way == SCALED) y = nt_div(y, 255);
    if (e->way == CUT) y = nt_clamp(y, 0, 1);
    nt_tensor labels = nt_argmax(y, -1);
    switch ((kind)e->kind) {
    case SOFT: return nt_cross_entropy(z, y);
    case KL: return nt_kl_divergence(nt_log_softmax(z), y);
    case BINARY: return nt_binary_cross_entropy(z, y);
    case HINGE: return nt_hinge(z, y);
    case SMOOTHED:
        return nt_cross_entropy(
            z, labels, .label_smoothing = nt_stop_gradient(nt_reshape_at(nt_reshape(e->s, 1), (nt_shape){0}, NT_SITE)));
    case WEIGHTED: return nt_cross_entropy(z, labels, .class_weights = e->w);
    case TEMPERATURE: return nt_info_nce(z, y, e->s);
    case COUNTED: return nt_weighted_loss(nt_sum(nt_square(nt_sub(z, y))), e->s);
    default: return nt_mse(z, y);
    }
}

static nt_schedule declared; /* of s; no kind: none */

static void schedules(const Given *e, nt_schedules *out) {
    (void)e;
    if (declared.kind) nt_schedule_set(out, "s", declared);
}

static nt_rule optimizer(const Given *e, const char *group) {
    (void)e;
    (void)group;
    return nt_momentum();
}

NT_DEFINE(Given, GIVEN, .build_data = build_data, .derive = derive, .forward = forward, .loss = loss,
          .schedules = schedules, .optimizer = optimizer);

static nt_run_options options(void) {
    nt_run_options o = quiet_options(NULL);
    o.max_epochs = (nt_maybe_int){true, 2};
    return o;
}

static nt_run *make(const Given *e) {
    nt_run_options o = options();
    nt_run *run;
    assert_ok(nt_run_new(Given_experiment(), e, &o, &run));
    return run;
}

static void refuse_at(Given e, nt_run_options o, const char *part, int line) {
    nt_run *run = NULL;
    assert_fails_at(nt_run_new(Given_experiment(), &e, &o, &run), NT_INVALID, part, line);
    assert_null(run);
}
#define refuse(e, part) refuse_at((e), options(), (part), __LINE__)

/* ---- fields of the batch ---------------------------------------------------------------------------------------- */

static Given given(kind what, double value, double other) {
    Given e = Given_defaults();
    e.kind = what;
    e.value = value;
    e.other = other;
    return e;
}

static void targets_of_all_splits_are_checked(void **state) {
    (void)state;
    static const char *const names[] = {"train", "val", "test"};
    static const struct {
        kind what;
        double value, other;
        const char *wrong;
    } cases[] = {
        {BINARY, 255, 0, "255 is not in 0..1; correct the data; targets that are missing"},
        {BINARY, -0.5, 0, "-0.5 is not in 0..1"},
        {BINARY, NAN, 0, "nan is not in 0..1"},
        {SOFT, -1, 0, "-1 is not in 0..1"},
        {SOFT, 0.25, 0, "its 3 probabilities sum to 1.25 and not to 1 (within 0.01)"},
        {KL, 1.5, 0, "1.5 is not in 0..1"},
        {KL, 0.5, 0, "its 3 probabilities sum to 1.5 and not to 1 (within 0.01)"},
        {HINGE, 0.5, -1, "0.5 is not -1 or 1; correct the data; nt_sub(nt_mul(y, 2), 1) makes -1 and 1 of 0 and 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int split = 0; split < 3; split++) {
            Given e = given(cases[i].what, cases[i].value, cases[i].other);
            char wanted[256];
            e.split = split;
            snprintf(wanted, sizeof wanted, " in loss: split '%s', field 'y', row 5: %s", names[split], cases[i].wrong);
            refuse(e, wanted);
            assert_non_null(strstr(nt_error_message(), "test_ranges.c:"));
            nt_run_options o = options();
            o.evaluate_only = true;
            refuse_at(e, o, wanted, __LINE__);
        }
}

static void targets_of_another_type_are_checked(void **state) {
    (void)state;
    Given e = given(BINARY, 255, 0);
    e.bytes = true;
    refuse(e, "split 'train', field 'y', row 5: 255 is not in 0..1");
    e = given(HINGE, 0, 0);
    refuse(e, "split 'train', field 'y', row 0: 0 is not -1 or 1");
}

static nt_tensor train_step(const void *view, nt_model *m, nt_batch *b, nt_optimizers *optimizers,
                            nt_device_metrics *metrics) {
    (void)metrics;
    nt_tensor made = loss(view, forward(view, m, b), b);
    nt_step(optimizers, nt_parameter_grads(m, made, ""));
    return made;
}

static void a_manual_step_is_checked_too(void **state) {
    (void)state;
    nt_experiment manual = *Given_experiment();
    manual.hooks =
        (nt_hooks){.build_data = manual.hooks.build_data, .forward = manual.hooks.forward, .train_step = train_step};
    const Given cases[] = {given(BINARY, 255, 0), {.kind = SMOOTHED, .s = 1.5f}};
    static const char *const wrong[] = {"split 'train', field 'y', row 5: 255 is not in 0..1",
                                        "Device field 's': 1.5 is not in 0 <= x < 1"};
    for (int i = 0; i < 2; i++) {
        nt_run_options o = options();
        nt_run *run = NULL;
        assert_fails(nt_run_new(&manual, &cases[i], &o, &run), NT_INVALID, wrong[i]);
        assert_null(run);
    }
}

/* Right ones train, and what is computed is not looked at. */
static void right_targets_train(void **state) {
    (void)state;
    static const struct {
        kind what;
        way by;
        double value, other;
    } cases[] = {
        {SOFT, DIRECT, 0, 0.004}, {KL, DIRECT, 0, 0},       {BINARY, DIRECT, 0.3, 0.2},
        {HINGE, DIRECT, 0, -1},   {BINARY, SCALED, 255, 0}, {BINARY, CUT, 7, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Given e = given(cases[i].what, cases[i].value, cases[i].other);
        e.way = cases[i].by;
        nt_run *run = make(&e);
        assert_ok(nt_train(run));
        nt_run_free(run);
    }
}

static void what_a_source_reads_is_checked_batch_by_batch(void **state) {
    (void)state;
    Given e = given(BINARY, 255, 0);
    e.reads = true;
    nt_run *run = make(&e);
    assert_fails(nt_train(run), NT_INVALID, "source 'given': field 'y', row 5: 255 is not in 0..1; correct the data");
    assert_non_null(strstr(nt_error_message(), "split 'train', batch 2 of 2"));
    nt_run_free(run);
    e.split = 2;
    run = make(&e);
    assert_ok(nt_train(run));
    assert_fails(nt_evaluate(run, "test", NULL), NT_INVALID, "field 'y', row 5: 255 is not in 0..1");
    nt_run_free(run);
}

/* ---- Device fields ---------------------------------------------------------------------------------------------- */

static const struct range {
    kind what;
    double right, wrong, wrong_too;
    const char *is; /* what a wrong one is not */
} device_ranges[] = {
    {SMOOTHED, 0, 1, -0.5, "in 0 <= x < 1"},           {TEMPERATURE, 0.25, 0, -1, "a finite number above 0"},
    {DROPPED, 0.75, 1, -0.25, "in 0 <= x < 1"},        {BERNOULLI, 1, 1.5, -0.5, "in 0..1"},
    {COUNTED, 2, -1, -2, "a finite number from 0 on"},
};
enum { RANGES = sizeof device_ranges / sizeof *device_ranges };

static const char *wrong_s(const struct range *r, double value) {
    static char text[128];
    snprintf(text, sizeof text, ": Device field 's': %g is not %s", value, r->is);
    return text;
}

static void device_fields_are_checked_when_a_run_is_made(void **state) {
    (void)state;
    for (const struct range *r = device_ranges; r < device_ranges + RANGES; r++) {
        Given e = given(r->what, 0, 0);
        for (int i = 0; i < 3; i++) {
            double value = i == 0 ? r->wrong : i == 1 ? r->wrong_too : NAN;
            e.s = (float)value;
            refuse(e, wrong_s(r, value));
            assert_non_null(strstr(nt_error_message(), "test_ranges.c:"));
        }
        e.s = (float)r->right;
        e.derived = r->wrong_too;
        refuse(e, wrong_s(r, r->wrong_too));
    }
}

static void device_fields_are_checked_when_they_are_set(void **state) {
    (void)state;
    for (const struct range *r = device_ranges; r < device_ranges + RANGES; r++) {
        Given e = given(r->what, 0, 0);
        nt_run *run = make(&e);
        assert_fails(nt_set_device(run, "s", r->wrong), NT_INVALID, wrong_s(r, r->wrong));
        assert_fails(nt_set_device(run, "s", NAN), NT_INVALID, wrong_s(r, NAN));
        nt_array *is = nt_get_device(run, "s");
        assert_true(nt_array_get(is, 0) == 0.5);
        nt_array_set(is, 0, r->wrong_too);
        assert_fails(nt_set_device(run, "s", is), NT_INVALID, wrong_s(r, r->wrong_too));
        nt_array_free(is);
        assert_ok(nt_set_device(run, "s", r->right));
        nt_run_free(run);
    }
}

static nt_array *weights(double last) {
    nt_array *w = nt_array_new(NT_F32, nt_dims(CLASSES));
    for (int i = 0; i < CLASSES; i++) nt_array_set(w, i, i == CLASSES - 1 ? last : i);
    return w;
}

static void arrays_of_device_fields_are_checked(void **state) {
    (void)state;
    Given e = given(WEIGHTED, 0, 0);
    nt_array *wrong = weights(-1), *right = weights(0);
    e.w = wrong;
    refuse(e, " in loss: Device field 'w', element 2: -1 is not a finite number from 0 on");
    e.w = right;
    nt_run *run = make(&e);
    assert_fails(nt_set_device(run, "w", wrong), NT_INVALID,
                 "Device field 'w', element 2: -1 is not a finite number from 0 on");
    assert_ok(nt_set_device(run, "w", right));
    nt_run_free(run);
    nt_array_free(wrong);
    nt_array_free(right);
}

/* ---- schedules -------------------------------------------------------------------------------------------------- */

static double late(int64_t step, int64_t total, void *context) {
    (void)context;
    return step == total ? 1.5 : 0.5;
}

/* Before anything is compiled where the values can be known, else at their step. */
static void schedules_of_device_fields_are_checked(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "gave 1.5 for step 1 of 4: ", "gave 1 for step 4 of 4: ", "gave 2 for step 3 of 4: "};
    const nt_schedule made[] = {nt_schedule_constant(1.5), nt_schedule_linear(0, 1, .steps = 3),
                                nt_schedule_piecewise(0.5, {2, 2.0}, {3, 0.5})};
    Given e = given(SMOOTHED, 0, 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        declared = made[i];
        refuse(e, wrong[i]);
        assert_non_null(strstr(nt_error_message(), "schedule 's' of the schedules hook"));
        assert_non_null(strstr(nt_error_message(), "Device field 's'"));
    }
    declared = nt_schedule_linear(0.5, 0);
    nt_run *run = make(&e);
    assert_ok(nt_train(run));
    nt_run_free(run);
    declared = nt_schedule_of(late, NULL);
    run = make(&e);
    assert_fails(nt_train(run), NT_INVALID, "Device field 's': 1.5 is not in 0 <= x < 1");
    assert_non_null(strstr(nt_error_message(), "step 4 of epoch 2"));
    nt_run_free(run);
    declared = (nt_schedule){0};
}

static void scheduled_numbers_of_rules_are_checked(void **state) {
    (void)state;
    Given e = given(BINARY, 0, 0);
    static const struct {
        const char *name;
        double last;
        const char *wrong;
    } cases[] = {
        {"opt.learning_rate", -1, "a learning rate must not be negative"},
        {"opt.rho", 1.5, "rho must be between 0 and 1"},
        {"opt.default.rho", -0.5, "rho must be between 0 and 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        nt_run_options o = options();
        nt_named_schedule list[] = {{cases[i].name, nt_schedule_linear(0.5, cases[i].last, .steps = 3)}, {0}};
        o.schedules = list;
        refuse_at(e, o, cases[i].wrong, __LINE__);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_of_all_splits_are_checked),
        cmocka_unit_test(targets_of_another_type_are_checked),
        cmocka_unit_test(a_manual_step_is_checked_too),
        cmocka_unit_test(right_targets_train),
        cmocka_unit_test(what_a_source_reads_is_checked_batch_by_batch),
        cmocka_unit_test(device_fields_are_checked_when_a_run_is_made),
        cmocka_unit_test(device_fields_are_checked_when_they_are_set),
        cmocka_unit_test(arrays_of_device_fields_are_checked),
        cmocka_unit_test(schedules_of_device_fields_are_checked),
        cmocka_unit_test(scheduled_numbers_of_rules_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, shut_down);
}
