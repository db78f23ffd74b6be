/* src/graph/rows.c: of which layers and operations it can be told that no row of a batch depends on another one, and
 * that whatever looks across rows is never taken for one of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nitro/activations.h"
#include "nitro/attention.h"
#include "nitro/control.h"
#include "nitro/gradient.h"
#include "nitro/recurrent.h"
#include "nn/nn.h"

enum { ROWS = 4, TIME = 6, WIDTH = 8, FIELDS = 0, PARAMETERS = 1 };

typedef struct model {
    nt_model *m;
    nt_tensor x, image, tokens, flat, mask; /* fields of the batch */
} model;
typedef nt_tensor (*forward)(const model *b);

static nt_tensor field(int index, const char *name, nt_dtype dtype, nt_shape shape) {
    return nt__input(FIELDS, index, name, (nt__type){dtype, shape});
}

/* As an evaluation traces it: the parameters are inputs, and layers do not train. */
static bool apart(forward build) {
    nt__graph *graph = nt__trace_begin();
    nt_model *m = nt__model_new((nt__model_roles){PARAMETERS, 2, 3});
    assert_non_null(graph);
    assert_non_null(m);
    nt__model_begin(m, false, NULL);
    const model b = {m,
                     field(0, "x", NT_F32, nt_dims(ROWS, TIME, WIDTH)),
                     field(1, "image", NT_F32, nt_dims(ROWS, 8, 8, 3)),
                     field(2, "tokens", NT_I32, nt_dims(ROWS, TIME)),
                     field(3, "flat", NT_F32, nt_dims(ROWS, WIDTH)),
                     field(4, "mask", NT_BOOL, nt_dims(ROWS, TIME))};
    nt_tensor y = build(&b);
    bool are_apart = nt__rows_are_apart(y, FIELDS, ROWS);
    if (nt__trace_status(graph) != NT_OK) fail_msg("%s", nt_error_message());
    nt__trace_end(graph);
    nt__model_free(m);
    return are_apart;
}

/* ---- models whose samples are by themselves --------------------------------------------------------------------- */

static nt_tensor dense(const model *b) {
    return nt_dense(b->m, "out", nt_gelu(nt_dense(b->m, "in", b->x, 16)), 3);
}
static nt_tensor flattened(const model *b) {
    return nt_dense(b->m, "out", nt_reshape(b->image, ROWS, 192), 3);
}
static nt_tensor convolutions(const model *b) {
    nt_tensor x = nt_relu(nt_conv_layer(b->m, "a", b->image, 4, nt_dims(3, 3), .same = true));
    x = nt_max_pool(x, nt_dims(2, 2));
    x = nt_conv_layer(b->m, "b", x, 8, nt_dims(3, 3), .stride = {2, 2}, .pad = {{1, 1}, {1, 1}});
    x = nt_max_pool(x, nt_dims(3, 3), .stride = {1, 1}, .pad = {{1, 1}, {1, 1}});
    x = nt_avg_pool(x, nt_dims(2, 2), .stride = {1, 1}, .same = true);
    x = nt_conv_transposed_layer(b->m, "c", x, 4, nt_dims(2, 2), .stride = {2, 2});
    return nt_dense(b->m, "out", nt_global_avg_pool(x), 3);
}
static nt_tensor channel_convolution(const model *b) {
    return nt_conv_layer(b->m, "a", b->image, 3, nt_dims(3, 3), .groups = 3, .same = true);
}
static nt_tensor batch_norm(const model *b) {
    nt_tensor x = nt_batch_norm(b->m, "norm", nt_conv_layer(b->m, "a", b->image, 4, nt_dims(3, 3)));
    return nt_batch_norm(b->m, "flat", nt_dense(b->m, "out", nt_global_max_pool(x), 3));
}
static nt_tensor norms(const model *b) {
    nt_tensor x = nt_rms_norm(b->m, "rms", nt_layer_norm(b->m, "layer", b->x));
    return nt_group_norm(b->m, "group", nt_layer_norm(b->m, "two", x, .axes = 2), 2);
}
static nt_tensor embedding(const model *b) {
    nt_tensor x = nt_embedding(b->m, "tokens", b->tokens, 50, WIDTH);
    nt_tensor places = nt_parameter(b->m, "places", nt_dims(TIME, WIDTH));
    return nt_mean(nt_add(x, places), 1);
}
static nt_tensor transformer(const model *b) {
    nt_tensor x = nt_embedding(b->m, "tokens", b->tokens, 50, WIDTH);
    nt_tensor lengths = nt_sum(nt_convert(b->mask, NT_I32), 1);
    x = nt_add(x, nt_multi_head_attention(b->m, "a", nt_layer_norm(b->m, "norm", x), 2, .causal = true, .rotary = true,
                                          .lengths = lengths));
    x = nt_add(x, nt_multi_head_attention(b->m, "cross", x, 4, .groups = 2, .context = b->x,
                                          .mask = nt_reshape(b->mask, ROWS, 1, 1, TIME)));
    x = nt_dropout(b->m, "drop", x, 0.5);
    return nt_matmul(x, nt_transpose(nt_parameter(b->m, "out", nt_dims(50, WIDTH)), 1, 0));
}
static nt_tensor recurrent(const model *b) {
    nt_tensor lengths = nt_sum(nt_convert(b->mask, NT_I32), 1);
    nt_tensor x = nt_lstm(b->m, "lstm", b->x, 5, .lengths = lengths);
    x = nt_concatenate(-1, x, nt_gru(b->m, "gru", b->x, 5, .direction = NT_BACKWARD));
    nt_recurrent_state last;
    nt_rnn(b->m, "rnn", x, 5, .last = &last);
    return nt_dense(b->m, "out", last.hidden, 3);
}
static nt_values block(nt_values x, void *context) {
    return (nt_values){{nt_tanh(nt_dense(context, "block", x.at[0], WIDTH))}};
}
static nt_tensor in_remat(const model *b) {
    return nt_remat(block, b->m, b->x).at[0];
}
/* What a physics-informed net returns beside u. */
static nt_tensor derivative(const model *b) {
    nt_tensor u = nt_dense(b->m, "out", nt_tanh(nt_dense(b->m, "in", b->flat, 5)), 1);
    return nt_concatenate(1, u, nt_grad(nt_sum(u), b->flat));
}
static nt_tensor chosen(const model *b) {
    nt_tensor places, best = nt_top_k(b->flat, 3, &places);
    nt_tensor along = nt_take_along(b->flat, nt_argsort(b->flat, 1, NT_ASCENDING), 1);
    nt_tensor ranks = nt_cumsum(nt_sort(b->flat, 1, NT_DESCENDING), 1, NT_FORWARD);
    nt_tensor hot = nt_one_hot(nt_argmax(b->flat, 1), WIDTH, NT_F32);
    return nt_concatenate(1, best, nt_flip(along, 1), nt_softmax(ranks, 1), hot,
                          nt_take(b->flat, nt_iota(NT_I32, nt_dims(3), 0), 1));
}
static nt_tensor contracted(const model *b) {
    nt_tensor scores = nt_einsum("btd,bsd->bts", b->x, b->x);
    return nt_einsum("bts,bsd->btd", nt_softmax(scores, -1), b->x);
}
static nt_tensor time_first(const model *b) {
    nt_tensor x = nt_reshape(nt_transpose(b->x, 1, 0, 2), TIME * ROWS, WIDTH);
    x = nt_matmul(x, nt_parameter(b->m, "w", nt_dims(WIDTH, 2)));
    return nt_transpose(nt_reshape(x, TIME, ROWS, 2), 1, 0, 2);
}
static nt_tensor padded(const model *b) {
    nt_tensor x = nt_pad(b->flat, nt_dims(0, 2), nt_dims(0, 1), 0);
    return nt_update_slice(x, nt_range(b->flat, 1, 0, 2), nt_dims(0, 3));
}
static nt_tensor constant_of_the_place(const model *b) {
    return nt_add(b->flat, nt_iota(NT_F32, nt_dims(ROWS, WIDTH), 0));
}
static nt_tensor without_the_batch(const model *b) {
    return nt_parameter(b->m, "w", nt_dims(ROWS, 2));
}

static void models_whose_samples_are_by_themselves(void **state) {
    (void)state;
    const struct {
        const char *name;
        forward build;
    } rows[] = {{"dense", dense},
                {"flattened", flattened},
                {"convolutions", convolutions},
                {"channel convolution", channel_convolution},
                {"batch norm", batch_norm},
                {"norms", norms},
                {"embedding", embedding},
                {"transformer", transformer},
                {"recurrent", recurrent},
                {"remat", in_remat},
                {"derivative", derivative},
                {"chosen", chosen},
                {"contracted", contracted},
                {"time first", time_first},
                {"padded", padded},
                {"constant of the place", constant_of_the_place},
                {"without the batch", without_the_batch}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!apart(rows[i].build)) fail_msg("%s: rows are taken for mixed", rows[i].name);
}

/* ---- what looks across the rows --------------------------------------------------------------------------------- */

static nt_tensor centred(const model *b) {
    return nt_sub(b->flat, nt_mean(b->flat, 0, NT_KEEP));
}
static nt_tensor all_pairs(const model *b) {
    return nt_matmul(b->flat, nt_transpose(b->flat, 1, 0));
}
static nt_tensor shifted(const model *b) {
    return nt_sub(b->flat, nt_roll(b->flat, 1, 0));
}
static nt_tensor reversed(const model *b) {
    return nt_flip(b->flat, 0);
}
static nt_tensor sorted(const model *b) {
    return nt_sort(b->flat, 0, NT_ASCENDING);
}
static nt_tensor running(const model *b) {
    return nt_cumsum(b->flat, 0, NT_FORWARD);
}
static nt_tensor largest_of_all(const model *b) {
    return nt_div(b->flat, nt_reduce_max(b->flat));
}
static nt_tensor first_row(const model *b) {
    return nt_sub(b->flat, nt_range(b->flat, 0, 0, 1));
}
static nt_tensor transposed(const model *b) { /* as many features as rows */
    return nt_transpose(nt_range(b->flat, 1, 0, ROWS), 1, 0);
}
static nt_tensor split_rows(const model *b) {
    nt_tensor x = nt_reshape(b->flat, ROWS / 2, 2, WIDTH);
    return nt_reshape(nt_sub(x, nt_mean(x, 1, NT_KEEP)), ROWS, WIDTH);
}
static nt_tensor mixed_order(const model *b) { /* [rows, time] read as [time, rows] */
    return nt_transpose(nt_reshape(nt_convert(b->tokens, NT_F32), TIME, ROWS), 1, 0);
}
static nt_tensor taken_rows(const model *b) {
    return nt_take(b->flat, nt_iota(NT_I32, nt_dims(ROWS), 0), 0);
}
static nt_tensor taken_by_each(const model *b) { /* [rows, rows, time] before the sum */
    return nt_sum(nt_take(b->flat, b->tokens, 1), 1);
}
static nt_tensor scattered(const model *b) {
    return nt_scatter_add(nt_full(NT_F32, nt_dims(ROWS, WIDTH), 0), nt_argmax(b->flat, 1), b->flat, 0);
}
static nt_tensor conv_over_rows(const model *b) {
    return nt_reshape(nt_conv1d(nt_expand(b->flat, 0), nt_parameter(b->m, "k", nt_dims(3, WIDTH, 2)), .same = true),
                      ROWS, 2);
}
static nt_tensor kernel_of_rows(const model *b) {
    nt_tensor kernel = nt_reshape(b->flat, 1, ROWS, WIDTH);
    return nt_reshape(nt_conv1d(nt_full(NT_F32, nt_dims(ROWS, 1, ROWS), 1), kernel), ROWS, WIDTH);
}
static nt_loop add_up(nt_loop now, void *context) {
    (void)context;
    nt_tensor sum = nt_add(now.carry[0], now.inputs[0]);
    return (nt_loop){.carry = {sum}, .outputs = {sum}};
}
static nt_tensor scan_over_rows(const model *b) {
    return nt_scan(add_up, NULL, .carry = {nt_full(NT_F32, nt_dims(WIDTH), 0)}, .inputs = {b->flat}).outputs[0];
}
static nt_loop mix_late(nt_loop now, void *context) { /* the second carry is mixed from the second iteration on */
    (void)context;
    return (nt_loop){.carry = {nt_sub(now.carry[0], nt_mean(now.carry[0], 0, NT_KEEP)), now.carry[0]}};
}
static nt_tensor mixed_in_a_loop(const model *b) {
    nt_tensor zeros = nt_full(NT_F32, nt_dims(ROWS, WIDTH), 0);
    return nt_scan(mix_late, NULL, .carry = {b->flat, zeros}, .length = 3).carry[1];
}
static nt_tensor goes_on(nt_loop now, void *context) {
    (void)context;
    return nt_less(nt_sum(now.carry[0]), 10);
}
static nt_loop increase(nt_loop now, void *context) {
    (void)context;
    return (nt_loop){.carry = {nt_add(now.carry[0], 1)}};
}
static nt_tensor as_long_as_all(const model *b) {
    return nt_while(goes_on, increase, NULL, b->flat).carry[0];
}
static nt_values twice(nt_values x, void *context) {
    (void)context;
    return (nt_values){{nt_mul(x.at[0], 2)}};
}
static nt_values same(nt_values x, void *context) {
    (void)context;
    return x;
}
static nt_tensor decided_by_all(const model *b) {
    return nt_cond(nt_greater(nt_sum(b->flat), 0), twice, same, NULL, b->flat).at[0];
}
static nt_tensor differentiated_across(const model *b) {
    return nt_grad(nt_sum(nt_square(nt_sum(b->flat, 0))), b->flat);
}

static void what_looks_across_is_mixed(void **state) {
    (void)state;
    const struct {
        const char *name;
        forward build;
    } rows[] = {{"centred", centred},
                {"all pairs", all_pairs},
                {"shifted", shifted},
                {"reversed", reversed},
                {"sorted", sorted},
                {"running", running},
                {"largest of all", largest_of_all},
                {"first row", first_row},
                {"transposed", transposed},
                {"split rows", split_rows},
                {"mixed order", mixed_order},
                {"taken rows", taken_rows},
                {"taken by each", taken_by_each},
                {"scattered", scattered},
                {"convolution over rows", conv_over_rows},
                {"kernel of rows", kernel_of_rows},
                {"scan over rows", scan_over_rows},
                {"mixed in a loop", mixed_in_a_loop},
                {"as long as all", as_long_as_all},
                {"decided by all", decided_by_all},
                {"differentiated across", differentiated_across}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (apart(rows[i].build)) fail_msg("%s: rows are taken for apart", rows[i].name);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_whose_samples_are_by_themselves),
        cmocka_unit_test(what_looks_across_is_mixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
