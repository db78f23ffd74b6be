/* Every public call about a run, in a table: what each of them says where it may not be made. Include after toy.h.
 */
#ifndef NT_TESTS_RUN_RUN_CALLS_H
#define NT_TESTS_RUN_RUN_CALLS_H

#include "toy.h"

/* The status of the call; of one that returns none, that of the thread's message. */
typedef nt_status (*run_call)(nt_run *run);

static inline nt_status status_of(bool made) {
    return made ? NT_OK : nt_error_status();
}

static inline nt_status freed_status(nt_array *array) {
    nt_status status = status_of(array != NULL);
    nt_array_free(array);
    return status;
}

static inline nt_status to_nowhere(nt_status (*write)(const nt_run *run, FILE *out), const nt_run *run) {
    FILE *out = fopen("/dev/null", "w");
    nt_status status = out ? write(run, out) : nt_fail(NT_IO, "/dev/null");
    if (out) fclose(out);
    return status;
}

static inline nt_status print_table(const nt_run *run, FILE *out) {
    return nt_run_print(run, NT_TABLE, out);
}

static inline nt_status predict_toy(nt_run *run) {
    nt_array *x = toy_points(5, false), *y = NULL;
    const nt_named_array field = {"x", x};
    nt_status status = nt_predict(run, &field, 1, &y);
    nt_array_free(x);
    nt_array_free(y);
    return status;
}

static inline nt_status call_train(nt_run *run) {
    return nt_train(run);
}
static inline nt_status call_train_more(nt_run *run) {
    return nt_train_more(run, 1, 0);
}
static inline nt_status call_evaluate(nt_run *run) {
    return nt_evaluate(run, "val", NULL);
}
static inline nt_status call_validate(nt_run *run) {
    return nt_validate(run, NULL);
}
static inline nt_status call_load(nt_run *run) {
    return nt_run_load(run, "nowhere.safetensors");
}
static inline nt_status call_load_mapped(nt_run *run) {
    return nt_run_load_mapped(run, "nowhere.safetensors", NULL, 0);
}
/* Nothing but a notice tells that it was not freed, and the thread's message. */
static inline nt_status call_free(nt_run *run) {
    nt_notice_function before = nt_set_notice(NULL, NULL);
    nt_run_free(run);
    nt_set_notice(before, NULL);
    return nt_error_status();
}
static inline nt_status call_drift(nt_run *run) {
    const char *report;
    return nt_run_drift(run, &report);
}
static inline nt_status call_set_number(nt_run *run) {
    return nt_set_device(run, "smoothing", 0.0);
}
static inline nt_status call_set_integer(nt_run *run) {
    return nt_set_device(run, "smoothing", 0);
}
static inline nt_status call_set_array(nt_run *run) {
    nt_array *zero = nt_array_new(NT_F32, nt_dims());
    nt_status status = nt_set_device(run, "smoothing", zero);
    nt_array_free(zero);
    return status;
}
static inline nt_status call_get(nt_run *run) {
    return freed_status(nt_get_device(run, "smoothing"));
}
static inline nt_status call_print(nt_run *run) {
    return to_nowhere(print_table, run);
}
static inline nt_status call_report(nt_run *run) {
    return to_nowhere(nt_run_report, run);
}
static inline nt_status call_summary(nt_run *run) {
    return to_nowhere(nt_run_summary, run);
}
static inline nt_status call_step(nt_run *run) {
    return status_of(nt_run_step(run) >= 0);
}
static inline nt_status call_epoch(nt_run *run) {
    return status_of(nt_run_epoch(run) >= 0);
}
static inline nt_status call_dir(nt_run *run) {
    return status_of(nt_run_dir(run) != NULL);
}
static inline nt_status call_has_split(nt_run *run) {
    return status_of(nt_run_has_split(run, "train"));
}
static inline nt_status call_parameter_at(nt_run *run) {
    nt_parameter_info info;
    return status_of(nt_run_parameter_at(run, 0, &info));
}
static inline nt_status call_parameter(nt_run *run) {
    return freed_status(nt_run_parameter(run, "hidden.weight"));
}
static inline nt_status call_state_at(nt_run *run) {
    nt_state_info info;
    return status_of(nt_run_state_at(run, 0, &info));
}
static inline nt_status call_state(nt_run *run) {
    return freed_status(nt_run_state(run, "norm.mean"));
}
static inline nt_status call_save(nt_run *run) {
    return nt_run_save(run, scratch("from-a-hook.safetensors"));
}
static inline nt_status call_log_values(nt_run *run) {
    const nt_value value = {"mine", 1};
    return nt_run_log_values(run, "own", &value, 1);
}
static inline nt_status call_log_text(nt_run *run) {
    return nt_run_log_text(run, "mine", "text");
}
static inline nt_status call_log_histogram(nt_run *run) {
    nt_array *values = toy_points(4, false);
    nt_status status = nt_run_log_histogram(run, "mine", values);
    nt_array_free(values);
    return status;
}
static inline nt_status call_log_image(nt_run *run) {
    nt_array *pixels = nt_array_new(NT_U8, nt_dims(2, 2, 1));
    nt_status status = nt_run_log_image(run, "mine", pixels);
    nt_array_free(pixels);
    return status;
}

/* `alone`: refused within another call about the run. */
static const struct {
    const char *name;
    run_call call;
    bool alone;
} run_calls[] = {
    {"nt_train", call_train, true},
    {"nt_train_more", call_train_more, true},
    {"nt_evaluate", call_evaluate, true},
    {"nt_validate", call_validate, true},
    {"nt_predict", predict_toy, true},
    {"nt_run_load", call_load, true},
    {"nt_run_load_mapped", call_load_mapped, true},
    {"nt_run_free", call_free, true},
    {"nt_run_drift", call_drift, false},
    {"nt_set_device", call_set_number, false},
    {"nt_set_device", call_set_integer, false},
    {"nt_set_device", call_set_array, false},
    {"nt_get_device", call_get, false},
    {"nt_run_print", call_print, false},
    {"nt_run_report", call_report, false},
    {"nt_run_summary", call_summary, false},
    {"nt_run_step", call_step, false},
    {"nt_run_epoch", call_epoch, false},
    {"nt_run_dir", call_dir, false},
    {"nt_run_has_split", call_has_split, false},
    {"nt_run_parameter_at", call_parameter_at, false},
    {"nt_run_parameter", call_parameter, false},
    {"nt_run_state_at", call_state_at, false},
    {"nt_run_state", call_state, false},
    {"nt_run_save", call_save, false},
    {"nt_run_log_values", call_log_values, false},
    {"nt_run_log_text", call_log_text, false},
    {"nt_run_log_histogram", call_log_histogram, false},
    {"nt_run_log_image", call_log_image, false},
};
enum { RUN_CALLS = sizeof run_calls / sizeof *run_calls };

#endif
