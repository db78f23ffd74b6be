/* How a group is trained: a rule of its own, decay and what it spares and leads to, freezing, inputs under schedules.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/run_internal.h"
#include "toy.h"

/* Two matrices and a bias. The loss does not move them (its gradient is 0 times them), so that what moves is decay. */
#define STILL(FIELD, DEVICE, GRAPH_CONST)                         \
    FIELD(double, body, 0.0, "weight_decay of the group body")    \
    FIELD(double, head, 0.0, "weight_decay of the group head")    \
    FIELD(int, anchor, 0, "kind of the anchor of the group body") \
    FIELD(const char *, spared, "", "path that does not decay")   \
    FIELD(bool, freeze, false, "the group head is not trained")   \
    FIELD(double, rho, 0.0, "momentum of the group body; 0: SGD") \
    FIELD(nt_array *, values, NULL, "anchor of the group body")
NT_EXPERIMENT(Still, STILL)

static nt_status still_data(const Still *e, nt_data *data) {
    (void)e;
    nt_split(data, "train", .batch = 4);
    nt_split_field(data, "train", "x", toy_points(8, false));
    return nt_data_status(data);
}

static nt_tensor still_forward(const Still_view *e, nt_model *m, nt_batch *batch) {
    (void)e;
    nt_tensor body = nt_parameter(m, "body_w", nt_dims(2, 3), .init = nt_ones());
    nt_tensor bias = nt_parameter(m, "body_b", nt_dims(3), .init = nt_ones());
    nt_tensor head = nt_parameter(m, "head_w", nt_dims(3, 1), .init = nt_ones());
    nt_tensor sum = nt_add(nt_add(nt_sum(body), nt_sum(bias)), nt_sum(head));
    return nt_mul(nt_field(batch, "x"), nt_mul(sum, 0));
}

static nt_tensor still_loss(const Still_view *e, nt_tensor outputs, nt_batch *batch) {
    (void)e;
    (void)batch;
    return nt_mean(outputs);
}

static const char *still_group(const Still *e, const char *path) {
    (void)e;
    return strncmp(path, "head", 4) == 0 ? "head" : "body";
}

static nt_rule still_rule(const Still *e, const char *group) {
    bool head = strcmp(group, "head") == 0;
    if (head && e->freeze) return nt_frozen();
    return !head && e->rho != 0 ? nt_momentum(.rho = e->rho) : nt_sgd();
}

static double still_decay(const Still *e, const char *group) {
    return strcmp(group, "head") == 0 ? e->head : e->body;
}

static nt_anchor still_anchor(const Still *e, const char *group) {
    if (strcmp(group, "head") == 0) return nt_anchor_zero();
    return (nt_anchor){(nt_anchor_kind)e->anchor, e->values};
}

NT_DEFINE(Still, STILL, .build_data = still_data, .forward = still_forward, .loss = still_loss,
          .param_group = still_group, .optimizer = still_rule, .weight_decay = still_decay,
          .decay_anchor = still_anchor);

static bool only_named(const void *e, const char *path, nt_shape shape) {
    const char *spared = ((const Still *)e)->spared;
    assert_true(shape.rank >= 1);
    return strcmp(path, spared) == 0;
}

static bool sets_rate(const nt_named_schedule *schedules) {
    while (schedules && schedules->name && strcmp(schedules->name, "learning_rate") != 0) schedules++;
    return schedules && schedules->name;
}

static nt_run *make_of(const nt_experiment *experiment, const Still *e, const nt_named_schedule *schedules) {
    nt_run *run;
    nt_run_options options = quiet_options(NULL);
    options.learning_rate = (nt_maybe_double){!sets_rate(schedules), 0.5};
    options.max_epochs = (nt_maybe_int){true, 1}; /* two steps */
    options.schedules = schedules;
    assert_ok(nt_run_new(experiment, e, &options, &run));
    return run;
}

static double value_of(nt_run *run, const char *path) {
    nt_array *array = nt_run_parameter(run, path);
    assert_non_null(array);
    double value = nt_array_get(array, 0);
    nt_array_free(array);
    return value;
}

static void assert_near(double got, double expected) {
    if (fabs(got - expected) > 1e-6) fail_msg("%.9g, expected %.9g", got, expected);
}

static void trains_to(nt_run *run, double body, double bias, double head) {
    assert_ok(nt_train(run));
    assert_int_equal(nt_run_step(run), 2);
    assert_near(value_of(run, "body_w"), body);
    assert_near(value_of(run, "body_b"), bias);
    assert_near(value_of(run, "head_w"), head);
    nt_run_free(run);
}

/* ---- decay ------------------------------------------------------------------------------------------------------ */

/* X (1 - 0.5 * 0.4) twice; the bias has one axis. */
static void each_group_decays_by_its_own_number(void **state) {
    (void)state;
    Still e = Still_defaults();
    e.body = 0.4;
    trains_to(make_of(Still_experiment(), &e, NULL), 0.64, 1, 1);
    e.head = 0.2;
    trains_to(make_of(Still_experiment(), &e, NULL), 0.64, 1, 0.81);
}

static void the_no_decay_hook_spares_by_path_l49(void **state) {
    (void)state;
    nt_experiment changed = *Still_experiment();
    changed.hooks.no_decay = only_named;
    Still e = Still_defaults();
    e.body = 0.4;
    trains_to(make_of(&changed, &e, NULL), 0.64, 0.64, 1);
    e.spared = "body_w";
    trains_to(make_of(&changed, &e, NULL), 1, 0.64, 1);
}

/* To the initial weights, which are ones: nothing moves; to 3: away from 1 by half of 0.4 * 2. What is spared
 * does not go to the anchor either. */
static void decay_leads_to_its_anchor(void **state) {
    (void)state;
    Still e = Still_defaults();
    e.body = 0.4;
    e.anchor = NT_ANCHOR_INITIAL;
    trains_to(make_of(Still_experiment(), &e, NULL), 1, 1, 1);
    e.anchor = NT_ANCHOR_ARRAY;
    e.values = nt_array_new(NT_F32, nt_dims(9));
    for (int i = 0; i < 9; i++) nt_array_set(e.values, i, 3);
    trains_to(make_of(Still_experiment(), &e, NULL), 1.72, 1, 1);
    nt_array_free(e.values);
}

/* Another coefficient is the same program; there is none without decay. */
static void the_number_is_not_in_the_text(void **state) {
    (void)state;
    Still e = Still_defaults();
    e.body = 0.4;
    nt_run *first = make_of(Still_experiment(), &e, NULL);
    e.body = 0.3;
    nt_run *second = make_of(Still_experiment(), &e, NULL);
    e.body = 0;
    nt_run *without = make_of(Still_experiment(), &e, NULL);
    assert_string_equal(nt__program_text(first->traced.programs.optimizer),
                        nt__program_text(second->traced.programs.optimizer));
    assert_string_not_equal(nt__program_text(first->traced.programs.optimizer),
                            nt__program_text(without->traced.programs.optimizer));
    nt_run_free(first);
    nt_run_free(second);
    nt_run_free(without);
}

/* ---- freezing --------------------------------------------------------------------------------------------------- */

/* No gradient, no accumulator, no state; not even decay. */
static void a_frozen_group_has_nothing(void **state) {
    (void)state;
    Still e = Still_defaults();
    e.body = e.head = 0.4;
    e.freeze = true;
    nt_run *run = make_of(Still_experiment(), &e, NULL);
    size_t count, accumulators = 0;
    const nt__argument *arguments = nt__program_arguments(run->traced.programs.optimizer, &count);
    for (size_t i = 0; i < count; i++) accumulators += arguments[i].role == NT__ROLE_ACCUMULATOR;
    assert_int_equal(accumulators, 1);
    assert_int_equal(run->resident.device.accumulators[1].state == NT__BUFFER_ALIVE, false);
    trains_to(run, 0.64, 1, 1);
}

static nt_rule all_frozen(const void *e, const char *group) {
    (void)e;
    (void)group;
    return nt_frozen();
}

static nt_rule decays_itself(const void *e, const char *group) {
    (void)e;
    (void)group;
    return nt_adamw(.weight_decay = 0.1);
}

static double negative_decay(const void *e, const char *group) {
    (void)e;
    (void)group;
    return -1;
}

static void what_is_refused(void **state) {
    (void)state;
    nt_run *run;
    nt_run_options options = quiet_options(NULL);
    nt_experiment changed = *Still_experiment();
    Still e = Still_defaults();
    e.body = 0.4;
    changed.hooks.optimizer = all_frozen;
    assert_fails(nt_run_new(&changed, &e, &options, &run), NT_INVALID,
                 "the optimizer hook of Still freezes all groups");
    changed.hooks.optimizer = decays_itself;
    assert_fails(nt_run_new(&changed, &e, &options, &run), NT_INVALID,
                 "group 'body' would decay twice: rule AdamW has a weight_decay of its own, and the weight_decay hook "
                 "gave 0.4. Let the hook give 0, or take a rule without: nt_adam() with the hook is AdamW");
    changed = *Still_experiment();
    changed.hooks.weight_decay = negative_decay;
    assert_fails(nt_run_new(&changed, &e, &options, &run), NT_INVALID,
                 "the weight_decay hook gave -1 for group 'body'; give 0 or more");
    e.anchor = NT_ANCHOR_ARRAY;
    assert_fails(nt_run_new(Still_experiment(), &e, &options, &run), NT_INVALID,
                 "the decay_anchor hook gave no array (NULL) for group 'body'");
    e.values = nt_array_new(NT_F32, nt_dims(8));
    assert_fails(nt_run_new(Still_experiment(), &e, &options, &run), NT_INVALID,
                 "the decay_anchor hook gave f32[8] for group 'body'; it must be f32[9]");
    nt_array_free(e.values);
}

/* ---- schedules of inputs ---------------------------------------------------------------------------------------- */

/* Absolute, for the groups that have it: x (1 - 0.5 * 1) twice. */
static void an_input_can_be_scheduled(void **state) {
    (void)state;
    Still e = Still_defaults();
    e.body = 0.4;
    const nt_named_schedule schedules[] = {{"opt.weight_decay", nt_schedule_constant(1)}, {0}};
    trains_to(make_of(Still_experiment(), &e, schedules), 0.25, 1, 1);
    e.head = 0.4;
    const nt_named_schedule own[] = {{"opt.head.weight_decay", nt_schedule_constant(1)}, {0}};
    trains_to(make_of(Still_experiment(), &e, own), 0.64, 1, 0.25);
}

static void refuse_schedule(const Still *e, const char *name, const char *message) {
    nt_run *run;
    nt_run_options options = quiet_options(NULL);
    const nt_named_schedule schedules[] = {{name, nt_schedule_constant(0.5)}, {0}};
    options.schedules = schedules;
    assert_fails(nt_run_new(Still_experiment(), e, &options, &run), NT_INVALID, message);
}

static void schedules_that_are_not_meant(void **state) {
    (void)state;
    Still e = Still_defaults();
    refuse_schedule(&e, "opt.weight_decay", "the optimizer has no scalar 'weight_decay'");
    e.rho = 0.9;
    e.body = 0.4;
    refuse_schedule(&e, "opt.head.rho", "the optimizer has no scalar 'rho'; scalars of group 'head': learning_rate");
    e.head = 0.2;
    refuse_schedule(&e, "opt.weight_decay", "would replace weight_decay 0.4 of group 'body' and 0.2 of group 'head'");
    e.freeze = true;
    refuse_schedule(&e, "opt.head.learning_rate", "scalars of group 'head': none, it is frozen");
}

/* ---- the binding report ----------------------------------------------------------------------------------------- */

/* Its section on the groups is the last one. */
static void assert_groups_section(const nt_experiment *experiment, const Still *e, const nt_named_schedule *schedules,
                                  const char *wanted) {
    nt_run *run = make_of(experiment, e, schedules);
    nt__text text = {0};
    nt__report_add(&run->resident, &text);
    assert_false(text.failed);
    const char *section = strstr(text.data, "parameter groups");
    assert_non_null(section);
    assert_string_equal(section, wanted);
    nt__text_free(&text);
    nt_run_free(run);
}

static double half_of_head(const void *e, const char *group) {
    (void)e;
    return strcmp(group, "head") == 0 ? 0.5 : 1;
}

static double third(const void *e, const char *group) {
    (void)e;
    return strcmp(group, "head") == 0 ? 1.0 / 3 : 1;
}

/* Each number with where it is from, and what decays by name. */
static void the_report_says_where_each_number_is_from_s83(void **state) {
    (void)state;
    Still e = Still_defaults();
    e.rho = 0.9;
    e.body = 0.4;
    nt_experiment changed = *Still_experiment();
    changed.hooks.decay_anchor = NULL;
    assert_groups_section(&changed, &e, NULL,
                          "parameter groups (G = 2)\n"
                          "  body: rate 0.5, ratio 1.00, rule Momentum, Decay, 9 parameters\n"
                          "    rho 0.9 [optimizer hook]\n"
                          "    weight_decay 0.4 [weight_decay hook]\n"
                          "    decays to zero [default]\n"
                          "    no decay of 1 of 2 arrays: body_b [default]\n"
                          "  head: rate 0.5, ratio 1.00, rule SGD, 3 parameters\n");
    changed = *Still_experiment();
    changed.hooks.no_decay = only_named;
    changed.hooks.rate_ratio = third;
    e.anchor = NT_ANCHOR_INITIAL;
    const nt_named_schedule schedules[] = {{"opt.weight_decay", nt_schedule_constant(1)},
                                           {"opt.rho", nt_schedule_constant(0.5)},
                                           {"learning_rate", nt_schedule_constant(0.5)},
                                           {0}};
    assert_groups_section(&changed, &e, schedules,
                          "parameter groups (G = 2)\n"
                          "  body: rate by schedule 'learning_rate', ratio 1.00, rule Momentum, Decay, 9 parameters\n"
                          "    rate ratio 1 [rate_ratio hook]\n"
                          "    rho by schedule 'opt.rho' [option]\n"
                          "    weight_decay by schedule 'opt.weight_decay' [option]\n"
                          "    decays to the initial values [decay_anchor hook]\n"
                          "    no decay of 0 of 2 arrays [no_decay hook]\n"
                          "  head: rate by schedule 'learning_rate', ratio 0.33, rule SGD, 3 parameters\n"
                          "    rate ratio 0.333 [rate_ratio hook]\n"
                          "    schedule 'opt.weight_decay' sets nothing here: the rule has no weight_decay\n"
                          "    schedule 'opt.rho' sets nothing here: the rule has no rho\n");
    e.freeze = true;
    e.rho = e.body = 0;
    assert_groups_section(Still_experiment(), &e, NULL,
                          "parameter groups (G = 2)\n"
                          "  body: rate 0.5, ratio 1.00, rule SGD, 9 parameters\n"
                          "  head: frozen, 3 parameters\n");
}

/* ---- what the setup says ---------------------------------------------------------------------------------------- */

static nt_rule own_decay(const void *e, const char *group) {
    (void)e;
    return strcmp(group, "head") == 0 ? nt_adamw(.weight_decay = 0.1) : nt_lamb(.weight_decay = 0.1);
}

static char said[1024];
static void keep_notice(const char *text, void *context) {
    (void)context;
    snprintf(said, sizeof said, "%s", text);
}

static void keep_setup(const nt_event *event, void *context) {
    (void)context;
    if (event->kind == NT_EVENT_SETUP) snprintf(said, sizeof said, "%s", event->text);
}

/* Makes a run; what is kept of it is in `said`. */
static void listen_to(const nt_experiment *experiment, const Still *e, const nt_named_schedule *schedules,
                      nt_run_options options) {
    nt_run *run;
    said[0] = 0;
    options.schedules = schedules;
    nt_notice_function before = nt_set_notice(keep_notice, NULL);
    assert_ok(nt_run_new(experiment, e, &options, &run));
    nt_set_notice(before, NULL);
    nt_run_free(run);
}

/* LAMB asks which parameters decay, AdamW does not. */
static void a_no_decay_hook_that_is_not_heard_is_told(void **state) {
    (void)state;
    Still e = Still_defaults();
    nt_experiment changed = *Still_experiment();
    changed.hooks.weight_decay = NULL;
    changed.hooks.decay_anchor = NULL;
    changed.hooks.optimizer = own_decay;
    changed.hooks.no_decay = only_named;
    listen_to(&changed, &e, NULL, (nt_run_options){.no_log = true});
    assert_string_equal(said,
                        "Still: the no_decay hook spares nothing in group 'head': the weight_decay of AdamW is for "
                        "every parameter. The weight_decay hook with nt_adam(), which is AdamW, heeds it");
    changed.hooks.no_decay = NULL;
    listen_to(&changed, &e, NULL, (nt_run_options){.no_log = true});
    assert_string_equal(said, "");
}

static void assert_setup(const nt_experiment *experiment, const Still *e, const nt_named_schedule *schedules,
                         const char *part) {
    nt_run_options options = quiet_options(NULL);
    options.learning_rate = (nt_maybe_double){!sets_rate(schedules), 0.5};
    options.on_event = keep_setup;
    listen_to(experiment, e, schedules, options);
    if (!strstr(said, part)) fail_msg("'%s' is not in '%s'", part, said);
}

static void the_setup_names_each_rate(void **state) {
    (void)state;
    Still e = Still_defaults();
    nt_experiment changed = *Still_experiment();
    const nt_named_schedule base[] = {{"learning_rate", nt_schedule_constant(0.25)}, {0}};
    assert_setup(&changed, &e, NULL, "SGD(); rate 0.5; ");
    changed.hooks.rate_ratio = half_of_head;
    assert_setup(&changed, &e, NULL, "SGD(); rates body 0.5, head 0.25; ");
    assert_setup(&changed, &e, base, "SGD(); rates body constant(0.25), head 0.5 times constant(0.25); ");
    e.freeze = true;
    assert_setup(&changed, &e, NULL, "body: SGD(); head: Frozen(); rate 0.5; ");
}

static nt_tensor many_biases(const void *view, nt_model *m, nt_batch *batch) {
    (void)view;
    nt_tensor sum = nt_sum(nt_parameter(m, "weight", nt_dims(2, 2)));
    for (int i = 0; i < 20; i++) NT_SCOPE(m, "b%d", i)
    sum = nt_add(sum, nt_sum(nt_parameter(m, "bias", nt_dims(1))));
    return nt_mul(nt_field(batch, "x"), sum);
}

static void many_arrays_are_not_all_named(void **state) {
    (void)state;
    Still e = Still_defaults();
    e.body = 0.4;
    nt_experiment changed = *Still_experiment();
    changed.hooks.forward = many_biases;
    nt_run *run = make_of(&changed, &e, NULL);
    nt__text text = {0};
    nt__report_add(&run->resident, &text);
    assert_non_null(strstr(text.data, "    no decay of 20 of 21 arrays: b0.bias, b1.bias, "));
    assert_non_null(strstr(text.data, ", b15.bias and 4 more [default]\n"));
    nt__text_free(&text);
    nt_run_free(run);
}

/* ---- drift ------------------------------------------------------------------------------------------------------ */

static double other_decay(const void *e, const char *group) {
    (void)e;
    return strcmp(group, "head") == 0 ? 0.2 : 0.1;
}

static nt_anchor others(const void *e, const char *group) {
    (void)group;
    return nt_anchor_array(((const Still *)e)->values);
}

static nt_anchor initial(const void *e, const char *group) {
    (void)e;
    (void)group;
    return nt_anchor_initial();
}

static const char *one_group(const void *e, const char *path) {
    (void)e;
    return strcmp(path, "body_w") == 0 ? "body" : "head";
}

static bool spares_all(const void *e, const char *path, nt_shape shape) {
    (void)e;
    (void)path;
    (void)shape;
    return true;
}

static nt_rule other_rho(const void *e, const char *group) {
    (void)e;
    return strcmp(group, "head") == 0 ? nt_sgd() : nt_momentum(.rho = 0.5);
}

static nt_experiment changed;

static void assert_drift(nt_run *run, const char *wanted) {
    const char *report;
    nt_experiment_register(&changed);
    assert_ok(nt_run_drift(run, &report));
    if (!(*wanted ? strstr(report, wanted) != NULL : !*report)) fail_msg("'%s', wanted '%s'", report, wanted);
    changed = *Still_experiment();
    nt_experiment_register(Still_experiment());
}

/* What hooks say about groups and no program shows, and what a program shows without saying why. */
static void what_moved_in_a_group_is_reported(void **state) {
    (void)state;
    Still e = Still_defaults();
    e.body = 0.4;
    e.rho = 0.9;
    e.anchor = NT_ANCHOR_ARRAY;
    e.values = nt_array_new(NT_F32, nt_dims(9));
    changed = *Still_experiment();
    nt_run *run = make_of(Still_experiment(), &e, NULL);
    assert_drift(run, "");
    changed.hooks.weight_decay = other_decay;
    assert_drift(run, "  weight_decay of group 'body': 0.4 -> 0.1; this run still uses 0.4\n"
                      "  weight_decay of group 'head': 0 -> 0.2; this run still uses 0");
    changed.hooks.weight_decay = NULL;
    assert_drift(run, "  weight_decay of group 'body': 0.4 -> 0; this run still uses 0.4");
    changed.hooks.rate_ratio = third;
    assert_drift(run, "differs:\n  rate_ratio of group 'head': 1 -> 0.333333; this run still uses 1");
    changed.hooks.no_decay = only_named;
    assert_drift(run, "  no_decay: 'body_b' decays now; this run goes on as it was");
    changed.hooks.no_decay = spares_all;
    assert_drift(run, "differs:\n  no_decay: 'body_w' does not decay now; this run goes on as it was");
    changed.hooks.decay_anchor = initial;
    assert_drift(run, "differs:\n  decay_anchor of group 'body': an array -> the initial values; this run keeps");
    changed.hooks.param_group = one_group; /* an array of the old size is wrong there */
    assert_drift(run, "differs:\n  the new code does not trace: the decay_anchor hook gave f32[9] for group 'body'");
    changed.hooks.param_group = one_group;
    changed.hooks.decay_anchor = initial;
    assert_drift(run, "  param_group: 'body_b' from group 'body' to 'head'; this run keeps its groups");
    changed.hooks.optimizer = other_rho;
    assert_drift(run, "differs:\n  rule of group 'body': Momentum(rho 0.9) -> Momentum(rho 0.5)");
    nt_array_set(e.values, 3, 7);
    changed.hooks.decay_anchor = others;
    assert_drift(run, "differs:\n  decay_anchor of group 'body': an array -> other values; this run keeps its own");
    nt_run_free(run);
    nt_array_free(e.values);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_group_decays_by_its_own_number),
        cmocka_unit_test(the_no_decay_hook_spares_by_path_l49),
        cmocka_unit_test(decay_leads_to_its_anchor),
        cmocka_unit_test(the_number_is_not_in_the_text),
        cmocka_unit_test(a_frozen_group_has_nothing),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(an_input_can_be_scheduled),
        cmocka_unit_test(schedules_that_are_not_meant),
        cmocka_unit_test(the_report_says_where_each_number_is_from_s83),
        cmocka_unit_test(a_no_decay_hook_that_is_not_heard_is_told),
        cmocka_unit_test(the_setup_names_each_rate),
        cmocka_unit_test(many_arrays_are_not_all_named),
        cmocka_unit_test(what_moved_in_a_group_is_reported),
    };
    return cmocka_run_group_tests_name("decay", tests, NULL, shut_down);
}
