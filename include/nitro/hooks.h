/* Hooks of an experiment, one row each: the functions that NT_DEFINE names, and how nitro keeps them.
 *
 * Host hooks see the experiment itself, every field, on the host. Traced hooks see its view: GRAPH_CONST values and
 * DEVICE tensors. Host hooks other than those of metrics are called when a run is made (param_group and no_decay for
 * each parameter, rate_ratio, optimizer, weight_decay and decay_anchor for each group, those of settings once more
 * after derive, the others once); forward, loss and the traced metrics then, once for each program they are part of.
 * When the run is used, those but build_data and derive are called again to see whether they have changed
 * (nt_run_drift).
 */
#ifndef NITRO_HOOKS_H
#define NITRO_HOOKS_H

#include "nitro/data.h"
#include "nitro/manual.h"
#include "nitro/metrics.h"
#include "nitro/nn.h"
#include "nitro/optim.h"
#include "nitro/schedule.h"
#include "nitro/settings.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ROW(TAG, what it returns, name, (parameters), (arguments)), and VOID(TAG, name, (parameters), (arguments)) for those
 * that return nothing. HOST and VIEW are what the first parameter points at: the experiment's types, or void. */
#define NT_HOOKS_(ROW, VOID, TAG, HOST, VIEW)                                                                         \
    /* Fills the splits. Host code, once, at setup. Required. */                                                      \
    ROW(TAG, nt_status, build_data, (const HOST *e, nt_data *data), (e, data))                                        \
    /* The model: inputs of the batch to outputs, whose axis 0 is the sample. Traced. Required. */                    \
    ROW(TAG, nt_tensor, forward, (const VIEW *e, nt_model *m, nt_batch *batch), (e, m, batch))                        \
    /* Outputs and targets to a floating scalar. Traced. Required for training. */                                    \
    ROW(TAG, nt_tensor, loss, (const VIEW *e, nt_tensor outputs, nt_batch *batch), (e, outputs, batch))               \
    /* What an evaluation reports beside val_loss: once for each batch, on host arrays; or traced, in the program of  \
     * forward and loss. One of the two. */                                                                           \
    VOID(TAG, metrics, (const HOST *e, nt_metrics *metrics, const nt_array *outputs, const nt_host_batch *batch),     \
         (e, metrics, outputs, batch))                                                                                \
    VOID(TAG, device_metrics, (const VIEW *e, nt_device_metrics *metrics, nt_tensor outputs, nt_batch *batch),        \
         (e, metrics, outputs, batch))                                                                                \
    /* Values that the log has of each step beside the loss, of its closing micro-batch: on host arrays, which brings \
     * the outputs to the host; or traced, in the gradient program. One of the two. */                                \
    VOID(TAG, host_train_metrics,                                                                                     \
         (const HOST *e, nt_metrics *metrics, const nt_array *outputs, const nt_host_batch *batch),                   \
         (e, metrics, outputs, batch))                                                                                \
    VOID(TAG, train_metrics, (const VIEW *e, nt_device_metrics *metrics, nt_tensor outputs, nt_batch *batch),         \
         (e, metrics, outputs, batch))                                                                                \
    /* A step of training: losses, gradients, updates (nitro/manual.h). Traced. Returns the loss. */                  \
    ROW(TAG, nt_tensor, train_step,                                                                                   \
        (const VIEW *e, nt_model *m, nt_batch *batch, nt_optimizers *optimizers, nt_device_metrics *metrics),         \
        (e, m, batch, optimizers, metrics))                                                                           \
    /* Whether train_step trains; else forward and loss do: true. */                                                  \
    ROW(TAG, bool, manual_training, (const HOST *e), (e))                                                             \
    /* The rule of a group: nt_radam(). nt_frozen() for one that is not trained. */                                   \
    ROW(TAG, nt_rule, optimizer, (const HOST *e, const char *group), (e, group))                                      \
    /* What nt_decay after a group's rule decays with, before it is multiplied by the rate: 0, no decay. */           \
    ROW(TAG, double, weight_decay, (const HOST *e, const char *group), (e, group))                                    \
    /* Whether that decay, or the ratio and decay of a rule such as LAMB, leaves a parameter alone: those of one axis \
     * (biases, scales, shifts). A weight_decay of nt_adamw, nt_lion or the like is for all. */                       \
    ROW(TAG, bool, no_decay, (const HOST *e, const char *path, nt_shape shape), (e, path, shape))                     \
    /* What a group's parameters decay to: nt_anchor_zero(). */                                                       \
    ROW(TAG, nt_anchor, decay_anchor, (const HOST *e, const char *group), (e, group))                                 \
    /* The group of a parameter: a flat buffer of one element type. NULL: "default". */                               \
    ROW(TAG, const char *, param_group, (const HOST *e, const char *path), (e, path))                                 \
    /* A group's rate is the base rate times this: 1. A ratio of 0 is a rate of 0. */                                 \
    ROW(TAG, double, rate_ratio, (const HOST *e, const char *group), (e, group))                                      \
    /* Calls nt_schedule_set for each value that changes from step to step. */                                        \
    VOID(TAG, schedules, (const HOST *e, nt_schedules *out), (e, out))                                                \
    /* Changes fields by what is in the data, once, after build_data; what it sets is what all else sees, and is      \
     * saved with the weights. Variables of C that it sets are not. */                                                \
    ROW(TAG, nt_status, derive, (HOST * e, const nt_data *data), (e, data))

/* The members of a struct of hooks, those of settings too, which NULL or "" as a text leave as they are. */
#define NT_HOOK_MEMBER_(TAG, T, name, parameters, arguments) T(*name) parameters;
#define NT_HOOK_VOID_MEMBER_(TAG, name, parameters, arguments) void(*name) parameters;
#define NT_HOOK_SETTING_MEMBER_(HOST, TYPE, name, ...) NT_SETTING_##TYPE##_ (*name)(const HOST *e);
#define NT_HOOK_MEMBERS_(HOST, VIEW)                                   \
    NT_HOOKS_(NT_HOOK_MEMBER_, NT_HOOK_VOID_MEMBER_, HOST, HOST, VIEW) \
    NT_SETTINGS_(NT_HOOK_SETTING_MEMBER_, HOST)

/* The hooks with their types erased; NT_DEFINE fills it from the typed ones. NULL: not defined. */
typedef struct nt_hooks {
    NT_HOOK_MEMBERS_(void, void)
    /* Name of the preset at a place, NULL beyond the last. Gives its doc and sets its fields if these are not NULL.
     */
    const char *(*preset)(size_t index, const char **doc, void *e);
} nt_hooks;

/* A function for each, that calls the experiment's own, and its address if there is one. */
#define NT_HOOK_CALL_(E, T, name, parameters, arguments) \
    static T E##_##name##_ parameters {                  \
        return E##_hooks_.name arguments;                \
    }
#define NT_HOOK_VOID_CALL_(E, name, parameters, arguments) \
    static void E##_##name##_ parameters {                 \
        E##_hooks_.name arguments;                         \
    }
#define NT_HOOK_SETTING_CALL_(E, TYPE, name, ...)              \
    static NT_SETTING_##TYPE##_ E##_##name##_(const void *e) { \
        return E##_hooks_.name(e);                             \
    }
#define NT_HOOK_SET_(E, T, name, parameters, arguments) .name = E##_hooks_.name ? E##_##name##_ : NULL,
#define NT_HOOK_VOID_SET_(E, name, parameters, arguments) .name = E##_hooks_.name ? E##_##name##_ : NULL,
#define NT_HOOK_SETTING_SET_(E, TYPE, name, ...) .name = E##_hooks_.name ? E##_##name##_ : NULL,
#define NT_HOOK_CALLS_(E)                                       \
    NT_HOOKS_(NT_HOOK_CALL_, NT_HOOK_VOID_CALL_, E, void, void) \
    NT_SETTINGS_(NT_HOOK_SETTING_CALL_, E)
#define NT_HOOK_SETS_(E)                                      \
    NT_HOOKS_(NT_HOOK_SET_, NT_HOOK_VOID_SET_, E, void, void) \
    NT_SETTINGS_(NT_HOOK_SETTING_SET_, E)

#ifdef __cplusplus
}
#endif

#endif
