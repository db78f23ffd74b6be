/* Mixed precision in a trace: the types of what layers declare, compute and return, and where it is refused. What a run
 * makes of it is tested in run/test_precision.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "layer_trace.h"
#include "nitro/attention.h"
#include "nitro/recurrent.h"

/* ---- layers ----------------------------------------------------------------------------------------------------- */

static nt_tensor rows_of(nt_model *m, nt_tensor x) {
    (void)x;
    return nt_embedding(m, "l", nt_full(NT_I32, nt_dims(3), 1), 5, 4);
}
static nt_tensor dense(nt_model *m, nt_tensor x) {
    return nt_dense(m, "l", x, 6);
}
static nt_tensor conv(nt_model *m, nt_tensor x) {
    return nt_conv_layer(m, "l", x, 6, nt_dims(3));
}
static nt_tensor conv_transposed(nt_model *m, nt_tensor x) {
    return nt_conv_transposed_layer(m, "l", x, 6, nt_dims(3));
}
static nt_tensor layer_norm(nt_model *m, nt_tensor x) {
    return nt_layer_norm(m, "l", x);
}
static nt_tensor rms_norm(nt_model *m, nt_tensor x) {
    return nt_rms_norm(m, "l", x);
}
static nt_tensor group_norm(nt_model *m, nt_tensor x) {
    return nt_group_norm(m, "l", x, 2);
}
static nt_tensor batch_norm(nt_model *m, nt_tensor x) {
    return nt_batch_norm(m, "l", x);
}
static nt_tensor lstm(nt_model *m, nt_tensor x) {
    nt_recurrent_state before = {nt_full(NT_F32, nt_dims(2, 6), 0.5), {0}}, last = {{0}, {0}};
    nt_tensor y = nt_lstm(m, "l", x, 6, .initial = before, .last = &last);
    assert_int_equal(nt_dtype_of(last.cell), nt_dtype_of(y));
    return y;
}
static nt_tensor gru(nt_model *m, nt_tensor x) {
    return nt_gru(m, "l", x, 6);
}
static nt_tensor attention(nt_model *m, nt_tensor x) {
    return nt_multi_head_attention(m, "l", x, 2, .causal = true, .rotary = true);
}
/* The cache keeps its own type: a loop carries it. */
static nt_tensor decoding(nt_model *m, nt_tensor x) {
    nt_attention_cache cache = nt_attention_cache_empty(nt_dtype_of(x), 2, 2, 8, 2);
    nt_tensor y = nt_multi_head_attention(m, "l", x, 2, .cache = &cache, .position = nt_full(NT_I32, (nt_shape){0}, 3));
    assert_int_equal(nt_dtype_of(cache.keys), nt_dtype_of(x));
    assert_int_equal(nt_dtype_of(cache.values), nt_dtype_of(x));
    return y;
}
static nt_tensor own_parameter(nt_model *m, nt_tensor x) {
    return nt_mul(nt_to_compute(m, x), nt_parameter(m, "scale", nt_dims(4)));
}

typedef nt_tensor (*layer)(nt_model *m, nt_tensor x);
static const layer layers[] = {rows_of,    dense, conv, conv_transposed, layer_norm, rms_norm,     group_norm,
                               batch_norm, lstm,  gru,  attention,       decoding,   own_parameter};
enum { LAYERS = sizeof layers / sizeof *layers };

/* What a layer returns for an x [2, 5, 4] of a type, and the one type that all it declares has. */
static void assert_types(layer l, nt_dtype compute, nt_dtype x, nt_dtype returned, nt_dtype declared) {
    layer_trace t = layer_trace_begin(nt_dims(2, 5, 4));
    nt__model_compute(t.model, compute);
    nt__model_begin(t.model, true, NULL);
    nt_tensor y = l(t.model, nt_convert(t.x, x));
    nt__model_end(t.model);
    if (nt__trace_status(t.graph) != NT_OK) fail_msg("%s", nt_error_message());
    assert_int_equal(nt_dtype_of(y), returned);
    size_t count;
    const nt__leaf *leaves = nt__model_leaves(t.model, &count);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) assert_int_equal(leaves[i].type.dtype, declared);
    leaves = nt__model_states(t.model, &count);
    assert_int_equal(count, l == batch_norm ? 2 : 0);
    for (size_t i = 0; i < count; i++) assert_int_equal(leaves[i].type.dtype, declared == NT_F64 ? NT_F64 : NT_F32);
    layer_trace_end(&t);
}

static void layers_declare_f32_and_compute_in_16_bits(void **state) {
    (void)state;
    for (size_t i = 0; i < LAYERS; i++) {
        assert_types(layers[i], NT_F32, NT_F32, NT_F32, NT_F32);
        assert_types(layers[i], NT_BF16, NT_F32, NT_BF16, NT_F32);
        assert_types(layers[i], NT_BF16, NT_BF16, NT_BF16, NT_F32);
        assert_types(layers[i], NT_BF16, NT_F16, NT_BF16, NT_F32);
        assert_types(layers[i], NT_F16, NT_F32, NT_F16, NT_F32);
    }
}

/* Without a policy layers are of the type of what they are given, and a policy leaves f64 alone. */
static void other_types_are_taken_as_they_are(void **state) {
    (void)state;
    static const layer typed[] = {dense, conv, conv_transposed, layer_norm, rms_norm, group_norm, batch_norm, gru};
    for (size_t i = 0; i < sizeof typed / sizeof *typed; i++) {
        assert_types(typed[i], NT_F32, NT_BF16, NT_BF16, NT_BF16);
        assert_types(typed[i], NT_F32, NT_F64, NT_F64, NT_F64);
        assert_types(typed[i], NT_BF16, NT_F64, NT_F64, NT_F64);
    }
}

/* ---- a part of a model ------------------------------------------------------------------------------------------ */

static void a_part_has_a_type_of_its_own(void **state) {
    (void)state;
    layer_trace t = layer_trace_begin(nt_dims(2, 4));
    nt_model *m = t.model;
    nt_tensor inside = t.x, between = t.x, behind;
    NT_COMPUTE(m, NT_F16) {
        NT_COMPUTE(m, NT_F32) inside = nt_dense(m, "inside", nt_convert(t.x, NT_BF16), 3);
        between = nt_dense(m, "between", inside, 3);
    }
    behind = nt_dense(m, "behind", t.x, 3);
    nt__model_end(m);
    assert_int_equal(nt__trace_status(t.graph), NT_OK);
    assert_int_equal(nt_dtype_of(inside), NT_F32);
    assert_int_equal(nt_dtype_of(between), NT_F16);
    assert_int_equal(nt_dtype_of(behind), NT_F32);
    assert_int_equal(nt_dtype_of(nt_to_compute(m, t.x)), NT_F32);
    assert_int_equal(nt_dtype_of(nt__model_outputs(m, between)), NT_F32);
    layer_trace_end(&t);
}

/* What was asked for by its type stays: only a policy makes outputs f32. */
static void outputs_are_converted_where_a_policy_was(void **state) {
    (void)state;
    layer_trace t = layer_trace_begin(nt_dims(2, 4));
    nt_tensor narrow = nt_convert(t.x, NT_BF16), whole = nt_convert(t.x, NT_I32);
    assert_int_equal(nt_dtype_of(nt__model_outputs(t.model, narrow)), NT_BF16);
    nt__model_compute(t.model, NT_BF16);
    nt__model_begin(t.model, true, NULL);
    assert_int_equal(nt_dtype_of(nt__model_outputs(t.model, narrow)), NT_F32);
    assert_int_equal(nt_dtype_of(nt__model_outputs(t.model, whole)), NT_I32);
    assert_int_equal(nt_dtype_of(nt_to_compute(t.model, whole)), NT_I32);
    layer_trace_end(&t);
}

/* A parameter that asks for another type than f32 has it, and a state too. */
static void types_that_are_asked_for_stay(void **state) {
    (void)state;
    layer_trace t = layer_trace_begin(nt_dims(2, 4));
    NT_COMPUTE(t.model, NT_BF16) {
        assert_int_equal(nt_dtype_of(nt_parameter(t.model, "p", nt_dims(2), .dtype = NT_F16)), NT_F16);
        assert_int_equal(nt_dtype_of(nt_state(t.model, "s", nt_dims(2))), NT_F32);
        nt_tensor rows = nt_embedding(t.model, "e", nt_full(NT_I32, nt_dims(3), 1), 5, 4, .dtype = NT_F64);
        assert_int_equal(nt_dtype_of(rows), NT_F64);
    }
    assert_int_equal(nt__trace_status(t.graph), NT_OK);
    layer_trace_end(&t);
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static void compute_in_i32(const layer_trace *t) {
    NT_COMPUTE(t->model, NT_I32) fail();
}
static void compute_without_a_model(const layer_trace *t) {
    (void)t;
    NT_COMPUTE(NULL, NT_BF16) fail();
}
static void convert_without_a_model(const layer_trace *t) {
    nt_to_compute(NULL, t->x);
}
static void leave_twice(const layer_trace *t) {
    nt_compute_leave(t->model);
}
static void leave_early(const layer_trace *t) {
    NT_COMPUTE(t->model, NT_BF16) break;
    nt__model_end(t->model);
}
static void go_deep(const layer_trace *t) {
    for (int i = 0; i < 33; i++) nt_compute_enter(t->model, NT_BF16, NT_SITE);
}
/* Operations never convert: what meets a layer's result has to have its type. */
static void mix_types(const layer_trace *t) {
    NT_COMPUTE(t->model, NT_BF16) nt_add(t->x, nt_dense(t->model, "d", t->x, 4));
}

static const layer_refusal refusals[] = {
    {compute_in_i32, "compute: layers cannot compute in i32: give NT_F32, NT_BF16 or NT_F16"},
    {compute_without_a_model, "compute: m is NULL"},
    {convert_without_a_model, "to_compute: m is NULL"},
    {leave_twice, "nt_compute_leave without nt_compute_enter; NT_COMPUTE does both"},
    {leave_early,
     "compute: NT_COMPUTE was entered and never left: leave its body at its end only, not by return or break"},
    {go_deep, "compute: NT_COMPUTE is more than 32 deep"},
    {mix_types, "add: f32[2,4] and bf16[2,4]: element types differ; nt_convert makes them equal, nt_to_compute "
                "beside layers that compute in another type"},
};

static void misuse_is_told(void **state) {
    (void)state;
    layers_refuse(nt_dims(2, 4), refusals, sizeof refusals / sizeof *refusals);
}

/* Those before the first that asserts something itself. */
static void build_all(nt_model *m) {
    nt_tensor x = nt_full(NT_F32, nt_dims(2, 5, 4), 1);
    NT_COMPUTE(m, NT_BF16) {
        for (size_t i = 0; layers[i] != lstm; i++) NT_SCOPE(m, "s%zu", i) layers[i](m, x);
    }
}

static void failing_allocations_leave_nothing(void **state) {
    (void)state;
    assert_true(layer_trace_fail_each((nt__model_roles){1, 2, 3}, build_all) > 20);
}

static int nothing_is_left(void **state) {
    (void)state;
    return nt__memory().live ? -1 : 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_declare_f32_and_compute_in_16_bits),
        cmocka_unit_test(other_types_are_taken_as_they_are),
        cmocka_unit_test(a_part_has_a_type_of_its_own),
        cmocka_unit_test(outputs_are_converted_where_a_policy_was),
        cmocka_unit_test(types_that_are_asked_for_stay),
        cmocka_unit_test(misuse_is_told),
        cmocka_unit_test(failing_allocations_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, nothing_is_left);
}
