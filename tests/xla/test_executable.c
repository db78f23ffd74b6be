/* Executables: compiling, running, donating, and everything that is refused before the engine sees it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "accumulate.h"

/* ---- the programs ----------------------------------------------------------------------------------------------- */

/* sum = a + b, and b again. */
static const char add_text[] =
    "module @add {\n"
    "  func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {\n"
    "    %0 = \"stablehlo.add\"(%arg0, %arg1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n"
    "    return %0, %arg1 : tensor<4xf32>, tensor<4xf32>\n"
    "  }\n"
    "}\n";

/* Needs 40 terabytes. */
static const char huge_text[] =
    "module @huge {\n"
    "  func.func public @main(%arg0: tensor<1xf32> {tf.aliasing_output = 0 : i32})"
    " -> (tensor<1xf32>, tensor<10000000000000xf32>) {\n"
    "    %0 = \"stablehlo.broadcast_in_dim\"(%arg0) <{broadcast_dimensions = array<i64: 0>}>"
    " : (tensor<1xf32>) -> tensor<10000000000000xf32>\n"
    "    return %arg0, %0 : tensor<1xf32>, tensor<10000000000000xf32>\n"
    "  }\n"
    "}\n";

static const nt__port add_arguments[] = {{"a", {NT_F32, {1, {4}}}, NT__BATCH, -1},
                                         {"b", {NT_F32, {1, {4}}}, NT__BATCH, -1}};
static const nt__port add_results[] = {{"sum", {NT_F32, {1, {4}}}, NT__OUTPUT, -1},
                                       {"copy", {NT_F32, {1, {4}}}, NT__RATE, -1}};
static const nt__signature add_signature = {add_arguments, 2, add_results, 2};

static nt__executable *add, *accumulate;

static int compile_both(void **state) {
    if (open_one_device(state) != 0) return -1;
    assert_ok(compile("add", add_text, &add_signature, &add));
    assert_ok(compile("gradient of Fashion", accumulate_text, &accumulate_signature, &accumulate));
    return 0;
}

static int free_both(void **state) {
    nt__executable_free(&add);
    nt__executable_free(&accumulate);
    return close_engine(state);
}

static void assert_nothing_lives(void) {
    assert_int_equal(nt__engine_counts_now().all_buffers.live_count, 0);
    assert_int_equal(nt__engine_counts_now().all_buffers.live_bytes, 0);
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

static void adds(void **state) {
    (void)state;
    nt__buffer a = {0}, b = {0}, total = {0}, copy = {0};
    nt__buffer *arguments[] = {&a, &b}, *results[] = {&total, &copy};
    upload_floats("one", NT__BATCH, one, 4, &a);
    upload_floats("other", NT__BATCH, other, 4, &b);
    uint64_t runs = nt__engine_counts_now().runs;
    assert_ok(nt__executable_run(add, arguments, 2, results, 2));
    assert_int_equal(nt__engine_counts_now().runs, runs + 1);
    assert_string_equal(total.name, "sum");
    assert_int_equal(total.purpose, NT__OUTPUT);
    assert_int_equal(copy.purpose, NT__RATE);
    assert_int_equal(nt__engine_counts_now().buffers[NT__OUTPUT].live_count, 1);
    assert_int_equal(nt__engine_counts_now().buffers[NT__OUTPUT].live_bytes, 16);
    assert_floats(&total, sum, 4);
    assert_floats(&copy, other, 4);
    assert_floats(&a, one, 4);
    for (int i = 0; i < 2; i++) {
        nt__buffer_free(arguments[i]);
        nt__buffer_free(results[i]);
    }
    assert_nothing_lives();
}

static void takes_a_buffer_twice(void **state) {
    (void)state;
    static const float doubled[] = {2, 4, 6, 8};
    nt__buffer a = {0}, total = {0}, copy = {0};
    nt__buffer *arguments[] = {&a, &a}, *results[] = {&total, &copy};
    upload_floats("one", NT__BATCH, one, 4, &a);
    assert_ok(nt__executable_run(add, arguments, 2, results, 2));
    assert_floats(&total, doubled, 4);
    nt__buffer_free(&a);
    nt__buffer_free(&total);
    nt__buffer_free(&copy);
}

static void arguments_and_program_may_go_before_the_result(void **state) {
    (void)state;
    nt__executable *brief;
    nt__buffer a = {0}, b = {0}, total = {0}, copy = {0};
    nt__buffer *arguments[] = {&a, &b}, *results[] = {&total, &copy};
    assert_ok(compile("brief", add_text, &add_signature, &brief));
    float *lent = nt__alloc_aligned(sizeof one);
    memcpy(lent, one, sizeof one);
    assert_ok(nt__buffer_lend(engine, 0, "one", NT__BATCH, type_of(NT_F32, nt_dims(4)), lent, &a));
    upload_floats("other", NT__BATCH, other, 4, &b);
    assert_ok(nt__executable_run(brief, arguments, 2, results, 2));
    nt__buffer_free(&a);
    nt__buffer_free(&b);
    nt__executable_free(&brief);
    assert_string_equal(total.name, "sum");
    assert_floats(&total, sum, 4);
    nt__buffer_free(&total);
    nt__buffer_free(&copy);
    assert_failed(nt__buffer_check(&total), NT_INVALID, "buffer 'sum' was freed");
}

static void a_run_allocates_nothing(void **state) {
    (void)state;
    nt__buffer total = {0}, b = {0};
    nt__buffer *arguments[] = {&total, &b}, *results[] = {&total};
    upload_floats("one", NT__ACCUMULATOR, one, 4, &total);
    upload_floats("other", NT__BATCH, other, 4, &b);
    size_t before = nt__memory().total;
    for (int i = 0; i < 1000; i++) assert_ok(nt__executable_run(accumulate, arguments, 2, results, 1));
    assert_int_equal(nt__memory().total, before);
    static const float wanted[] = {10001, 20002, 30003, 40004};
    assert_floats(&total, wanted, 4);
    nt__buffer_free(&total);
    nt__buffer_free(&b);
    assert_nothing_lives();
}

/* ---- donation --------------------------------------------------------------------------------------------------- */

/* The only test that looks at the accumulator's peak: it stays at one buffer, since the engine takes the old memory. */
static void updates_in_place(void **state) {
    (void)state;
    nt__buffer total = {0}, b = {0};
    nt__buffer *arguments[] = {&total, &b}, *results[] = {&total};
    upload_floats("one", NT__ACCUMULATOR, one, 4, &total);
    upload_floats("other", NT__BATCH, other, 4, &b);
    void *before = total.raw;
    assert_ok(nt__executable_run(accumulate, arguments, 2, results, 1));
    assert_int_equal(total.state, NT__BUFFER_ALIVE);
    assert_ptr_not_equal(total.raw, before);
    assert_string_equal(total.name, "new sum");
    assert_floats(&total, sum, 4);
    nt__engine_counts counts = nt__engine_counts_now();
    assert_int_equal(counts.buffers[NT__ACCUMULATOR].live_count, 1);
    assert_int_equal(counts.buffers[NT__ACCUMULATOR].live_bytes, 16);
    assert_int_equal(counts.buffers[NT__ACCUMULATOR].peak_count, 1);
    assert_int_equal(counts.buffers[NT__ACCUMULATOR].peak_bytes, 16);
    nt__buffer_free(&total);
    nt__buffer_free(&b);
    assert_nothing_lives();
}

static void donates_to_another_slot(void **state) {
    (void)state;
    float got[4];
    nt__buffer total = {0}, b = {0}, after = {0};
    nt__buffer *arguments[] = {&total, &b}, *results[] = {&after};
    upload_floats("one", NT__PARAMETERS, one, 4, &total);
    upload_floats("other", NT__BATCH, other, 4, &b);
    assert_ok(nt__executable_run(accumulate, arguments, 2, results, 1));
    assert_int_equal(total.state, NT__BUFFER_DONATED);
    assert_null(total.raw);
    assert_failed(nt__buffer_read(engine, &total, got), NT_INVALID,
                  "buffer 'one' was donated to 'gradient of Fashion'");
    assert_failed(nt__executable_run(accumulate, arguments, 2, results, 1), NT_INVALID, "argument 0 'sum'",
                  "buffer 'one' was donated to 'gradient of Fashion'");
    nt__buffer_free(&total);
    assert_int_equal(total.state, NT__BUFFER_DONATED);
    assert_int_equal(nt__engine_counts_now().buffers[NT__PARAMETERS].live_count, 0);
    assert_floats(&after, sum, 4);
    nt__buffer_free(&b);
    nt__buffer_free(&after);
    assert_nothing_lives();
}

/* The engine copies lent memory when it is donated, and gives it back untouched. */
static void donates_lent_memory(void **state) {
    (void)state;
    nt__buffer total = {0}, b = {0};
    nt__buffer *arguments[] = {&total, &b}, *results[] = {&total};
    size_t live = nt__memory().live;
    float *lent = nt__alloc_aligned(sizeof one);
    memcpy(lent, one, sizeof one);
    assert_ok(nt__buffer_lend(engine, 0, "one", NT__ACCUMULATOR, type_of(NT_F32, nt_dims(4)), lent, &total));
    upload_floats("other", NT__BATCH, other, 4, &b);
    assert_ok(nt__executable_run(accumulate, arguments, 2, results, 1));
    assert_null(total.lent);
    assert_int_equal(nt__memory().live, live);
    assert_floats(&total, sum, 4);
    nt__buffer_free(&total);
    nt__buffer_free(&b);
    assert_nothing_lives();
}

/* The signature says less than the program wants: the engine refuses before anything runs. */
static void a_run_that_the_engine_refuses_changes_nothing(void **state) {
    (void)state;
    static const nt__port wrong[] = {{"sum", {NT_F32, {1, {4}}}, NT__ACCUMULATOR, 0},
                                     {"b", {NT_F32, {1, {3}}}, NT__BATCH, -1}};
    const nt__signature signature = {wrong, 2, accumulate_results, 1};
    nt__executable *executable;
    nt__buffer total = {0}, b = {0};
    nt__buffer *arguments[] = {&total, &b}, *results[] = {&total};
    assert_ok(compile("wrong", accumulate_text, &signature, &executable));
    upload_floats("total", NT__ACCUMULATOR, one, 4, &total);
    upload_floats("b", NT__BATCH, other, 3, &b);
    nt__engine_counts before = nt__engine_counts_now();
    assert_failed(nt__executable_run(executable, arguments, 2, results, 1), NT_ENGINE, "running 'wrong'",
                  "engine error 3 (invalid argument)", "expected parameter 1 of size 16");
    nt__engine_counts after = nt__engine_counts_now();
    assert_memory_equal(&before, &after, sizeof before);
    assert_string_equal(total.name, "total");
    assert_floats(&total, one, 4);
    nt__buffer_free(&total);
    nt__buffer_free(&b);
    nt__executable_free(&executable);
    assert_nothing_lives();
}

/* One plugin has taken the donated memory by the time it finds that there is none for the other result, one has not.
 * The buffer says which, and the slots stay as they were. */
static void a_run_out_of_memory_leaves_no_half_buffers(void **state) {
    (void)state;
    const nt__type single = type_of(NT_F32, nt_dims(1)), vast = type_of(NT_F32, nt_dims(10000000000000));
    const nt__port argument_ports[] = {{"x", single, NT__BATCH, 0}};
    const nt__port result_ports[] = {{"same", single, NT__OUTPUT, -1}, {"vast", vast, NT__OUTPUT, -1}};
    const nt__signature signature = {argument_ports, 1, result_ports, 2};
    nt__executable *huge;
    nt__buffer x = {0}, vast_slot = {0};
    nt__buffer *arguments[] = {&x}, *results[] = {&x, &vast_slot};
    assert_ok(compile("huge", huge_text, &signature, &huge));
    upload_floats("x", NT__BATCH, one, 1, &x);
    uint64_t runs = nt__engine_counts_now().runs;
    assert_failed(nt__executable_run(huge, arguments, 1, results, 2), NT_OUT_OF_MEMORY, "running 'huge'",
                  "engine error 8 (out of memory)", "40000000000000 bytes");
    assert_non_null(strstr(nt__engine_last_text(), "40000000000000 bytes"));
    assert_int_equal(nt__engine_counts_now().runs, runs);
    assert_int_equal(vast_slot.state, NT__BUFFER_EMPTY);
    assert_string_equal(x.name, "x");
    if (x.state == NT__BUFFER_ALIVE) {
        assert_floats(&x, one, 1);
        nt__buffer_free(&x);
    } else {
        assert_failed(nt__buffer_check(&x), NT_INVALID, "buffer 'x' was donated to 'huge'");
    }
    nt__executable_free(&huge);
    assert_nothing_lives();
}

/* ---- refused runs ----------------------------------------------------------------------------------------------- */

/* A run that is refused changes nothing, and the same buffers run afterwards. */
static void refuses_wrong_arguments(void **state) {
    (void)state;
    static const int32_t integers[] = {1, 2, 3, 4};
    nt__buffer a = {0}, b = {0}, flat = {0}, integer = {0}, longer = {0}, freed = {0}, empty = {0}, total = {0};
    upload_floats("a", NT__BATCH, one, 4, &a);
    upload_floats("b", NT__BATCH, other, 4, &b);
    upload_floats("longer", NT__BATCH, other, 3, &longer);
    upload_floats("gone", NT__BATCH, other, 4, &freed);
    nt__buffer_free(&freed);
    assert_ok(nt__buffer_upload(engine, 0, "flat", NT__BATCH, type_of(NT_F32, nt_dims(2, 2)), one, &flat));
    assert_ok(nt__buffer_upload(engine, 0, "integer", NT__BATCH, type_of(NT_I32, nt_dims(4)), integers, &integer));
    struct {
        nt__buffer *arguments[3];
        size_t argument_count;
        nt__buffer *results[2];
        size_t result_count;
        const char *message;
    } rows[] = {
        {{&a}, 1, {&total}, 1, "1 arguments given, the program has 2"},
        {{&a, &b, &b}, 3, {&total}, 1, "3 arguments given, the program has 2"},
        {{&a, &b}, 2, {NULL}, 0, "0 results given, the program has 1"},
        {{&a, &b}, 2, {&total, &empty}, 2, "2 results given, the program has 1"},
        {{&a, NULL}, 2, {&total}, 1, "argument 1 'b': no buffer (NULL)"},
        {{&a, &empty}, 2, {&total}, 1, "argument 1 'b': a buffer that nothing was uploaded to"},
        {{&freed, &b}, 2, {&total}, 1, "argument 0 'sum': buffer 'gone' was freed"},
        {{&a, &longer}, 2, {&total}, 1, "argument 1 'b' must be f32[4], buffer 'longer' is f32[3]"},
        {{&a, &flat}, 2, {&total}, 1, "argument 1 'b' must be f32[4], buffer 'flat' is f32[2,2]"},
        {{&integer, &b}, 2, {&total}, 1, "argument 0 'sum' must be f32[4], buffer 'integer' is i32[4]"},
        {{&a, &a}, 2, {&total}, 1, "buffer 'a' is argument 0 'sum', which is donated, and argument 1 'b'"},
        {{&a, &b}, 2, {NULL}, 1, "result 0 'new sum' has no slot (NULL)"},
        {{&a, &b}, 2, {&b}, 1, "the slot of result 0 'new sum' holds buffer 'b', which is alive"},
        {{&a, &b}, 2, {&flat}, 1, "the slot of result 0 'new sum' holds buffer 'flat', which is alive"},
    };
    nt__engine_counts before = nt__engine_counts_now();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_failed(nt__executable_run(accumulate, rows[i].arguments, rows[i].argument_count, rows[i].results,
                                         rows[i].result_count),
                      NT_INVALID, "running 'gradient of Fashion'", rows[i].message);
        assert_int_equal(total.state, NT__BUFFER_EMPTY);
    }
    nt__engine_counts after = nt__engine_counts_now();
    assert_memory_equal(&before, &after, sizeof before);

    nt__buffer *arguments[] = {&a, &b}, *results[] = {&total};
    assert_failed(nt__executable_run(accumulate, NULL, 2, results, 1), NT_INVALID, "no list of arguments (NULL)");
    assert_failed(nt__executable_run(accumulate, arguments, 2, NULL, 1), NT_INVALID, "no list of results (NULL)");
    assert_failed(nt__executable_run(NULL, arguments, 2, results, 1), NT_INVALID, "no executable (NULL)");
    assert_ok(nt__executable_run(accumulate, arguments, 2, results, 1));
    assert_floats(&total, sum, 4);

    nt__buffer *rest[] = {&b, &flat, &integer, &longer, &total};
    for (size_t i = 0; i < COUNT_OF(rest); i++) nt__buffer_free(rest[i]);
    assert_nothing_lives();
}

static void refuses_one_slot_for_two_results(void **state) {
    (void)state;
    nt__buffer a = {0}, slot = {0};
    nt__buffer *arguments[] = {&a, &a}, *results[] = {&slot, &slot};
    upload_floats("a", NT__BATCH, one, 4, &a);
    assert_failed(nt__executable_run(add, arguments, 2, results, 2), NT_INVALID,
                  "results 0 'sum' and 1 'copy' have the same slot");
    nt__buffer_free(&a);
}

/* ---- refused programs ------------------------------------------------------------------------------------------- */

static void a_failed_compile_says_where(void **state) {
    (void)state;
    static const char text[] =
        "module @bad {\n"
        "  func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<3xf32>) -> tensor<4xf32> {\n"
        "    %0 = \"stablehlo.add\"(%arg0, %arg1) : (tensor<4xf32>, tensor<3xf32>) -> tensor<4xf32>\n"
        "    return %0 : tensor<4xf32>\n"
        "  }\n"
        "}\n";
    uint64_t compiles = nt__engine_counts_now().compiles;
    nt__executable *executable;
    assert_failed(
        compile("gradient of Fashion", text, &accumulate_signature, &executable), NT_ENGINE,
        "compiling 'gradient of Fashion': engine error 2 (unknown): -:3:10: error: 'stablehlo.add' op requires "
        "the same shape");
    assert_null(executable);
    assert_null(strstr(nt_error_message(), "Failed to parse using StableHLO"));
    assert_non_null(strstr(nt__engine_last_text(), "Failed to parse using StableHLO"));
    assert_int_equal(nt__engine_counts_now().compiles, compiles);

    assert_ok(compile("add", add_text, &add_signature, &executable));
    assert_null(nt__engine_last_text());
    nt__executable_free(&executable);
}

/* The engine prints the whole module; the message has its first lines, nt__engine_last_text all of it. */
static void a_long_engine_text_is_cut(void **state) {
    (void)state;
    static const char text[] = "module @bad {\n"
                               "  func.func public @step(%arg0: tensor<4xf32>) -> tensor<4xf32> {\n"
                               "    return %arg0 : tensor<4xf32>\n"
                               "  }\n"
                               "}\n";
    nt__executable *executable;
    assert_failed(compile("bad", text, &accumulate_signature, &executable), NT_ENGINE,
                  "conversion requires module with `main` function", "[...]");
    assert_null(strstr(nt_error_message(), "func.return"));
    assert_non_null(strstr(nt__engine_last_text(), "func.return"));
}

static void refuses_bad_signatures(void **state) {
    (void)state;
    static const nt__type four = {NT_F32, {1, {4}}}, three = {NT_F32, {1, {3}}};
    static const nt__type overflowing = {NT_F32, {2, {INT64_MAX, 4}}}, nameless_type = {(nt_dtype)99, {1, {4}}};
    const struct {
        nt__port arguments[2];
        nt__port results[2];
        const char *message;
    } rows[] = {
        {{{"a", four, 0, -1}, {"b", overflowing, 0, -1}},
         {{"s", four, 0, -1}, {"c", four, 0, -1}},
         "argument 1 'b': the shape of f32[9223372036854775807,4]"},
        {{{"a", nameless_type, 0, -1}, {"b", four, 0, -1}},
         {{"s", four, 0, -1}, {"c", four, 0, -1}},
         "argument 0 'a': element type 99"},
        {{{NULL, four, 0, -1}, {"b", four, 0, -1}}, {{"s", four, 0, -1}, {"c", four, 0, -1}}, "argument 0 has no name"},
        {{{"a", four, 0, -1}, {"b", four, 0, -1}},
         {{"s", overflowing, 0, -1}, {"c", four, 0, -1}},
         "result 0 's': the shape of f32[9223372036854775807,4]"},
        {{{"a", four, 0, -1}, {"b", four, 0, -1}},
         {{"s", four, 0, -1}, {"c", four, NT__PURPOSE_COUNT, -1}},
         "result 1 'c': purpose 10"},
        {{{"a", four, 0, 2}, {"b", four, 0, -1}},
         {{"s", four, 0, -1}, {"c", four, 0, -1}},
         "argument 0 'a' is donated to result 2: there are 2"},
        {{{"a", four, 0, -2}, {"b", four, 0, -1}},
         {{"s", four, 0, -1}, {"c", four, 0, -1}},
         "argument 0 'a' is donated to result -2"},
        {{{"a", four, 0, 1}, {"b", four, 0, 1}},
         {{"s", four, 0, -1}, {"c", four, 0, -1}},
         "arguments 0 'a' and 1 'b' are both donated to result 1 'c'"},
        {{{"a", four, 0, 0}, {"b", four, 0, -1}},
         {{"s", three, 0, -1}, {"c", four, 0, -1}},
         "argument 0 'a' of 16 bytes is donated to result 0 's' of 12"},
        {{{"a", four, 0, -1}, {"b", four, 0, -1}},
         {{"s", three, 0, -1}, {"c", four, 0, -1}},
         "result 0 's' is f32[3] in the signature and f32[4] in the program"},
        {{{"a", four, 0, -1}, {"b", four, 0, -1}},
         {{"s", four, 0, -1}, {"c", {NT_I32, {1, {4}}}, 0, -1}},
         "result 1 'c' is i32[4] in the signature and f32[4] in the program"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        nt__signature signature = {rows[i].arguments, 2, rows[i].results, 2};
        nt__executable *executable;
        assert_failed(compile("add", add_text, &signature, &executable), NT_INVALID, "compiling 'add'",
                      rows[i].message);
        assert_null(executable);
    }
    nt__executable *executable;
    nt__signature short_one = {add_arguments, 2, add_results, 1}, listless = {NULL, 2, add_results, 2};
    assert_failed(compile("add", add_text, &short_one, &executable), NT_INVALID,
                  "the signature has 1 results, the program has 2");
    assert_failed(compile("add", add_text, &listless, &executable), NT_INVALID, "2 arguments and no list");
    assert_failed(compile("add", add_text, NULL, &executable), NT_INVALID, "no signature (NULL)");
}

/* All of these would abort or crash the process. */
static void refuses_what_would_stop_the_engine(void **state) {
    (void)state;
    static const uint8_t good[] = {0x1a, 4, 0x20, 1, 0x28, 1}, no_replicas[] = {0x1a, 2, 0x28, 1};
    static const uint8_t no_partitions[] = {0x1a, 2, 0x20, 1}, nothing[] = {0x1a, 0};
    static const uint8_t other_field[] = {0x3a, 0}, cut[] = {0x1a, 4, 0x20, 1}, garbage[] = {0xff, 0xff, 0xff};
    static const uint8_t wrong_wire_type[] = {0x1a, 11, 0x21, 1, 0, 0, 0, 0, 0, 0, 0, 0x28, 1};
    static const uint8_t negative[] = {0x1a, 13,   0x20, 0xff, 0xff, 0xff, 0xff, 0xff,
                                       0xff, 0xff, 0xff, 0xff, 1,    0x28, 1};
    static const uint8_t two[] = {0x1a, 6, 0x20, 1, 0x28, 2, 0x30, 1};
    const struct {
        const char *text;
        size_t length;
        const uint8_t *options;
        size_t options_length;
        const char *message;
    } rows[] = {
        {NULL, 5, good, sizeof good, "no program text"},
        {add_text, 0, good, sizeof good, "no program text (0 bytes)"},
        {add_text, sizeof add_text - 1, NULL, 6, "no compile options"},
        {add_text, sizeof add_text - 1, good, 0, "no compile options (0 bytes)"},
        {add_text, sizeof add_text - 1, no_replicas, sizeof no_replicas, "0 replicas and 1 partitions"},
        {add_text, sizeof add_text - 1, no_partitions, sizeof no_partitions, "1 replicas and 0 partitions"},
        {add_text, sizeof add_text - 1, nothing, sizeof nothing, "0 replicas and 0 partitions"},
        {add_text, sizeof add_text - 1, other_field, sizeof other_field, "0 replicas and 0 partitions"},
        {add_text, sizeof add_text - 1, negative, sizeof negative, "-1 replicas"},
        {add_text, sizeof add_text - 1, two, sizeof two, "2 partitions: a program here runs on one device"},
        {add_text, sizeof add_text - 1, cut, sizeof cut, "the 4 bytes of compile options are not valid"},
        {add_text, sizeof add_text - 1, garbage, sizeof garbage, "the 3 bytes of compile options are not valid"},
        {add_text, sizeof add_text - 1, wrong_wire_type, sizeof wrong_wire_type, "are not valid"},
    };
    nt__executable *executable;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_failed(nt__executable_compile(engine, "add", rows[i].text, rows[i].length, &add_signature,
                                             rows[i].options, rows[i].options_length, &executable),
                      NT_INVALID, "compiling 'add'", rows[i].message);
        assert_null(executable);
    }
    assert_failed(nt__executable_compile(NULL, "add", add_text, sizeof add_text - 1, &add_signature, good, sizeof good,
                                         &executable),
                  NT_INVALID, "no engine (NULL)");
    assert_failed(nt__executable_compile(engine, NULL, add_text, sizeof add_text - 1, &add_signature, good, sizeof good,
                                         &executable),
                  NT_INVALID, "no name");
    assert_failed(
        nt__executable_compile(engine, "add", add_text, sizeof add_text - 1, &add_signature, good, sizeof good, NULL),
        NT_INVALID, "no place");
    nt__executable_free(NULL);
    nt__executable_free(&executable);
}

static void an_unknown_override_is_an_error(void **state) {
    (void)state;
    const nt__override override = {.name = "xla_nonsense", .kind = NT__OVERRIDE_BOOL, .integer = 1};
    uint8_t *options;
    size_t length;
    nt__executable *executable;
    assert_ok(nt__compile_options_encode(&(nt__compile_options){.overrides = &override, .override_count = 1}, &options,
                                         &length));
    assert_failed(nt__executable_compile(engine, "add", add_text, sizeof add_text - 1, &add_signature, options, length,
                                         &executable),
                  NT_ENGINE, "compiling 'add'", "xla_nonsense");
    nt__free(options);
}

/* ---- accounts and memory ---------------------------------------------------------------------------------------- */

static void counts_executables(void **state) {
    (void)state;
    nt__executable *executable;
    nt__engine_counts before = nt__engine_counts_now();
    assert_ok(compile("add", add_text, &add_signature, &executable));
    nt__engine_counts during = nt__engine_counts_now();
    assert_int_equal(during.compiles, before.compiles + 1);
    assert_int_equal(during.executables.live_count, before.executables.live_count + 1);
    assert_true(during.executables.live_bytes >= before.executables.live_bytes);
    nt__executable_free(&executable);
    nt__engine_counts after = nt__engine_counts_now();
    assert_int_equal(after.executables.live_count, before.executables.live_count);
    assert_int_equal(after.executables.live_bytes, before.executables.live_bytes);
}

static void tells_the_memory_of_a_program(void **state) {
    (void)state;
    nt__executable_memory memory;
    assert_ok(nt__executable_memory_of(accumulate, &memory));
    assert_int_equal(memory.argument_bytes, 32);
    assert_int_equal(memory.output_bytes, 16);
    assert_int_equal(memory.alias_bytes, 16);
    assert_true(memory.temporary_bytes >= 0);
    assert_ok(nt__executable_memory_of(add, &memory));
    assert_int_equal(memory.alias_bytes, 0);
    assert_failed(nt__executable_memory_of(NULL, &memory), NT_INVALID, "NULL");
}

/* Every allocation of a compile, one after the other, fails once. */
static void survives_failing_allocations(void **state) {
    (void)state;
    static const uint8_t options[] = {0x1a, 4, 0x20, 1, 0x28, 1};
    nt__executable *executable;
    size_t live = nt__memory().live, failures = 0;
    for (;; failures++) {
        nt__memory_fail_at(failures + 1);
        nt_status status = nt__executable_compile(engine, "add", add_text, sizeof add_text - 1, &add_signature, options,
                                                  sizeof options, &executable);
        nt__memory_fail_at(0);
        if (status == NT_OK) break;
        assert_failed(status, NT_OUT_OF_MEMORY, "compiling 'add'", "memory");
        assert_int_equal(nt__memory().live, live);
    }
    assert_true(failures > 0);
    nt__executable_free(&executable);
    assert_int_equal(nt__memory().live, live);
}

/* The text of an engine error is lost when memory is short; the message is not. */
static void reports_an_engine_error_without_memory(void **state) {
    (void)state;
    nt__buffer a = {0};
    float got[4];
    upload_floats("a", NT__BATCH, one, 4, &a);
    size_t bytes = a.bytes;
    a.bytes = 4; /* the engine refuses to copy four numbers into four bytes */
    nt__memory_fail_at(1);
    nt_status status = nt__buffer_read(engine, &a, got);
    nt__memory_fail_at(0);
    a.bytes = bytes;
    assert_failed(status, NT_ENGINE, "reading 'a'", "engine error");
    assert_null(nt__engine_last_text());
    nt__buffer_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_in_place),
        cmocka_unit_test(adds),
        cmocka_unit_test(takes_a_buffer_twice),
        cmocka_unit_test(arguments_and_program_may_go_before_the_result),
        cmocka_unit_test(a_run_allocates_nothing),
        cmocka_unit_test(donates_to_another_slot),
        cmocka_unit_test(donates_lent_memory),
        cmocka_unit_test(a_run_that_the_engine_refuses_changes_nothing),
        cmocka_unit_test(a_run_out_of_memory_leaves_no_half_buffers),
        cmocka_unit_test(refuses_wrong_arguments),
        cmocka_unit_test(refuses_one_slot_for_two_results),
        cmocka_unit_test(a_failed_compile_says_where),
        cmocka_unit_test(a_long_engine_text_is_cut),
        cmocka_unit_test(refuses_bad_signatures),
        cmocka_unit_test(refuses_what_would_stop_the_engine),
        cmocka_unit_test(an_unknown_override_is_an_error),
        cmocka_unit_test(counts_executables),
        cmocka_unit_test(tells_the_memory_of_a_program),
        cmocka_unit_test(survives_failing_allocations),
        cmocka_unit_test(reports_an_engine_error_without_memory),
    };
    return cmocka_run_group_tests_name("executable", tests, compile_both, free_both);
}
