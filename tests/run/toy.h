/* A small experiment on made-up data that the tests of runs share: two classes of points in four dimensions.
 * Include after cmocka.
 */
#ifndef NT_TESTS_RUN_TOY_H
#define NT_TESTS_RUN_TOY_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../base/scratch.h"
#include "base/random.h"
#include "nitro.h"
#include "xla/xla.h"

#define TOY(FIELD, DEVICE, GRAPH_CONST)                                        \
    GRAPH_CONST(int, hidden, 8, "hidden units")                                \
    DEVICE(float, smoothing, 0.0f, "label smoothing")                          \
    FIELD(int, batch, 16, "samples in a micro-batch")                          \
    FIELD(int, rows, 128, "samples in train")                                  \
    FIELD(int, val_rows, 40, "samples in val; 0: no such split")               \
    FIELD(int, bad_label, 0, "a label of this value in train, row 5; 0: none") \
    FIELD(bool, poison, false, "a nan in the points of train, row 40")
NT_EXPERIMENT(Toy, TOY)

static inline nt_array *toy_points(int rows, bool poison) {
    nt_array *points = nt_array_new(NT_F32, nt_dims(rows, 4));
    if (!points) return NULL;
    float *x = points->data;
    for (int i = 0; i < rows * 4; i++)
        x[i] = nt__uniform_of_bits(nt__random_bits(nt__key_of_seed(5), (uint64_t)i)) * 2 - 1;
    if (poison && rows > 40) x[160] = NAN;
    return points;
}

static inline nt_array *toy_labels(int rows, int bad_label) {
    nt_array *points = toy_points(rows, false), *labels = nt_array_new(NT_U8, nt_dims(rows));
    const float *x = points ? points->data : NULL;
    for (int i = 0; x && labels && i < rows; i++) ((uint8_t *)labels->data)[i] = x[4 * i] + x[4 * i + 1] > 0;
    if (bad_label && labels && rows > 5) ((uint8_t *)labels->data)[5] = (uint8_t)bad_label;
    nt_array_free(points);
    if (x) return labels;
    nt_array_free(labels);
    return NULL;
}

static inline nt_status toy_split(const Toy *e, nt_data *data, const char *name, int rows, bool training) {
    nt_array *number = nt_array_new(NT_I64, nt_dims(rows));
    for (int i = 0; number && i < rows; i++) ((int64_t *)number->data)[i] = i;
    nt_split(data, name, .batch = e->batch, .shuffle = training, .drop_last = training);
    nt_split_field(data, name, "x", toy_points(rows, e->poison && training));
    nt_split_field(data, name, "label", toy_labels(rows, training ? e->bad_label : 0));
    nt_split_field(data, name, "number", number);
    return nt_data_status(data);
}

static nt_status toy_build_data(const Toy *e, nt_data *data) {
    toy_split(e, data, "train", e->rows, true);
    if (e->val_rows) toy_split(e, data, "val", e->val_rows, false);
    return nt_data_status(data);
}

static nt_tensor toy_forward(const Toy_view *e, nt_model *m, nt_batch *batch) {
    nt_tensor x = nt_tanh(nt_dense(m, "hidden", nt_field(batch, "x"), e->hidden));
    return nt_dense(m, "logits", x, 2);
}

static nt_tensor toy_loss(const Toy_view *e, nt_tensor logits, nt_batch *batch) {
    return nt_cross_entropy(logits, nt_field(batch, "label"), .label_smoothing = e->smoothing);
}

static void toy_metrics(const Toy *e, nt_metrics *out, const nt_array *logits, const nt_host_batch *batch) {
    (void)e;
    const nt_array *numbers = nt_host_field(batch, "number");
    nt_metric_accuracy(out, "accuracy", logits, nt_host_field(batch, "label"));
    nt_metric_max(out, "last", nt_array_get(numbers, numbers->shape.dims[0] - 1));
}

NT_DEFINE(Toy, TOY, .build_data = toy_build_data, .forward = toy_forward, .loss = toy_loss, .metrics = toy_metrics);

/* ---- listening -------------------------------------------------------------------------------------------------- */

enum { MOST_LOSSES = 4096 };
typedef struct heard {
    double losses[MOST_LOSSES], epoch_losses[64];
    int64_t steps[MOST_LOSSES];
    size_t count, epochs, evaluated;
    nt__engine_counts at_step_2, at_step_1999; /* both in the middle of an epoch */
    int64_t stop_at;                           /* 0: never */
} heard;

static inline void listen(const nt_event *event, void *context) {
    heard *h = context;
    if (event->kind == NT_EVENT_STEP && h->count < MOST_LOSSES) {
        h->losses[h->count] = event->loss;
        h->steps[h->count++] = event->step;
        if (event->step == 2) h->at_step_2 = nt__engine_counts_now();
        if (event->step == 1999) h->at_step_1999 = nt__engine_counts_now();
        if (h->stop_at && event->step == h->stop_at) nt_stop_request();
    }
    if (event->kind == NT_EVENT_EPOCH && h->epochs < 64) h->epoch_losses[h->epochs++] = event->loss;
    if (event->kind == NT_EVENT_EVALUATING) h->evaluated++;
}

static inline void assert_ok_at(nt_status status, int line) {
    if (status != NT_OK) fail_msg("line %d: %s: %s", line, nt_status_name(status), nt_error_message());
}
#define assert_ok(status) assert_ok_at((status), __LINE__)

static inline void assert_fails_at(nt_status got, nt_status wanted, const char *part, int line) {
    if (got != wanted || !strstr(nt_error_message(), part))
        fail_msg("line %d: %s with '%s', wanted %s with '%s'", line, nt_status_name(got), got ? nt_error_message() : "",
                 nt_status_name(wanted), part);
}
#define assert_fails(status, wanted, part) assert_fails_at((status), (wanted), (part), __LINE__)

static inline nt_run_options quiet_options(heard *h) {
    return (nt_run_options){.no_log = true, .quiet = true, .on_event = h ? listen : NULL, .event_context = h};
}

static inline int shut_down(void **state) {
    (void)state;
    nt_stop_clear();
    nt_status status = nt_shutdown();
    if (status != NT_OK) print_error("at the end: %s\n", nt_error_message());
    return status != NT_OK;
}

#endif
