/* src/program: what is compiled and what is reused, the counters, the report of what moved, failures.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "../xla/engine.h"
#include "program/program.h"

/* ---- programs of one vector ------------------------------------------------------------------------------------- */

typedef nt_tensor (*hook)(nt_tensor x);

static int plus_line, hook_line;

static nt_tensor plus_one(nt_tensor x) {
    plus_line = __LINE__ + 1;
    return nt_add(x, 1);
}

static nt_tensor plus_two(nt_tensor x) {
    hook_line = __LINE__ + 1;
    return nt_add(x, 2);
}

static nt_tensor plus_itself(nt_tensor x) {
    hook_line = __LINE__ + 1;
    return nt_add(x, x);
}

static nt_tensor plus_one_negated(nt_tensor x) {
    nt_tensor y = nt_add(x, 1);
    hook_line = __LINE__ + 1;
    return nt_neg(y);
}

static nt_tensor less_itself(nt_tensor x) {
    return nt_mul(nt_neg(x), x);
}

static nt_tensor squared_negation(nt_tensor x) {
    nt_tensor y = nt_neg(x);
    hook_line = __LINE__ + 1;
    return nt_mul(y, y);
}

enum { MAX_PARTS = 3 };

/* What a test says of a program; zeros are the usual. */
typedef struct plan {
    hook hook;
    const char *role, *experiment;
    int64_t size;
    nt__part parts[MAX_PARTS];
    bool loud;
    const char *spoil; /* this word of the text is made wrong */
} plan;

static void spoil(nt__printed *printed, const char *word) {
    char *at = strstr(printed->text.data, word);
    assert_non_null(at);
    *at = '?';
}

static nt__printed print_plan(const plan *p, nt__port *port) {
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    nt_tensor y = p->hook(nt__input(0, 0, "x", (nt__type){NT_F32, nt_dims(p->size ? p->size : 3)}));
    *port = (nt__port){"y", {nt_dtype_of(y), nt_shape_of(y)}, NT__OUTPUT, -1};
    nt__printed printed;
    assert_ok(nt__print("test", &(nt__result){"y", y, {0}}, 1, &printed));
    nt__trace_end(graph);
    if (p->spoil) spoil(&printed, p->spoil);
    return printed;
}

static nt_status try_program(const plan *p, nt__printed *printed, const nt__port *port, nt__program **out) {
    nt__program_spec spec = {.role = p->role ? p->role : "forward",
                             .experiment = p->experiment ? p->experiment : "Toy",
                             .results = port,
                             .result_count = 1,
                             .parts = p->parts,
                             .quiet = !p->loud};
    while (spec.part_count < MAX_PARTS && p->parts[spec.part_count].name) spec.part_count++;
    return nt__program_new(engine, &spec, printed, out);
}

static nt__program *program_of(plan p) {
    nt__port port;
    nt__printed printed = print_plan(&p, &port);
    nt__program *program;
    assert_ok(try_program(&p, &printed, &port, &program));
    return program;
}
#define new_program(function, ...) program_of((plan){.hook = function, ##__VA_ARGS__})

/* Makes a program ready and lets it go: the cache keeps what was compiled. */
static void prepare(plan p) {
    nt__program *program = program_of(p);
    assert_ok(nt__program_ready(program));
    nt__program_free(program);
}
#define ready(function, ...) prepare((plan){.hook = function, ##__VA_ARGS__})

static nt_status run_on(nt__program *program, const float *values, int64_t count, nt__buffer *result) {
    nt__buffer argument = {0};
    upload_floats("x", NT__BATCH, values, count, &argument);
    nt_status status = nt__program_run(program, (nt__buffer *[]){&argument}, (nt__buffer *[]){result});
    nt__buffer_free(&argument);
    return status;
}

static void assert_gives(nt__program *program, const float *values, const float *wanted, int64_t count) {
    nt__buffer result = {0};
    assert_ok(run_on(program, values, count, &result));
    assert_floats(&result, wanted, count);
    nt__buffer_free(&result);
}

static void assert_counts(uint64_t misses, uint64_t hits, uint64_t entries) {
    nt_cache_stats_t stats = nt_cache_stats();
    assert_int_equal(stats.misses, misses);
    assert_int_equal(stats.hits, hits);
    assert_int_equal(stats.entries, entries);
}

static const char *moved(size_t index) {
    const nt_cache_report_t *report = nt_cache_report(index);
    if (!report) fail_msg("no report %zu", index);
    return report ? report->moved : "";
}

/* "FILE:LINE in FUNCTION: rest", with this file's name as the compiler knows it. */
static const char *placed(int line, const char *function, const char *rest) {
    static char text[1024];
    snprintf(text, sizeof text, "%s:%d in %s: %s", __FILE__, line, function, rest);
    return text;
}

static int start_afresh(void **state) {
    (void)state;
    nt_cache_reset();
    return 0;
}

/* ---- hits and misses -------------------------------------------------------------------------------------------- */

static void making_a_program_compiles_nothing(void **state) {
    (void)state;
    nt__program *program = new_program(plus_one);
    assert_counts(0, 0, 0);
    size_t count;
    const nt__argument *arguments = nt__program_arguments(program, &count);
    assert_int_equal(count, 1);
    assert_string_equal(arguments[0].name, "x");
    assert_non_null(strstr(nt__program_text(program), "stablehlo.add"));
    nt__program_free(program);
    nt__program_free(NULL);
}

static void the_first_use_compiles_and_the_next_ones_do_not(void **state) {
    (void)state;
    nt__program *program = new_program(plus_one);
    for (int i = 0; i < 3; i++) assert_gives(program, (float[]){1, 2, 3}, (float[]){2, 3, 4}, 3);
    assert_counts(1, 0, 1);
    assert_true(nt_cache_stats().compile_seconds > 0);
    assert_true(nt_cache_report(0)->seconds == nt_cache_stats().compile_seconds);
    nt__executable_memory memory;
    assert_ok(nt__program_memory(program, &memory));
    assert_int_equal(memory.output_bytes, 12);
    nt__program_free(program);
}

static void the_same_text_is_a_hit_whoever_asks(void **state) {
    (void)state;
    uint64_t compiles = nt__engine_counts_now().compiles;
    ready(plus_one);
    ready(plus_one);
    ready(plus_one, .experiment = "Other");
    ready(plus_one, .role = "loss", .parts = {{"hidden", "3"}});
    assert_counts(1, 3, 1);
    assert_int_equal(nt__engine_counts_now().compiles, compiles + 1);
    assert_null(nt_cache_report(1));
}

static void another_text_is_a_miss(void **state) {
    (void)state;
    ready(plus_one);
    ready(plus_two);
    ready(plus_one, .size = 4);
    assert_counts(3, 0, 3);
    ready(plus_one);
    assert_counts(3, 1, 3);
    double seconds = 0;
    for (size_t i = 0; i < 3; i++) seconds += nt_cache_report(i)->seconds;
    assert_true(seconds - nt_cache_stats().compile_seconds < 1e-9);
    assert_true(nt_cache_stats().compile_seconds - seconds < 1e-9);
}

/* Each program runs what its own text says, also where both were compiled before either ran. */
static void programs_do_not_mix(void **state) {
    (void)state;
    nt__program *one = new_program(plus_one), *two = new_program(plus_two), *again = new_program(plus_one);
    assert_ok(nt__program_ready(one));
    assert_ok(nt__program_ready(two));
    assert_gives(two, (float[]){1, 2, 3}, (float[]){3, 4, 5}, 3);
    assert_gives(one, (float[]){1, 2, 3}, (float[]){2, 3, 4}, 3);
    nt__program_free(one);
    assert_gives(again, (float[]){1, 2, 3}, (float[]){2, 3, 4}, 3);
    assert_counts(2, 1, 2);
    nt__program_free(two);
    nt__program_free(again);
}

static void *make_ready(void *program) {
    return nt__program_ready(program) == NT_OK ? program : NULL;
}

static void threads_that_ask_at_once_compile_once(void **state) {
    (void)state;
    enum { THREADS = 4 };
    nt__program *programs[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) programs[i] = new_program(plus_one);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, make_ready, programs[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, programs[i]);
    }
    assert_counts(1, THREADS - 1, 1);
    for (int i = 0; i < THREADS; i++) nt__program_free(programs[i]);
}

/* ---- what moved ------------------------------------------------------------------------------------------------- */

static void the_first_program_of_its_kind_says_so(void **state) {
    (void)state;
    ready(plus_one, .role = "loss", .experiment = "Fashion");
    const nt_cache_report_t *report = nt_cache_report(0);
    assert_string_equal(report->program, "loss");
    assert_string_equal(report->experiment, "Fashion");
    assert_string_equal(report->moved, "first program of its kind");
}

static void changed_parts_are_named_with_both_values(void **state) {
    (void)state;
    ready(plus_one, .parts = {{"GraphConst hidden", "3"}, {"field image", "[3]"}, {"old", "x"}});
    ready(plus_one, .size = 4, .parts = {{"GraphConst hidden", "4"}, {"field image", "[3]"}, {"new", "y"}});
    assert_string_equal(moved(1), "GraphConst hidden: 3 -> 4; new: new, y; old: x -> gone");
}

static void a_changed_operation_is_named_with_its_place(void **state) {
    (void)state;
    ready(plus_one);
    ready(plus_two);
    assert_string_equal(moved(1), placed(hook_line, "plus_two",
                                         "constant <{value = dense<1> : tensor<3xf32>}> : () -> tensor<3xf32> "
                                         "-> constant <{value = dense<2> : tensor<3xf32>}> : () -> "
                                         "tensor<3xf32>"));
    ready(plus_itself);
    const char *place = placed(hook_line, "plus_itself", "");
    assert_memory_equal(moved(2), place, strlen(place));
    assert_non_null(strstr(moved(2), " -> add"));
}

static void added_and_removed_operations_are_named_with_their_place(void **state) {
    (void)state;
    ready(plus_one);
    ready(plus_one_negated);
    const char *place = placed(hook_line, "plus_one_negated", "new, negate");
    assert_memory_equal(moved(1), place, strlen(place));
    nt_cache_reset();
    ready(plus_one_negated);
    ready(plus_one);
    place = placed(hook_line, "plus_one_negated", "negate");
    assert_memory_equal(moved(1), place, strlen(place));
    assert_string_equal(moved(1) + strlen(moved(1)) - strlen(" -> gone"), " -> gone");
}

static void other_connections_are_told_from_other_operations(void **state) {
    (void)state;
    ready(less_itself);
    ready(squared_negation);
    assert_counts(2, 0, 2);
    assert_string_equal(moved(1),
                        placed(hook_line, "squared_negation", "the same operations, connected in another way"));
}

/* Compared is what ran last of the kind, also when it was found and not compiled. */
static void a_hit_is_remembered_too(void **state) {
    (void)state;
    ready(plus_one, .size = 3, .parts = {{"hidden", "3"}});
    ready(plus_one, .size = 4, .parts = {{"hidden", "4"}});
    ready(plus_one, .size = 3, .parts = {{"hidden", "3"}});
    ready(plus_one, .size = 5, .parts = {{"hidden", "5"}});
    assert_counts(3, 1, 3);
    assert_string_equal(moved(2), "hidden: 3 -> 5");
}

static void roles_and_experiments_are_compared_with_their_own(void **state) {
    (void)state;
    ready(plus_one, .experiment = "A", .size = 3, .parts = {{"hidden", "3"}});
    ready(plus_one, .experiment = "B", .size = 5, .parts = {{"hidden", "5"}});
    ready(plus_one, .experiment = "A", .role = "loss", .size = 6, .parts = {{"hidden", "6"}});
    ready(plus_one, .experiment = "A", .size = 4, .parts = {{"hidden", "4"}});
    ready(plus_one, .experiment = "B", .size = 7, .parts = {{"hidden", "7"}});
    assert_string_equal(moved(1), "first program of its kind");
    assert_string_equal(moved(2), "first program of its kind");
    assert_string_equal(moved(3), "hidden: 3 -> 4");
    assert_string_equal(moved(4), "hidden: 5 -> 7");
}

/* ---- notices ---------------------------------------------------------------------------------------------------- */

typedef struct heard {
    int count;
    uint64_t misses; /* by the counters, asked for while the line is given */
    char line[512];
} heard;

static void hear(const char *line, void *context) {
    heard *h = context;
    h->count++;
    h->misses = nt_cache_stats().misses;
    snprintf(h->line, sizeof h->line, "%s", line);
}

static void a_compile_gives_a_line_unless_quiet(void **state) {
    (void)state;
    heard h = {0};
    nt_notice_function before = nt_set_notice(hear, &h);
    ready(plus_one);
    assert_int_equal(h.count, 0);
    ready(plus_two, .loud = true, .experiment = "Fashion", .role = "gradient");
    assert_int_equal(h.count, 1);
    assert_int_equal(h.misses, 2);
    assert_non_null(strstr(h.line, "compiled gradient of Fashion in "));
    assert_non_null(strstr(h.line, "(first program of its kind); 2 programs, "));
    ready(plus_two, .loud = true);
    assert_int_equal(h.count, 1);
    nt_set_notice(before, NULL);
}

/* ---- forgetting ------------------------------------------------------------------------------------------------- */

static void a_reset_leaves_held_programs_working(void **state) {
    (void)state;
    nt__program *held = new_program(plus_one, .parts = {{"hidden", "3"}});
    assert_ok(nt__program_ready(held));
    nt_cache_reset();
    assert_counts(0, 0, 0);
    assert_true(nt_cache_stats().compile_seconds == 0);
    assert_null(nt_cache_report(0));
    assert_gives(held, (float[]){1, 2, 3}, (float[]){2, 3, 4}, 3);
    assert_counts(0, 0, 0);
    ready(plus_one, .parts = {{"hidden", "4"}});
    assert_counts(1, 0, 1);
    assert_string_equal(moved(0), "first program of its kind");
    assert_int_equal(nt__engine_counts_now().executables.live_count, 2);
    nt__program_free(held);
    assert_int_equal(nt__engine_counts_now().executables.live_count, 1);
    nt_cache_reset();
    assert_int_equal(nt__engine_counts_now().executables.live_count, 0);
}

/* ---- failures --------------------------------------------------------------------------------------------------- */

static void a_failed_compile_leads_to_the_users_line(void **state) {
    (void)state;
    nt__program *program = new_program(plus_one, .spoil = "stablehlo.add");
    char place[512];
    snprintf(place, sizeof place, "%s:%d in plus_one: compiling 'forward of Toy': ", __FILE__, plus_line);
    for (int i = 0; i < 2; i++) {
        nt__buffer result = {0};
        assert_failed(nt__program_ready(program), NT_ENGINE, place);
        assert_memory_equal(nt_error_message(), place, strlen(place));
        assert_failed(run_on(program, (float[]){1, 2, 3}, 3, &result), NT_ENGINE, place);
        assert_int_equal(result.state, NT__BUFFER_EMPTY);
        nt__executable_memory memory;
        assert_failed(nt__program_memory(program, &memory), NT_ENGINE, place);
        assert_counts(0, 0, 0);
        assert_true(nt_cache_stats().compile_seconds == 0);
        assert_null(nt_cache_report(0));
    }
    nt__program_free(program);
    ready(plus_one);
    assert_string_equal(moved(0), "first program of its kind");
}

/* No operation of the user's is to blame for the head of the text. */
static void a_failure_elsewhere_names_no_line(void **state) {
    (void)state;
    nt__program *program = new_program(plus_one, .spoil = "func.func");
    static const char start[] = "compiling 'forward of Toy': ";
    assert_failed(nt__program_ready(program), NT_ENGINE, start);
    assert_memory_equal(nt_error_message(), start, sizeof start - 1);
    nt__program_free(program);
}

static void a_wrong_signature_is_refused_and_not_kept(void **state) {
    (void)state;
    plan p = {.hook = plus_one};
    nt__port port;
    nt__printed printed = print_plan(&p, &port);
    port.type.shape = nt_dims(4);
    nt__program *program;
    assert_ok(try_program(&p, &printed, &port, &program));
    assert_failed(nt__program_ready(program), NT_INVALID, "'y' is f32[4] in the signature and f32[3] in the program");
    assert_counts(0, 0, 0);
    nt__program_free(program);
}

/* A program made, compiled and run while the n-th allocation fails. What fails leaves nothing, and can be tried again.
 */
static nt_status make_and_run(const plan *p, nt__printed *printed, const nt__port *port, nt__program **program,
                              nt__buffer *argument, nt__buffer *result) {
    nt_status status = try_program(p, printed, port, program);
    if (status != NT_OK) return status;
    return nt__program_run(*program, (nt__buffer *[]){argument}, (nt__buffer *[]){result});
}

static bool fails_at(size_t n, const plan *p, nt__buffer *argument) {
    nt__port port;
    nt__program *program = NULL;
    nt__buffer result = {0};
    nt__printed printed = print_plan(p, &port);
    nt__memory_fail_at(n);
    nt_status status = make_and_run(p, &printed, &port, &program, argument, &result);
    nt__memory_fail_at(0);
    if (status != NT_OK) {
        assert_int_equal(status, NT_OUT_OF_MEMORY);
        assert_non_null(strstr(nt_error_message(), "out of host memory"));
        assert_int_equal(result.state, NT__BUFFER_EMPTY);
        nt_cache_stats_t stats = nt_cache_stats();
        assert_int_equal(stats.misses, stats.entries);
        assert_true(!stats.misses == !nt_cache_report(0));
    }
    if (program && status != NT_OK)
        assert_ok(nt__program_run(program, (nt__buffer *[]){argument}, (nt__buffer *[]){&result}));
    if (program) {
        assert_floats(&result, (float[]){2, 3, 4}, 3);
        assert_int_equal(nt_cache_stats().misses, 1);
    }
    nt__buffer_free(&result);
    nt__program_free(program);
    nt_cache_reset();
    return status != NT_OK;
}

static void a_failed_allocation_leaves_nothing(void **state) {
    (void)state;
    heard h = {0};
    nt_notice_function notice = nt_set_notice(hear, &h);
    const plan p = {.hook = plus_one, .parts = {{"hidden", "3"}}, .loud = true};
    nt__buffer argument = {0};
    upload_floats("x", NT__BATCH, (float[]){1, 2, 3}, 3, &argument);
    size_t before = nt__memory().live, n = 1;
    while (fails_at(n, &p, &argument)) {
        assert_int_equal(nt__memory().live, before);
        n++;
    }
    assert_true(n > 10);
    assert_int_equal(nt__memory().live, before);
    nt__buffer_free(&argument);
    nt_set_notice(notice, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(making_a_program_compiles_nothing, start_afresh),
        cmocka_unit_test_setup(the_first_use_compiles_and_the_next_ones_do_not, start_afresh),
        cmocka_unit_test_setup(the_same_text_is_a_hit_whoever_asks, start_afresh),
        cmocka_unit_test_setup(another_text_is_a_miss, start_afresh),
        cmocka_unit_test_setup(programs_do_not_mix, start_afresh),
        cmocka_unit_test_setup(threads_that_ask_at_once_compile_once, start_afresh),
        cmocka_unit_test_setup(the_first_program_of_its_kind_says_so, start_afresh),
        cmocka_unit_test_setup(changed_parts_are_named_with_both_values, start_afresh),
        cmocka_unit_test_setup(a_changed_operation_is_named_with_its_place, start_afresh),
        cmocka_unit_test_setup(added_and_removed_operations_are_named_with_their_place, start_afresh),
        cmocka_unit_test_setup(other_connections_are_told_from_other_operations, start_afresh),
        cmocka_unit_test_setup(a_hit_is_remembered_too, start_afresh),
        cmocka_unit_test_setup(roles_and_experiments_are_compared_with_their_own, start_afresh),
        cmocka_unit_test_setup(a_compile_gives_a_line_unless_quiet, start_afresh),
        cmocka_unit_test_setup(a_reset_leaves_held_programs_working, start_afresh),
        cmocka_unit_test_setup(a_failed_compile_leads_to_the_users_line, start_afresh),
        cmocka_unit_test_setup(a_failure_elsewhere_names_no_line, start_afresh),
        cmocka_unit_test_setup(a_wrong_signature_is_refused_and_not_kept, start_afresh),
        cmocka_unit_test_setup_teardown(a_failed_allocation_leaves_nothing, start_afresh, start_afresh),
    };
    return cmocka_run_group_tests(tests, open_one_device, close_engine);
}
