/* src/nn: names that draw random numbers, their keys, and dropout, against the same threefry on the host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../graph/traced.h"
#include "layer_trace.h"
#include "nitro/control.h"

/* Inputs by their index, whatever their role. */
enum { SEED, COUNTER = 0, X = 1, RATE, INPUTS };
enum { SEED_ROLE = 1, STATE_ROLE, PARAMETER_ROLE, INPUT_ROLE };
static const nt__model_roles roles = {PARAMETER_ROLE, STATE_ROLE, SEED_ROLE};

typedef struct fixture {
    nt__graph *graph;
    nt_model *model;
} fixture;

static fixture begin(bool training) {
    fixture f = {nt__trace_begin(), nt__model_new(roles)};
    assert_non_null(f.graph);
    assert_non_null(f.model);
    nt__model_begin(f.model, training, NULL);
    return f;
}

static void end(fixture *f) {
    nt__trace_end(f->graph);
    nt__model_free(f->model);
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

enum { RUN_SEED = 11, MICRO_BATCH = 3 };

/* What traced_run finds an input's array by: indices of different roles are told apart. */
static void renumber(traced *t) {
    for (size_t i = 0; i < t->printed.argument_count; i++) {
        nt__argument *argument = &t->printed.arguments[i];
        if (argument->role == SEED_ROLE) argument->index = INPUTS;
        if (argument->role == STATE_ROLE) argument->index = INPUTS + 1;
    }
}

/* Runs the trace of `count` tensors with arrays for X and RATE, which may be NULL, and ends it. */
static void run(fixture *f, const nt_tensor *values, size_t count, nt_array *x, nt_array *rate, nt_array **results) {
    nt__result named[4] = {{0}};
    nt__key seed = nt__model_seed(RUN_SEED);
    nt_array *arrays[INPUTS + 2] = {[X] = x, [RATE] = rate};
    arrays[INPUTS] = nt_array_from(NT_U32, nt_dims(2), (const uint32_t[2]){seed.high, seed.low});
    arrays[INPUTS + 1] = nt_array_from(NT_U32, (nt_shape){0}, &(uint32_t){MICRO_BATCH});
    for (size_t i = 0; i < count; i++) named[i] = (nt__result){"value", values[i], {0}};
    assert_ok(nt__trace_status(f->graph));
    traced program = traced_compile(traced_engine(), named, count);
    renumber(&program);
    end(f);
    traced_run(&program, arrays, results);
    traced_free(&program);
    for (int i = 0; i < 2; i++) nt_array_free(arrays[INPUTS + i]);
}

static nt__key key_of(bool training, const char *path) {
    nt__key root = nt__model_seed(RUN_SEED);
    if (training) root = nt__key_fold(root, MICRO_BATCH);
    uint64_t name = nt__hash_bytes(path, strlen(path)).low;
    return nt__threefry(root, (uint32_t)(name >> 32), (uint32_t)name);
}

static void assert_key(const nt_array *got, nt__key wanted) {
    const uint32_t *words = got->data;
    if (words[0] != wanted.high || words[1] != wanted.low)
        fail_msg("%08x%08x, wanted %08x%08x", words[0], words[1], wanted.high, wanted.low);
}

/* ---- keys ------------------------------------------------------------------------------------------------------- */

static void a_key_is_seed_micro_batch_and_path(void **state) {
    (void)state;
    for (int training = 0; training < 2; training++) {
        fixture f = begin(training);
        nt_tensor keys[3] = {nt_random_key(f.model, "a")};
        NT_SCOPE(f.model, "encoder")
        NT_SCOPE(f.model, "block%d", 2) keys[1] = nt_random_key(f.model, "a");
        keys[2] = nt_random_key(f.model, "b");
        nt_array *got[3];
        run(&f, keys, 3, NULL, NULL, got);
        assert_key(got[0], key_of(training, "a"));
        assert_key(got[1], key_of(training, "encoder.block2.a"));
        assert_key(got[2], key_of(training, "b"));
        for (int i = 0; i < 3; i++) nt_array_free(got[i]);
    }
}

static nt_loop draw_inner(nt_loop now, void *context) {
    (void)now;
    return (nt_loop){.outputs = {nt_random_key(context, "inner")}};
}

static nt_loop draw_outer(nt_loop now, void *context) {
    (void)now;
    nt_tensor inner = nt_scan(draw_inner, context, .length = 2, .direction = NT_BACKWARD).outputs[0];
    return (nt_loop){.outputs = {nt_random_key(context, "outer"), inner}};
}

/* The key of the name, then each loop's iteration from the outermost; the first draw of a trace may be in a body. */
static void each_iteration_has_its_key(void **state) {
    (void)state;
    for (int learned = 0; learned < 2; learned++) {
        fixture f = begin(true);
        if (learned) {
            nt_random_key(f.model, "inner"), nt_random_key(f.model, "outer"), nt_random_key(f.model, "outside");
            nt__trace_end(f.graph);
            f.graph = nt__trace_begin();
            assert_non_null(f.graph);
            nt__model_begin(f.model, true, NULL);
        }
        nt_loop all = nt_scan(draw_outer, f.model, .length = 3);
        nt_tensor keys[3] = {all.outputs[0], all.outputs[1], nt_random_key(f.model, "outside")};
        nt_array *got[3];
        run(&f, keys, 3, NULL, NULL, got);
        for (uint32_t i = 0; i < 3; i++) {
            nt__key outer = nt__key_fold(key_of(true, "outer"), i), inner = nt__key_fold(key_of(true, "inner"), i);
            const uint32_t *words = (const uint32_t *)got[0]->data + (size_t)2 * i;
            assert_true(words[0] == outer.high && words[1] == outer.low);
            for (uint32_t k = 0; k < 2; k++) {
                nt__key one = nt__key_fold(inner, k);
                words = (const uint32_t *)got[1]->data + (size_t)4 * i + (size_t)2 * k;
                assert_true(words[0] == one.high && words[1] == one.low);
            }
        }
        assert_key(got[2], key_of(true, "outside"));
        for (int i = 0; i < 3; i++) nt_array_free(got[i]);
    }
}

/* The counter is a state that the trace advances; an evaluation has none. */
static void a_trace_that_draws_counts_its_micro_batch(void **state) {
    (void)state;
    for (int training = 0; training < 2; training++) {
        fixture f = begin(training);
        assert_false(nt__model_is_seeded(f.model));
        nt_tensor keys[2] = {nt_random_key(f.model, "a"), nt_random_key(f.model, "b")}, value, next[1];
        assert_int_equal(nt__trace_status(f.graph), NT_OK);
        size_t count;
        const nt__leaf *states = nt__model_states(f.model, &count);
        assert_true(nt__model_is_seeded(f.model));
        assert_int_equal(count, training);
        assert_true(nt__tensor_made(keys[0]) && nt__tensor_made(keys[1]));
        if (!training) {
            end(&f);
            continue;
        }
        assert_string_equal(states[0].path, NT__DRAWS_PATH);
        assert_true(nt__type_equal(states[0].type, (nt__type){NT_U32, {0}}));
        assert_true(nt__model_update(f.model, 0, &value, next));
        nt_array *got;
        run(&f, next, 1, NULL, NULL, &got);
        assert_true(nt_array_get(got, 0) == MICRO_BATCH + 1);
        nt_array_free(got);
    }
}

/* ---- dropout ---------------------------------------------------------------------------------------------------- */

enum { ELEMENTS = 64 };

static nt_array *ones_and_more(nt_dtype dtype) {
    nt_array *array = nt_array_new(dtype, nt_dims(4, 16));
    assert_non_null(array);
    for (int i = 0; i < ELEMENTS; i++) nt_array_set(array, i, 1 + i / 64.0);
    return array;
}

static bool stays(int i, double rate) {
    return nt__uniform_of_bits(nt__random_bits(key_of(true, "drop"), (uint64_t)i)) < (float)(1 - rate);
}

/* Values and the gradient of their sum; the rate is a number or, where it is a tensor, input RATE. */
static void drop(nt_dtype dtype, bool as_tensor, double rate, nt_array *got[2]) {
    fixture f = begin(true);
    nt_array *x = ones_and_more(dtype), *rates = nt_array_from(NT_F32, (nt_shape){0}, &(float){(float)rate});
    nt_tensor input = nt__input(INPUT_ROLE, X, "x", (nt__type){dtype, nt_dims(4, 16)}), values[2];
    nt_tensor given = as_tensor ? nt__input(INPUT_ROLE, RATE, "rate", (nt__type){NT_F32, {0}}) : NT_TENSOR(rate);
    values[0] = nt_dropout(f.model, "drop", input, given);
    nt__gradient(nt_sum(values[0]), &input, 1, &values[1], NULL);
    run(&f, values, 2, x, rates, got);
    nt_array_free(rates);
    nt_array_free(x);
}

static void assert_dropped(nt_dtype dtype, bool as_tensor, double given) {
    nt_array *got[2];
    double rate = as_tensor ? (float)given : given;
    int kept = 0;
    double tolerance = dtype == NT_F64 && !as_tensor ? 1e-15 : 1e-6;
    drop(dtype, as_tensor, rate, got);
    for (int i = 0; i < ELEMENTS; i++) {
        double slope = stays(i, rate) ? 1 / (1 - rate) : 0, wanted = (1 + i / 64.0) * slope;
        kept += slope > 0;
        assert_true(fabs(nt_array_get(got[0], i) - wanted) <= tolerance * wanted);
        assert_true(fabs(nt_array_get(got[1], i) - slope) <= tolerance * slope);
    }
    assert_true(kept > 0 && kept < ELEMENTS);
    for (int i = 0; i < 2; i++) nt_array_free(got[i]);
}

static void what_stays_is_scaled(void **state) {
    (void)state;
    static const double rates[] = {0.1, 0.9};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        for (int as_tensor = 0; as_tensor < 2; as_tensor++) {
            assert_dropped(NT_F32, as_tensor, rates[i]);
            assert_dropped(NT_F64, as_tensor, rates[i]);
        }
}

/* A Device field may have any value. */
static void a_rate_at_and_past_its_ends(void **state) {
    (void)state;
    static const double rates[] = {0, -1, 1, 2, NAN};
    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
        nt_array *got[2];
        drop(NT_F32, true, rates[r], got);
        for (int i = 0; i < ELEMENTS; i++) {
            double value = nt_array_get(got[0], i), slope = nt_array_get(got[1], i), all = rates[r] <= 0;
            if (isnan(rates[r]))
                assert_true(isnan(value));
            else
                assert_true(value == all * (1 + i / 64.0) && slope == all);
        }
        for (int i = 0; i < 2; i++) nt_array_free(got[i]);
    }
}

/* Neither an evaluation nor a rate of 0 draws: the program has no seed. */
static void nothing_is_drawn_where_nothing_is_dropped(void **state) {
    (void)state;
    for (int training = 0; training < 2; training++) {
        fixture f = begin(training);
        nt_tensor x = nt__input(INPUT_ROLE, X, "x", (nt__type){NT_F32, nt_dims(4)});
        assert_int_equal(nt_is_training(f.model), training);
        assert_int_equal(nt_dropout(f.model, "drop", x, training ? 0.0 : 0.5).id, x.id);
        size_t count;
        nt__model_states(f.model, &count);
        assert_int_equal(count, 0);
        assert_false(nt__model_is_seeded(f.model));
        assert_int_equal(nt__trace_status(f.graph), NT_OK);
        end(&f);
    }
}

/* ---- errors ----------------------------------------------------------------------------------------------------- */

static void assert_error(fixture *f, int line, const char *function, const char *message) {
    char wanted[1024];
    snprintf(wanted, sizeof wanted, "%s:%d in %s: %s", __FILE__, line, function, message);
    assert_int_equal(nt__trace_status(f->graph), NT_INVALID);
    assert_string_equal(nt_error_message(), wanted);
    end(f);
}

static void a_name_draws_once(void **state) {
    (void)state;
    char wanted[512];
    for (int training = 0; training < 2; training++) {
        fixture f = begin(training);
        nt_tensor x = nt__input(INPUT_ROLE, X, "x", (nt__type){NT_F32, nt_dims(4)});
        int first = 0;
        NT_SCOPE(f.model, "block") {
            first = __LINE__ + 1;
            nt_dropout(f.model, "drop", x, 0.5);
            nt_random_key(f.model, "drop");
        }
        snprintf(wanted, sizeof wanted,
                 "random_key: 'block.drop' draws random numbers at %s:%d already, and these would be the same: give "
                 "one of the two another name or scope, or call the layer again inside NT_REUSE",
                 __FILE__, first);
        assert_error(&f, first + 1, __func__, wanted);
    }
}

static void a_name_draws_again_in_the_next_trace(void **state) {
    (void)state;
    fixture f = begin(false);
    nt_random_key(f.model, "a");
    nt__trace_end(f.graph);
    f.graph = nt__trace_begin();
    nt__model_begin(f.model, false, NULL);
    nt_random_key(f.model, "a");
    assert_int_equal(nt__trace_status(f.graph), NT_OK);
    end(&f);
}

static void a_rate_out_of_range_is_refused(void **state) {
    (void)state;
    static const struct {
        double rate;
        const char *text;
    } rates[] = {{1, "1"}, {-0.5, "-0.5"}, {NAN, "nan"}, {30, "30"}};
    char wanted[256];
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        fixture f = begin(false);
        nt_dropout(f.model, "drop", nt__input(INPUT_ROLE, X, "x", (nt__type){NT_F32, nt_dims(4)}), rates[i].rate);
        snprintf(wanted, sizeof wanted,
                 "dropout: the rate of 'drop' is %s; it is the share of elements that become 0, at least 0 and below 1",
                 rates[i].text);
        assert_error(&f, __LINE__ - 4, __func__, wanted);
    }
}

static void other_types_are_refused(void **state) {
    (void)state;
    fixture f = begin(true);
    nt_tensor x = nt__input(INPUT_ROLE, X, "x", (nt__type){NT_I32, nt_dims(4)});
    nt_dropout(f.model, "drop", x, 0.5);
    assert_error(&f, __LINE__ - 1, __func__, "dropout: 'drop' needs a floating tensor, got i32[4]");
    f = begin(true);
    x = nt__input(INPUT_ROLE, X, "x", (nt__type){NT_F32, nt_dims(4)});
    nt_dropout(f.model, "drop", x, x);
    assert_error(&f, __LINE__ - 1, __func__, "dropout: the rate of 'drop' is f32[4]; it is one floating number");
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static void draw_all(nt_model *m) {
    nt_tensor x = nt__input(INPUT_ROLE, X, "x", (nt__type){NT_F32, nt_dims(4)});
    for (int i = 0; i < 2; i++) NT_SCOPE(m, "block%d", i) x = nt_dropout(m, "drop", x, 0.5);
}

static void a_failed_allocation_leaves_nothing(void **state) {
    (void)state;
    assert_true(layer_trace_fail_each(roles, draw_all) > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_seed_micro_batch_and_path),
        cmocka_unit_test(each_iteration_has_its_key),
        cmocka_unit_test(a_trace_that_draws_counts_its_micro_batch),
        cmocka_unit_test(what_stays_is_scaled),
        cmocka_unit_test(a_rate_at_and_past_its_ends),
        cmocka_unit_test(nothing_is_drawn_where_nothing_is_dropped),
        cmocka_unit_test(a_name_draws_once),
        cmocka_unit_test(a_name_draws_again_in_the_next_trace),
        cmocka_unit_test(a_rate_out_of_range_is_refused),
        cmocka_unit_test(other_types_are_refused),
        cmocka_unit_test(a_failed_allocation_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, traced_close_engine);
}
