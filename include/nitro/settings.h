/* Settings of a run, one row each. A row makes the option of nt_run_options, the hook of an experiment, the flag of the
 * command with its help, and the lines in the log and in the report.
 *
 * Which value counts: the option or flag, else the experiment's hook of that name, else its field of that name (a
 * number for a number, a text for a text), else the default. A message about a bad value says which of them it is from.
 * A field of the name gets the option's value too, so hooks see what holds. Options of training do no harm in a run
 * that only evaluates or predicts.
 */
#ifndef NITRO_SETTINGS_H
#define NITRO_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Options that can be left out: {true, 5} is given, the zero value is not. A given 0 is a 0. */
typedef struct nt_maybe_int {
    bool given;
    int64_t value;
} nt_maybe_int;
typedef struct nt_maybe_double {
    bool given;
    double value;
} nt_maybe_double;
typedef struct nt_maybe_bool {
    bool given, value;
} nt_maybe_bool;

/* ROW(E, TYPE, name, scope, default, default in words, check, told, what it is)
 *
 *     TYPE     INT64, DOUBLE, BOOL or STRING; an option is an nt_maybe_int, nt_maybe_double, nt_maybe_bool or a text,
 *              of which NULL and "" are not given
 *     scope    what of a run uses it: MODEL, RUN, EVALUATION, BEST (training, and what looks for RUN:best), TRAINING
 *     check    what values it may have (src/setting/check.c)
 *     told     where it is told although it has its default: LOG, REPORT; COMPARE: a resume compares it;
 *              NOT_IN_LOG, NOT_IN_REPORT: never there, as something else there says it
 */
#define NT_SETTINGS_(ROW, E)                                                                                           \
    /* "runs/<Experiment>". One run at a time may log in a folder. */                                                  \
    ROW(E, STRING, run_dir, RUN, NULL, "runs/<Experiment>", any, (NT__REPORT | NT__NOT_IN_LOG),                        \
        "folder of the parameters, the checkpoints and the log")                                                       \
    /* A seed that is not that of the checkpoint is a warning: the checkpoint's stays. */                              \
    ROW(E, INT64, seed, RUN, 42, "42", from_0, (NT__LOG | NT__REPORT),                                                 \
        "of initial values and of the order of samples")                                                               \
    ROW(E, INT64, max_epochs, TRAINING, 1, "1", from_0, (NT__LOG | NT__REPORT), "passes over the training data")       \
    ROW(E, INT64, max_steps, TRAINING, INT64_MAX, "no limit", from_0, 0, "stop after that many optimizer steps")       \
    /* Divides the batches of an epoch, else an error. */                                                              \
    ROW(E, INT64, accum, TRAINING, 1, "1", accum, (NT__LOG | NT__REPORT | NT__COMPARE),                                \
        "micro-batches in an optimizer step")                                                                          \
    /* 0 or below: no clipping. A gradient that is nan makes all of them nan. */                                       \
    ROW(E, DOUBLE, gradient_clip_norm, TRAINING, 0, "no clipping", clip, (NT__LOG | NT__NOT_IN_REPORT | NT__COMPARE),  \
        "largest norm of all gradients together")                                                                      \
    /* 0: no average. a = decay a + (1 - decay) x after each step, from the initial parameters on. Evaluations,        \
     * predictions and saved files have a. The schedule opt.ema_decay sets it. */                                      \
    ROW(E, DOUBLE, ema_decay, TRAINING, 0, "no average", ema_decay, (NT__LOG | NT__COMPARE),                           \
        "of a moving average of the parameters, which evaluations have")                                               \
    /* An error if nothing would use it, as when schedules set every rate. */                                          \
    ROW(E, DOUBLE, learning_rate, TRAINING, 1e-3, "0.001", above_0, (NT__LOG | NT__REPORT | NT__COMPARE),              \
        "step size of the optimizer")                                                                                  \
    ROW(E, BOOL, check_divergence, TRAINING, true, "true", any, (NT__LOG | NT__COMPARE),                               \
        "end training at a loss that is not finite")                                                                   \
    /* With commas between them: "jsonl" (run_dir/metrics.jsonl), "csv" (run_dir/metrics.csv, a row for each value:    \
     * type, context, epoch, step, name, value), "tensorboard" (event files in run_dir). "none": no logger of          \
     * nitro's. */                                                                                                     \
    ROW(E, STRING, log, TRAINING, "jsonl", "jsonl", loggers, NT__COMPARE,                                              \
        "loggers of the run, divided by commas, or none")                                                              \
    /* Mixed precision (nitro/nn.h). Another type is other programs. f16 is for evaluation and prediction: in training \
     * its small gradients become 0. */                                                                                \
    ROW(E, STRING, compute_dtype, MODEL, "f32", "f32", compute_dtype, (NT__LOG | NT__COMPARE),                         \
        "what layers compute in, f32, bf16 or f16; parameters and outputs stay f32")                                   \
    /* Checkpoints have the whole state, from which a run goes on exactly where it was (resume): one after the         \
     * validation of each epoch, one where training ends or is asked to stop. None with no_log. How they are kept is   \
     * an error as an option if none is written. */                                                                    \
    ROW(E, BOOL, checkpoint, TRAINING, true, "true", any, 0,                                                           \
        "write checkpoints to resume from, one an epoch and one at the end")                                           \
    ROW(E, INT64, checkpoint_every_steps, TRAINING, 0, "no", from_0, 0, "also one at each multiple of so many steps")  \
    ROW(E, DOUBLE, checkpoint_every_minutes, TRAINING, 0, "no", finite_from_0, 0,                                      \
        "also one when so many have passed since the last")                                                            \
    ROW(E, INT64, checkpoint_keep, TRAINING, 3, "3", keep, 0, "how many of the best are kept")                         \
    /* A value of the validation. A name that no validation can have is refused when the run is made; with the host    \
     * hook metrics, of which nobody knows that before, after the first validation. If the default is not there (no    \
     * loss, or val_loss = false), checkpoints are not ranked: only the newest is kept, and there is no best, which is \
     * a warning. */                                                                                                   \
    ROW(E, STRING, checkpoint_metric, BEST, "val_loss", "val_loss", any, NT__COMPARE,                                  \
        "what they are ranked by; with a hook for metrics name one of its values")                                     \
    /* Not given, by the metric's name: "max" for accuracy, auc, f1 and what metric libraries have like them, "min"    \
     * for losses, errors and distances. An error if the name does not say it. */                                      \
    ROW(E, STRING, checkpoint_mode, BEST, NULL, "by the name", mode, NT__COMPARE,                                      \
        "min or max: which value of it is better")                                                                     \
    ROW(E, BOOL, checkpoint_keep_latest, TRAINING, true, "true", any, 0, "keep the newest too, whatever it scored")    \
    ROW(E, INT64, checkpoint_keep_epochs, TRAINING, 0, "no", from_0, 0,                                                \
        "keep each of an epoch that is a multiple of this too")                                                        \
    ROW(E, INT64, checkpoint_keep_steps, TRAINING, 0, "no", from_0, 0, "the same of the step")                         \
    /* "run": other runs' in run_dir stay. "dir": all are ranked together, and those that are not kept are deleted,    \
     * whosever they are. How many there are is said when a run is made, with "dir" as a warning. */                   \
    ROW(E, STRING, checkpoint_scope, TRAINING, "run", "run", scope, 0,                                                 \
        "dir: rank those of all runs in run_dir together, and delete the rest")                                        \
    /* See nt_evaluate. */                                                                                             \
    ROW(E, BOOL, val_loss, EVALUATION, true, "true", any, 0, "validations and evaluations report the loss")

/* What the types of rows are in C: of values and hooks, and of options. */
#define NT_SETTING_INT64_ int64_t
#define NT_SETTING_DOUBLE_ double
#define NT_SETTING_BOOL_ bool
#define NT_SETTING_STRING_ const char *
#define NT_SETTING_OPTION_INT64_ nt_maybe_int
#define NT_SETTING_OPTION_DOUBLE_ nt_maybe_double
#define NT_SETTING_OPTION_BOOL_ nt_maybe_bool
#define NT_SETTING_OPTION_STRING_ const char *

#define NT_SETTING_OPTION_(E, TYPE, name, ...) NT_SETTING_OPTION_##TYPE##_ name;

#ifdef __cplusplus
}
#endif

#endif
