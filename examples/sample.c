/* Writes text with what transformer.c has learned: a program around an experiment that only predicts.
 *
 *     nitro train transformer.c
 *     cc sample.c $(pkg-config --cflags --libs nitro-tcmalloc) -o sample
 *     ./sample "In the beginning" [SEED [PARAMETERS.safetensors]]
 *
 * A whole text is one run of one program, whatever it begins with: a loop over its characters, each drawn from what the
 * model tells of those before, whose keys and values the loop carries.
 */
#include "transformer.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE(FIELD, DEVICE, GRAPH_CONST)                                                           \
    TRANSFORMER_FIELDS(GRAPH_CONST)                                                                  \
    GRAPH_CONST(int, window, 128, "characters that the next one is told from, as in training")       \
    GRAPH_CONST(int, top_k, 0, "how many of the likeliest characters are drawn from; 0: all")        \
    DEVICE(float, temperature, 0.7f, "what logits are divided by; towards 0 the likeliest is drawn") \
    FIELD(int, length, 800, "characters of a text")                                                  \
    FIELD(int, batch, 1, "texts that are written at the same time")

NT_EXPERIMENT(Sample, SAMPLE)

static nt_status build_data(const Sample *e, nt_data *data) {
    (void)e, (void)data;
    return nt_fail(NT_INVALID, "this experiment only writes: transformer.c trains its parameters");
}

/* i32[samples] of logits [samples, 256]. */
static nt_tensor draw(const Sample_view *e, nt_model *m, nt_tensor logits) {
    if (e->top_k > 0) {
        nt_tensor likeliest = nt_top_k(logits, e->top_k, NULL);
        logits = nt_where(nt_less(logits, nt_reduce_min(likeliest, -1, NT_KEEP)), -INFINITY, logits);
    }
    return nt_random_categorical(nt_random_key(m, "draw"), nt_div(logits, nt_max(e->temperature, 1e-6)));
}

typedef struct writer {
    const Sample_view *e;
    nt_model *m;
} writer;

/* The character at `index` to the next one: what the text begins with, or where that has ended one that is drawn. */
static nt_loop write_next(nt_loop now, void *context) {
    const writer *w = context;
    nt_tensor given = now.inputs[0], character = now.carry[0];
    nt_tensor x = embed(w->m, nt_reshape(character, -1, 1), w->e->width);
    for (int i = 0; i < w->e->layers; i++) {
        nt_attention_cache cache = {now.carry[1 + 2 * i], now.carry[2 + 2 * i]};
        NT_SCOPE(w->m, "block%d", i) x = block(w->m, x, w->e->heads, &cache, now.index);
        now.carry[1 + 2 * i] = cache.keys;
        now.carry[2 + 2 * i] = cache.values;
    }
    nt_tensor drawn = nt_convert(draw(w->e, w->m, nt_reshape(tell(w->m, x), -1, 256)), NT_U8);
    now.outputs[0] = now.carry[0] = nt_where(nt_equal(given, 0), drawn, given);
    return now;
}

/* What texts begin with, u8[samples, length] with zeros after it, to whole texts. */
static nt_tensor forward(const Sample_view *e, nt_model *m, nt_batch *batch) {
    nt_tensor begin = nt_field(batch, "begin");
    int64_t samples = nt_dim(begin, 0), length = nt_dim(begin, 1);
    nt_tensor first = nt_slice(begin, nt_dims(0, 0), nt_dims(samples, 1));
    nt_tensor others = nt_slice(begin, nt_dims(0, 1), nt_dims(samples, length));
    nt_scan_options scan = {.carry = {nt_reshape(first, samples)}, .inputs = {nt_transpose(others, 1, 0)}};
    for (int i = 0; i < e->layers; i++) {
        nt_attention_cache cache = nt_attention_cache_empty(NT_F32, samples, e->heads, e->window, e->width / e->heads);
        scan.carry[1 + 2 * i] = cache.keys;
        scan.carry[2 + 2 * i] = cache.values;
    }
    writer w = {e, m};
    nt_loop all = nt_scan_at(write_next, "write_next", &w, scan, NT_SITE);
    return nt_concatenate(1, first, nt_transpose(all.outputs[0], 1, 0));
}

NT_DEFINE(Sample, SAMPLE, .build_data = build_data, .forward = forward);

static nt_status print_text(nt_run *run, const char *begin, int length) {
    nt_array *given = nt_array_new(NT_U8, nt_dims(1, length)), *text = NULL;
    if (!given) return nt_error_status();
    memcpy(given->data, begin, strnlen(begin, (size_t)length));
    nt_status status = nt_predict(run, &(nt_named_array){"begin", given}, 1, &text);
    if (status == NT_OK) {
        fwrite(text->data, 1, (size_t)length, stdout);
        putchar('\n');
    }
    nt_array_free(given);
    nt_array_free(text);
    return status;
}

int main(int count, char **words) {
    const char *begin = count > 1 && *words[1] ? words[1] : "\n";
    const char *parameters = count > 3 ? words[3] : "runs/Transformer/parameters.safetensors";
    Sample fields = Sample_defaults();
    nt_run_options options = {.no_data = true, .batch = {true, fields.batch}, .no_log = true, .quiet = true};
    options.weights = parameters; /* with the fields that Transformer was trained with */
    options.seed = (nt_maybe_int){true, count > 2 ? atoll(words[2]) : 1};
    nt_run *run = NULL;
    nt_status status = nt_run_new(Sample_experiment(), &fields, &options, &run);
    if (status == NT_OK) status = print_text(run, begin, fields.length);
    nt_run_free(run);
    if (status == NT_OK) status = nt_shutdown();
    const char *advice = status == NT_NOT_FOUND && count <= 3 ? "; nitro train transformer.c makes the parameters" : "";
    if (status != NT_OK) fprintf(stderr, "%s%s\n", nt_error_message(), advice);
    return status == NT_OK ? 0 : 1;
}
