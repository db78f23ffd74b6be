/* The small parts of the command: words, dependency lists, tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/scratch.h"
#include "build/build.h"
#include "show/show.h"

/* ---- splitting -------------------------------------------------------------------------------------------------- */

/* The words, joined by "|". */
static void splits(const char *text, const char *expected) {
    nt__arena arena = {0};
    nt__words words = {0};
    char joined[256] = "";
    assert_int_equal(nt__words_split(&arena, "--cflags", text, &words), NT_OK);
    for (size_t i = 0; i < words.count; i++) {
        strcat(joined, words.items[i]);
        strcat(joined, "|");
    }
    nt__words_free(&words);
    nt__arena_free(&arena);
    assert_string_equal(joined, expected);
}

static void text_is_split_as_by_a_shell(void **state) {
    (void)state;
    splits("", "");
    splits("  \t\n ", "");
    splits("-O0", "-O0|");
    splits("  -O0   -DX=1 ", "-O0|-DX=1|");
    splits("-I'a b' \"-I c\"", "-Ia b|-I c|");
    splits("-DT='\"x y\"'", "-DT=\"x y\"|");
    splits("-DT=\"it's\"", "-DT=it's|");
    splits("a\\ b \\\"c \"d\\\"e\" 'f\\g'", "a b|\"c|d\"e|f\\g|");
    splits("'' \"\" x", "||x|");
    splits("a''b\"\"c", "abc|");
    splits("end\\", "end\\|");
    splits("$HOME * ;", "$HOME|*|;|");
}

static void an_open_quote_is_refused(void **state) {
    (void)state;
    nt__arena arena = {0};
    nt__words words = {0};
    assert_int_equal(nt__words_split(&arena, "--cflags", "-DX -DT='a b", &words), NT_INVALID);
    assert_string_equal(nt_error_message(), "--cflags: a quote is opened and never closed in: -DX -DT='a b");
    assert_int_equal(nt__words_split(&arena, "CC", "gcc\"", &words), NT_INVALID);
    nt__words_free(&words);
    nt__arena_free(&arena);
}

static void words_remember_refused_memory(void **state) {
    (void)state;
    nt__words words = {0}, more = {0};
    nt__memory_fail_at(1);
    nt__words_add(&words, "lost");
    assert_true(words.failed);
    nt__words_add(&words, "ignored");
    assert_int_equal(words.count, 0);
    nt__words_add_all(&more, &words);
    assert_true(more.failed);
    nt__words_free(&more);
    nt__words_add(&more, NULL);
    assert_true(more.failed);
    nt__words_free(&words);
}

/* ---- dependency lists ------------------------------------------------------------------------------------------- */

static nt_status read_list(const char *text, char joined[256]) {
    nt__arena arena = {0};
    nt__words files = {0};
    joined[0] = 0;
    scratch_put("list", text, strlen(text));
    nt_status status = nt__dependencies_read(&arena, scratch("list"), &files);
    for (size_t i = 0; i < files.count; i++) {
        strcat(joined, files.items[i]);
        strcat(joined, "|");
    }
    nt__words_free(&files);
    nt__arena_free(&arena);
    return status;
}

static void has_files(const char *text, const char *expected) {
    char joined[256];
    assert_int_equal(read_list(text, joined), NT_OK);
    assert_string_equal(joined, expected);
}

static void dependency_lists_are_read(void **state) {
    (void)state;
    has_files("object: a.c b.h\n", "a.c|b.h|");
    has_files("object: a.c \\\n  b.h \\\n c.h", "a.c|b.h|c.h|");
    has_files("object: \\\n  a.c\\\n b.c\n", "a.c|b.c|");
    has_files("object:\n", "");
    has_files("object:", "");
    has_files("object: a.c\n\na.c:\n\nb.h:\n", "a.c|");
    has_files("C:/x/object: a.c\n", "a.c|");
    has_files("object: with\\ space.c a$$b.c c\\#d.c e\\f.c\n", "with space.c|a$b.c|c#d.c|e\\f.c|");
}

static void a_file_without_a_target_is_refused(void **state) {
    (void)state;
    char joined[256];
    assert_int_equal(read_list("", joined), NT_INVALID);
    assert_int_equal(read_list("no target here", joined), NT_INVALID);
    assert_non_null(strstr(nt_error_message(), "is no dependency list"));
    nt__words files = {0};
    nt__arena arena = {0};
    assert_int_equal(nt__dependencies_read(&arena, scratch("absent"), &files), NT_NOT_FOUND);
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

static void tables_are_aligned(void **state) {
    (void)state;
    nt__table table = {0};
    char *out;
    size_t length;
    FILE *file = open_memstream(&out, &length);
    static const char *const cells[] = {"a", "long cell", "end", "much longer", "b", "", "c", "", ""};
    for (size_t i = 0; i < 9; i++) nt__table_add(&table, cells[i]);
    assert_true(nt__table_print(&table, 3, file));
    fclose(file);
    assert_string_equal(out, "  a            long cell  end\n"
                             "  much longer  b\n"
                             "  c\n");
    free(out);
    assert_int_equal(table.cells.count, 0);
}

static void a_table_without_memory_says_so(void **state) {
    (void)state;
    nt__table table = {0};
    size_t live = nt__memory().live;
    nt__memory_fail_at(1);
    nt__table_add(&table, "lost");
    nt__table_add(&table, "kept");
    assert_false(nt__table_print(&table, 2, stderr));
    assert_int_equal(nt__memory().live, live);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_split_as_by_a_shell),        cmocka_unit_test(an_open_quote_is_refused),
        cmocka_unit_test(words_remember_refused_memory),      cmocka_unit_test(dependency_lists_are_read),
        cmocka_unit_test(a_file_without_a_target_is_refused), cmocka_unit_test(tables_are_aligned),
        cmocka_unit_test(a_table_without_memory_says_so),
    };
    return cmocka_run_group_tests_name("words", tests, scratch_make, scratch_remove);
}
