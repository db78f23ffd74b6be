/* A transformer that tells the next character of the King James text. */
#include "transformer.h"
#include "text.h"

#define TRANSFORMER(FIELD, DEVICE, GRAPH_CONST)                                    \
    TRANSFORMER_FIELDS(GRAPH_CONST)                                                \
    FIELD(int, length, 128, "characters in a sample")                              \
    FIELD(int, batch, 16, "samples in a micro-batch")                              \
    FIELD(int, max_epochs, 1, "passes over the text")                              \
    FIELD(float, peak, 2e-3f, "learning rate after a warm-up; then it falls to 0") \
    FIELD(double, gradient_clip_norm, 1.0, "largest norm of the gradients")        \
    FIELD(const char *, text, "", "file to learn; without one the King James text")

NT_EXPERIMENT(Transformer, TRANSFORMER)

static nt_status build_data(const Transformer *e, nt_data *data) {
    return text_splits(data, e->text, e->length, e->batch);
}

static nt_tensor forward(const Transformer_view *e, nt_model *m, nt_batch *batch) {
    nt_tensor x = embed(m, given_characters(batch), e->width);
    for (int i = 0; i < e->layers; i++) NT_SCOPE(m, "block%d", i) x = block(m, x, e->heads, NULL, (nt_tensor){0});
    return tell(m, x);
}

static nt_tensor loss(const Transformer_view *e, nt_tensor logits, nt_batch *batch) {
    (void)e;
    return nt_cross_entropy(logits, next_characters(batch));
}

static void device_metrics(const Transformer_view *e, nt_device_metrics *metrics, nt_tensor logits, nt_batch *batch) {
    (void)e;
    bits_per_character(metrics, logits, batch);
}

static nt_rule optimizer(const Transformer *e, const char *group) {
    (void)e, (void)group;
    return nt_adam(.beta2 = 0.99);
}

static double weight_decay(const Transformer *e, const char *group) {
    (void)e, (void)group;
    return 0.1;
}

static void schedules(const Transformer *e, nt_schedules *out) {
    nt_schedule_set(out, "learning_rate", nt_schedule_warmup(100, 0, nt_schedule_cosine(e->peak, 0)));
}

NT_DEFINE(Transformer, TRANSFORMER, .build_data = build_data, .forward = forward, .loss = loss,
          .device_metrics = device_metrics, .optimizer = optimizer, .weight_decay = weight_decay,
          .schedules = schedules);
