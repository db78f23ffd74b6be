/* src/base: messages, notices, memory and its injected failures, arenas, text, close names, hashes, files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/closest.h"
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
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

/* ---- text ------------------------------------------------------------------------------------------------------- */

static void text_grows_by_adding(void **state) {
    (void)state;
    nt__text text = {0};
    nt__text_put(&text, "", 0);
    assert_string_equal(text.data, "");
    for (int i = 0; i < 1000; i++) nt__text_add(&text, "%d,", i);
    assert_int_equal(text.length, 10 * 2 + 90 * 3 + 900 * 4);
    assert_memory_equal(text.data, "0,1,2,3,4,5,6,7,8,9,10,", 23);
    assert_string_equal(text.data + text.length - 8, "998,999,");
    nt__text_free(&text);
    assert_null(text.data);
    nt__text_put(&text, "a\0b", 3);
    assert_int_equal(text.length, 3);
    assert_memory_equal(text.data, "a\0b", 4);
    nt__text_free(&text);
}

static void a_failed_text_stays_failed(void **state) {
    (void)state;
    nt__text text = {0};
    nt__text_add(&text, "kept");
    nt__memory_fail_at(1);
    nt__text_add(&text, "%200d", 1);
    assert_true(text.failed);
    nt__text_add(&text, "ignored");
    nt__text_put(&text, "ignored", 7);
    assert_string_equal(text.data, "kept");
    nt__text_free(&text);
    assert_false(text.failed);
}

static void copies_and_formatted_text(void **state) {
    (void)state;
    char *copy = nt__strdup("text");
    char *formatted = nt__sprintf("%1000d|%s", 5, copy);
    assert_string_equal(copy, "text");
    assert_int_equal(strlen(formatted), 1005);
    assert_string_equal(formatted + 998, " 5|text");
    nt__free(copy);
    nt__free(formatted);
    nt__memory_fail_at(1);
    assert_null(nt__strdup("text"));
    nt__memory_fail_at(1);
    assert_null(nt__sprintf("%d", 1));
}

static size_t encode(uint32_t point, char out[4]) {
    static const unsigned char leads[] = {0x00, 0xC0, 0xE0, 0xF0};
    int more = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    for (int i = more; i > 0; i--, point >>= 6) out[i] = (char)(0x80 | (point & 0x3F));
    out[0] = (char)(leads[more] | point);
    return (size_t)more + 1;
}

/* Every code point but the surrogates, and no part of one. */
static void utf8_is_told_from_other_bytes(void **state) {
    (void)state;
    char bytes[4];
    for (uint32_t point = 0; point < 0x120000; point++) {
        size_t length = encode(point, bytes);
        bool is_character = point < 0x110000 && (point < 0xD800 || point > 0xDFFF);
        assert_int_equal(nt__is_utf8(bytes, length), is_character);
        for (size_t cut = 1; cut < length; cut++) assert_false(nt__is_utf8(bytes, cut));
    }
    assert_true(nt__is_utf8("", 0));
    assert_true(nt__is_utf8("gr\xc3\xbc\xc3\x9f"
                            "e \xe2\x9c\x93",
                            11));
    const char *const wrong[] = {"\x80",
                                 "a\xff",
                                 "\xc0\x80",
                                 "\xc1\xbf",
                                 "\xe0\x9f\xbf",
                                 "\xf0\x8f\xbf\xbf",
                                 "\xf4\x90\x80\x80",
                                 "\xc3\x28",
                                 "\xe2\x9c\x28",
                                 "\xe2\x28\x9c",
                                 "\xf1\x80\x80\xc0",
                                 "\xf5\x80\x80\x80"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_false(nt__is_utf8(wrong[i], strlen(wrong[i])));
}

static void what_cannot_be_shown_becomes_a_question_mark(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"", ""},
        {"plain\ttext\n", "plain\ttext\n"},
        {"gr\xc3\xbc\xc3\x9f\xe2\x9c\x93\xf0\x9f\x98\x80", "gr\xc3\xbc\xc3\x9f\xe2\x9c\x93\xf0\x9f\x98\x80"},
        {"\x1b[2J\r\x7f", "?[2J??"},
        {"caf\xe9", "caf?"},
        {"cut \xe2\x9c", "cut ??"},
        {"\xc2\x9b"
         "31m\xc2\xa0",
         "??31m\xc2\xa0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[32];
        snprintf(text, sizeof text, "%s", rows[i][0]);
        nt__make_showable(text);
        assert_string_equal(text, rows[i][1]);
        nt__fail(NT_INVALID, "'%s'", rows[i][0]);
        snprintf(text, sizeof text, "'%s'", rows[i][1]);
        assert_string_equal(nt_error_message(), text);
    }
}

static void integers_are_decimal(void **state) {
    (void)state;
    nt__text text = {0};
    const int64_t numbers[] = {0, 7, -7, 10, 128784, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        nt__text_integer(&text, numbers[i]);
        nt__text_say(&text, ";");
    }
    assert_string_equal(text.data, "0;7;-7;10;128784;9223372036854775807;-9223372036854775808;");
    nt__text_free(&text);
}

/* A piece that just fits, and one that is a byte too long for what is there. */
static void text_grows_at_its_edge(void **state) {
    (void)state;
    for (int length = 60; length < 68; length++) {
        nt__text text = {0};
        nt__text_add(&text, "%*d", length, 5);
        assert_int_equal(text.length, length);
        nt__text_add(&text, "%*d", 64 - length > 0 ? 64 - length : 1, 6);
        assert_int_equal(text.length, strlen(text.data));
        assert_int_equal(text.data[length - 1], '5');
        assert_int_equal(text.data[text.length - 1], '6');
        nt__text_free(&text);
    }
}

/* ---- close names ------------------------------------------------------------------------------------------------ */

static void closest(const char *name, const char *expected) {
    static const char *const known[] = {"hidden", "hidden-units", "max-epochs", "max-steps", "seed", "a.fc.weight"};
    nt__text out = {0};
    nt__text_add(&out, "x");
    nt__add_closest(&out, name, known, sizeof known / sizeof *known, "--");
    assert_string_equal(out.data + 1, expected);
    nt__text_free(&out);
}

static void close_names_are_found(void **state) {
    (void)state;
    closest("hiden", " (did you mean --hidden?)");
    closest("hdiden", " (did you mean --hidden?)");
    closest("hiddenx", " (did you mean --hidden?)");
    closest("sede", " (did you mean --seed?)");
    closest("max-eposh", " (did you mean --max-epochs?)");
    closest("max", " (did you mean --max-epochs or --max-steps?)");
    closest("hidden-un", " (did you mean --hidden-units?)");
    closest("learning-rate", "");
    closest("x", "");
    closest("", "");
    closest("a-name-that-is-longer-than-any-flag-could-be-and-has-more-than-64-letters", "");
}

/* A star stands for any letters, also for none, at no price. */
static void close_patterns_are_found(void **state) {
    (void)state;
    closest("*.fc.weigth", " (did you mean --a.fc.weight?)");
    closest("a.fc*.weight", " (did you mean --a.fc.weight?)");
    closest("a.*", " (did you mean --a.fc.weight?)");
    closest("max-*s", " (did you mean --max-epochs or --max-steps?)");
    closest("b.*.bias", "");
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

/* ---- time, files ------------------------------------------------------------------------------------------------ */

static void seconds_pass(void **state) {
    (void)state;
    double start = nt__seconds();
    usleep(2000);
    double passed = nt__seconds() - start;
    assert_true(passed >= 0.002 && passed < 60);
}

static void assert_content(const char *name, const char *content) {
    char *data;
    size_t length;
    assert_int_equal(nt__read_file(scratch(name), &data, &length), NT_OK);
    assert_int_equal(length, strlen(content));
    assert_string_equal(data, content);
    nt__free(data);
}

static void a_file_is_written_and_replaced_whole(void **state) {
    (void)state;
    assert_int_equal(nt__make_folder(scratch("replaced")), NT_OK);
    assert_int_equal(nt__write_file(scratch("replaced/file"), "old", 3), NT_OK);
    assert_content("replaced/file", "old");
    const nt__piece pieces[] = {{"new ", 4}, {NULL, 0}, {"and longer", 10}};
    assert_int_equal(nt__write_file_pieces(scratch("replaced/file"), pieces, 3), NT_OK);
    assert_content("replaced/file", "new and longer");
    assert_int_equal(nt__write_file(scratch("replaced/empty"), NULL, 0), NT_OK);
    assert_content("replaced/empty", "");
    assert_int_equal(scratch_entries(scratch("replaced")), 2);
}

static void a_bare_name_is_written_to_the_current_folder(void **state) {
    (void)state;
    char before[SCRATCH_PATH];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(scratch_folder), 0);
    nt_status status = nt__write_file("bare", "content", 7);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(status, NT_OK);
    assert_content("bare", "content");
}

/* A limit on the size of files makes the system take a part of the data and refuse the rest, as a full disk does. */
static void a_failed_write_leaves_the_old_file(void **state) {
    (void)state;
    static char large[100000];
    assert_int_equal(nt__make_folder(scratch("kept")), NT_OK);
    assert_int_equal(nt__write_file(scratch("kept/file"), "old", 3), NT_OK);
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 4096;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    nt_status status = nt__write_file(scratch("kept/file"), large, sizeof large);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, NT_IO);
    assert_non_null(strstr(nt_error_message(), "kept/file"));
    assert_non_null(strstr(nt_error_message(), "File too large"));
    assert_content("kept/file", "old");
    assert_int_equal(scratch_entries(scratch("kept")), 1);
}

static void a_failed_rename_leaves_no_file_behind(void **state) {
    (void)state;
    assert_int_equal(nt__make_folder(scratch("target/folder/inner")), NT_OK);
    assert_int_equal(nt__write_file(scratch("target/folder"), "x", 1), NT_IO);
    assert_non_null(strstr(nt_error_message(), "directory"));
    assert_int_equal(scratch_entries(scratch("target")), 1);
    assert_true(nt__is_folder(scratch("target/folder/inner")));
}

/* Each change of a file that a write takes fails in turn; only the last, the sync of the folder, comes too late to keep
 * the old content. */
static void a_write_survives_every_refused_change(void **state) {
    (void)state;
    const char *path = scratch("each_change");
    assert_int_equal(nt__write_file(path, "old", 3), NT_OK);
    size_t before = nt__file_changes();
    assert_int_equal(nt__write_file(path, "old", 3), NT_OK);
    size_t changes = nt__file_changes() - before;
    assert_int_equal(changes, 5); /* made, written, synced, renamed, its folder synced */
    for (size_t n = 1; n <= changes; n++) {
        char *text;
        size_t length;
        int entries = scratch_entries(scratch_folder);
        nt__files_fail_at(n, ENOSPC);
        assert_int_equal(nt__write_file(path, "new", 3), NT_IO);
        assert_non_null(strstr(nt_error_message(), "No space left on device; free space there"));
        nt__files_fail_at(0, 0);
        assert_int_equal(nt__read_file(path, &text, &length), NT_OK);
        assert_string_equal(text, n < changes ? "old" : "new");
        nt__free(text);
        assert_int_equal(scratch_entries(scratch_folder), entries);
    }
}

/* Bytes put over others, a file that is dropped, and one under the folder's lock that a kill leaves. */
static void a_file_under_construction(void **state) {
    (void)state;
    const char *path = scratch("constructed");
    nt__new_file fresh;
    char *text;
    size_t length;
    assert_int_equal(nt__new_file_open(path, true, &fresh), NT_OK);
    assert_int_equal(nt__new_file_put(&fresh, "abc", 3), NT_OK);
    assert_int_equal(nt__new_file_put_at(&fresh, 1, "X", 1), NT_OK);
    assert_int_equal(nt__new_file_put(&fresh, "def", 3), NT_OK);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(nt__new_file_finish(&fresh), NT_OK);
    assert_int_equal(nt__read_file(path, &text, &length), NT_OK);
    assert_string_equal(text, "aXcdef");
    nt__free(text);

    int entries = scratch_entries(scratch_folder);
    for (int locked = 0; locked < 2; locked++) {
        assert_int_equal(nt__new_file_open(path, locked, &fresh), NT_OK);
        assert_int_equal(scratch_entries(scratch_folder), entries + 1);
        nt__remove_leftovers(scratch_folder);
        assert_int_equal(scratch_entries(scratch_folder), entries + !locked);
        nt__new_file_drop(&fresh);
        assert_int_equal(scratch_entries(scratch_folder), entries);
    }
}

static void a_write_into_no_folder_says_so(void **state) {
    (void)state;
    assert_int_equal(nt__write_file(scratch("absent/file"), "x", 1), NT_NOT_FOUND);
    assert_non_null(strstr(nt_error_message(), "absent/file"));
    assert_non_null(strstr(nt_error_message(), "No such file or directory"));
}

static void a_write_survives_every_refused_allocation(void **state) {
    (void)state;
    assert_int_equal(nt__make_folder(scratch("refused")), NT_OK);
    size_t live = nt__memory().live;
    nt_status status = NT_OUT_OF_MEMORY;
    size_t n = 0;
    while (status == NT_OUT_OF_MEMORY) {
        assert_int_equal(scratch_entries(scratch("refused")), 0);
        nt__memory_fail_at(++n);
        status = nt__write_file(scratch("refused/file"), "x", 1);
        assert_int_equal(nt__memory().live, live);
    }
    nt__memory_fail_at(0);
    assert_int_equal(status, NT_OK);
    assert_true(n > 2);
}

static void what_cannot_be_read_is_named(void **state) {
    (void)state;
    char *data = (char *)1;
    size_t length = 1;
    assert_int_equal(nt__read_file(scratch("absent"), &data, &length), NT_NOT_FOUND);
    assert_null(data);
    assert_int_equal(length, 0);
    assert_non_null(strstr(nt_error_message(), "absent': No such file or directory"));
    assert_int_equal(nt__read_file(scratch_folder, &data, &length), NT_IO);
    assert_null(data);
    assert_non_null(strstr(nt_error_message(), "Is a directory"));
    scratch_put("present", "12345", 5);
    nt__memory_fail_at(1);
    assert_int_equal(nt__read_file(scratch("present"), &data, &length), NT_OUT_OF_MEMORY);
    assert_null(data);
    assert_non_null(strstr(nt_error_message(), "present"));
}

/* A pipe states no size, so the buffer has to grow. */
static void *fill_pipe(void *end) {
    char block[1000];
    memset(block, 'p', sizeof block);
    for (int i = 0; i < 200; i++)
        if (write(*(int *)end, block, sizeof block) != sizeof block) break;
    close(*(int *)end);
    return NULL;
}

static nt_status read_pipe(char **data, size_t *length) {
    int ends[2];
    char path[64];
    pthread_t thread;
    assert_int_equal(pipe(ends), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    assert_int_equal(pthread_create(&thread, NULL, fill_pipe, &ends[1]), 0);
    nt_status status = nt__read_file(path, data, length);
    close(ends[0]);
    pthread_join(thread, NULL);
    return status;
}

static void a_file_without_a_size_is_read_to_its_end(void **state) {
    (void)state;
    char *data;
    size_t length;
    assert_int_equal(read_pipe(&data, &length), NT_OK);
    assert_int_equal(length, 200000);
    for (size_t i = 0; i < length; i++) assert_int_equal(data[i], 'p');
    assert_int_equal(data[length], 0);
    nt__free(data);

    size_t live = nt__memory().live;
    void (*handler)(int) = signal(SIGPIPE, SIG_IGN);
    nt__memory_fail_at(3);
    assert_int_equal(read_pipe(&data, &length), NT_OUT_OF_MEMORY);
    signal(SIGPIPE, handler);
    assert_null(data);
    assert_int_equal(nt__memory().live, live);
}

static void folders_are_made_with_their_parents(void **state) {
    (void)state;
    assert_int_equal(nt__make_folder(scratch("a/b//c/")), NT_OK);
    assert_true(nt__is_folder(scratch("a/b/c")));
    assert_int_equal(nt__make_folder(scratch("a/b")), NT_OK);
    scratch_put("a/file", "x", 1);
    assert_false(nt__is_folder(scratch("a/file")));
    assert_int_equal(nt__make_folder(scratch("a/file")), NT_IO);
    assert_non_null(
        strstr(nt_error_message(), "a/file': File exists and is no folder; remove it or choose another name"));
    assert_int_equal(nt__make_folder(scratch("a/file/below")), NT_IO);
    nt__memory_fail_at(1);
    assert_int_equal(nt__make_folder(scratch("a/d")), NT_OUT_OF_MEMORY);
}

/* Another file must not take the name of a device, which a rename would do for the superuser. */
static void devices_are_written_into(void **state) {
    (void)state;
    struct stat info;
    assert_int_equal(nt__write_file("/dev/null", "text", 4), NT_OK);
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
    assert_int_equal(nt__write_file("/dev/full", "text", 4), NT_IO);
    assert_string_equal(nt_error_message(), "cannot write '/dev/full': No space left on device; free "
                                            "space there or choose another folder");
    assert_int_equal(stat("/dev/full", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
}

static void a_place_to_write_to_is_looked_at_before(void **state) {
    (void)state;
    assert_int_equal(mkdir(scratch("place"), 0700), 0);
    assert_int_equal(nt__check_can_write(scratch("place/file")), NT_OK);
    assert_int_equal(nt__check_can_write("bare"), NT_OK);
    assert_int_equal(nt__check_can_write("/dev/null"), NT_OK);
    assert_int_equal(nt__check_can_write(scratch("place")), NT_INVALID);
    assert_non_null(strstr(nt_error_message(), "place' is a folder: name a file"));
    assert_int_equal(nt__check_can_write(scratch("no-place/file")), NT_NOT_FOUND);
    assert_non_null(strstr(nt_error_message(), "no-place'; make it or name another file"));
    assert_int_equal(scratch_entries(scratch("place")), 0);
}

static void a_locked_folder_is_locked_for_all_others(void **state) {
    (void)state;
    int first, second;
    assert_int_equal(mkdir(scratch("locked"), 0700), 0);
    assert_int_equal(nt__lock_folder(scratch("locked"), &first), NT_OK);
    assert_int_equal(nt__lock_folder(scratch("locked"), &second), NT_INVALID);
    assert_int_equal(second, -1);
    assert_non_null(strstr(nt_error_message(), "locked' is in use"));
    nt__unlock_folder(second);
    nt__unlock_folder(first);
    assert_int_equal(nt__lock_folder(scratch("locked"), &second), NT_OK);
    nt__unlock_folder(second);
    assert_int_equal(nt__lock_folder(scratch("nowhere"), &first), NT_NOT_FOUND);
}

static void a_nan_is_shown_without_a_sign(void **state) {
    (void)state;
    char text[64];
    volatile double zero = 0;
    snprintf(text, sizeof text, "%g %g %g", nt__plain_nan(zero / zero), nt__plain_nan(-(zero / zero)),
             nt__plain_nan(-1.5));
    assert_string_equal(text, "nan nan -1.5");
}

/* The file is there under its name until the next one takes that. */
static void the_former_file_keeps_its_name_too(void **state) {
    (void)state;
    assert_int_equal(mkdir(scratch("former"), 0700), 0);
    scratch_put("former/kept", "first", 5);
    scratch_put("former/kept.previous", "older", 5);
    assert_int_equal(nt__keep_previous(scratch("former/kept")), NT_OK);
    assert_content("former/kept", "first");
    assert_content("former/kept.previous", "first");
    scratch_put("former/kept.new", "second", 6);
    assert_int_equal(rename(scratch("former/kept.new"), scratch("former/kept")), 0);
    assert_int_equal(nt__keep_previous(scratch("former/kept")), NT_OK);
    assert_content("former/kept", "second");
    assert_content("former/kept.previous", "second");
    /* What was kept stays where nothing takes its place. */
    assert_int_equal(unlink(scratch("former/kept")), 0);
    assert_int_equal(nt__keep_previous(scratch("former/kept")), NT_OK);
    assert_content("former/kept.previous", "second");
    /* What cannot be kept stays too. */
    scratch_put("former/stuck", "here", 4);
    assert_int_equal(mkdir(scratch("former/stuck.previous"), 0700), 0);
    assert_int_equal(nt__keep_previous(scratch("former/stuck")), NT_IO);
    assert_content("former/stuck", "here");
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
        cmocka_unit_test(notices_go_to_standard_error_by_default),
        cmocka_unit_test(blocks_are_zeroed_and_counted),
        cmocka_unit_test(sizes_that_no_memory_holds_are_refused),
        cmocka_unit_test(the_nth_allocation_fails_once),
        cmocka_unit_test(counts_hold_when_threads_allocate),
        cmocka_unit_test(a_vector_grows_and_keeps_its_items),
        cmocka_unit_test(an_arena_gives_separate_zeroed_memory),
        cmocka_unit_test(an_arena_survives_a_refused_block),
        cmocka_unit_test(text_grows_by_adding),
        cmocka_unit_test(a_failed_text_stays_failed),
        cmocka_unit_test(copies_and_formatted_text),
        cmocka_unit_test(utf8_is_told_from_other_bytes),
        cmocka_unit_test(what_cannot_be_shown_becomes_a_question_mark),
        cmocka_unit_test(close_names_are_found),
        cmocka_unit_test(close_patterns_are_found),
        cmocka_unit_test(hashes_are_xxh3_of_128_bits),
        cmocka_unit_test(hashes_agree_with_the_streamed_form),
        cmocka_unit_test(integers_are_decimal),
        cmocka_unit_test(text_grows_at_its_edge),
        cmocka_unit_test(a_map_finds_what_was_put),
        cmocka_unit_test(a_map_survives_refused_memory),
        cmocka_unit_test(seconds_pass),
        cmocka_unit_test(a_file_is_written_and_replaced_whole),
        cmocka_unit_test(a_bare_name_is_written_to_the_current_folder),
        cmocka_unit_test(a_failed_write_leaves_the_old_file),
        cmocka_unit_test(a_failed_rename_leaves_no_file_behind),
        cmocka_unit_test(a_write_into_no_folder_says_so),
        cmocka_unit_test(a_write_survives_every_refused_allocation),
        cmocka_unit_test(a_write_survives_every_refused_change),
        cmocka_unit_test(a_file_under_construction),
        cmocka_unit_test(what_cannot_be_read_is_named),
        cmocka_unit_test(a_file_without_a_size_is_read_to_its_end),
        cmocka_unit_test(folders_are_made_with_their_parents),
        cmocka_unit_test(devices_are_written_into),
        cmocka_unit_test(a_place_to_write_to_is_looked_at_before),
        cmocka_unit_test(a_locked_folder_is_locked_for_all_others),
        cmocka_unit_test(a_nan_is_shown_without_a_sign),
        cmocka_unit_test(the_former_file_keeps_its_name_too),
    };
    return cmocka_run_group_tests_name("base", tests, scratch_make, scratch_remove);
}
