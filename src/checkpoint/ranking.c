/* What the records of a run are ranked by: which value of the validation, and which of two is better. What cannot have
 * a best although it is asked for is an error when the run is made.
 * Not here: when records are written (checkpoints.c).
 */
#include <string.h>

#include "base/closest.h"
#include "checkpoint/records.h"

/* A validation without the metric that nobody asked for by name is no reason to end a run, but where only the best are
 * kept, or where training ends with the best. */
bool nt__needs_metric(const nt__task *task) {
    const nt__settings *s = &task->settings;
    return s->from.checkpoint_metric != NT__FROM_DEFAULT || !s->checkpoint_keep_latest || s->restore_best;
}

static bool has_validation(const nt__traced *traced) {
    return nt__data_split_find(traced->data, "val") != NULL;
}

/* ---- before the traces ------------------------------------------------------------------------------------------ */

/* Why no checkpoint of the run can be the best; NULL: one can, as far as is known. */
static const char *why_no_best(const nt__traced *traced) {
    if (traced->task->settings.no_log)
        return "is made with no_log, which writes no checkpoints: leave one of the two out";
    if (!traced->task->settings.checkpoint) return "is made with checkpoint = false: leave one of the two out";
    return has_validation(traced) ? NULL : "has no split 'val', so no checkpoint is scored: add one in build_data";
}

/* Without keep_latest only the best are kept, which takes a validation. */
static nt_status check_kept(const nt__traced *traced) {
    if (traced->task->settings.checkpoint_keep_latest || has_validation(traced)) return NT_OK;
    return nt__fail(
        NT_INVALID,
        "checkpoint_keep_latest is false, so only the best checkpoints are kept, and experiment '%s' has no "
        "split 'val' to tell which those are: add one, or set checkpoint_keep_latest or checkpoint = false",
        traced->task->experiment->name);
}

nt_status nt__ranking_check(const nt__traced *traced) {
    bool asked = traced->train && traced->task->settings.restore_best && !traced->task->is_plan;
    const char *why = asked ? why_no_best(traced) : NULL;
    if (why)
        return nt__fail(NT_INVALID, "restore_best needs a best checkpoint, and run '%s' %s",
                        traced->task->experiment->name, why);
    if (!traced->train || !nt__keeps_checkpoints(&traced->task->settings)) return NT_OK;
    return check_kept(traced);
}

/* ---- once all is traced ----------------------------------------------------------------------------------------- */

static bool is_among(const char *name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

/* What validations report is called, as far as traces tell: that of the program of full batches, else of the first. */
static nt_status list_names(const nt__traced *traced, const char ***out, size_t *count) {
    const nt__evaluation_program nothing = {0};
    const nt__evaluation_program *program =
        traced->programs.evaluation_count ? &traced->programs.evaluations[0] : &nothing;
    const char **names = nt__alloc(program->loss.count + program->metrics.count + 1, sizeof *names);
    if (!names) return NT_OUT_OF_MEMORY;
    *count = 0;
    for (size_t k = 0; k < program->metrics.count; k++) names[(*count)++] = program->metrics.items[k].name;
    for (size_t k = 0; k < program->loss.count; k++) names[(*count)++] = program->loss.items[k].name;
    *out = names;
    return NT_OK;
}

static void add_names(nt__text *text, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++) nt__text_add(text, "%s%s", i ? ", " : "", names[i]);
}

static nt_status fail_no_metric(const nt__task *task, const char *const *names, size_t count) {
    const char *metric = task->settings.checkpoint_metric;
    nt__text text = {0};
    nt__text_add(&text,
                 "checkpoints are ranked by '%s' (checkpoint_metric), which no validation of experiment '%s' "
                 "reports",
                 metric, task->experiment->name);
    nt__add_closest(&text, metric, names, count, "");
    nt__text_say(&text, count ? "; it reports: "
                              : ": it reports nothing. Add a hook for loss or metrics, or leave "
                                "checkpoint_metric out");
    add_names(&text, names, count);
    if (count) nt__text_say(&text, ". Rank them by one of these");
    nt_status status = text.failed ? NT_OUT_OF_MEMORY : nt__fail(NT_INVALID, "%s", text.data);
    nt__text_free(&text);
    return status;
}

/* Nobody asked for the metric, so that there is none is no error. */
static nt_status warn_of_no_best(const nt__task *task, const char *const *names, size_t count) {
    nt__text text = {0};
    nt__text_add(&text, "%s: no validation reports '%s', so only the newest checkpoint is kept and there is no best",
                 task->experiment->name, task->settings.checkpoint_metric);
    nt__text_say(&text, count ? "; checkpoint_metric can name one of: " : ": add a hook for loss or metrics");
    add_names(&text, names, count);
    nt_status status = text.failed ? NT_OUT_OF_MEMORY : nt__warn("%s", text.data);
    nt__text_free(&text);
    return status;
}

static const char *better(const nt__task *task) {
    return strcmp(task->settings.checkpoint_mode, "max") == 0 ? "larger" : "smaller";
}

/* Where training does not show what the loss of a validation is. */
static void tell_choice(const nt__task *task) {
    const char *metric = task->settings.checkpoint_metric;
    bool is_loss = strcmp(metric, NT__VAL_LOSS) == 0 && task->experiment->hooks.loss;
    if (task->settings.manual || !task->experiment->hooks.loss)
        nt__notice("%s: the best checkpoint is the one with the %s %s%s", task->experiment->name,
                   *better(task) == 'l' ? "largest" : "smallest", metric,
                   is_loss ? ", which the loss hook gives in a validation; train_step has losses of its own" : "");
}

/* The names of a validation are known but for those of a hook on the host, which its first call tells. */
static nt_status check_names(const nt__task *task, const char *const *names, size_t count) {
    const char *metric = task->settings.checkpoint_metric;
    bool is_there = is_among(metric, names, count), on_host = task->experiment->hooks.metrics != NULL;
    if (!is_there && !on_host)
        return nt__needs_metric(task) ? fail_no_metric(task, names, count) : warn_of_no_best(task, names, count);
    nt_status status = nt__check_direction(&task->settings);
    if (status == NT_OK && is_there && !task->settings.quiet) tell_choice(task);
    if (status == NT_OK && !is_there && nt__needs_metric(task) && !task->settings.quiet)
        nt__notice("%s: checkpoints are to be ranked by '%s' (checkpoint_metric); what the metrics hook reports is "
                   "known from the first validation on, which has to have it",
                   task->experiment->name, metric);
    return status;
}

static nt_status tell_no_validation(const nt__task *task) {
    static const char why[] = "there is no split 'val', so no checkpoint is ranked and there is no best: add one in "
                              "build_data";
    if (nt__needs_metric(task))
        return nt__warn("%s: checkpoints are to be ranked by '%s' (checkpoint_metric); %s", task->experiment->name,
                        task->settings.checkpoint_metric, why);
    if (!task->settings.quiet) nt__notice("%s: %s", task->experiment->name, why);
    return NT_OK;
}

nt_status nt__ranking_check_metric(const nt__traced *traced) {
    const char **names;
    size_t count;
    if (!traced->train || !nt__keeps_checkpoints(&traced->task->settings)) return NT_OK;
    if (!has_validation(traced)) return tell_no_validation(traced->task);
    nt_status status = list_names(traced, &names, &count);
    if (status != NT_OK) return status;
    status = check_names(traced->task, names, count);
    nt__free(names);
    return status;
}

/* ---- after the first validation --------------------------------------------------------------------------------- */

static nt_status warn_unranked(const nt__task *task, const nt_value *values, size_t count) {
    const char **names = nt__alloc(count, sizeof *names);
    if (!names) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) names[i] = values[i].name;
    nt_status status = warn_of_no_best(task, names, count);
    nt__free(names);
    return status;
}

nt_status nt__ranking_tell(nt__recording *recording, const nt_value *values, size_t count) {
    const nt__settings *s = &recording->task->settings;
    if (count == 0 || recording->told_ranking) return NT_OK;
    recording->told_ranking = true;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(values[i].name, s->checkpoint_metric) != 0) continue;
        if (!s->quiet)
            nt__notice("%s: checkpoints are ranked by %s, the %s the better", recording->task->experiment->name,
                       s->checkpoint_metric, better(recording->task));
        return NT_OK;
    }
    bool is_told = nt__needs_metric(recording->task) ||
                   !recording->task->experiment->hooks.metrics; /* the latter when the run was made */
    return is_told ? NT_OK : warn_unranked(recording->task, values, count);
}
