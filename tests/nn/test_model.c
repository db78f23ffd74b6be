/* src/nn: scopes, parameters, layers and batch fields during a trace, and how their misuse is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "graph/emit.h"
#include "layer_trace.h"
#include "nitro/control.h"

enum { MODEL_ROLE = 4, BATCH_ROLE = 5, STATE_ROLE = 7, SEED_ROLE = 8 };
static const nt__model_roles roles = {MODEL_ROLE, STATE_ROLE, SEED_ROLE};

/* ---- a model in a trace ----------------------------------------------------------------------------------------- */

typedef struct fixture {
    nt__graph *graph;
    nt_model *model;
} fixture;

static int begin_trace(void **state) {
    static fixture f;
    f = (fixture){nt__trace_begin(), nt__model_new(roles)};
    *state = &f;
    if (!f.graph || !f.model) return -1;
    nt__model_begin(f.model, true, NULL);
    return 0;
}

static int end_trace(void **state) {
    fixture *f = *state;
    nt__trace_end(f->graph);
    nt__model_free(f->model);
    return nt__memory().live ? -1 : 0;
}

/* Ends the trace that learned the leaves and begins one in which they are inputs 0, 1, ... of another role. */
static void trace_again(fixture *f) {
    size_t count;
    const nt__leaf *leaves = nt__model_leaves(f->model, &count);
    nt_tensor values[8];
    nt__trace_end(f->graph);
    f->graph = nt__trace_begin();
    assert_non_null(f->graph);
    for (size_t i = 0; i < count; i++) values[i] = nt__input(MODEL_ROLE + 1, (int)i, leaves[i].path, leaves[i].type);
    nt__model_begin(f->model, true, values);
}

static void assert_leaves(const fixture *f, size_t count, const char *const *paths) {
    size_t got;
    const nt__leaf *leaves = nt__model_leaves(f->model, &got);
    assert_int_equal(nt__trace_status(f->graph), NT_OK);
    assert_int_equal(got, count);
    for (size_t i = 0; i < count; i++) assert_string_equal(leaves[i].path, paths[i]);
}
#define assert_paths(f, ...) \
    assert_leaves(f, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), (const char *const[]){__VA_ARGS__})

/* The trace's error is "FILE:line in FUNCTION: " and then exactly this. */
static NT__PRINTF(4, 5) void assert_error_at(const fixture *f, int line, const char *function, const char *format,
                                             ...) {
    char wanted[2048];
    int length = snprintf(wanted, sizeof wanted, "%s:%d in %s: ", __FILE__, line, function);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(wanted + length, sizeof wanted - (size_t)length, format, arguments);
    va_end(arguments);
    assert_int_equal(nt__trace_status(f->graph), NT_INVALID);
    assert_string_equal(nt_error_message(), wanted);
}
#define assert_error(f, line, ...) assert_error_at(f, line, __func__, __VA_ARGS__)

/* ---- paths ------------------------------------------------------------------------------------------------------ */

static void scopes_nest_and_end(void **state) {
    fixture *f = *state;
    nt_parameter(f->model, "a", nt_dims(2));
    NT_SCOPE(f->model, "encoder") {
        for (int i = 0; i < 2; i++) NT_SCOPE(f->model, "block%d", i) {
                nt_parameter(f->model, "a", nt_dims(2));
            }
        nt_parameter(f->model, "a", nt_dims(2));
    }
    nt_parameter(f->model, "b", nt_dims(2));
    assert_paths(f, "a", "encoder.block0.a", "encoder.block1.a", "encoder.a", "b");
}

static void the_first_trace_keeps_what_was_declared(void **state) {
    fixture *f = *state;
    int line = __LINE__ + 1;
    nt_tensor w = nt_parameter(f->model, "w", nt_dims(2, 3), .dtype = NT_F64, .init = nt_normal(0.5));
    size_t count;
    const nt__leaf *leaf = nt__model_leaves(f->model, &count);
    assert_int_equal(count, 1);
    assert_true(nt__type_equal(leaf->type, (nt__type){NT_F64, nt_dims(2, 3)}));
    assert_int_equal(leaf->init.kind, NT_INIT_NORMAL);
    assert_true(leaf->init.value == 0.5);
    assert_string_equal(leaf->site.file, __FILE__);
    assert_string_equal(leaf->site.function, __func__);
    assert_int_equal(leaf->site.line, line);
    assert_int_equal(nt_dtype_of(w), NT_F64);
    assert_true(nt_shape_equal(nt_shape_of(w), nt_dims(2, 3)));
}

/* A leaf is an input of the program: in the first trace of the model's role, in a later one what was given for it. */
static void a_parameter_is_the_value_it_was_given(void **state) {
    fixture *f = *state;
    for (int trace = 0; trace < 2; trace++) {
        if (trace) trace_again(f);
        nt_parameter(f->model, "a", nt_dims(2));
        nt_tensor b = nt_parameter(f->model, "b", nt_dims(3));
        nt__printed printed;
        assert_int_equal(nt__print("test", &(nt__result){"y", nt_neg(b), {0}}, 1, &printed), NT_OK);
        assert_int_equal(printed.argument_count, 1);
        assert_int_equal(printed.arguments[0].role, MODEL_ROLE + trace);
        assert_int_equal(printed.arguments[0].index, 1);
        assert_string_equal(printed.arguments[0].name, "b");
        nt__printed_free(&printed);
    }
    assert_paths(f, "a", "b");
}

static void a_later_trace_may_leave_a_parameter_out(void **state) {
    fixture *f = *state;
    nt_parameter(f->model, "a", nt_dims(2));
    nt_parameter(f->model, "b", nt_dims(2));
    trace_again(f);
    nt_parameter(f->model, "b", nt_dims(2));
    assert_paths(f, "a", "b");
}

/* ---- errors ----------------------------------------------------------------------------------------------------- */

static void a_path_used_twice_shows_both_places(void **state) {
    fixture *f = *state;
    int first = 0, second = 0;
    NT_SCOPE(f->model, "head") {
        first = __LINE__ + 1;
        nt_parameter(f->model, "w", nt_dims(2));
        second = __LINE__ + 1;
        nt_parameter(f->model, "w", nt_dims(2));
    }
    assert_error(
        f, second,
        "parameter: 'head.w' was declared at %s:%d already; give one of the two another name or scope, or share "
        "the parameter with NT_REUSE",
        __FILE__, first);
}

static void a_parameter_is_shared_where_that_is_said(void **state) {
    fixture *f = *state;
    for (int trace = 0; trace < 2; trace++) {
        if (trace) trace_again(f);
        nt_tensor first = nt_parameter(f->model, "w", nt_dims(2)), second = {0};
        NT_REUSE(f->model) {
            NT_REUSE(f->model) second = nt_parameter(f->model, "w", nt_dims(2));
            nt_parameter(f->model, "w", nt_dims(2));
            nt_parameter(f->model, "new", nt_dims(2));
        }
        assert_int_equal(first.id, second.id);
        assert_paths(f, "w", "new");
    }
    int line = __LINE__ + 1;
    nt_parameter(f->model, "w", nt_dims(2));
    assert_error(
        f, line,
        "parameter: 'w' was declared at %s:%d already; give one of the two another name or scope, or share the "
        "parameter with NT_REUSE",
        __FILE__, line - 7);
}

static void a_shared_parameter_keeps_its_shape(void **state) {
    fixture *f = *state;
    int first = __LINE__ + 1;
    nt_parameter(f->model, "w", nt_dims(2));
    int second = __LINE__ + 1;
    NT_REUSE(f->model) nt_parameter(f->model, "w", nt_dims(3));
    assert_error(f, second, "parameter: 'w' is f32[3] here and f32[2] at %s:%d", __FILE__, first);
}

static void sharing_ends(void **state) {
    fixture *f = *state;
    assert_false(nt_reuse_leave(f->model));
    assert_int_equal(nt__trace_status(f->graph), NT_INVALID);
    assert_string_equal(nt_error_message(), "reuse: nt_reuse_leave without nt_reuse_enter; NT_REUSE does both");
}

static void another_shape_in_a_later_trace_shows_both_places(void **state) {
    fixture *f = *state;
    int first = __LINE__ + 1;
    nt_parameter(f->model, "w", nt_dims(2));
    trace_again(f);
    int second = __LINE__ + 1;
    nt_parameter(f->model, "w", nt_dims(3));
    assert_error(f, second, "parameter: 'w' is f32[3] here and f32[2] at %s:%d", __FILE__, first);
}

static void another_type_in_a_later_trace_is_refused(void **state) {
    fixture *f = *state;
    int first = __LINE__ + 1;
    nt_parameter(f->model, "w", nt_dims(2));
    trace_again(f);
    int second = __LINE__ + 1;
    nt_parameter(f->model, "w", nt_dims(2), .dtype = NT_F64);
    assert_error(f, second, "parameter: 'w' is f64[2] here and f32[2] at %s:%d", __FILE__, first);
}

static void a_new_path_in_a_later_trace_is_refused(void **state) {
    fixture *f = *state;
    nt_parameter(f->model, "w", nt_dims(2));
    trace_again(f);
    int line = __LINE__ + 1;
    nt_tensor b = nt_parameter(f->model, "b", nt_dims(2));
    assert_true(nt__tensor_failed(b));
    assert_error(f, line,
                 "parameter: 'b' was not declared when the training programs were traced, so it has no value: declare "
                 "it in forward whatever the mode");
}

static const char *const bad_names[] = {"", "a.b", "a b", "a\tb", "a\nb", "a\"b", "a\\b"};

static void bad_parameter_names_are_refused(void **state) {
    fixture *f = *state;
    for (size_t i = 0; i < sizeof bad_names / sizeof *bad_names; i++) {
        int line = __LINE__ + 1;
        nt_tensor w = nt_parameter(f->model, bad_names[i], nt_dims(2));
        assert_true(nt__tensor_failed(w));
        assert_error(f, line, "parameter: '%s' is not a name: it must not be empty or hold dots, spaces or quotes",
                     bad_names[i]);
        trace_again(f);
    }
    assert_leaves(f, 0, NULL);
}

static void the_body_of_a_bad_scope_does_not_run(void **state) {
    fixture *f = *state;
    for (size_t i = 0; i < sizeof bad_names / sizeof *bad_names; i++) {
        int line = __LINE__ + 1;
        NT_SCOPE(f->model, "%s", bad_names[i]) {
            fail();
        }
        assert_error(f, line, "scope: '%s' is not a name: it must not be empty or hold dots, spaces or quotes",
                     bad_names[i]);
        trace_again(f);
    }
}

static void enter(nt_model *m, int depth, int *reached) {
    *reached = depth;
    NT_SCOPE(m, "s%d", depth) {
        enter(m, depth + 1, reached);
    }
}

static void scopes_are_at_most_32_deep(void **state) {
    fixture *f = *state;
    int reached = 0;
    enter(f->model, 0, &reached);
    assert_int_equal(reached, 32);
    assert_int_equal(nt__trace_status(f->graph), NT_INVALID);
    assert_non_null(strstr(nt_error_message(), "scope: 's32' is more than 32 scopes deep"));
}

static void a_path_has_at_most_255_characters(void **state) {
    fixture *f = *state;
    char name[300];
    memset(name, 'x', sizeof name);
    name[253] = 0;
    NT_SCOPE(f->model, "s") {
        nt_parameter(f->model, name, nt_dims(2));
    }
    size_t count;
    assert_int_equal(strlen(nt__model_leaves(f->model, &count)->path), 255);
    assert_int_equal(nt__trace_status(f->graph), NT_OK);
    name[253] = 'x';
    name[254] = 0;
    NT_SCOPE(f->model, "s") {
        nt_parameter(f->model, name, nt_dims(2));
    }
    assert_int_equal(nt__trace_status(f->graph), NT_INVALID);
    assert_non_null(strstr(nt_error_message(), "is longer than 255 characters"));
    assert_non_null(strstr(nt_error_message(), "the path 's.xxx"));
}

static void only_floating_arrays_with_elements_are_parameters(void **state) {
    fixture *f = *state;
    int line = __LINE__ + 1;
    nt_parameter(f->model, "w", nt_dims(2, 0));
    assert_error(f, line, "parameter: 'w' cannot be f32[2,0]: a parameter is floating and has at least 1 element");
    trace_again(f);
    line = __LINE__ + 2;
    NT_SCOPE(f->model, "s") {
        nt_parameter(f->model, "w", nt_dims(2), .dtype = NT_I32);
    }
    assert_error(f, line, "parameter: 's.w' cannot be i32[2]: a parameter is floating and has at least 1 element");
}

/* ---- arguments of layers ---------------------------------------------------------------------------------------- */

static void an_argument_that_is_no_tensor_of_the_trace_is_told(void **state) {
    fixture *f = *state;
    nt_tensor parameter = nt_parameter(f->model, "w", nt_dims(2));
    assert_true(nt__tensor_given(parameter, NT_SITE, "layer", "x"));
    assert_false(nt__tensor_given((nt_tensor){0}, NT_SITE, "layer", "x"));
    assert_error(f, __LINE__ - 1, "layer: x was never set: it is zero bytes, not the result of an operation");
    /* The first error stays: what failed because of it is told no more. */
    assert_false(nt__tensor_given(nt__failed(), NT_SITE, "layer", "y"));
    assert_false(nt__tensor_given((nt_tensor){0}, NT_SITE, "layer", "y"));
    assert_error(f, __LINE__ - 5, "layer: x was never set: it is zero bytes, not the result of an operation");
    trace_again(f);
    assert_false(nt__tensor_given(parameter, NT_SITE, "layer", "x"));
    assert_error(f, __LINE__ - 1,
                 "layer: x belongs to an earlier trace: a tensor lives as long as the call of the hook that made it, "
                 "so do not keep one in a global or static variable");
    trace_again(f);
    assert_false(nt__tensor_given(nt_tensor_number(3), NT_SITE, "layer", "x"));
    assert_error(f, __LINE__ - 1, "layer: x is the number 3 and has to be a tensor; nt_full makes one");
}

/* A model that is kept in a variable is none of the loss, which is traced after forward. */
static void a_model_ends_with_its_hook(void **state) {
    fixture *f = *state;
    static const char *const names[] = {"parameter", "state", "state_set", "random_key"};
    for (int call = 0; call < 4; call++) {
        trace_again(f);
        nt__model_begin(f->model, true, NULL);
        nt_state(f->model, "s", nt_dims(2));
        nt__model_end(f->model);
        switch (call) {
        case 0: nt_parameter(f->model, "w", nt_dims(2)); break;
        case 1: nt_state(f->model, "w", nt_dims(2)); break;
        case 2: nt_state_set(f->model, "w", nt_full(NT_F32, nt_dims(1), 1)); break;
        default: nt_random_key(f->model, "w");
        }
        char wanted[256];
        snprintf(wanted, sizeof wanted,
                 "%s: 'w' is of the model, which is that of forward (or train_step), and that has returned: call the "
                 "layer there, not in another hook",
                 names[call]);
        assert_int_equal(nt__trace_status(f->graph), NT_INVALID);
        if (!strstr(nt_error_message(), wanted)) fail_msg("%s", nt_error_message());
    }
}

/* What train_step declares it may, after forward. */
static void a_restarted_model_goes_on(void **state) {
    fixture *f = *state;
    nt_parameter(f->model, "a", nt_dims(2));
    nt__model_end(f->model);
    nt__model_restart(f->model);
    nt_parameter(f->model, "b", nt_dims(2));
    assert_paths(f, "a", "b");
}

/* ---- layers ----------------------------------------------------------------------------------------------------- */

static nt_tensor vector_input(nt_dtype dtype, nt_shape shape) {
    return nt__input(0, 0, "x", (nt__type){dtype, shape});
}

static void dense_declares_weight_and_bias_in_its_scope(void **state) {
    fixture *f = *state;
    nt_tensor y = nt_dense(f->model, "hidden", vector_input(NT_F64, nt_dims(2, 3, 4)), 5);
    assert_true(nt_shape_equal(nt_shape_of(y), nt_dims(2, 3, 5)));
    nt_dense(f->model, "out", y, 2, .no_bias = true, .weight_init = nt_ones(), .bias_init = nt_ones());
    nt_dense(f->model, "zero", y, 2, .no_bias = true, .weight_init = nt_zeros());
    assert_paths(f, "hidden.weight", "hidden.bias", "out.weight", "zero.weight");
    size_t count;
    const nt__leaf *leaves = nt__model_leaves(f->model, &count);
    assert_true(nt__type_equal(leaves[0].type, (nt__type){NT_F64, nt_dims(4, 5)}));
    assert_true(nt__type_equal(leaves[1].type, (nt__type){NT_F64, nt_dims(5)}));
    assert_int_equal(leaves[0].init.kind, NT_INIT_UNIFORM);
    assert_int_equal(leaves[0].init.scale, NT_SCALE_GLOROT);
    assert_int_equal(leaves[1].init.kind, NT_INIT_DEFAULT); /* zeros */
    assert_true(leaves[1].init.value == 0 && leaves[2].init.value == 1);
    assert_int_equal(leaves[2].init.scale, NT_SCALE_ABSOLUTE);
    assert_int_equal(leaves[3].init.kind, NT_INIT_CONSTANT); /* zeros that were asked for are not "not given" */
}

static void dense_refuses_what_it_cannot_multiply(void **state) {
    fixture *f = *state;
    int line = __LINE__ + 1;
    nt_dense(f->model, "d", vector_input(NT_I32, nt_dims(2, 3)), 5);
    assert_error(f, line,
                 "dense: 'd' needs a floating tensor with a last axis and at least 1 unit, got i32[2,3] and 5; "
                 "nt_convert makes one");
    trace_again(f);
    line = __LINE__ + 1;
    nt_dense(f->model, "d", vector_input(NT_F32, (nt_shape){0}), 5);
    assert_error(f, line, "dense: 'd' needs a floating tensor with a last axis and at least 1 unit, got f32[] and 5");
    trace_again(f);
    line = __LINE__ + 1;
    nt_dense(f->model, "d", vector_input(NT_F32, nt_dims(2)), 0);
    assert_error(f, line, "dense: 'd' needs a floating tensor with a last axis and at least 1 unit, got f32[2] and 0");
}

/* The first error of a trace is the one that is kept: what a failed tensor meets later adds nothing. */
static void dense_on_a_failed_tensor_keeps_the_first_error(void **state) {
    fixture *f = *state;
    nt_tensor x = vector_input(NT_F32, nt_dims(2, 3));
    int line = __LINE__ + 1;
    nt_tensor failed = nt_add(x, vector_input(NT_F32, nt_dims(7)));
    nt_dense(f->model, "d", failed, 4);
    char place[512];
    snprintf(place, sizeof place, "%s:%d in %s: add: ", __FILE__, line, __func__);
    assert_int_equal(nt__trace_status(f->graph), NT_INVALID);
    assert_memory_equal(nt_error_message(), place, strlen(place));
}

/* ---- batch fields ----------------------------------------------------------------------------------------------- */

static const nt__batch_field fields[] = {{"image", {NT_U8, {3, {4, 2, 2}}}}, {"label", {NT_U8, {1, {4}}}}};

static void a_field_is_an_input_once_it_is_read(void **state) {
    (void)state;
    nt_tensor inputs[2] = {0};
    nt_batch batch = {.fields = fields, .count = 2, .role = BATCH_ROLE, .inputs = inputs};
    nt_tensor label = nt_field(&batch, "label"), again = nt_field(&batch, "label");
    assert_int_equal(label.id, again.id);
    assert_int_equal(nt_dtype_of(label), NT_U8);
    assert_true(nt_shape_equal(nt_shape_of(label), nt_dims(4)));
    nt__printed printed;
    assert_int_equal(nt__print("test", &(nt__result){"y", nt_add(label, again), {0}}, 1, &printed), NT_OK);
    assert_int_equal(printed.argument_count, 1);
    assert_int_equal(printed.arguments[0].role, BATCH_ROLE);
    assert_int_equal(printed.arguments[0].index, 1);
    assert_string_equal(printed.arguments[0].name, "label");
    nt__printed_free(&printed);
}

static void fields_are_cut_to_the_real_rows(void **state) {
    (void)state;
    nt_tensor inputs[2] = {0};
    nt_batch batch = {.fields = fields, .count = 2, .role = BATCH_ROLE, .rows = 3, .inputs = inputs};
    nt_tensor image = nt_field(&batch, "image");
    assert_true(nt_shape_equal(nt_shape_of(image), nt_dims(3, 2, 2)));
    assert_int_equal(nt_field(&batch, "image").id, image.id);
    assert_false(nt__trace_current()->nodes[image.id]->repeated); /* a gradient by it is possible */
    memset(inputs, 0, sizeof inputs);
    batch.rows = 4;
    assert_true(nt_shape_equal(nt_shape_of(nt_field(&batch, "image")), nt_dims(4, 2, 2)));
}

static void an_unknown_field_lists_those_there_are(void **state) {
    fixture *f = *state;
    nt_tensor inputs[2] = {0};
    nt_batch batch = {.fields = fields, .count = 2, .role = BATCH_ROLE, .inputs = inputs};
    int line = __LINE__ + 1;
    assert_true(nt__tensor_failed(nt_field(&batch, "lable")));
    assert_error(f, line, "field: the batch has no field 'lable'; its fields are: image, label");
    trace_again(f);
    batch.count = 0;
    line = __LINE__ + 1;
    nt_field(&batch, "label");
    assert_error(f, line, "field: the batch has no field 'label'; its fields are: none");
}

/* A prediction may leave out the name of the only field. */
static void a_field_without_a_name_takes_the_first_that_is_read(void **state) {
    fixture *f = *state;
    static const nt__batch_field nameless[] = {{"image", {NT_U8, {3, {4, 2, 2}}}}, {NULL, {NT_U8, {1, {4}}}}};
    nt_tensor inputs[2] = {0};
    nt_batch batch = {.fields = nameless, .count = 2, .role = BATCH_ROLE, .inputs = inputs};
    assert_int_equal(nt_rank(nt_field(&batch, "image")), 3);
    assert_string_equal(batch.taken, "");
    nt_tensor label = nt_field(&batch, "label"), again = nt_field(&batch, "label");
    assert_int_equal(nt_rank(label), 1);
    assert_int_equal(label.id, again.id);
    assert_string_equal(batch.taken, "label");
    int line = __LINE__ + 1;
    nt_field(&batch, "other");
    assert_error(f, line, "field: the batch has no field 'other'; its fields are: image, label");
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static void declare(nt_model *m) {
    nt_tensor x = vector_input(NT_F32, nt_dims(2, 3));
    for (int i = 0; i < 9; i++) NT_SCOPE(m, "block%d", i) x = nt_dense(m, "d", x, 4);
}

static void a_failed_allocation_leaves_nothing(void **state) {
    (void)state;
    assert_true(layer_trace_fail_each(roles, declare) > 5);
}

/* ---- bodies of control flow ------------------------------------------------------------------------------------- */

static nt_tensor shift; /* made in a body and an argument of the program all the same */

static nt_loop with_a_layer(nt_loop now, void *context) {
    nt_model *m = context;
    nt_tensor next = nt_dense(m, "cell", now.carry[0], 3);
    NT_SCOPE(m, "inner") {
        shift = nt_parameter(m, "shift", nt_dims(3));
    }
    return (nt_loop){.carry = {nt_add(next, shift)}};
}

static nt_loop with_a_loop(nt_loop now, void *context) {
    nt_model *m = context;
    NT_SCOPE(m, "outer") {
        now.carry[0] = nt_scan(with_a_layer, m, .carry = {now.carry[0]}, .length = 2).carry[0];
    }
    return (nt_loop){.carry = {now.carry[0]}};
}

/* One parameter for all iterations, an argument of the program, and known outside. */
static void a_parameter_in_a_body_is_one_parameter(void **state) {
    fixture *f = *state;
    for (int trace = 0; trace < 2; trace++) {
        nt_tensor x = nt_full(NT_F32, nt_dims(2, 3), 1), gradient;
        bool reached;
        nt_tensor last = nt_scan(with_a_loop, f->model, .carry = {x}, .length = 4).carry[0];
        assert_paths(f, "outer.cell.weight", "outer.cell.bias", "outer.inner.shift");
        nt__gradient(nt_sum(nt_add(last, shift)), &shift, 1, &gradient, &reached);
        assert_int_equal(nt__trace_status(f->graph), NT_OK);
        assert_true(reached);
        assert_true(nt_shape_equal(nt_shape_of(gradient), nt_dims(3)));
        if (trace == 0) trace_again(f);
    }
}

static void a_path_in_two_bodies_is_declared_twice(void **state) {
    fixture *f = *state;
    nt_tensor x = nt_full(NT_F32, nt_dims(2, 3), 1);
    nt_scan(with_a_layer, f->model, .carry = {x}, .length = 4);
    nt_scan(with_a_layer, f->model, .carry = {x}, .length = 4);
    assert_int_equal(nt__trace_status(f->graph), NT_INVALID);
    assert_non_null(strstr(nt_error_message(), "'cell.weight' was declared at "));
}

#define IN_A_TRACE(test) cmocka_unit_test_setup_teardown(test, begin_trace, end_trace)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_A_TRACE(scopes_nest_and_end),
        IN_A_TRACE(the_first_trace_keeps_what_was_declared),
        IN_A_TRACE(a_parameter_is_the_value_it_was_given),
        IN_A_TRACE(a_later_trace_may_leave_a_parameter_out),
        IN_A_TRACE(a_path_used_twice_shows_both_places),
        IN_A_TRACE(a_parameter_is_shared_where_that_is_said),
        IN_A_TRACE(a_shared_parameter_keeps_its_shape),
        IN_A_TRACE(sharing_ends),
        IN_A_TRACE(another_shape_in_a_later_trace_shows_both_places),
        IN_A_TRACE(another_type_in_a_later_trace_is_refused),
        IN_A_TRACE(a_new_path_in_a_later_trace_is_refused),
        IN_A_TRACE(bad_parameter_names_are_refused),
        IN_A_TRACE(the_body_of_a_bad_scope_does_not_run),
        IN_A_TRACE(scopes_are_at_most_32_deep),
        IN_A_TRACE(a_path_has_at_most_255_characters),
        IN_A_TRACE(only_floating_arrays_with_elements_are_parameters),
        IN_A_TRACE(an_argument_that_is_no_tensor_of_the_trace_is_told),
        IN_A_TRACE(a_model_ends_with_its_hook),
        IN_A_TRACE(a_restarted_model_goes_on),
        IN_A_TRACE(dense_declares_weight_and_bias_in_its_scope),
        IN_A_TRACE(a_parameter_in_a_body_is_one_parameter),
        IN_A_TRACE(a_path_in_two_bodies_is_declared_twice),
        IN_A_TRACE(dense_refuses_what_it_cannot_multiply),
        IN_A_TRACE(dense_on_a_failed_tensor_keeps_the_first_error),
        IN_A_TRACE(a_field_is_an_input_once_it_is_read),
        IN_A_TRACE(fields_are_cut_to_the_real_rows),
        IN_A_TRACE(an_unknown_field_lists_those_there_are),
        IN_A_TRACE(a_field_without_a_name_takes_the_first_that_is_read),
        cmocka_unit_test(a_failed_allocation_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
