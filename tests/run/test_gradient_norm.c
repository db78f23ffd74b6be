/* The norm of a step's gradients as a value of the step: after accumulation, before the clip, in the event and
 * the log, and nothing of it where it is not asked for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/run_internal.h"
#include "base/files.h"
#include "toy.h"

static nt_rule sgd(const void *e, const char *group) {
    (void)e;
    (void)group;
    return nt_sgd();
}

static void on_host(const void *e, nt_metrics *metrics, const nt_array *outputs, const nt_host_batch *batch) {
    (void)e;
    (void)batch;
    nt_metric_mean(metrics, "rows", (double)outputs->shape.dims[0], 1);
}

/* What the newest step told. */
typedef struct told {
    size_t count, steps;
    char name[16];
    double norm;
} told;

static void hear(const nt_event *event, void *context) {
    told *t = context;
    if (event->kind != NT_EVENT_STEP) return;
    t->steps++;
    t->count = event->value_count;
    if (!event->value_count) return;
    snprintf(t->name, sizeof t->name, "%s", event->values[0].name);
    t->norm = event->values[0].value;
}

typedef struct variant {
    bool norm, host_metrics;
    int accum;
    double clip;
    const char *run_dir;
} variant;

static const double rate = 0.125;

static nt_run *make(variant v, told *t) {
    static nt_experiment experiment;
    Toy e = Toy_defaults();
    nt_run *run;
    nt_run_options options = {.quiet = true, .no_log = !v.run_dir, .run_dir = v.run_dir};
    experiment = *Toy_experiment();
    experiment.hooks.optimizer = sgd;
    experiment.hooks.host_train_metrics = v.host_metrics ? on_host : NULL;
    options.learning_rate = (nt_maybe_double){true, rate};
    options.accum = (nt_maybe_int){true, v.accum ? v.accum : 1};
    options.gradient_clip_norm = (nt_maybe_double){true, v.clip};
    options.gradient_norm = v.norm;
    options.on_event = hear;
    options.event_context = t;
    assert_ok(nt_run_new(&experiment, &e, &options, &run));
    return run;
}

static nt_array *parameters(nt_run *run) {
    nt__buffer *buffer = &run->resident.device.parameters[0];
    nt_array *array = nt_array_new(buffer->type.dtype, buffer->type.shape);
    assert_non_null(array);
    assert_ok(nt__buffer_read(run->traced.engine, buffer, array->data));
    return array;
}

/* One step of SGD is the gradient times the rate, so the step's own length says the norm. */
static double length_of_step(nt_run *run) {
    nt_array *before = parameters(run);
    assert_ok(nt_train_more(run, 0, 1));
    nt_array *after = parameters(run);
    double sum = 0;
    for (int64_t i = 0; i < nt_shape_elements(before->shape); i++)
        sum += pow(nt_array_get(before, i) - nt_array_get(after, i), 2);
    nt_array_free(before);
    nt_array_free(after);
    return sqrt(sum);
}

static void the_norm_is_that_of_the_accumulated_gradients(void **state) {
    (void)state;
    for (int accum = 1; accum <= 4; accum *= 2) {
        told t = {0};
        nt_run *run = make((variant){.norm = true, .accum = accum}, &t);
        double length = length_of_step(run);
        assert_int_equal(t.steps, 1);
        assert_int_equal(t.count, 1);
        assert_string_equal(t.name, "grad_norm");
        assert_true(fabs(t.norm - length / rate) < 1e-5 * t.norm);
        nt_run_free(run);
    }
}

static void the_norm_is_that_before_the_clip(void **state) {
    (void)state;
    told clipped = {0}, free = {0};
    nt_run *short_run = make((variant){.norm = true, .clip = 1e-3}, &clipped),
           *long_run = make((variant){.norm = true}, &free);
    double short_length = length_of_step(short_run), long_length = length_of_step(long_run);
    assert_true(clipped.norm == free.norm);
    assert_true(fabs(short_length - rate * 1e-3) < 1e-6 && long_length > 10 * short_length);
    nt_run_free(short_run);
    nt_run_free(long_run);
}

/* The values of the hooks stand after it. */
static void host_metrics_keep_their_place(void **state) {
    (void)state;
    told t = {0};
    nt_run *run = make((variant){.norm = true, .host_metrics = true}, &t);
    assert_ok(nt_train(run));
    assert_int_equal(t.count, 2);
    assert_string_equal(t.name, "grad_norm");
    assert_true(t.norm > 0);
    nt_run_free(run);
}

static void it_costs_nothing_where_it_is_off(void **state) {
    (void)state;
    told t = {0};
    for (int clip = 0; clip < 2; clip++) {
        nt_run *off = make((variant){.clip = clip}, &t), *on = make((variant){.norm = true, .clip = clip}, &t);
        const char *text = nt__program_text(off->traced.programs.optimizer);
        assert_null(strstr(text, clip ? "grad_norm" : "sqrt"));
        assert_true(strlen(text) < strlen(nt__program_text(on->traced.programs.optimizer)));
        assert_string_equal(nt__program_text(off->traced.programs.gradient),
                            nt__program_text(on->traced.programs.gradient));
        assert_ok(nt_train_more(off, 0, 1));
        assert_int_equal(t.count, 0);
        nt_run_free(off);
        nt_run_free(on);
    }
}

static void the_log_has_it(void **state) {
    (void)state;
    told t = {0};
    nt_run *run = make((variant){.norm = true, .run_dir = scratch("norm")}, &t);
    assert_ok(nt_train_more(run, 0, 2));
    nt_run_free(run);
    char *text = NULL, expected[64];
    size_t length, lines = 0;
    assert_ok(nt__read_file(scratch("norm/metrics.jsonl"), &text, &length));
    snprintf(expected, sizeof expected, "\"grad_norm\":");
    for (const char *at = text; (at = strstr(at, expected)); at++) lines++;
    assert_int_equal(lines, 2);
    nt__free(text);
}

static int end(void **state) {
    return scratch_remove(state) | shut_down(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_norm_is_that_of_the_accumulated_gradients),
        cmocka_unit_test(the_norm_is_that_before_the_clip),
        cmocka_unit_test(host_metrics_keep_their_place),
        cmocka_unit_test(it_costs_nothing_where_it_is_off),
        cmocka_unit_test(the_log_has_it),
    };
    return cmocka_run_group_tests(tests, scratch_make, end);
}
