/* Runs: an experiment with its fields, its data and its programs, ready to train, validate, evaluate and predict.
 *
 * Threads: runs of different threads are independent. They may be made, trained, used and freed at the same time; each
 * computes what it computes alone, and a program that several need is compiled once. A run itself belongs to one thread
 * at a time: while a call about it is under way, each call of another thread about it is NT_INVALID ("in use by another
 * thread"; those without a status say it by nt_error_message). Between calls it may pass from thread to thread. Its
 * hooks, listener and loggers are called on the thread of the call, sources on threads of the run's own. They may make
 * calls about their own run that read it, log, or set DEVICE fields; nt_train, nt_evaluate, nt_predict, nt_run_load and
 * nt_run_free of it are refused. Two runs of different threads share what a hook shares: static variables, random
 * numbers, files. The engine stays with the process that made the first run: in a child that
 * is forked after that, calls about runs are NT_INVALID.
 */
#ifndef NITRO_RUN_H
#define NITRO_RUN_H

#include "nitro/cache.h"
#include "nitro/experiment.h"
#include "nitro/log.h"
#include "nitro/options.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nt_run nt_run;

/* ---- making ----------------------------------------------------------------------------------------------------- */

/* Sets up a run: builds the data, lets derive change the fields by it, traces the hooks, lays out the parameters and
 * draws their initial values. Compiles nothing; a program is compiled when it is first used. `fields` is a struct of
 * the experiment (E_defaults() with changes), copied; NULL stands for the preset, else the defaults. Strings in it, and
 * what pointers in Host fields point at, must outlive the run; of arrays in DEVICE fields the run keeps references. An
 * array that derive puts into a DEVICE field passes to the run; one that is NULL is an error if a traced hook reads
 * it. With no_data build_data and derive are not called, so that fields keep the values given here, or have those of
 * options.weights, and what needs the layout of a batch waits for the first prediction: the traces, the parameters, and
 * whether a file that was loaded fits them. *out is NULL when the call fails. */
nt_status nt_run_new(const nt_experiment *experiment, const void *fields, const nt_run_options *options, nt_run **out);
/* A run that is in use, by a hook's own call or by another thread, is not freed; a notice says so. */
void nt_run_free(nt_run *run);
/* Frees the compiled programs and closes the engine's client, once all runs of all threads are freed; NT_INVALID says
 * what is still alive, as the run whose hook or listener makes this call. For the end of a program: a process may go on
 * to make new runs. */
nt_status nt_shutdown(void);

/* ---- using ------------------------------------------------------------------------------------------------------ */

/* Goes on from the run's state: a second call does nothing more once max_epochs are done. Trains until max_epochs or
 * max_steps. Needs a split named train. NT_INTERRUPTED when a stop was requested (what was reached is kept);
 * NT_DIVERGED names step, epoch and micro-batch of a loss that is not finite, and what to look at: that batch, or the
 * step before it, whose gradient was not finite at a finite loss, or a learning rate that is too high. To tell them
 * apart the program is launched a few times more, with the initial parameters; nothing of the run changes. */
nt_status nt_train(nt_run *run);
/* Trains for so many more epochs, or so many more steps, whatever max_epochs and max_steps say; 0: not limited that
 * way, and one of the two has to limit it. Like each call of nt_train it begins an epoch. */
nt_status nt_train_more(nt_run *run, int64_t epochs, int64_t steps);

/* Metrics of one pass over a split. `values` belongs to the run and lives until its next evaluation. */
typedef struct nt_results {
    const nt_value *values;
    size_t count;
} nt_results;
/* `split` NULL is "test"; `out` may be NULL. The values are those of the metrics or device_metrics hook, and after
 * them, if there is a loss hook, the loss as "val_loss", whatever the split is called: its mean over the samples, of
 * an nt_weighted_loss sum over count. A hook that reports a val_loss of its own takes its place; the setting val_loss
 * leaves it out. forward, the loss and device_metrics are one program for each number of rows that batches of the
 * splits have: they see the rows that there are, also of a short last batch, and nt_grad with respect to a field of the
 * batch works as in training. */
nt_status nt_evaluate(nt_run *run, const char *split, nt_results *out);
/* nt_evaluate of the split val. */
nt_status nt_validate(nt_run *run, nt_results *out);

/* A field of the batch to predict from: axis 0 of the array is the sample. */
typedef struct nt_named_array {
    const char *name; /* may be NULL if forward reads one field only */
    const nt_array *array;
} nt_named_array;
/* What forward returns for any number of samples, in their order: *out is a new array with as many rows. The samples go
 * through in batches of the run's size. The last one is filled up with copies of its last sample, and what belongs to
 * those is cut off, if nitro can tell that in forward no sample depends on another one; else a program is compiled
 * for as many samples as there are, which a notice says once. Only the fields that forward reads are needed; others are
 * ignored. Their element types and the shapes of their rows are those of the splits; with no_data those of the first
 * prediction, whose element types and numbers of axes are those of the training if the file of the weights has them.
 * NT_NOT_FOUND names a field that is missing. NT_INTERRUPTED when a stop was requested. */
nt_status nt_predict(nt_run *run, const nt_named_array *fields, size_t count, nt_array **out);

/* A run keeps the programs, the hooks and the values that it was made with, whatever is edited, loaded or assigned
 * later. nt_train, nt_evaluate and nt_validate trace the hooks again when they begin (milliseconds, nothing is
 * compiled), as the newest definition of the experiment's name has them, and say as notices what differs: for each
 * program the first operation that moved with its file, line and function, old and new; fields that were added, removed
 * or retyped; changed defaults and another learning rate. A new run uses what is new, and compiles only programs whose
 * text moved. What host hooks (build_data, metrics) do cannot be compared. nt_predict looks only when code was loaded
 * since. `quiet` leaves all of it out. This call gives the same report as text, "" when nothing differs; it belongs to
 * the run and lives until the next call. */
nt_status nt_run_drift(nt_run *run, const char **report);

/* ---- DEVICE fields of a live run -------------------------------------------------------------------------------- */

/* nt_set_device(run, "smoothing", 0.1): gives a DEVICE field another value: a C number for a number, an nt_array * for
 * an array, an nt_arrays * for a set of them, and an nt_array * for one array of a set, named "frozen.weight". Uploaded
 * at once, compiles nothing. A value of another numeric type is converted when the field's type has it. Refused: a
 * field that there is not, a Host or GraphConst field, one with a schedule, a value that does not convert, an array of
 * another shape; then nothing has changed. The run keeps references to arrays. May be called from a listener. */
#define nt_set_device(run, field, value) \
    _Generic((value),                          \
        float: nt_set_device_number,           \
        double: nt_set_device_number,          \
        nt_array *: nt_set_device_array,       \
        nt_arrays *: nt_set_device_arrays,     \
        default: nt_set_device_integer)(run, field, value)
nt_status nt_set_device_number(nt_run *run, const char *field, double value);
nt_status nt_set_device_integer(nt_run *run, const char *field, int64_t value);
nt_status nt_set_device_array(nt_run *run, const char *field, nt_array *value);
nt_status nt_set_device_arrays(nt_run *run, const char *field, nt_arrays *value);
/* What is on the device, read back: of a number an array of rank 0, of a set one array, named "frozen.weight". The
 * caller frees it. NULL with a message for fields that are not DEVICE. */
nt_array *nt_get_device(nt_run *run, const char *field);

/* Writes the fields of a run (those that derive changed are marked), its preset, settings, step and epoch. As
 * nt_experiment_print, but arrays of Host fields are not looked at. */
nt_status nt_run_print(const nt_run *run, nt_form form, FILE *out);

/* Writes where everything bound and from where: splits, settings with their source (option, hook, field, default),
 * schedules with what they set, parameter groups with rate, ratio, rule and size. The log has it too, as the value
 * binding_report. Touches neither data nor device. */
nt_status nt_run_report(const nt_run *run, FILE *out);

/* Writes the experiment's name, what layers compute in if that is not f32, a table of the parameters (path, shape,
 * type, elements, bytes, group) in the order forward declared them, one of the layer states, and the totals. A handle
 * with no_data has none before its first prediction, which is an error. `nitro summary FILE.c` writes the same. */
nt_status nt_run_summary(const nt_run *run, FILE *out);

/* Asks training, evaluation or prediction to end at the next step: that of all runs of the process, in all threads.
 * Safe in a signal handler and from any thread. Stays set until nt_stop_clear. */
void nt_stop_request(void);
void nt_stop_clear(void);

/* Of NULL, which is an error: -1, NULL, false. */
int64_t nt_run_step(const nt_run *run);
int64_t nt_run_epoch(const nt_run *run);
const char *nt_run_dir(const nt_run *run);
bool nt_run_has_split(const nt_run *run, const char *split);

/* Where a parameter lies: elements offset to offset + length of its group's flat buffer. */
typedef struct nt_parameter_info {
    const char *path, *group;
    int64_t offset, length;
    nt_dtype dtype;
    nt_shape shape;
} nt_parameter_info;
/* The parameters in the order forward declared them. False beyond the last. The texts live as long as the run. */
bool nt_run_parameter_at(const nt_run *run, size_t index, nt_parameter_info *out);
/* With a moving average (ema_decay) or a rule that evaluates with other parameters than it trains, these calls are
 * about the parameters that are evaluated; training goes on with its own. Loading sets both, and the average starts
 * again. */

/* A copy of a parameter by its path ("hidden.weight"); NULL with a message that lists the paths. */
nt_array *nt_run_parameter(nt_run *run, const char *path);
/* The layer states in the order forward declared them, and a copy of one, as for parameters. */
typedef struct nt_state_info {
    const char *path;
    nt_dtype dtype;
    nt_shape shape;
} nt_state_info;
bool nt_run_state_at(const nt_run *run, size_t index, nt_state_info *out);
nt_array *nt_run_state(nt_run *run, const char *path);
/* Parameters and layer states to and from a safetensors file: an array each, by path. What the model needs beside them
 * is saved too: the experiment's name, the values of GRAPH_CONST fields, of DEVICE numbers and of all fields that
 * derive set, the seed and compute_dtype as JSON in the metadata ("nitro_model"), arrays of DEVICE fields that derive
 * set as tensors "fields/NAME" (of a set "fields/NAME.MEMBER"). Loading refuses a file of another experiment, one with
 * other values of GRAPH_CONST fields, and one whose paths, shapes or types differ, and lists the differences; a warning
 * tells other values of what derive set, another compute_dtype, and fields that were added, removed or retyped. To have
 * them from the file, give it to nt_run_new as options.weights. A handle with no_data reads the file at once and
 * compares it at the first prediction; before that it has no parameters to give. Saving refuses parameters that are not
 * finite and states that are not a number with NT_DIVERGED, and leaves the file as it was. */
nt_status nt_run_save(nt_run *run, const char *path);
nt_status nt_run_load(nt_run *run, const char *path);
/* The same from a file that others wrote, or from a checkpoint of a run, of which it takes the parameters that were
 * evaluated: a path, or "RUN:best" or "RUN:latest" as for nt_run_options.resume. A map is "FROM=TO": arrays of the file
 * that are called FROM are TO in the model. One '*' in FROM stands for any text, and the one in TO for the same text.
 * The first map that fits an array is its; without one it keeps its name. "FROM=TO:transpose" reverses the axes,
 * "FROM=TO:2,3,1,0" makes axis 2 the first, and so on. "FROM=" leaves an array out, "=TO" lets a parameter of the model
 * keep what it has. With maps, arrays that the model has not are ignored, floating types are converted, and a notice
 * says what was taken, kept and not used; maps that fit nothing, another experiment and other values of fields are
 * warnings. A tensor of the file that no array can be (of an element type that nitro has not, of more than NT_MAX_RANK
 * axes) is an error without maps, and with them if it is an array of the model. NT_INVALID, with the names that are
 * close, if no map of an array of the file fits any, or no "=TO" fits if there are only those. */
nt_status nt_run_load_mapped(nt_run *run, const char *source, const char *const *maps, size_t map_count);

/* Lines of a program's own, at the step and epoch of now. They go to every logger of the run; images and histograms are
 * kept by "tensorboard". The log is open from the first nt_train on, so they are for listeners and for after it;
 * NT_INVALID if there is none. */

/* Numbers of a context, which may be any name: "<context>/<name>" in TensorBoard. NT_INVALID for a name that is there
 * twice, is type, context, epoch or step, is empty or is not UTF-8. Files quote other characters, terminals show them
 * as escapes. */
nt_status nt_run_log_values(nt_run *run, const char *context, const nt_value *values, size_t count);
/* TensorBoard shows a text as Markdown. */
nt_status nt_run_log_text(nt_run *run, const char *name, const char *text);
/* Values of any shape and type; those that are not finite are left out. */
nt_status nt_run_log_histogram(nt_run *run, const char *name, const nt_array *values);
/* u8 [height, width, channels]: 1 channel is grey, 3 are RGB, 4 RGBA. NT_NOT_FOUND if "tensorboard" logs and nitro
 * was built without libpng. */
nt_status nt_run_log_image(nt_run *run, const char *name, const nt_array *pixels);

/* Counters of the process, of all threads, as one JSON object: cache, transfers, buffers. */
nt_status nt_stats_write(const char *path);

#ifdef __cplusplus
}
#endif

#endif
