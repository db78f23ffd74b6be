/* Calls from within hooks, listeners, loggers and sources: each public call at each such moment, about the run that is
 * at work and about another one. Each is made, or refused with an error; none crashes, and the run goes on as if
 * nothing had been called.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>

#include "base/base.h"
#include "run_calls.h"

/* ---- what is called --------------------------------------------------------------------------------------------- */

static nt_run *subject;   /* of the calls; NULL: there is none yet */
static bool is_at_work;   /* the calls come from within one of its own */
static nt_data *old_data; /* as a hook may have kept it */
static pthread_t caller;
static int moments, wrong;

static void complain(const char *moment, const char *call, nt_status status) {
    wrong++;
    print_error("%s within %s: %s: %s\n", call, moment, nt_status_name(status), nt_error_message());
}

/* Of another thread all are refused while the run is at work. */
static void call_about_run(const char *moment, size_t i) {
    bool foreign = is_at_work && !pthread_equal(caller, pthread_self());
    nt__fail_nothing();
    if (!is_at_work && run_calls[i].call == call_free) return; /* it would be freed, and rightly so */
    nt_status status = run_calls[i].call(subject);
    bool refused = status == NT_INVALID &&
                   strstr(nt_error_message(), foreign ? "in use by another thread" : "cannot start that again");
    if ((foreign || (is_at_work && run_calls[i].alone)) != refused) complain(moment, run_calls[i].name, status);
}

static void make_another(const char *moment) {
    nt_run_options options = quiet_options(NULL);
    nt_run *another;
    nt_status status = nt_run_new(Toy_experiment(), NULL, &options, &another);
    if (status == NT_OK) status = nt_validate(another, NULL);
    if (status != NT_OK) complain(moment, "nt_run_new and nt_validate", status);
    nt_run_free(another);
}

static void call_of_process(const char *moment) {
    nt_status status = nt_shutdown();
    if (status != NT_INVALID) complain(moment, "nt_shutdown", status);
    (void)nt_cache_stats();
    (void)nt_cache_report(0);
    nt_cache_set_limit(256);
    nt_cache_reset();
    status = nt_stats_write(scratch("stats.json"));
    if (status != NT_OK) complain(moment, "nt_stats_write", status);
    make_another(moment);
}

/* What a hook gets an error of, if it does not clear it: these are made only where there is no such hook. */
static void call_about_data(const char *moment) {
    nt_array *x = toy_points(4, false);
    nt_status status = nt_split(old_data, "late", .batch = 16);
    if (status != NT_INVALID) complain(moment, "nt_split", status);
    status = nt_split_field(old_data, "train", "late", x);
    if (status != NT_INVALID) complain(moment, "nt_split_field", status);
    status = nt_split_source(old_data, "train", (nt_source){.name = "late"});
    if (status != NT_INVALID) complain(moment, "nt_split_source", status);
    if (nt_data_rows(old_data, "train") != 128) complain(moment, "nt_data_rows", NT_INVALID);
}

static void try_all(const char *moment) {
    static _Thread_local bool trying;
    if (trying) return;
    trying = true;
    moments++;
    for (size_t i = 0; subject && i < RUN_CALLS; i++) call_about_run(moment, i);
    call_of_process(moment);
    if (subject && is_at_work && strcmp(moment, "listener") == 0) call_about_data(moment);
    nt__fail_nothing();
    nt__calls_watch();
    trying = false;
}

/* ---- where from ------------------------------------------------------------------------------------------------- */

static const char *chosen; /* the moment that the calls are made at */

/* What a line about a crash would name: the hook of that name, and after its first operation a place in this file. */
static void check_running(const char *moment) {
    static const char *const hooks[] = {"build_data", "derive", "forward", "loss", "metrics", "param_group"};
    nt_running_hook_t running = {0};
    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++) {
        if (strcmp(hooks[i], moment) != 0) continue;
        bool is_traced = strcmp(moment, "forward") == 0 || strcmp(moment, "loss") == 0;
        bool right = nt_running_hook(&running) && strcmp(running.hook, moment) == 0 &&
                     strcmp(running.of, "Within") == 0 &&
                     (!is_traced || (running.line > 0 && strstr(running.file, "test_within.c")));
        if (!right) complain(moment, "nt_running_hook", NT_INVALID);
    }
}

static void at(const char *moment) {
    check_running(moment);
    if (chosen && strcmp(chosen, moment) == 0) try_all(moment);
}

#define WITHIN(FIELD, DEVICE, GRAPH_CONST)      \
    FIELD(int, batch, 16, "samples in a batch") \
    DEVICE(float, smoothing, 0.0f, "label smoothing")
NT_EXPERIMENT(Within, WITHIN)

static nt_status read_made(void *context, nt_request *request) {
    (void)context;
    at("read");
    memset(request->fields[0]->data, 0, request->fields[0]->bytes);
    return NT_OK;
}

static nt_status within_build_data(const Within *e, nt_data *data) {
    (void)e;
    at("build_data");
    old_data = data;
    const Toy toy = {.batch = 16, .rows = 128, .val_rows = 40};
    toy_split(&toy, data, "train", 128, true);
    const nt_source_field fields[] = {{"x", NT_F32, nt_dims(4)}, {"label", NT_U8, {0}}, {"number", NT_I64, {0}}};
    nt_split(data, "val", .batch = 16);
    nt_split_source(data, "val",
                    (nt_source){.name = "made", .rows = 40, .read = read_made, .fields = fields, .field_count = 3});
    return nt_data_status(data);
}

static nt_status within_derive(Within *e, const nt_data *data) {
    (void)e, (void)data;
    at("derive");
    return NT_OK;
}

static nt_tensor within_forward(const Within_view *e, nt_model *m, nt_batch *batch) {
    (void)e;
    nt_tensor x = nt_tanh(nt_dense(m, "hidden", nt_field(batch, "x"), 8));
    at("forward");
    return nt_dense(m, "logits", x, 2);
}

static nt_tensor within_loss(const Within_view *e, nt_tensor logits, nt_batch *batch) {
    nt_tensor loss = nt_cross_entropy(logits, nt_field(batch, "label"), .label_smoothing = e->smoothing);
    at("loss");
    return loss;
}

static void within_metrics(const Within *e, nt_metrics *out, const nt_array *logits, const nt_host_batch *batch) {
    (void)e, (void)logits, (void)batch;
    at("metrics");
    nt_metric_max(out, "one", 1);
}

static void within_step(const Within *e, nt_metrics *out, const nt_array *logits, const nt_host_batch *batch) {
    (void)e, (void)logits, (void)batch;
    at("host_train_metrics");
    nt_metric_max(out, "one", 1);
}

static const char *within_group(const Within *e, const char *path) {
    (void)e, (void)path;
    at("param_group");
    return NULL;
}

static double within_ratio(const Within *e, const char *group) {
    (void)e, (void)group;
    at("rate_ratio");
    return 1;
}

static double rate(int64_t step, int64_t total, void *context) {
    (void)total, (void)context;
    if (step == 3) at("schedule");
    return 0.01;
}

static void within_schedules(const Within *e, nt_schedules *out) {
    (void)e;
    at("schedules");
    nt_schedule_set(out, "learning_rate", nt_schedule_of(rate, NULL));
}

NT_DEFINE(Within, WITHIN, .build_data = within_build_data, .derive = within_derive, .forward = within_forward,
          .loss = within_loss, .metrics = within_metrics, .host_train_metrics = within_step,
          .param_group = within_group, .rate_ratio = within_ratio, .schedules = within_schedules);

static nt_status logger_open(void *context, const nt_log_start *start, void **state) {
    (void)context, (void)start, (void)state;
    at("logger's open");
    return NT_OK;
}

static nt_status logger_line(void *state, const nt_log_line *line) {
    (void)state;
    if (strcmp(line->type, "finish") == 0) at("logger's line");
    return NT_OK;
}

typedef struct steps {
    double losses[64];
    size_t count;
} steps;

static void hear(const nt_event *event, void *context) {
    steps *s = context;
    if (event->kind == NT_EVENT_STEP && s->count < 64) s->losses[s->count++] = event->loss;
    if (event->kind == NT_EVENT_SETUP) at("setup event");
    if (event->kind == NT_EVENT_STEP && event->step == 2) at("listener");
    if (event->kind == NT_EVENT_EVALUATING && event->batch == 1) at("evaluation event");
    if (event->kind == NT_EVENT_EPOCH) at("epoch event");
}

/* ---- lives ------------------------------------------------------------------------------------------------------ */

static nt_status live(nt_run *other, steps *heard_steps) {
    const nt_logger logger = {.name = "within", .open = logger_open, .line = logger_line};
    nt_run_options options = {.run_dir = scratch("runs"),
                              .max_epochs = {true, 2},
                              .checkpoint = {true, false},
                              .log = "none",
                              .loggers = &logger,
                              .logger_count = 1,
                              .on_event = hear,
                              .event_context = heard_steps};
    nt_run *run;
    subject = other;
    is_at_work = false;
    caller = pthread_self();
    nt_status status = nt_run_new(Within_experiment(), NULL, &options, &run);
    if (status != NT_OK) return status;
    if (!other) subject = run;
    is_at_work = !other;
    status = nt_train(run); /* traces the hooks again: not quiet */
    if (status == NT_OK) status = nt_validate(run, NULL);
    subject = NULL;
    nt_run_free(run);
    return status;
}

static const char *const all_moments[] = {
    "build_data", "derive",           "forward",    "loss", "metrics",       "host_train_metrics", "param_group",
    "rate_ratio", "schedules",        "schedule",   "read", "logger's open", "logger's line",      "setup event",
    "listener",   "evaluation event", "epoch event"};
enum { MOMENTS = sizeof all_moments / sizeof *all_moments };

static steps usual;

static void assert_usual(const char *moment, const steps *s) {
    assert_int_equal(s->count, usual.count);
    for (size_t i = 0; i < s->count; i++)
        if (s->losses[i] != usual.losses[i]) fail_msg("%s: step %zu has loss %g", moment, i + 1, s->losses[i]);
}

static nt_run *make_other(void) {
    nt_run_options options = quiet_options(NULL);
    nt_run *other;
    assert_ok(nt_run_new(Toy_experiment(), NULL, &options, &other));
    return other;
}

static void try_each_moment(bool with_other) {
    nt_set_notice(NULL, NULL);
    chosen = NULL;
    usual.count = 0;
    assert_ok(live(NULL, &usual));
    assert_true(usual.count > 4);
    for (size_t i = 0; i < MOMENTS; i++) {
        steps now = {.count = 0};
        nt_run *other = with_other ? make_other() : NULL;
        chosen = all_moments[i];
        moments = wrong = 0;
        nt_status status = live(other, &now);
        if (status != NT_OK) fail_msg("%s: %s", chosen, nt_error_message());
        if (!moments) fail_msg("%s was never there", chosen);
        if (wrong) fail_msg("%d calls within %s", wrong, chosen);
        assert_usual(chosen, &now);
        nt_run_free(other);
        assert_ok(nt_shutdown());
    }
}

static void about_the_run_at_work(void **state) {
    (void)state;
    try_each_moment(false);
}

static void about_another_run(void **state) {
    (void)state;
    try_each_moment(true);
}

/* The first prediction of a handle without data lays it out, with its hooks. */
static void while_the_first_prediction_lays_out(void **state) {
    (void)state;
    nt_run_options options = {.no_data = true, .no_log = true};
    nt_array *x = toy_points(5, false), *y = NULL;
    const nt_named_array field = {"x", x};
    chosen = "forward";
    wrong = moments = 0;
    is_at_work = false;
    subject = NULL;
    nt_run *run;
    assert_ok(nt_run_new(Within_experiment(), NULL, &options, &run));
    subject = run;
    is_at_work = true;
    caller = pthread_self();
    assert_ok(nt_predict(run, &field, 1, &y));
    assert_true(moments > 0);
    assert_int_equal(wrong, 0);
    subject = NULL;
    nt_array_free(x);
    nt_array_free(y);
    nt_run_free(run);
    assert_ok(nt_shutdown());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(about_the_run_at_work),
        cmocka_unit_test(about_another_run),
        cmocka_unit_test(while_the_first_prediction_lays_out),
    };
    return cmocka_run_group_tests_name("run/within", tests, scratch_make, scratch_remove);
}
