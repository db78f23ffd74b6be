/* What a run tells while it works. */
#ifndef NITRO_EVENT_H
#define NITRO_EVENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nt_value {
    const char *name;
    double value;
} nt_value;

typedef enum nt_event_kind {
    NT_EVENT_SETUP,      /* the run is made, with no_data: laid out; `text` is a line that says what was set up */
    NT_EVENT_STEP,       /* an optimizer step ended and its loss is known */
    NT_EVENT_EVALUATING, /* a batch of an evaluation ended */
    NT_EVENT_PREDICTING, /* a batch of a prediction ended */
    NT_EVENT_EPOCH,      /* an epoch ended: `loss` is its mean, `values` the validation metrics */
} nt_event_kind;

typedef struct nt_event {
    nt_event_kind kind;
    const char *text;
    int64_t epoch, max_epochs; /* epoch counts from 1 */
    int64_t step, steps;       /* optimizer steps of the run so far, and of all its epochs */
    int64_t batch, batches;    /* in this pass over the split */
    const char *split;
    double loss;    /* of a step: its closing micro-batch; of an epoch: the mean over its micro-batches. Of a loss that
                       is an nt_weighted_loss: sum over count of the whole step, of the whole epoch */
    double seconds; /* of the epoch, or since training began */
    const nt_value *values;
    size_t value_count;
} nt_event;
/* Called on the thread of the call that works. It may read the run, log, set DEVICE fields and request a stop; calls
 * that train, evaluate, predict with, load or free the run are refused. */
typedef void (*nt_event_function)(const nt_event *event, void *context);

#ifdef __cplusplus
}
#endif

#endif
