/* src/base: messages, notices, memory and its injected failures, arenas, hashes, maps.
 * Not here: text (test_text.c), files (test_file.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/files.h"
#include "scratch.h"

#include <fcntl.h>
#include <pthread.h>
#include <wchar.h>
#include <xxhash.h>

/* ---- failures --------------------------------------------------------------------------------------------------- */

static void fail_sets_the_message_and_returns_the_status(void **state) {
    (void)state;
    assert_int_equal(nt__fail(NT_INVALID, "batch is %d, it must be at least %d", 0, 1), NT_INVALID);
    assert_string_equal(nt_error_message(), "batch is 0, it must be at least 1");
    assert_int_equal(nt__fail_in(NT_IO, "field '%s'", "batch"), NT_IO);
    assert_string_equal(nt_error_message(), "field 'batch': batch is 0, it must be at least 1");
}

static void hooks_fail_in_the_same_way(void **state) {
    (void)state;
    assert_int_equal(nt_fail(NT_NOT_FOUND, "file %d of %s", 7, "x"), NT_NOT_FOUND);
    assert_string_equal(nt_error_message(), "file 7 of x");
    assert_int_equal(nt_error_status(), NT_NOT_FOUND);
}

static void a_message_may_quote_the_one_before(void **state) {
    (void)state;
    nt__fail(NT_IO, "first");
    nt__fail(NT_IO, "%s and second", nt_error_message());
    assert_string_equal(nt_error_message(), "first and second");
}

static void a_long_message_is_cut_and_says_so(void **state) {
    (void)state;
    char *line = nt__alloc(10001, 1);
    memset(line, 'x', 10000);
    nt__fail(NT_IO, "%s", line);
    const char *message = nt_error_message();
    size_t length = strlen(message);
    assert_true(length > 1000 && length < 10000);
    assert_string_equal(message + length - 4, "x...");
    nt__fail_in(NT_IO, "%s", "where");
    assert_memory_equal(nt_error_message(), "where: xxx", 10);
    assert_string_equal(nt_error_message() + strlen(nt_error_message()) - 3, "...");
    nt__free(line);
}

/* Whatever the offset, the cut is between characters: only whole two-byte characters stand before the dots. */
static void a_cut_leaves_whole_characters(void **state) {
    (void)state;
    nt__text text = {0};
    for (int i = 0; i < 4000; i++) nt__text_add(&text, "\xc3\xbc");
    for (int shift = 0; shift < 2; shift++) {
        nt__fail(NT_IO, "%s%s", shift ? "a" : "", text.data);
        const char *message = nt_error_message() + shift;
        size_t length = strlen(message);
        assert_string_equal(message + length - 3, "...");
        assert_int_equal((length - 3) % 2, 0);
        assert_memory_equal(message + length - 5, "\xc3\xbc...", 5);
    }
    nt__text_free(&text);
}

static void text_that_cannot_be_formatted_is_reported(void **state) {
    (void)state;
    const wchar_t not_in_this_locale[] = {0x3b1, 0};
    nt__fail(NT_IO, "name %ls", not_in_this_locale);
    assert_string_equal(nt_error_message(), "name %ls (this text could not be formatted)");
    assert_null(nt__sprintf("name %ls", not_in_this_locale));
    assert_non_null(strstr(nt_error_message(), "\"name %ls\""));
    nt__text text = {0};
    nt__text_add(&text, "name %ls", not_in_this_locale);
    assert_true(text.failed);
    nt__text_free(&text);
}

static void *fail_elsewhere(void *first) {
    *(bool *)first = nt_error_message()[0] == 0;
    nt__fail(NT_ENGINE, "of the other thread");
    return NULL;
}

static void each_thread_has_its_own_message(void **state) {
    (void)state;
    pthread_t thread;
    bool was_empty = false;
    nt__fail(NT_IO, "of this thread");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &was_empty), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(was_empty);
    assert_string_equal(nt_error_message(), "of this thread");
}

static void every_status_has_a_name(void **state) {
    (void)state;
    assert_string_equal(nt_status_name(NT_OK), "ok");
    assert_string_equal(nt_status_name(NT_OUT_OF_MEMORY), "out of memory");
    for (int i = NT_OK; i <= NT_INTERRUPTED; i++) assert_string_not_equal(nt_status_name((nt_status)i), "");
    assert_string_equal(nt_status_name((nt_status)(NT_INTERRUPTED + 1)), "unknown status");
}

/* ---- notices ---------------------------------------------------------------------------------------------------- */

static void keep_line(const char *line, void *context) {
    snprintf(context, 100, "%s", line);
}

static void notices_go_to_the_function_that_was_set(void **state) {
    (void)state;
    char line[100] = "";
    nt_notice_function standard = nt_set_notice(keep_line, line);
    assert_non_null(standard);
    nt__notice("compiled %s in %.1f s", "gradient", 1.5);
    assert_string_equal(line, "compiled gradient in 1.5 s");
    assert_ptr_equal(nt_set_notice(NULL, NULL), keep_line);
    nt__notice("nobody sees this");
    assert_string_equal(line, "compiled gradient in 1.5 s");
    assert_null(nt_set_notice(standard, NULL));
}

static nt_status keep_and_go_on(const char *line, void *context) {
    snprintf(context, 64, "%s", line);
    return NT_OK;
}

static nt_status refuse_warning(const char *line, void *context) {
    (void)line, (void)context;
    return NT_INVALID;
}

static void warnings_go_to_the_notice_function_or_are_made_errors(void **state) {
    (void)state;
    char line[64] = "", warned[64] = "";
    nt_notice_function standard = nt_set_notice(keep_line, line);
    assert_int_equal(nt__warn("the seed is %d", 7), NT_OK);
    assert_string_equal(line, "the seed is 7");

    assert_null(nt_set_warning(keep_and_go_on, warned));
    assert_int_equal(nt__warn("the seed is %d", 8), NT_OK);
    assert_string_equal(warned, "the seed is 8");
    assert_string_equal(line, "the seed is 7");

    assert_ptr_equal(nt_set_warning(refuse_warning, NULL), keep_and_go_on);
    assert_int_equal(nt__warn("the seed is %d", 9), NT_INVALID);
    assert_string_equal(nt_error_message(), "the seed is 9");

    assert_ptr_equal(nt_set_warning(NULL, NULL), refuse_warning);
    assert_ptr_equal(nt_set_notice(standard, NULL), keep_line);
}

/* Standard error is turned into a file for the time of one notice; standard output must stay as it was. */
static void notices_go_to_standard_error_by_default(void **state) {
    (void)state;
    char *text;
    size_t length;
    fflush(stderr);
    int kept = dup(STDERR_FILENO);
    int file = open(scratch("stderr"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(kept >= 0 && file >= 0);
    dup2(file, STDERR_FILENO);
    nt__notice("a line for %d people", 2);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(file);
    assert_int_equal(nt__read_file(scratch("stderr"), &text, &length), NT_OK);
    assert_string_equal(text, "a line for 2 people\n");
    nt__free(text);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static void assert_zero(const void *memory, size_t length) {
    for (size_t i = 0; i < length; i++) assert_int_equal(((const char *)memory)[i], 0);
}

static void blocks_are_zeroed_and_counted(void **state) {
    (void)state;
    nt__memory_stats before = nt__memory();
    char *block = nt__alloc(10, 7);
    char *aligned = nt__alloc_aligned(100);
    char *nothing = nt__alloc(0, 4);
    char *nothing_aligned = nt__alloc_aligned(0);
    assert_zero(block, 70);
    assert_zero(aligned, 100);
    assert_int_equal((uintptr_t)aligned % 64, 0);
    assert_non_null(nothing);
    assert_non_null(nothing_aligned);
    assert_int_equal(nt__memory().live, before.live + 4);
    assert_int_equal(nt__memory().total, before.total + 4);

    block[69] = 'z';
    block = nt__realloc(block, 1000, 7);
    assert_int_equal(block[69], 'z');
    assert_int_equal(nt__memory().live, before.live + 4);
    char *fresh = nt__realloc(NULL, 3, 1);
    assert_int_equal(nt__memory().live, before.live + 5);

    nt__free(block);
    nt__free(aligned);
    nt__free(nothing);
    nt__free(nothing_aligned);
    nt__free(fresh);
    nt__free(NULL);
    assert_int_equal(nt__memory().live, before.live);
    assert_int_equal(nt__memory().total, before.total + 6);
}

static void sizes_that_no_memory_holds_are_refused(void **state) {
    (void)state;
    size_t live = nt__memory().live;
    nt__arena arena = {0};
    assert_null(nt__alloc(SIZE_MAX / 2, 3));
    assert_non_null(strstr(nt_error_message(), "9223372036854775807 elements of 3 bytes"));
    assert_null(nt__alloc(SIZE_MAX, 1));
    assert_null(nt__realloc(NULL, SIZE_MAX / 4, 8));
    assert_null(nt__alloc_aligned(SIZE_MAX - 10));
    assert_null(nt__arena_alloc(&arena, SIZE_MAX / 4, 8));
    assert_null(nt__arena_alloc(&arena, SIZE_MAX - 5, 1));
    assert_non_null(strstr(nt_error_message(), "out of host memory"));
    nt__arena_free(&arena);
    assert_int_equal(nt__memory().live, live);
}

static void the_nth_allocation_fails_once(void **state) {
    (void)state;
    size_t live = nt__memory().live, total = nt__memory().total;
    nt__memory_fail_at(3);
    void *first = nt__alloc(1, 1);
    void *second = nt__alloc_aligned(1);
    void *third = nt__alloc(5, 20);
    void *fourth = nt__alloc(1, 1);
    assert_true(first && second && !third && fourth);
    assert_string_equal(nt_error_message(), "out of host memory: the system refused 100 bytes");
    assert_int_equal(nt__memory().live, live + 3);
    assert_int_equal(nt__memory().total, total + 4);

    nt__memory_fail_at(1);
    assert_null(nt__realloc(first, 1000, 1)); /* and the old block survives */
    assert_int_equal(nt__memory().live, live + 3);
    nt__memory_fail_at(1);
    assert_null(nt__alloc_aligned(64));
    nt__memory_fail_at(1);
    nt__memory_fail_at(0);
    void *fifth = nt__alloc(1, 1);
    assert_non_null(fifth);
    nt__free(first);
    nt__free(second);
    nt__free(fourth);
    nt__free(fifth);
    assert_int_equal(nt__memory().live, live);
}

static void *allocate_and_free(void *failures) {
    for (int i = 0; i < 10000; i++) {
        void *block = nt__alloc(1, 16);
        if (!block) ++*(int *)failures;
        nt__free(block);
    }
    return NULL;
}

static void counts_hold_when_threads_allocate(void **state) {
    (void)state;
    pthread_t threads[4];
    int failures[4] = {0};
    nt__memory_stats before = nt__memory();
    nt__memory_fail_at(12345);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, allocate_and_free, &failures[i]), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(failures[0] + failures[1] + failures[2] + failures[3], 1);
    assert_int_equal(nt__memory().live, before.live);
    assert_int_equal(nt__memory().total, before.total + 40000);
}

static void a_vector_grows_and_keeps_its_items(void **state) {
    (void)state;
    int *items = NULL;
    size_t capacity = 0;
    for (size_t i = 0; i < 1000; i++) {
        assert_true(NT__GROW(items, i, capacity));
        assert_true(capacity > i);
        items[i] = (int)i;
    }
    for (int i = 0; i < 1000; i++) assert_int_equal(items[i], i);
    size_t full = capacity;
    nt__memory_fail_at(1);
    assert_false(NT__GROW(items, full, capacity));
    assert_int_equal(capacity, full);
    assert_int_equal(items[999], 999);
    nt__free(items);
}

/* ---- arenas ----------------------------------------------------------------------------------------------------- */

static void an_arena_gives_separate_zeroed_memory(void **state) {
    (void)state;
    size_t live = nt__memory().live;
    nt__arena arena = {0};
    unsigned char *pieces[300];
    for (size_t i = 0; i < 300; i++) {
        pieces[i] = nt__arena_alloc(&arena, i, 3);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        assert_zero(pieces[i], i * 3);
        memset(pieces[i], (int)(i % 256), i * 3);
    }
    for (size_t i = 0; i < 300; i++)
        for (size_t j = 0; j < i * 3; j++) assert_int_equal(pieces[i][j], i % 256);
    assert_true(nt__memory().live - live < 30); /* few blocks, not one a piece */
    char *large = nt__arena_alloc(&arena, 1000000, 1);
    assert_zero(large, 1000000);
    assert_in_range(nt__arena_bytes(&arena), 1000000 + 3 * 299 * 150, 1000000 + 3 * 299 * 150 + 16 * 301);
    assert_string_equal(nt__arena_strdup(&arena, "copied"), "copied");
    assert_string_equal(nt__arena_sprintf(&arena, "%s-%d", "formatted", 7), "formatted-7");
    assert_int_not_equal((intptr_t)nt__arena_alloc(&arena, 0, 1), (intptr_t)nt__arena_alloc(&arena, 0, 1));
    nt__arena_free(&arena);
    assert_null(arena.blocks);
    assert_int_equal(nt__memory().live, live);
}

static void an_arena_survives_a_refused_block(void **state) {
    (void)state;
    nt__arena arena = {0};
    nt__memory_fail_at(1);
    assert_null(nt__arena_strdup(&arena, "text"));
    char *kept = nt__arena_strdup(&arena, "kept");
    nt__memory_fail_at(1);
    assert_null(nt__arena_alloc(&arena, 1000000, 1));
    assert_string_equal(kept, "kept");
    assert_string_equal(nt__arena_strdup(&arena, "more"), "more");
    nt__arena_free(&arena);
}

/* ---- hashes ----------------------------------------------------------------------------------------------------- */

static void hashes_are_xxh3_of_128_bits(void **state) {
    (void)state;
    char hex[33];
    nt__hash_hex(nt__hash_bytes("", 0), hex);
    assert_string_equal(hex, "99aa06d3014798d86001c324468d497f"); /* the published value for no bytes */
    nt__hash_hex((nt__hash){.low = 0xab, .high = 0x1}, hex);
    assert_string_equal(hex, "000000000000000100000000000000ab");
}

static nt__hash hash_of(uint32_t number) {
    return nt__hash_bytes(&number, sizeof number);
}

static void a_map_finds_what_was_put(void **state) {
    (void)state;
    size_t live = nt__memory().live;
    nt__map map = {0};
    assert_int_equal(nt__map_find(&map, hash_of(1)), 0);
    for (uint32_t i = 1; i <= 1000; i++) assert_true(nt__map_put(&map, hash_of(i), i));
    /* Hashes that differ in the higher half only come to the same place. */
    for (uint64_t i = 1; i <= 40; i++) assert_true(nt__map_put(&map, (nt__hash){7, i}, (uint32_t)i));
    for (uint32_t i = 1; i <= 1000; i++) assert_int_equal(nt__map_find(&map, hash_of(i)), i);
    for (uint64_t i = 1; i <= 40; i++) assert_int_equal(nt__map_find(&map, (nt__hash){7, i}), i);
    assert_int_equal(nt__map_find(&map, hash_of(1001)), 0);
    assert_int_equal(nt__map_find(&map, (nt__hash){7, 41}), 0);
    assert_int_equal(map.count, 1040);
    assert_true(nt__map_put(&map, hash_of(5), 6));
    assert_int_equal(nt__map_find(&map, hash_of(5)), 6);
    assert_int_equal(map.count, 1040);
    nt__map_free(&map);
    assert_int_equal(nt__memory().live, live);
}

static void a_map_survives_refused_memory(void **state) {
    (void)state;
    nt__map map = {0};
    uint32_t put = 0;
    nt__memory_fail_at(2);
    while (nt__map_put(&map, hash_of(put + 1), put + 1)) put++;
    assert_int_equal(put, 32); /* half of the first 64 places */
    for (uint32_t i = 1; i <= put; i++) assert_int_equal(nt__map_find(&map, hash_of(i)), i);
    assert_true(nt__map_put(&map, hash_of(put + 1), put + 1));
    assert_int_equal(nt__map_find(&map, hash_of(put + 1)), put + 1);
    nt__map_free(&map);
}

static void hashes_agree_with_the_streamed_form(void **state) {
    (void)state;
    enum { LONGEST = 5000 };
    unsigned char bytes[LONGEST];
    for (size_t i = 0; i < LONGEST; i++) bytes[i] = (unsigned char)(i * 31 + 7);
    XXH3_state_t *stream = XXH3_createState();
    for (size_t length = 0; length <= LONGEST; length = length * 3 / 2 + 1) {
        XXH3_128bits_reset(stream);
        XXH3_128bits_update(stream, bytes, length / 3);
        XXH3_128bits_update(stream, bytes + length / 3, length - length / 3);
        XXH128_hash_t expected = XXH3_128bits_digest(stream);
        nt__hash got = nt__hash_bytes(bytes, length);
        assert_true(nt__hash_equal(got, (nt__hash){.low = expected.low64, .high = expected.high64}));
        assert_false(nt__hash_equal(got, (nt__hash){.low = expected.low64 ^ 1, .high = expected.high64}));
        assert_false(nt__hash_equal(got, (nt__hash){.low = expected.low64, .high = expected.high64 ^ 1}));
    }
    XXH3_freeState(stream);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fail_sets_the_message_and_returns_the_status),
        cmocka_unit_test(hooks_fail_in_the_same_way),
        cmocka_unit_test(a_message_may_quote_the_one_before),
        cmocka_unit_test(a_long_message_is_cut_and_says_so),
        cmocka_unit_test(a_cut_leaves_whole_characters),
        cmocka_unit_test(text_that_cannot_be_formatted_is_reported),
        cmocka_unit_test(each_thread_has_its_own_message),
        cmocka_unit_test(every_status_has_a_name),
        cmocka_unit_test(notices_go_to_the_function_that_was_set),
        cmocka_unit_test(warnings_go_to_the_notice_function_or_are_made_errors),
        cmocka_unit_test(notices_go_to_standard_error_by_default),
        cmocka_unit_test(blocks_are_zeroed_and_counted),
        cmocka_unit_test(sizes_that_no_memory_holds_are_refused),
        cmocka_unit_test(the_nth_allocation_fails_once),
        cmocka_unit_test(counts_hold_when_threads_allocate),
        cmocka_unit_test(a_vector_grows_and_keeps_its_items),
        cmocka_unit_test(an_arena_gives_separate_zeroed_memory),
        cmocka_unit_test(an_arena_survives_a_refused_block),
        cmocka_unit_test(hashes_are_xxh3_of_128_bits),
        cmocka_unit_test(hashes_agree_with_the_streamed_form),
        cmocka_unit_test(a_map_finds_what_was_put),
        cmocka_unit_test(a_map_survives_refused_memory),
    };
    return cmocka_run_group_tests_name("base", tests, scratch_make, scratch_remove);
}
