/* A long short-term memory that tells the next character of the King James text. */
#include "text.h"

#define LSTM(FIELD, DEVICE, GRAPH_CONST)                                               \
    GRAPH_CONST(int, layers, 1, "one on the results of the other")                     \
    GRAPH_CONST(int, units, 256, "of each layer")                                      \
    GRAPH_CONST(int, width, 64, "features of a character")                             \
    FIELD(int, length, 128, "characters in a sample; each begins with an empty state") \
    FIELD(int, batch, 32, "samples in a micro-batch")                                  \
    FIELD(int, max_epochs, 1, "passes over the text")                                  \
    FIELD(float, peak, 5e-3f, "learning rate after a warm-up; then it falls to 0")     \
    FIELD(double, gradient_clip_norm, 1.0, "largest norm of the gradients")            \
    FIELD(const char *, text, "", "file to learn; without one the King James text")

NT_EXPERIMENT(Lstm, LSTM)

static nt_status build_data(const Lstm *e, nt_data *data) {
    return text_splits(data, e->text, e->length, e->batch);
}

static nt_tensor forward(const Lstm_view *e, nt_model *m, nt_batch *batch) {
    nt_tensor x = nt_embedding(m, "character", given_characters(batch), 256, e->width);
    for (int i = 0; i < e->layers; i++) NT_SCOPE(m, "layer%d", i) x = nt_lstm(m, "lstm", x, e->units);
    return nt_dense(m, "next", x, 256);
}

static nt_tensor loss(const Lstm_view *e, nt_tensor logits, nt_batch *batch) {
    (void)e;
    return nt_cross_entropy(logits, next_characters(batch));
}

static void device_metrics(const Lstm_view *e, nt_device_metrics *metrics, nt_tensor logits, nt_batch *batch) {
    (void)e;
    bits_per_character(metrics, logits, batch);
}

static nt_rule optimizer(const Lstm *e, const char *group) {
    (void)e, (void)group;
    return nt_adam();
}

static void schedules(const Lstm *e, nt_schedules *out) {
    nt_schedule_set(out, "learning_rate", nt_schedule_warmup(50, 0, nt_schedule_cosine(e->peak, 0)));
}

NT_DEFINE(Lstm, LSTM, .build_data = build_data, .forward = forward, .loss = loss, .device_metrics = device_metrics,
          .optimizer = optimizer, .schedules = schedules);
