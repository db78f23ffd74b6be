/* What a program logs beside what a run logs of itself: values, texts, histograms, images; and the histograms of the
 * parameters.
 * Not here: lines of steps and epochs (log.c).
 */
#include "log/image.h"
#include "run/run_internal.h"

static nt_status check_log(const nt_run *run, const char *call, const char *name, const void *what,
                           const char *argument) {
    if (!nt__given(name, call, "name") || !nt__given(what, call, argument)) return NT_INVALID;
    if (run->log) return NT_OK;
    return nt__fail(NT_INVALID, "%s: run '%s' has no log%s", call, run->experiment->name,
                    run->settings.no_log ? ", since it was made with no_log"
                                         : " yet: training opens it, so log from a listener or behind nt_train");
}

nt_status nt_run_log_values(nt_run *run, const char *context, const nt_value *values, size_t count) {
    NT__USE(run, "nt_run_log_values");
    if (!used) return NT_INVALID;
    nt_status status = check_log(run, "nt_run_log_values", context, values, "values");
    return status == NT_OK ? nt__log_values(run, context, run->step, run->epoch, values, count) : status;
}

nt_status nt_run_log_text(nt_run *run, const char *name, const char *text) {
    NT__USE(run, "nt_run_log_text");
    if (!used) return NT_INVALID;
    nt_status status = check_log(run, "nt_run_log_text", name, text, "text");
    const nt_log_value values[] = {{"key", name, 0}, {"value", text, 0}};
    return status == NT_OK ? nt__log_put(run, &(nt_log_line){.type = "other", .values = values, .count = 2}) : status;
}

nt_status nt_run_log_histogram(nt_run *run, const char *name, const nt_array *values) {
    NT__USE(run, "nt_run_log_histogram");
    if (!used) return NT_INVALID;
    nt_status status = check_log(run, "nt_run_log_histogram", name, values, "values");
    return status == NT_OK ? nt__log_put(run, &(nt_log_line){.type = "histogram", .key = name, .array = values})
                           : status;
}

nt_status nt_run_log_image(nt_run *run, const char *name, const nt_array *pixels) {
    NT__USE(run, "nt_run_log_image");
    if (!used) return NT_INVALID;
    nt_status status = check_log(run, "nt_run_log_image", name, pixels, "pixels");
    if (status != NT_OK) return status;
    status = nt__check_image(pixels);
    if (status != NT_OK) return nt__fail_in(status, "nt_run_log_image: '%s'", name);
    return nt__log_put(run, &(nt_log_line){.type = "image", .key = name, .array = pixels});
}

nt_status nt__log_histograms(nt_run *run) {
    nt_parameter_info info;
    nt_status status = NT_OK;
    if (!run->log || !run->settings.histograms) return NT_OK;
    for (size_t i = 0; status == NT_OK && nt_run_parameter_at(run, i, &info); i++) {
        nt_array *values = nt_run_parameter(run, info.path);
        if (!values) return nt_error_status();
        status = nt__log_put(run, &(nt_log_line){.type = "histogram", .key = info.path, .array = values});
        nt_array_free(values);
    }
    return status;
}
