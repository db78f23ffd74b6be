/* src/cli: which of the files that a compiler read are those of the user's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "build/build.h"

static void assert_sources(const char *given, const char *read, const char *expected) {
    nt__arena arena = {0};
    nt__words given_words = {0}, sources = {0};
    nt__built built = {0};
    nt__text text = {0};
    assert_int_equal(nt__words_split(&arena, "given", given, &given_words), NT_OK);
    assert_int_equal(nt__words_split(&arena, "read", read, &built.files), NT_OK);
    assert_int_equal(nt__built_sources(&built, &given_words, &sources), NT_OK);
    for (size_t i = 0; i < sources.count; i++) nt__text_add(&text, "%s%s", i ? " " : "", sources.items[i]);
    assert_string_equal(text.data, expected);
    nt__text_free(&text);
    nt__words_free(&sources);
    nt__words_free(&given_words);
    nt__built_free(&built);
    nt__arena_free(&arena);
}

static void headers_beside_the_files_are_the_users(void **state) {
    (void)state;
    assert_sources("net.c", "net.c /usr/include/stdio.h parts/layer.h net.h ../shared.h /lib/libc.so.6",
                   "net.c parts/layer.h net.h");
    assert_sources("models/net.c models/more.c", "models/net.c models/net.h other/x.h models/more.c models/a/t.inc",
                   "models/net.c models/more.c models/net.h models/a/t.inc");
    assert_sources("/home/me/net.c", "/home/me/net.c /home/me/net.h /home/you/x.h x.h",
                   "/home/me/net.c /home/me/net.h");
    assert_sources("../net.c", "../net.c ../net.h net.h", "../net.c ../net.h");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(headers_beside_the_files_are_the_users)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
