/* Programs with control flow: the memory that nt_remat saves, and what is told of a change inside a body. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "../xla/engine.h"
#include "nitro/control.h"
#include "program/program.h"

/* ---- memory ----------------------------------------------------------------------------------------------------- */

enum { LAYERS = 24, WIDTH = 64, ROWS = 256 };

static nt_values residual(nt_values x, void *context) {
    nt_tensor h = x.at[0];
    for (int i = 0; i < 4; i++) h = nt_sin(nt_matmul(nt_tanh(h), *(const nt_tensor *)context));
    return (nt_values){{nt_add(x.at[0], h)}};
}

/* The gradients of a chain of layers. */
static nt__program *new_chain(bool remats, const nt__options *options) {
    nt_tensor weights[LAYERS], gradients[LAYERS];
    nt__result results[LAYERS];
    nt__port ports[LAYERS];
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    nt_tensor x = nt__input(0, LAYERS, "x", (nt__type){NT_F32, nt_dims(ROWS, WIDTH)});
    for (int i = 0; i < LAYERS; i++) weights[i] = nt__input(0, i, "weight", (nt__type){NT_F32, nt_dims(WIDTH, WIDTH)});
    for (int i = 0; i < LAYERS; i++)
        x = remats ? nt_remat(residual, &weights[i], x).at[0] : residual((nt_values){{x}}, &weights[i]).at[0];
    nt__gradient(nt_sum(nt_square(x)), weights, LAYERS, gradients, NULL);
    for (int i = 0; i < LAYERS; i++) {
        results[i] = (nt__result){"gradient", gradients[i], {0}};
        ports[i] = (nt__port){"gradient", {NT_F32, nt_dims(WIDTH, WIDTH)}, NT__OUTPUT, -1};
    }
    nt__printed printed;
    assert_ok(nt__print("chain", results, LAYERS, &printed));
    nt__trace_end(graph);
    nt__program *program;
    nt__program_spec spec = {.role = "gradient",
                             .experiment = remats ? "Remat" : "Chain",
                             .results = ports,
                             .result_count = LAYERS,
                             .options = options,
                             .quiet = true};
    assert_ok(nt__program_new(engine, &spec, &printed, &program));
    return program;
}

static int64_t temporary_bytes(bool remats, const nt__options *options) {
    nt__program *program = new_chain(remats, options);
    nt__executable_memory memory;
    assert_ok(nt__program_memory(program, &memory));
    nt__program_free(program);
    return memory.temporary_bytes;
}

static void remat_saves_memory(void **state) {
    (void)state;
    int64_t without = temporary_bytes(false, NULL), with = temporary_bytes(true, NULL);
    assert_true(without >= (int64_t)LAYERS * ROWS * WIDTH * 4);
    if (with > without / 3) fail_msg("%lld bytes with nt_remat, %lld without", (long long)with, (long long)without);
    static const char *const texts[] = {"xla_disable_hlo_passes=rng-expander"};
    nt__options *options;
    assert_ok(nt__options_read(texts, 1, &options));
    int64_t with_own = temporary_bytes(true, options);
    nt__options_free(options);
    assert_true(with_own <= without / 3);
}

/* ---- what moved ------------------------------------------------------------------------------------------------- */

static int changed_line;

static nt_loop sine_step(nt_loop now, void *context) {
    (void)context;
    changed_line = __LINE__ + 1;
    nt_tensor next = nt_sin(nt_add(now.carry[0], now.inputs[0]));
    return (nt_loop){.carry = {next}, .outputs = {next}};
}

static nt_loop cosine_step(nt_loop now, void *context) {
    (void)context;
    changed_line = __LINE__ + 1;
    nt_tensor next = nt_cos(nt_add(now.carry[0], now.inputs[0]));
    return (nt_loop){.carry = {next}, .outputs = {next}};
}

static nt__program *new_scan(nt_loop_body step, nt_direction direction) {
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    nt_tensor x = nt__input(0, 0, "x", (nt__type){NT_F32, nt_dims(5)}), gradient;
    nt_loop all =
        nt_scan(step, NULL, .carry = {nt_full(NT_F32, (nt_shape){0}, 0)}, .inputs = {x}, .direction = direction);
    nt__gradient(nt_sum(nt_mul(all.outputs[0], all.carry[0])), &x, 1, &gradient, NULL);
    nt__printed printed;
    assert_ok(nt__print("scan", &(nt__result){"gradient", gradient, {0}}, 1, &printed));
    nt__trace_end(graph);
    const nt__port port = {"gradient", {NT_F32, nt_dims(5)}, NT__OUTPUT, -1};
    nt__program_spec spec = {.role = "gradient", .experiment = "Scan", .results = &port, .result_count = 1};
    nt__program *program;
    assert_ok(nt__program_new(engine, &spec, &printed, &program));
    return program;
}

static void assert_moved(nt__program *old, nt__program *new, const char *fragment) {
    nt__text text = {0};
    bool moved = nt__program_compare(old, new, &text);
    if (moved != (fragment != NULL)) fail_msg("moved: %s", moved ? text.data : "nothing");
    if (fragment && !strstr(text.data, fragment)) fail_msg("'%s' is not in: %s", fragment, text.data);
    nt__text_free(&text);
    nt__program_free(old);
    nt__program_free(new);
}

static void a_change_in_a_body_is_told_with_its_place(void **state) {
    (void)state;
    nt__program *sine = new_scan(sine_step, NT_FORWARD), *cosine = new_scan(cosine_step, NT_FORWARD);
    char told[256];
    snprintf(told, sizeof told, "test_control.c:%d in cosine_step: sine : (tensor<f32>) -> tensor<f32> -> cosine",
             changed_line);
    assert_moved(sine, cosine, told);
    assert_moved(new_scan(sine_step, NT_FORWARD), new_scan(sine_step, NT_FORWARD), NULL);
    assert_moved(new_scan(sine_step, NT_FORWARD), new_scan(sine_step, NT_BACKWARD), "test_control.c:");
}

static int forget(void **state) {
    nt_cache_reset();
    return close_engine(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(remat_saves_memory),
        cmocka_unit_test(a_change_in_a_body_is_told_with_its_place),
    };
    return cmocka_run_group_tests(tests, open_one_device, forget);
}
