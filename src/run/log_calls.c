/* What a program logs beside what a run logs of itself: values, texts, histograms, images; and the histograms of the
 * parameters.
 * Not here: lines of steps and epochs (log.c).
 */
#include <string.h>

#include "run/run_internal.h"

static nt_status check_log(const nt_run *run, const char *call, const char *name, const void *what,
                           const char *argument) {
    if (!nt__given(name, call, "name") || !nt__given(what, call, argument)) return NT_INVALID;
    if (run->reporting.log) return NT_OK;
    return nt__fail(NT_INVALID, "%s: run '%s' has no log%s", call, run->task.experiment->name,
                    run->task.settings.no_log ? ", since it was made with no_log"
                                              : " yet: training opens it, so log from a listener or after nt_train");
}

/* Names that a line would hold once only, or not at all. */
static nt_status check_values(const nt_value *values, size_t count, nt__map *names) {
    for (size_t i = 0; i < count; i++) {
        const char *name = values[i].name, *problem = name ? nt__value_name_problem(name) : "is NULL";
        nt__hash hash = nt__hash_bytes(name ? name : "", name ? strlen(name) : 0);
        if (!problem && nt__map_find(names, hash)) problem = "stands twice";
        if (problem)
            return nt__fail(NT_INVALID, "nt_run_log_values: value %zu: the name '%s' %s: give it another name", i + 1,
                            name ? name : "", problem);
        if (!nt__map_put(names, hash, 1)) return NT_OUT_OF_MEMORY;
    }
    return NT_OK;
}

nt_status nt_run_log_values(nt_run *run, const char *context, const nt_value *values, size_t count) {
    NT__USE(run, "nt_run_log_values");
    if (!used) return NT_INVALID;
    nt_status status = check_log(run, "nt_run_log_values", context, values, "values");
    const char *problem = status == NT_OK ? nt__name_problem(context) : NULL;
    if (problem) status = nt__fail(NT_INVALID, "nt_run_log_values: the context '%s' %s", context, problem);
    nt__map names = {0};
    if (status == NT_OK) status = check_values(values, count, &names);
    nt__map_free(&names);
    return status == NT_OK
               ? nt__log_values(&run->reporting, context, run->resident.step, run->resident.epoch, values, count)
               : status;
}

nt_status nt_run_log_text(nt_run *run, const char *name, const char *text) {
    NT__USE(run, "nt_run_log_text");
    if (!used) return NT_INVALID;
    nt_status status = check_log(run, "nt_run_log_text", name, text, "text");
    const nt_log_value values[] = {{"key", name, 0}, {"value", text, 0}};
    return status == NT_OK ? nt__log_put(&run->reporting, &(nt_log_line){.type = "other", .values = values, .count = 2})
                           : status;
}

nt_status nt_run_log_histogram(nt_run *run, const char *name, const nt_array *values) {
    NT__USE(run, "nt_run_log_histogram");
    if (!used) return NT_INVALID;
    nt_status status = check_log(run, "nt_run_log_histogram", name, values, "values");
    return status == NT_OK
               ? nt__log_put(&run->reporting, &(nt_log_line){.type = "histogram", .key = name, .array = values})
               : status;
}

nt_status nt_run_log_image(nt_run *run, const char *name, const nt_array *pixels) {
    NT__USE(run, "nt_run_log_image");
    if (!used) return NT_INVALID;
    nt_status status = check_log(run, "nt_run_log_image", name, pixels, "pixels");
    if (status != NT_OK) return status;
    status = nt__check_image(pixels);
    if (status != NT_OK) return nt__fail_in(status, "nt_run_log_image: '%s'", name);
    return nt__log_put(&run->reporting, &(nt_log_line){.type = "image", .key = name, .array = pixels});
}
