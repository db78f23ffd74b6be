/* Recurrent layers: LSTM, GRU and the plain cell, over nt_scan. */
#include "nitro/recurrent.h"

#include "nitro/control.h"
#include "nn/nn.h"

/* What a body needs of outside. */
typedef struct recurrence {
    int64_t units;
    nt_tensor weight;  /* of the product with the hidden state */
    nt_tensor bias;    /* of its part in a GRU's new gate; not set without bias */
    nt_tensor lengths; /* i32[batch, 1]; not set where all positions count */
    nt_loop_body step; /* of one position that counts */
    nt_site site;
} recurrence;

static int gate_count(const recurrence *cell, nt_tensor all) {
    return (int)(nt_shape_of(all).dims[1] / cell->units);
}

static nt_values cut(nt_values all, void *context) {
    const recurrence *cell = context;
    nt_shape start = nt_dims(0, 0), end = nt_dims(nt_shape_of(all.at[0]).dims[0], 0);
    nt_values gates = {0};
    for (int i = 0; i < gate_count(cell, all.at[0]); i++) {
        start.dims[1] = i * cell->units;
        end.dims[1] = start.dims[1] + cell->units;
        gates.at[i] = nt_slice_at(all.at[0], start, end, cell->site);
    }
    return gates;
}

static nt_values join(nt_values all, nt_values gates, nt_values c, void *context) {
    (void)gates;
    const recurrence *cell = context;
    return (nt_values){{nt_concatenate_at(c.at, gate_count(cell, all.at[0]), 1, cell->site)}};
}

/* Of [batch, gates * units] each gate. Cotangents are joined; those of slices would be filled up with zeros and added.
 */
static nt_values gates_of(recurrence *cell, nt_tensor all) {
    return nt_custom_gradient_at(cut, join, cell, (nt_values){{all}}, cell->site);
}

static nt_tensor recurrent_product(const nt_loop *now, const recurrence *cell) {
    return nt_matmul_at(now->carry[0], cell->weight, cell->site);
}

static nt_loop lstm_step(nt_loop now, void *context) {
    recurrence *cell = context;
    nt_site site = cell->site;
    nt_values gates = gates_of(cell, nt_add_at(now.inputs[0], recurrent_product(&now, cell), site));
    nt_tensor taken = nt_logistic_at(gates.at[0], site), kept = nt_logistic_at(gates.at[1], site);
    nt_tensor candidate = nt_tanh_at(gates.at[2], site), shown = nt_logistic_at(gates.at[3], site);
    nt_tensor state = nt_add_at(nt_mul_at(kept, now.carry[1], site), nt_mul_at(taken, candidate, site), site);
    nt_tensor hidden = nt_mul_at(shown, nt_tanh_at(state, site), site);
    return (nt_loop){.carry = {hidden, state}, .outputs = {hidden}};
}

static nt_loop gru_step(nt_loop now, void *context) {
    recurrence *cell = context;
    nt_site site = cell->site;
    nt_values input = gates_of(cell, now.inputs[0]), product = gates_of(cell, recurrent_product(&now, cell));
    nt_tensor reset = nt_logistic_at(nt_add_at(input.at[0], product.at[0], site), site);
    nt_tensor update = nt_logistic_at(nt_add_at(input.at[1], product.at[1], site), site);
    nt_tensor old = product.at[2];
    if (cell->bias.trace) old = nt_add_at(old, cell->bias, site);
    nt_tensor fresh = nt_tanh_at(nt_add_at(input.at[2], nt_mul_at(reset, old, site), site), site);
    nt_tensor difference = nt_mul_at(update, nt_sub_at(now.carry[0], fresh, site), site);
    nt_tensor hidden = nt_add_at(fresh, difference, site);
    return (nt_loop){.carry = {hidden}, .outputs = {hidden}};
}

static nt_loop rnn_step(nt_loop now, void *context) {
    const recurrence *cell = context;
    nt_tensor hidden = nt_tanh_at(nt_add_at(now.inputs[0], recurrent_product(&now, cell), cell->site), cell->site);
    return (nt_loop){.carry = {hidden}, .outputs = {hidden}};
}

/* The step where a sample has the position; elsewhere its state stays and its output is 0. */
static nt_loop step_of_lengths(nt_loop now, void *context) {
    const recurrence *cell = context;
    nt_loop next = cell->step(now, context);
    nt_tensor counts = nt_less_at(now.index, cell->lengths, cell->site);
    for (int i = 0; next.carry[i].trace; i++)
        next.carry[i] = nt_where_at(counts, next.carry[i], now.carry[i], cell->site);
    next.outputs[0] = nt_where_at(counts, next.outputs[0], nt_tensor_number(0), cell->site);
    return next;
}

typedef struct kind {
    const char *what;
    int64_t gates;
    nt_loop_body step;
    bool has_cell, has_recurrent_bias;
} kind;
static const kind lstm = {"lstm", 4, lstm_step, true, false};
static const kind gru = {"gru", 3, gru_step, false, true};
static const kind rnn = {"rnn", 1, rnn_step, false, false};

/* ---- checks ----------------------------------------------------------------------------------------------------- */

static bool check_state(const kind *k, const char *name, const char *which, nt_tensor state, nt__type wanted,
                        nt_site site) {
    char got[NT__TYPE_TEXT], text[NT__TYPE_TEXT];
    if (!state.trace) return true;
    nt__type type = {nt_dtype_of(state), nt_shape_of(state)};
    if (nt__type_equal(type, wanted)) return true;
    nt__trace_fail(site, k->what, "'%s' has an initial %s state of %s, and needs %s", name, which,
                   nt__type_text(type, got), nt__type_text(wanted, text));
    return false;
}

static bool check_lengths(const kind *k, const char *name, nt_tensor lengths, int64_t batch, nt_site site) {
    char text[NT__TYPE_TEXT];
    if (!lengths.trace) return true;
    nt__type type = {nt_dtype_of(lengths), nt_shape_of(lengths)};
    bool integers = type.dtype != NT_BOOL && !nt_dtype_is_float(type.dtype);
    if (integers && nt_shape_equal(type.shape, nt_dims(batch))) return true;
    nt__trace_fail(site, k->what, "'%s' was given lengths of %s, and needs %lld integers, one for each sample", name,
                   nt__type_text(type, text), (long long)batch);
    return false;
}

/* All tensors, those that may be left out where they are not. */
static bool are_given(const kind *k, const nt_model *m, const char *name, nt_tensor x,
                      const nt_recurrent_options *options, nt_site site) {
    const nt_tensor given[] = {options->initial.hidden, options->initial.cell, options->lengths};
    static const char *const names[] = {".initial.hidden", ".initial.cell", ".lengths"};
    bool right = nt__layer_given(m, name, x, site, k->what);
    for (size_t i = 0; right && i < sizeof given / sizeof *given; i++)
        right = !given[i].trace || nt__tensor_given(given[i], site, k->what, names[i]);
    return right;
}

static bool check_choices(const kind *k, const char *name, const nt_recurrent_options *options, nt_site site) {
    if (options->direction != NT_FORWARD && options->direction != NT_BACKWARD)
        nt__trace_fail(site, k->what, "'%s' has direction %d: give NT_FORWARD or NT_BACKWARD", name,
                       (int)options->direction);
    else if (options->bias_init.kind == NT_INIT_FORGET_BIAS && !k->has_cell)
        nt__trace_fail(site, k->what, "'%s' has nt_forget_bias as .bias_init, and only nt_lstm has a forget gate",
                       name);
    else
        return true;
    return false;
}

static bool check(const kind *k, const char *name, nt_tensor x, int64_t units, const nt_recurrent_options *options,
                  nt_site site) {
    char text[NT__TYPE_TEXT];
    if (!check_choices(k, name, options, site)) return false;
    nt__type type = {nt_dtype_of(x), nt_shape_of(x)};
    if (type.shape.rank != 3 || units < 1 || !nt_dtype_is_float(type.dtype)) {
        nt__trace_fail(site, k->what,
                       "'%s' needs a floating tensor [batch, time, features] and at least 1 unit, got %s and %lld",
                       name, nt__type_text(type, text), (long long)units);
        return false;
    }
    if (options->initial.cell.trace && !k->has_cell) {
        nt__trace_fail(site, k->what, "'%s' was given an initial cell state, which only nt_lstm has", name);
        return false;
    }
    nt__type state = {type.dtype, nt_dims(type.shape.dims[0], units)};
    if (!check_lengths(k, name, options->lengths, type.shape.dims[0], site)) return false;
    return check_state(k, name, "hidden", options->initial.hidden, state, site) &&
           check_state(k, name, "cell", options->initial.cell, state, site);
}

/* ---- the layer -------------------------------------------------------------------------------------------------- */

static nt_init given_or(nt_init given, nt_init otherwise) {
    return given.kind == NT_INIT_DEFAULT ? otherwise : given;
}

static nt_tensor parameter(nt_model *m, const char *name, nt_tensor x, nt_shape shape, nt_init init, nt_site site) {
    return nt_parameter_at(m, name, shape, (nt_parameter_options){nt__parameter_dtype(m, x), init}, site);
}

/* Zeros in place of padding, [batch, time, features]: what it holds may be nan, and its gradient would be 0 * nan. */
static nt_tensor without_padding(nt_tensor x, nt_tensor lengths, nt_site site) {
    if (!lengths.trace) return x;
    nt_shape shape = nt_shape_of(x);
    nt_tensor position = nt_iota_at(NT_I32, nt_dims(1, shape.dims[1], 1), 1, site);
    nt_tensor length = nt_reshape_at(nt_convert_at(lengths, NT_I32, site), nt_dims(shape.dims[0], 1, 1), site);
    return nt_where_at(nt_less_at(position, length, site), x, nt_tensor_number(0), site);
}

/* [time, batch, gates * units] */
static nt_tensor input_product(const kind *k, nt_model *m, nt_tensor x, int64_t width,
                               const nt_recurrent_options *options, nt_site site) {
    nt_shape shape = nt_dims(nt_shape_of(x).dims[2], width);
    nt_init init = given_or(options->weight_init, nt_glorot_uniform());
    nt_tensor y = nt_transpose_at(x, nt_dims(1, 0, 2), site);
    y = nt_matmul_at(y, parameter(m, "weight", x, shape, init, site), site);
    if (options->no_bias) return y;
    nt_init bias = k->has_cell ? given_or(options->bias_init, nt_forget_bias(1)) : options->bias_init;
    return nt_add_at(y, parameter(m, "bias", x, nt_dims(width), bias, site), site);
}

static recurrence declare_cell(const kind *k, nt_model *m, nt_tensor x, int64_t units,
                               const nt_recurrent_options *options, nt_site site) {
    nt_init init = given_or(options->recurrent_init, nt_orthogonal(1));
    recurrence made = {.units = units, .step = k->step, .site = site};
    made.weight = parameter(m, "recurrent_weight", x, nt_dims(units, k->gates * units), init, site);
    if (k->has_recurrent_bias && !options->no_bias)
        made.bias = parameter(m, "recurrent_bias", x, nt_dims(units), options->bias_init, site);
    if (options->lengths.trace)
        made.lengths = nt_reshape_at(nt_convert_at(options->lengths, NT_I32, site), nt_dims(-1, 1), site);
    return made;
}

static nt_tensor state_or_zeros(nt_tensor given, nt_tensor x, int64_t units, nt_site site) {
    return given.trace ? given : nt_full_at(nt_dtype_of(x), nt_dims(nt_shape_of(x).dims[0], units), 0, site);
}

/* The loop carries one type, that of what it reads. */
static void take_in(const nt_model *m, nt_tensor *x, nt_recurrent_state *initial, nt_site site) {
    nt_tensor *given[] = {x, &initial->hidden, &initial->cell};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (given[i]->trace) *given[i] = nt_to_compute_at(m, *given[i], site);
}

static nt_tensor recur(const kind *k, nt_model *m, const char *name, nt_tensor x, int64_t units,
                       nt_recurrent_options *options, nt_site site) {
    if (options->last) *options->last = (nt_recurrent_state){nt__failed(), k->has_cell ? nt__failed() : (nt_tensor){0}};
    if (!are_given(k, m, name, x, options, site)) return nt__failed();
    take_in(m, &x, &options->initial, site);
    if (!check(k, name, x, units, options, site) || !nt_scope_enter(m, site, "%s", name)) return nt__failed();
    x = without_padding(x, options->lengths, site);
    nt_scan_options scan = {.inputs = {input_product(k, m, x, k->gates * units, options, site)},
                            .direction = options->direction};
    recurrence made = declare_cell(k, m, x, units, options, site);
    scan.carry[0] = state_or_zeros(options->initial.hidden, x, units, site);
    if (k->has_cell) scan.carry[1] = state_or_zeros(options->initial.cell, x, units, site);
    nt_loop all = nt_scan_at(made.lengths.trace ? step_of_lengths : k->step, k->what, &made, scan, site);
    nt_scope_leave(m);
    if (options->last) *options->last = (nt_recurrent_state){all.carry[0], all.carry[1]};
    return nt_transpose_at(all.outputs[0], nt_dims(1, 0, 2), site);
}

nt_tensor nt_lstm_at(nt_model *m, const char *name, nt_tensor x, int64_t units, nt_recurrent_options options,
                     nt_site site) {
    return recur(&lstm, m, name, x, units, &options, site);
}

nt_tensor nt_gru_at(nt_model *m, const char *name, nt_tensor x, int64_t units, nt_recurrent_options options,
                    nt_site site) {
    return recur(&gru, m, name, x, units, &options, site);
}

nt_tensor nt_rnn_at(nt_model *m, const char *name, nt_tensor x, int64_t units, nt_recurrent_options options,
                    nt_site site) {
    return recur(&rnn, m, name, x, units, &options, site);
}
