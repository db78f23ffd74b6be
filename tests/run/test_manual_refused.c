/* Manual mode: which way a run goes, what is refused of a train_step hook and beside it, and what is told; what a step
 * computes is in test_manual.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "adversarial.h"

/* ---- which way -------------------------------------------------------------------------------------------------- */

static bool no(const void *e) {
    (void)e;
    return false;
}

/* The flag declines; then train_step is as if it were not there. */
static void the_flag_declines(void **state) {
    (void)state;
    nt_experiment *declined = variant(NULL);
    declined->hooks.manual_training = no;
    nt_run_options options = quiet_options(NULL);
    options.accum = (nt_maybe_int){true, 3};
    nt_run *run = make_of(declined, NULL, options);
    assert_non_null(run->traced.programs.gradient);
    assert_null(run->traced.programs.manual_step);
    assert_int_equal(run->traced.layout.row_count, 1);
    assert_ok(nt_train(run));
    assert_int_equal(nt_run_step(run), 1);
    nt_run_free(run);
}

/* Flipping it later is drift, and so is another train_step. */
static void changes_are_told(void **state) {
    (void)state;
    const char *report;
    nt_experiment *same = variant(NULL), *declined = variant(NULL), *other = variant(critic_only);
    nt_experiment_register(same);
    nt_run *run = make_of(same, NULL, quiet_options(NULL));
    assert_ok(nt_run_drift(run, &report));
    assert_string_equal(report, "");
    other->hooks.optimizer = frozen_generator;
    nt_experiment_register(other);
    assert_ok(nt_run_drift(run, &report));
    assert_non_null(strstr(report, "manual_step program: "));
    declined->hooks.manual_training = no;
    nt_experiment_register(declined);
    assert_ok(nt_run_drift(run, &report));
    assert_non_null(strstr(report, "training: manual (train_step) -> automatic; this run goes on as it was made"));
    assert_ok(nt_train(run));
    nt_run_free(run);
    nt_experiment_register(Pair_experiment());
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

#define HOOK(name, ...)                                                                              \
    static nt_tensor name(const void *view, nt_model *m, nt_batch *batch, nt_optimizers *optimizers, \
                          nt_device_metrics *metrics) {                                              \
        const Pair_view *e = view;                                                                   \
        nt_tensor made = generate(e, m, batch), value = loss(e, made, batch);                        \
        (void)metrics, (void)optimizers, (void)value;                                                \
        __VA_ARGS__                                                                                  \
    }
HOOK(no_step, return value;)
HOOK(part_of_a_group, nt_step(optimizers, nt_parameter_grads(m, nt_mean(score(e, m, made)), "disc.out.weight"));
     return value;)
HOOK(forgets_a_group, nt_step(optimizers, nt_parameter_grads(m, nt_mean(score(e, m, made)), "disc")); return value;)
HOOK(unknown_scope, nt_step(optimizers, nt_parameter_grads(m, value, "generator")); return value;)
HOOK(beside_a_scope, nt_step(optimizers, nt_parameter_grads(m, value, "ge")); return value;)
HOOK(of_before, nt_step(optimizers, nt_parameter_grads(m, value, "gen"));
     nt_step(optimizers, nt_parameter_grads(m, value, "gen")); return value;)
HOOK(held_constant, nt_step(optimizers, nt_parameter_grads(m, nt_stop_gradient(value), "gen")); return value;)
HOOK(of_a_vector, nt_step(optimizers, nt_parameter_grads(m, made, "gen")); return value;)
HOOK(returns_a_vector, nt_step(optimizers, nt_parameter_grads(m, value, "gen")); return made;)
HOOK(returns_nothing, nt_step(optimizers, nt_parameter_grads(m, value, "gen")); return (nt_tensor){0};)
HOOK(no_gradients, nt_step(optimizers, (nt_tensors){0}); return value;)
HOOK(no_optimizers, nt_step(NULL, nt_parameter_grads(m, value, "gen")); return value;)
HOOK(no_scope, nt_step(optimizers, nt_parameter_grads(m, value, NULL)); return value;)
HOOK(no_parameter, nt_step(optimizers, nt_named_tensors((const char *[]){"gen"}, &made, 1)); return value;)
HOOK(other_type, nt_step(optimizers, nt_named_tensors((const char *[]){"gen.out.weight"}, &made, 1)); return value;)
HOOK(twice_in_a_list,
     nt_step(optimizers, nt_named_tensors(((const char *[]){"a", "a"}), ((nt_tensor[]){made, made}), 2));
     return value;)
HOOK(without_reuse, nt_step(optimizers, nt_parameter_grads(m, value, "gen")); generate(e, m, batch); return value;)
HOOK(never_leaves, NT_REUSE(m) return value; return value;)
HOOK(combined_value, nt_device_mean(metrics, "n", 1, 1); return value;)
HOOK(named_loss, nt_device_value(metrics, "loss", 1); return value;)
HOOK(unknown_field, return nt_mean(nt_field(batch, "y"));)

/* A step in a body of control flow, by an optimizer that it finds in its context. */
static nt_values steps_in_a_body(nt_values x, void *context) {
    nt_step(context, nt_named_tensors((const char *[]){"gen.out.weight"}, &x.at[1], 1));
    return x;
}
static nt_loop steps_in_a_loop(nt_loop now, void *context) {
    steps_in_a_body((nt_values){{now.carry[0], now.carry[1]}}, context);
    return now;
}
#define GIVEN value, nt_full(NT_F32, nt_dims(NOISE, WIDTH), 1)
HOOK(in_a_branch, nt_cond(nt_less(value, 1), steps_in_a_body, steps_in_a_body, optimizers, GIVEN); return value;)
HOOK(in_a_checkpoint, nt_remat(steps_in_a_body, optimizers, GIVEN); return value;)
HOOK(in_a_scan, nt_scan(steps_in_a_loop, optimizers, .carry = {GIVEN}, .length = 2); return value;)

/* Gradients of the trace that learns the parameters, in the one that makes the program. */
static nt_tensors kept_gradients;
HOOK(of_an_earlier_trace, if (!kept_gradients.content) kept_gradients = nt_parameter_grads(m, value, "gen");
     nt_step(optimizers, kept_gradients); return value;)
HOOK(member_of_an_earlier_trace, if (!kept_gradients.content) kept_gradients = nt_parameter_grads(m, value, "gen");
     return nt_mean(nt_member(kept_gradients, "gen.out.weight"));)

static void refuse_at(const nt_experiment *experiment, nt_run_options options, const char *part, int line) {
    nt_run *run;
    assert_fails_at(nt_run_new(experiment, NULL, &options, &run), NT_INVALID, part, line);
    assert_null(run);
}
#define refuse(experiment, options, part) refuse_at(experiment, options, part, __LINE__)

/* What is wrong, and where. */
static void mistakes_in_the_hook_are_named(void **state) {
    (void)state;
    static const struct {
        step_hook hook;
        const char *message;
    } rows[] = {
        {no_step, "train_step of Pair gives no gradients of group 'gen' to nt_step, so it would never be trained: step "
                  "it, or let the optimizer hook freeze it with nt_frozen()"},
        {forgets_a_group, "no gradients of group 'gen' to nt_step"},
        {part_of_a_group, "in part_of_a_group: step: group 'disc' is updated as a whole, and parameter 'disc.out.bias' "
                          "of it has no gradient here: the param_group hook"},
        {unknown_scope, "in unknown_scope: parameter_grads: there is no parameter below 'generator'; there are: gen"},
        {beside_a_scope, "there is no parameter below 'ge'; there are: gen"},
        {of_before, "in of_before: parameter_grads: the loss depends on no parameter below 'gen' as they are now: "
                    "nt_step gives parameters new values"},
        {held_constant, "in held_constant: parameter_grads: the loss depends on no parameter below 'gen'"},
        {of_a_vector, "must be a floating scalar, got f32[32,4]; nt_mean or nt_sum makes one"},
        {returns_a_vector, "train_step of Pair returned f32[32,4]; it returns the loss of the step, a floating scalar"},
        {returns_nothing, "train_step of Pair: it returned no tensor"},
        {no_gradients, "in no_gradients: step: the nt_tensors was never set"},
        {no_optimizers, "in no_optimizers: step: optimizers is NULL"},
        {no_scope, "in no_scope: parameter_grads: scope is NULL"},
        {no_parameter, "in no_parameter: step: 'gen' is no parameter; gradients are named by the paths"},
        {other_type, "in other_type: step: the gradient of 'gen.out.weight' is f32[32,4]; it must be f32[4,4]"},
        {twice_in_a_list, "in twice_in_a_list: named_tensors: 'a' stands twice in the list"},
        {without_reuse, "or share the parameter with NT_REUSE"},
        {never_leaves, "in never_leaves: reuse: NT_REUSE was entered and never left"},
        {combined_value, "train_metrics and train_step report values of one batch: nt_device_value"},
        {named_loss, "'loss' is a name of the run's own in the line of a step"},
        {in_a_branch, "in steps_in_a_body: step: in a body of control flow, which may run any number of times"},
        {in_a_checkpoint, "in steps_in_a_body: step: in a body of control flow"},
        {in_a_scan, "in steps_in_a_body: step: in a body of control flow"},
        {of_an_earlier_trace, "in of_an_earlier_trace: step: the nt_tensors belongs to an earlier trace"},
        {member_of_an_earlier_trace, "member: the nt_tensors belongs to an earlier trace"},
        {unknown_field, "the batch has no field 'y'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refuse(variant(rows[i].hook), quiet_options(NULL), rows[i].message);
}

static void train_metrics(const void *view, nt_device_metrics *metrics, nt_tensor outputs, nt_batch *batch) {
    (void)view, (void)metrics, (void)outputs, (void)batch;
}

static bool yes(const void *e) {
    (void)e;
    return true;
}

static double no_number(const void *e, const char *group) {
    (void)e;
    (void)group;
    return NAN;
}

/* accum; train metrics beside train_step; paths of schedules. */
static void what_does_not_go_with_it_is_refused(void **state) {
    (void)state;
    nt_run_options options = quiet_options(NULL);
    options.accum = (nt_maybe_int){true, 2};
    refuse(Pair_experiment(), options,
           "accum is 2 (from the option accum), and training is manual (the train_step hook), which makes a step of "
           "each batch");
    options.evaluate_only = true; /* which has no steps */
    nt_run_free(make_of(Pair_experiment(), NULL, options));
    options = quiet_options(NULL);
    nt_experiment *changed = variant(NULL);
    changed->hooks.train_metrics = train_metrics;
    refuse(changed, options, "has both .train_step and .train_metrics: train_step reports values of a step itself");
    changed->hooks.manual_training = yes; /* they are for the other way */
    nt_run *run = make_of(changed, NULL, options);
    assert_ok(nt_train(run));
    nt_run_free(run);
    changed = variant(NULL);
    changed->hooks.train_step = NULL;
    changed->hooks.manual_training = yes;
    refuse(changed, options, "has a manual_training hook and no train_step");
    changed = variant(NULL);
    changed->hooks.weight_decay = no_number;
    refuse(changed, options, "the weight_decay hook gave nan for group 'gen'");
    nt_named_schedule schedules[] = {{"opt.critic.learning_rate", nt_schedule_constant(1)}, {0}};
    options.schedules = schedules;
    refuse(Pair_experiment(), options, "there is no parameter group 'critic'; groups: gen, disc");
    changed = variant(NULL);
    changed->hooks.optimizer = adam;
    schedules[0].name = "opt.gen.beta1";
    refuse(changed, options, "beta1 of rule Adam is a constant of the program and cannot be scheduled");
}

/* What no loss depends on is told, unless it is frozen. */
static nt_tensor ignores_the_bias(const void *view, nt_model *m, nt_batch *batch, nt_optimizers *optimizers,
                                  nt_device_metrics *metrics) {
    nt_parameter(m, "gen_extra", nt_dims(2));
    nt_tensor made = generate(view, m, batch), value = loss(view, made, batch);
    (void)metrics;
    nt_step(optimizers, nt_parameter_grads(m, value, ""));
    return value;
}

static char noticed[512];
static void keep_notice(const char *text, void *context) {
    (void)context;
    snprintf(noticed, sizeof noticed, "%s", text);
}

static void what_no_loss_reaches_is_told(void **state) {
    (void)state;
    nt_experiment *changed = variant(ignores_the_bias);
    changed->hooks.param_group = NULL;
    nt_run_options options = quiet_options(NULL);
    options.quiet = false;
    nt_notice_function before = nt_set_notice(keep_notice, NULL);
    nt_run_free(make_of(changed, NULL, options));
    nt_set_notice(before, NULL);
    assert_string_equal(noticed, "Pair: no loss of train_step depends on parameter 'gen_extra'; its gradient is zero");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_flag_declines),
        cmocka_unit_test(changes_are_told),
        cmocka_unit_test(mistakes_in_the_hook_are_named),
        cmocka_unit_test(what_does_not_go_with_it_is_refused),
        cmocka_unit_test(what_no_loss_reaches_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, shut_down);
}
