/* src/nn/recurrent.c: recurrent layers against trusted numbers, value and gradient, f32 and f64, both directions; what
 * they declare and refuse; sequences of several lengths. */
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

/* ---- lengths ---------------------------------------------------------------------------------------------------- */

enum { SAMPLES = 3, TIME = 4, FEATURES = 2, UNITS = 2 };
static const int64_t lengths[SAMPLES] = {TIME, 2, 0};

/* sin(a), sin(a + 0.7), ... */
static nt_array *waves(nt_shape shape, double a) {
    nt_array *array = nt_array_new(NT_F32, shape);
    assert_non_null(array);
    for (int64_t i = 0; i < nt_shape_elements(shape); i++) nt_array_set(array, i, sin(a + 0.7 * (double)i));
    return array;
}

typedef nt_tensor (*recurrent_layer)(nt_model *m, const char *name, nt_tensor x, int64_t units,
                                     nt_recurrent_options options, nt_site site);

/* A layer of waves in a trace: input 0 is x, input 1 the lengths. */
typedef struct waving {
    recurrent_layer layer;
    nt_direction direction;
    nt__graph *graph;
    nt_model *model;
    nt_tensor x, lengths;
    nt_array *arrays[MOST_LEAVES + 2];
    size_t count;
    nt_tensor values[MOST_LEAVES]; /* of the parameters */
    size_t value_count;
} waving;

static nt_tensor call(const waving *w, nt_tensor x, nt_tensor counted, nt_recurrent_state *last) {
    nt_recurrent_options options = {.direction = w->direction, .lengths = counted, .last = last};
    return w->layer(w->model, "l", x, UNITS, options, NT_SITE);
}

static double start_of(const char *path) {
    static const char *const order[] = {"l.weight", "l.recurrent_weight", "l.bias", "l.recurrent_bias"};
    int start = 0;
    while (strcmp(order[start], path)) start++;
    return start + 1;
}

static void waving_begin(waving *w, recurrent_layer made_by, nt_direction direction) {
    const nt_shape shape = nt_dims(SAMPLES, TIME, FEATURES);
    *w = (waving){.layer = made_by, .direction = direction, .graph = nt__trace_begin(), .count = 2};
    w->model = nt__model_new((nt__model_roles){1, 2, 3});
    w->arrays[0] = waves(shape, 0.3);
    w->arrays[1] = nt_array_from(NT_I64, nt_dims(SAMPLES), lengths);
    w->x = traced_input(0, (nt__type){NT_F32, shape});
    w->lengths = traced_input(1, (nt__type){NT_I64, nt_dims(SAMPLES)});
    nt__model_begin(w->model, true, NULL);
    call(w, w->x, (nt_tensor){0}, NULL);
    const nt__leaf *leaves = nt__model_leaves(w->model, &w->value_count);
    assert_true(w->value_count < MOST_LEAVES);
    for (size_t i = 0; i < w->value_count; i++) {
        w->arrays[w->count] = waves(leaves[i].type.shape, start_of(leaves[i].path));
        w->values[i] = traced_input((int)w->count++, leaves[i].type);
    }
    nt__model_begin(w->model, false, w->values);
}

/* Runs what was traced, and ends the trace; the arrays are the caller's. */
static void waving_run(waving *w, const nt__result *results, size_t count, nt_array **out) {
    nt__model_end(w->model);
    assert_ok(nt__trace_status(w->graph));
    traced program = traced_compile(traced_engine(), results, count);
    traced_run(&program, w->arrays, out);
    traced_free(&program);
    for (size_t i = 0; i < w->count; i++) nt_array_free(w->arrays[i]);
    nt__trace_end(w->graph);
    nt__model_free(w->model);
}

/* By torch 2.15.0, f64: LSTM of waves from 0.3 (x), 1 (weight), 2 (recurrent weight) and 3 (bias, the other one 0), of
 * pack_padded_sequence with the lengths 4 and 2. */
static const double packed[] = {
    -0.14917603182628608, -0.1720481338106363,   -0.2053322040017985, -0.2768527219082714,
    -0.11568635563342189, -0.004892972078733706, 0.04352201782354373, 0.07519079977832666,
    -0.0745411795765586,  0.08915358977581445,   -0.1538852734047252, -0.2370509265851063,
};
static const double packed_cell[] = {0.04699971135395031, 0.08487017883173809, -0.6408265761008911,
                                     -0.5994441803365005};

static void sequences_end_at_their_lengths(void **state) {
    (void)state;
    waving w;
    nt_array *out[3];
    nt_recurrent_state last;
    waving_begin(&w, nt_lstm_at, NT_FORWARD);
    nt_tensor y = call(&w, w.x, w.lengths, &last);
    waving_run(&w, (const nt__result[]){{.value = y}, {.value = last.hidden}, {.value = last.cell}}, 3, out);
    for (int i = 0; i < SAMPLES * TIME * UNITS; i++)
        assert_true(fabs(nt_array_get(out[0], i) - (i < 12 ? packed[i] : 0)) < 1e-6);
    for (int i = 0; i < SAMPLES * UNITS; i++) {
        assert_true(fabs(nt_array_get(out[1], i) - (i < 4 ? packed[i < 2 ? 6 + i : 8 + i] : 0)) < 1e-6);
        assert_true(fabs(nt_array_get(out[2], i) - (i < 4 ? packed_cell[i] : 0)) < 1e-6);
    }
    for (int i = 0; i < 3; i++) nt_array_free(out[i]);
}

/* Each sample on its own, cut to its length and filled with zeros. */
static nt_tensor cut_apart(const waving *w, nt_tensor *last) {
    nt_tensor y[SAMPLES], states[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        y[i] = nt_full(NT_F32, nt_dims(1, TIME, UNITS), 0);
        states[i] = nt_full(NT_F32, nt_dims(1, UNITS), 0);
        if (lengths[i] == 0) continue;
        nt_tensor x = nt_slice(w->x, nt_dims(i, 0, 0), nt_dims(i + 1, lengths[i], FEATURES));
        nt_recurrent_state state = {0};
        NT_REUSE(w->model) y[i] = call(w, x, (nt_tensor){0}, &state);
        y[i] = nt_pad(y[i], nt_dims(0, 0, 0), nt_dims(0, TIME - lengths[i], 0), 0);
        states[i] = state.hidden;
    }
    *last = nt_concatenate_at(states, SAMPLES, 0, NT_SITE);
    return nt_concatenate_at(y, SAMPLES, 0, NT_SITE);
}

/* By x and by all parameters, one after the other. */
static nt_tensor gradient(const waving *w, nt_tensor y, nt_tensor last) {
    nt_tensor inputs[MOST_LEAVES + 1] = {w->x}, gradients[MOST_LEAVES + 1];
    memcpy(inputs + 1, w->values, w->value_count * sizeof *inputs);
    nt_grads_at(nt_add(nt_sum(nt_square(y)), nt_sum(last)), inputs, w->value_count + 1, gradients, NT_SITE);
    for (size_t i = 0; i <= w->value_count; i++) gradients[i] = nt_reshape(gradients[i], -1);
    return nt_concatenate_at(gradients, (int)w->value_count + 1, 0, NT_SITE);
}

/* What is beyond the lengths may be no number: the logarithm of silence. */
static void fill_padding(nt_array *x) {
    static const double fill[] = {NAN, -INFINITY, INFINITY, 1e38};
    for (int i = 0; i < SAMPLES; i++)
        for (int64_t k = lengths[i] * FEATURES; k < TIME * FEATURES; k++)
            nt_array_set(x, i * TIME * FEATURES + k, fill[k % 4]);
}

static void check_lengths(recurrent_layer made_by, nt_direction direction) {
    waving w;
    nt_array *out[6];
    nt_recurrent_state last;
    nt_tensor apart_last;
    waving_begin(&w, made_by, direction);
    fill_padding(w.arrays[0]);
    nt_tensor y = call(&w, w.x, w.lengths, &last), apart = cut_apart(&w, &apart_last);
    nt__result results[] = {{.value = y},     {.value = last.hidden}, {.value = gradient(&w, y, last.hidden)},
                            {.value = apart}, {.value = apart_last},  {.value = gradient(&w, apart, apart_last)}};
    waving_run(&w, results, 6, out);
    for (int i = 0; i < 3; i++) {
        assert_true(fabs(nt_array_get(out[i], 0)) > 1e-3);
        for (int64_t k = 0; k < nt_shape_elements(out[i]->shape); k++)
            assert_true(fabs(nt_array_get(out[i], k) - nt_array_get(out[i + 3], k)) < 1e-6);
    }
    for (int i = 0; i < 6; i++) nt_array_free(out[i]);
}

static void lengths_are_as_cutting_each_sample(void **state) {
    (void)state;
    static const recurrent_layer layers[] = {nt_lstm_at, nt_gru_at, nt_rnn_at};
    for (int i = 0; i < 3; i++) {
        check_lengths(layers[i], NT_FORWARD);
        check_lengths(layers[i], NT_BACKWARD);
    }
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
    assert_int_equal(leaves[4].init.kind, NT_INIT_DEFAULT);
    float bias[16];
    assert_ok(nt__leaf_draw(&leaves[1], (nt__key){0, 1}, bias));
    for (int i = 0; i < 16; i++) assert_true(bias[i] == (i / 4 == 1 ? 1 : 0));
    layer_trace_end(&f);
}

/* A given initialiser is that of the whole bias. */
static void a_forget_bias_can_be_left_out(void **state) {
    (void)state;
    layer_trace f = begin();
    nt_lstm(f.model, "lstm", f.x, 4, .bias_init = nt_zeros());
    size_t count;
    const nt__leaf *leaves = nt__model_leaves(f.model, &count);
    assert_string_equal(leaves[1].path, "lstm.bias");
    assert_int_equal(leaves[1].init.kind, NT_INIT_CONSTANT);
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

static void refused_lengths(const layer_trace *f) {
    nt_rnn(f->model, "r", f->x, 4, .lengths = nt_full(NT_I32, nt_dims(2, 5), 1));
}

static void refused_direction(const layer_trace *f) {
    nt_gru(f->model, "g", f->x, 4, .direction = 5);
}

static void refused_forget_gate(const layer_trace *f) {
    nt_gru(f->model, "g", f->x, 4, .bias_init = nt_forget_bias(1));
}

static void lstm_of_nothing(const layer_trace *f) {
    nt_lstm(f->model, "l", (nt_tensor){0}, 4);
}

static void gru_of_nothing(const layer_trace *f) {
    nt_recurrent_state last;
    nt_gru(f->model, "g", (nt_tensor){0}, 4, .last = &last);
}

static void rnn_of_nothing(const layer_trace *f) {
    nt_rnn(f->model, "r", (nt_tensor){0}, 4);
}

static void refused_number(const layer_trace *f) {
    nt_rnn(f->model, "r", f->x, 4, .initial.hidden = nt_tensor_number(0));
}

static const layer_refusal refusals[] = {
    {refused_direction, "gru: 'g' has direction 5: give NT_FORWARD or NT_BACKWARD"},
    {refused_forget_gate, "gru: 'g' has nt_forget_bias as .bias_init, and only nt_lstm has a forget gate"},
    {lstm_of_nothing, "lstm: x was never set: it is zero bytes, not the result of an operation"},
    {gru_of_nothing, "gru: x was never set: it is zero bytes, not the result of an operation"},
    {rnn_of_nothing, "rnn: x was never set: it is zero bytes, not the result of an operation"},
    {refused_number, "rnn: .initial.hidden is the number 0 and has to be a tensor; nt_full makes one"},
    {refused_rank, "lstm: 'l' needs a floating tensor [batch, time, features] and at least 1 unit, got f32[2,15] and "
                   "4"},
    {refused_units, "gru: 'g' needs a floating tensor [batch, time, features] and at least 1 unit, got f32[2,5,3] and "
                    "0"},
    {refused_type, "rnn: 'r' needs a floating tensor [batch, time, features] and at least 1 unit, got i32[2,5,3] and "
                   "4"},
    {refused_state, "lstm: 'l' has an initial hidden state of f32[2,3], and needs f32[2,4]"},
    {refused_cell, "gru: 'g' was given an initial cell state, which only nt_lstm has"},
    {refused_lengths, "rnn: 'r' was given lengths of i32[2,5], and needs 2 integers, one for each sample"},
};

static void wrong_layers_are_refused(void **state) {
    (void)state;
    layers_refuse(nt_dims(2, 5, 3), refusals, sizeof refusals / sizeof *refusals);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(golden_f32, free_models), cmocka_unit_test_teardown(golden_f64, free_models),
        cmocka_unit_test(sequences_end_at_their_lengths),   cmocka_unit_test(lengths_are_as_cutting_each_sample),
        cmocka_unit_test(layers_declare_what_they_say),     cmocka_unit_test(a_forget_bias_can_be_left_out),
        cmocka_unit_test(wrong_layers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, traced_close_engine);
}
