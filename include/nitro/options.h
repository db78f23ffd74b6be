/* Options of a run. Members are given by name; what is not given has its default.
 */
#ifndef NITRO_OPTIONS_H
#define NITRO_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "nitro/event.h"
#include "nitro/log.h"
#include "nitro/schedule.h"
#include "nitro/settings.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An option that nothing would use is an error that says why. */
typedef struct nt_run_options {
    NT_SETTINGS_(NT_SETTING_OPTION_, ) /* run_dir to val_loss: nitro/settings.h */
    /* The checkpoint that the run goes on from, with its seed: "auto" for the newest of the run that wrote last in
     * run_dir (a warning if there is none, and the run begins anew), the path of one, or "RUN:best", "RUN:latest" where
     * RUN is "latest", the id of a run or the folder of another one. Refused with the differences if the GraphConst
     * fields, the layout of the parameters, a decay anchor or a rule is another than then; within an epoch also if
     * split train has other rows, batches, samples, or another order. max_epochs may be another. Whatever else differs
     * (Host fields, DEVICE fields that are given anew, the data of all splits by rows and checksum, settings, the
     * optimizer's numbers, schedules that jump since the run has another length, the engine) is listed in one warning.
     * For a run that trains. NULL: the run begins anew. */
    const char *resume;
    /* Parameters and layer states to start with, as nt_run_load_mapped takes them; nothing else of a checkpoint. A
     * decay anchor of nt_anchor_initial is what the parameters were drawn with all the same. NULL: none.
     *
     * With evaluate_only or no_data the run has the model that was trained: before the data is built
     * its GRAPH_CONST and DEVICE fields, and all that derive set, get the values in the file, and so do the seed and
     * compute_dtype if no option says another. A field that is not at its default, or is named in given_fields, and
     * has another value than in the file is NT_INVALID with both; but such a DEVICE field that derive did not set keeps
     * its own. With maps such a value is a warning and is used: for a field that says what the model is used for. What
     * derive finds in other data is told by a warning, and the file's values stay. A file of another
     * experiment is a warning, and so is one without such values.
     * A run that trains keeps its own values, and a warning tells those that differ. */
    const char *weights;
    bool
        trained_weights; /* with weights NULL: those of "run_dir/parameters.safetensors", where nitro train puts them */
    const char *const *given_fields; /* names of fields that are not to be taken from the weights */
    size_t given_field_count;
    const char *const *weight_maps;
    size_t weight_map_count;
    bool restore_optimizer; /* of a checkpoint, take the states of the rules too. Rules, parameters and groups must
                               be the same, and a rule must have states. This option,
                               resume, restore_best, gradient_norm and histograms are for a run that trains: without a
                               split train, or with evaluate_only or no_data, NT_INVALID */
    /* When training ends, also because a stop was requested, the parameters and layer states are those of the run's
     * best checkpoint; step, epoch and log stay. The run then trains no more. An error when the run is made if there
     * can be no best (no checkpoints, no split val, no such metric); NT_NOT_FOUND from nt_train if none was scored,
     * with the parameters of the last step. */
    bool restore_best;
    const char *preset;       /* the preset that the fields are from: shown and logged. With fields NULL it
                                 sets them */
    bool no_data;             /* build_data is not called, and the handle only predicts */
    nt_maybe_int batch;       /* samples in a batch with no_data: 128; splits say it themselves */
    const nt_logger *loggers; /* of the user's own, beside those; copied */
    size_t logger_count;
    /* Source files whose text is kept in the log, as they are when the run is made: the file with NT_DEFINE. Up to 256
     * KiB a file and 1 MiB in all; of others the log has the name. */
    const char *const *sources;
    size_t source_count;
    bool no_log;        /* write nothing below run_dir, and do not lock it */
    bool evaluate_only; /* do not get ready to train: nothing of training is checked or traced */
    bool quiet;         /* no notices: no line for a compiled program, none when the code has changed. Warnings are not
                           hidden; what becomes of them nt_set_warning decides */
    bool trace_transfers; /* a notice for each step: what moved to and from the device */
    /* Replaces what the schedules hook declares, all of it. A list that ends with a NULL name; NULL: not given. */
    const nt_named_schedule *schedules;
    /* Each step's line in the log and its event have grad_norm: the L2 norm of all gradients that are trained with,
     * after accumulation and before any clip. */
    bool gradient_norm;
    bool histograms;    /* each epoch a histogram of each parameter is logged, which "tensorboard" keeps */
    bool no_disk_cache; /* programs are neither looked for on disk nor kept there */
    /* Options of the engine's compiler for all programs of the run, "NAME=VALUE" each, as in
     * "xla_cpu_prefer_vector_width=256". true and false are a bool, whole numbers an integer, other numbers a real, the
     * rest text; a value in double quotes is always text. Tried on a trivial program before the data is built: a name
     * or value that the engine refuses is NT_INVALID with the engine's words. */
    const char *const *compile_options;
    size_t compile_option_count;
    nt_event_function on_event;
    void *event_context;
} nt_run_options;

#ifdef __cplusplus
}
#endif

#endif
