/* src/nn/recurrent.c: recurrent layers against trusted numbers, value and gradient, f32 and f64, both directions; what
 * they declare and refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../graph/golden.h"
#include "layer_trace.h"
#include "nitro/recurrent.h"

/* ---- golden numbers --------------------------------------------------------------------------------------------- */

typedef nt_tensor (*layer)(const golden_case *c, nt_model *m);

enum { MOST_MODELS = 8, MOST_LEAVES = 8 };
static nt_model *models[MOST_MODELS]; /* of one run; they live as long as its trace */
static size_t model_count;

static int free_models(void **state) {
    (void)state;
    while (model_count) nt__model_free(models[--model_count]);
    return 0;
}

/* Gate 2 of three, of [3 * units]. */
static nt_tensor new_gate(nt_tensor all) {
    int64_t units = nt_dim(all, 0) / 3;
    return nt_slice(all, nt_dims(2 * units), nt_dims(3 * units));
}

/* The file's weights are [out, in], and it has a bias in each of the two products. */
static nt_tensor value_of(const golden_case *c, const char *path) {
    if (strcmp(path, "l.weight") == 0) return nt_transpose(golden_input(c, "w_input"), 1, 0);
    if (strcmp(path, "l.recurrent_weight") == 0) return nt_transpose(golden_input(c, "w_hidden"), 1, 0);
    if (golden_has(c, "bias")) return golden_input(c, "bias");
    nt_tensor input = golden_input(c, "b_input"), hidden = golden_input(c, "b_hidden");
    if (strcmp(path, "l.recurrent_bias") == 0) return new_gate(hidden);
    assert_string_equal(path, "l.bias");
    if (golden_has(c, "c")) return nt_add(input, hidden);
    int64_t units = nt_dim(hidden, 0) / 3;
    nt_tensor both = nt_slice(hidden, nt_dims(0), nt_dims(2 * units));
    return nt_add(input, nt_concatenate(0, both, nt_full(c->floating, nt_dims(units), 0)));
}

/* Calls the layer twice: to learn what it declares, then with the file's numbers as its parameters. */
static nt_tensor build(const golden_case *c, layer call) {
    assert_true(model_count < MOST_MODELS);
    nt_model *m = models[model_count++] = nt__model_new((nt__model_roles){71, 72, 73});
    assert_non_null(m);
    nt__model_begin(m, true, NULL);
    call(c, m);
    size_t count;
    const nt__leaf *leaves = nt__model_leaves(m, &count);
    nt_tensor values[MOST_LEAVES];
    assert_true(count < MOST_LEAVES);
    for (size_t i = 0; i < count; i++) values[i] = value_of(c, leaves[i].path);
    nt__model_begin(m, true, values);
    nt_tensor y = call(c, m);
    nt__model_end(m);
    return y;
}

/* [batch, features] as a sequence of one. */
static nt_tensor single(const golden_case *c) {
    nt_tensor x = golden_input(c, "x");
    return nt_reshape(x, nt_dim(x, 0), 1, nt_dim(x, 1));
}

static int64_t units_of(const golden_case *c) {
    return nt_dim(golden_input(c, "w_hidden"), 1);
}

static nt_recurrent_state given_state(const golden_case *c) {
    return (nt_recurrent_state){golden_input(c, "h"), golden_has(c, "c") ? golden_input(c, "c") : (nt_tensor){0}};
}

static nt_tensor call_lstm(const golden_case *c, nt_model *m) {
    nt_recurrent_state last;
    nt_tensor y = nt_lstm(m, "l", single(c), units_of(c), .initial = given_state(c), .last = &last);
    c->outputs[1] = last.cell;
    return nt_reshape(y, nt_dim(y, 0), -1);
}

static nt_tensor call_gru(const golden_case *c, nt_model *m) {
    nt_recurrent_state last;
    nt_gru(m, "l", single(c), units_of(c), .initial = given_state(c), .last = &last);
    assert_null(last.cell.trace);
    return last.hidden;
}

static nt_tensor call_rnn(const golden_case *c, nt_model *m) {
    nt_tensor y = nt_rnn(m, "l", single(c), units_of(c), .initial = given_state(c));
    return nt_reshape(y, nt_dim(y, 0), -1);
}

/* The file has time first. */
static nt_tensor lstm_of_sequence(const golden_case *c, nt_model *m, nt_tensor x, nt_direction direction) {
    nt_recurrent_state last;
    nt_tensor y = nt_lstm(m, "l", nt_transpose(x, 1, 0, 2), units_of(c), .initial = given_state(c), .last = &last,
                          .direction = direction);
    c->outputs[1] = last.hidden;
    c->outputs[2] = last.cell;
    return nt_transpose(y, 1, 0, 2);
}

static nt_tensor call_sequence(const golden_case *c, nt_model *m) {
    return lstm_of_sequence(c, m, golden_input(c, "xs"), NT_FORWARD);
}

/* A sequence the other way round, gone through backward, is the same. */
static nt_tensor call_reversed(const golden_case *c, nt_model *m) {
    return nt_flip(lstm_of_sequence(c, m, nt_flip(golden_input(c, "xs"), 0), NT_BACKWARD), 0);
}

#define BUILDER(name)                                     \
    static nt_tensor build_##name(const golden_case *c) { \
        return build(c, call_##name);                     \
    }
BUILDER(lstm)
BUILDER(gru)
BUILDER(rnn)
BUILDER(sequence)
BUILDER(reversed)

static const golden_row rows[] = {
    {"lstm_cell", build_lstm},     {"gru_cell", build_gru},       {"rnn_cell", build_rnn},
    {"scan_lstm", build_sequence}, {"scan_lstm", build_reversed},
};
static const golden_plan plan = {"ops/recurrent.json", rows, sizeof rows / sizeof *rows, {NULL}};

static void golden_f32(void **state) {
    (void)state;
    golden_check(&plan, NT_F32);
}

static void golden_f64(void **state) {
    (void)state;
    golden_check(&plan, NT_F64);
}

/* ---- what they declare and refuse ------------------------------------------------------------------------------- */

static layer_trace begin(void) {
    return layer_trace_begin(nt_dims(2, 5, 3));
}

static void layers_declare_what_they_say(void **state) {
    (void)state;
    layer_trace f = begin();
    nt_tensor y = nt_lstm(f.model, "lstm", f.x, 4);
    assert_true(nt_shape_equal(nt_shape_of(y), nt_dims(2, 5, 4)));
    y = nt_gru(f.model, "gru", y, 6);
    y = nt_rnn(f.model, "rnn", y, 7, .no_bias = true);
    assert_true(nt_shape_equal(nt_shape_of(y), nt_dims(2, 5, 7)));
    nt_gru(f.model, "bare", f.x, 2, .no_bias = true);
    assert_int_equal(nt__trace_status(f.graph), NT_OK);
    static const char *const wanted[] = {
        "lstm.weight f32[3,16]",
        "lstm.bias f32[16]",
        "lstm.recurrent_weight f32[4,16]",
        "gru.weight f32[4,18]",
        "gru.bias f32[18]",
        "gru.recurrent_weight f32[6,18]",
        "gru.recurrent_bias f32[6]",
        "rnn.weight f32[6,7]",
        "rnn.recurrent_weight f32[7,7]",
        "bare.weight f32[3,6]",
        "bare.recurrent_weight f32[2,6]",
    };
    size_t count;
    const nt__leaf *leaves = nt__model_leaves(f.model, &count);
    assert_int_equal(count, sizeof wanted / sizeof *wanted);
    for (size_t i = 0; i < count; i++) {
        char type[NT__TYPE_TEXT], text[256];
        snprintf(text, sizeof text, "%s %s", leaves[i].path, nt__type_text(leaves[i].type, type));
        assert_string_equal(text, wanted[i]);
    }
    assert_int_equal(leaves[0].init.kind, NT_INIT_UNIFORM);
    assert_int_equal(leaves[2].init.kind, NT_INIT_ORTHOGONAL);
    layer_trace_end(&f);
}

static void refused_rank(const layer_trace *f) {
    nt_lstm(f->model, "l", nt_reshape(f->x, 2, -1), 4);
}

static void refused_units(const layer_trace *f) {
    nt_gru(f->model, "g", f->x, 0);
}

static void refused_type(const layer_trace *f) {
    nt_rnn(f->model, "r", nt_convert(f->x, NT_I32), 4);
}

static void refused_state(const layer_trace *f) {
    nt_lstm(f->model, "l", f->x, 4, .initial.hidden = nt_full(NT_F32, nt_dims(2, 3), 0));
}

static void refused_cell(const layer_trace *f) {
    nt_gru(f->model, "g", f->x, 4, .initial.cell = nt_full(NT_F32, nt_dims(2, 4), 0));
}

static const layer_refusal refusals[] = {
    {refused_rank, "lstm: 'l' needs a floating tensor [batch, time, features] and at least 1 unit, got f32[2,15] and "
                   "4"},
    {refused_units, "gru: 'g' needs a floating tensor [batch, time, features] and at least 1 unit, got f32[2,5,3] and "
                    "0"},
    {refused_type, "rnn: 'r' needs a floating tensor [batch, time, features] and at least 1 unit, got i32[2,5,3] and "
                   "4"},
    {refused_state, "lstm: 'l' has an initial hidden state of f32[2,3], and needs f32[2,4]"},
    {refused_cell, "gru: 'g' was given an initial cell state, which only nt_lstm has"},
};

static void wrong_layers_are_refused(void **state) {
    (void)state;
    layers_refuse(nt_dims(2, 5, 3), refusals, sizeof refusals / sizeof *refusals);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(golden_f32, free_models),
        cmocka_unit_test_teardown(golden_f64, free_models),
        cmocka_unit_test(layers_declare_what_they_say),
        cmocka_unit_test(wrong_layers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, traced_close_engine);
}
