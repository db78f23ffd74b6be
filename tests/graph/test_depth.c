/* Depth: bodies in bodies have a limit, which a thread with a small stack has room for; chains of operations have none
 * but memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "graph/region.h"
#include "nitro/control.h"
#include "nitro/gradient.h"

/* Checked code needs several times the stack. */
#ifdef __SANITIZE_ADDRESS__
enum { SMALL_STACK = 4096 << 10 };
#else
enum { SMALL_STACK = 512 << 10 };
#endif
enum { LONG_CHAIN = 100000 };

/* ---- bodies that call themselves -------------------------------------------------------------------------------- */

static nt_tensor nested(int kind, nt_tensor x, int *left);

typedef struct inner {
    int kind, *left;
} inner;

static nt_values in_values(nt_values x, void *context) {
    const inner *i = context;
    return (nt_values){{nested(i->kind, x.at[0], i->left)}};
}

static nt_values backward(nt_values x, nt_values y, nt_values cotangents, void *context) {
    (void)y, (void)context;
    return (nt_values){{nt_mul(cotangents.at[0], nt_cos(x.at[0]))}};
}

static nt_loop in_loop(nt_loop now, void *context) {
    const inner *i = context;
    return (nt_loop){.carry = {nested(i->kind, now.carry[0], i->left)}};
}

static nt_tensor goes_on(nt_loop now, void *context) {
    (void)context;
    return nt_less(now.index, 2);
}

/* A function each, so that a level has on the stack what it needs and no more. */
static nt_tensor in_remat(nt_tensor x, inner *i) {
    return nt_remat(in_values, i, x).at[0];
}

static nt_tensor in_custom_gradient(nt_tensor x, inner *i) {
    return nt_custom_gradient(in_values, backward, i, x).at[0];
}

static nt_tensor in_cond(nt_tensor x, inner *i) {
    return nt_cond(nt_less(x, 1), in_values, in_values, i, x).at[0];
}

static nt_tensor in_scan(nt_tensor x, inner *i) {
    return nt_scan(in_loop, i, .carry = {x}, .length = 2).carry[0];
}

static nt_tensor in_while(nt_tensor x, inner *i) {
    return nt_while(goes_on, in_loop, i, x).carry[0];
}

enum { REMAT, CUSTOM, COND, SCAN, WHILE, KINDS };
static nt_tensor (*const bodies[KINDS])(nt_tensor x, inner *i) = {
    [REMAT] = in_remat, [CUSTOM] = in_custom_gradient, [COND] = in_cond, [SCAN] = in_scan, [WHILE] = in_while,
};

/* `left` bodies of the kind, one in the other. */
static nt_tensor nested(int kind, nt_tensor x, int *left) {
    inner i = {kind, left};
    return (*left)-- > 0 ? bodies[kind](x, &i) : nt_mul(x, 2);
}

static const nt__type scalar = {NT_F32, {0}};

/* A trace of so many, with its gradient, as text. */
static nt_status trace_nested(int kind, int depth) {
    nt__graph *graph = nt__trace_begin();
    nt_tensor x = nt__input(0, 0, "x", scalar), y = nested(kind, x, &depth), gradient = y;
    if (kind != WHILE) nt__gradient(y, &x, 1, &gradient, NULL);
    const nt__result results[] = {{"y", y, {0}}, {"gradient", gradient, {0}}};
    nt__printed printed;
    nt_status status = nt__print("deep", results, 2, &printed);
    if (status == NT_OK) nt__printed_free(&printed);
    nt__trace_end(graph);
    return status;
}

/* ---- chains ----------------------------------------------------------------------------------------------------- */

static nt_tensor chain(nt_tensor x) {
    for (int i = 0; i < LONG_CHAIN / 2; i++) x = nt_add(nt_mul(x, 1.0001), 1 + i % 7);
    return x;
}

/* The chain is the same in each iteration, so the gradient makes it again in its own body. */
static nt_loop chain_outside_carry(nt_loop now, void *context) {
    nt_tensor same = chain(*(nt_tensor *)context);
    return (nt_loop){.carry = {nt_mul(now.carry[0], same)}};
}

static nt_status trace_chain(bool in_body) {
    nt__graph *graph = nt__trace_begin();
    nt_tensor x = nt__input(0, 0, "x", scalar), gradient;
    nt_tensor y = in_body ? nt_scan(chain_outside_carry, &x, .carry = {x}, .length = 2).carry[0] : chain(x);
    nt__gradient(y, &x, 1, &gradient, NULL);
    const nt__result result = {"gradient", gradient, {0}};
    nt__printed printed;
    nt_status status = nt__print("long", &result, 1, &printed);
    if (status == NT_OK) nt__printed_free(&printed);
    nt__trace_end(graph);
    return status;
}

/* ---- in a thread with a small stack ----------------------------------------------------------------------------- */

static char message[512];

static void keep_message(nt_status status) {
    snprintf(message, sizeof message, "%s", status == NT_OK ? "" : nt_error_message());
}

static void *all_kinds_at_the_limit(void *argument) {
    (void)argument;
    for (int kind = 0; kind < KINDS && !*message; kind++) keep_message(trace_nested(kind, NT__DEEPEST_BODY));
    return NULL;
}

static void *all_kinds_beyond_it(void *argument) {
    int *refused = argument;
    for (int kind = 0; kind < KINDS; kind++) {
        const int depths[] = {NT__DEEPEST_BODY + 1, 1000, 100000};
        for (int i = 0; i < 3; i++) {
            bool is = trace_nested(kind, depths[i]) == NT_INVALID &&
                      strstr(nt_error_message(), "bodies are nested more than 32 deep") &&
                      strstr(nt_error_message(), "test_depth.c:");
            *refused += is;
        }
    }
    return NULL;
}

static void *both_chains(void *argument) {
    (void)argument;
    keep_message(trace_chain(false));
    if (!*message) keep_message(trace_chain(true));
    return NULL;
}

static void run_small(void *(*work)(void *), void *argument) {
    pthread_attr_t attributes;
    pthread_t thread;
    *message = 0;
    pthread_attr_init(&attributes);
    assert_int_equal(pthread_attr_setstacksize(&attributes, SMALL_STACK), 0);
    assert_int_equal(pthread_create(&thread, &attributes, work, argument), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    if (*message) fail_msg("%s", message);
}

static void bodies_up_to_the_limit_fit_a_small_stack(void **state) {
    (void)state;
    run_small(all_kinds_at_the_limit, NULL);
}

static void deeper_bodies_are_refused_with_the_line(void **state) {
    (void)state;
    int refused = 0;
    run_small(all_kinds_beyond_it, &refused);
    assert_int_equal(refused, 3 * KINDS);
}

static void a_chain_may_be_long(void **state) {
    (void)state;
    run_small(both_chains, NULL);
}

/* ---- what grows without an end ---------------------------------------------------------------------------------- */

static void gradients_of_gradients_end(void **state) {
    (void)state;
    nt__graph *graph = nt__trace_begin();
    nt_tensor x = nt__input(0, 0, "x", scalar), s = x;
    for (int i = 0; i < 50; i++) s = nt_grad(nt_mul(nt_sin(s), s), x);
    assert_int_equal(nt__trace_status(graph), NT_INVALID);
    assert_non_null(strstr(nt_error_message(), "this trace has 1048576 operations, and that is the most"));
    nt__trace_end(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_up_to_the_limit_fit_a_small_stack),
        cmocka_unit_test(deeper_bodies_are_refused_with_the_line),
        cmocka_unit_test(a_chain_may_be_long),
        cmocka_unit_test(gradients_of_gradients_end),
    };
    return cmocka_run_group_tests_name("depth", tests, NULL, NULL);
}
