/* src/base/locale.c: numbers as text and back where the program has a decimal comma. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/base.h"

#include "scratch.h"

#include "comma.h"

static void a_decimal_point_is_a_point(void **state) {
    (void)state;
    assert_true(comma_set());
    char text[64], *end;
    assert_int_equal(nt__format(text, sizeof text, "%g %.2f %'d", 0.5, 1234.5, 1234567), 19);
    assert_string_equal(text, "0.5 1234.50 1234567");
    assert_true(nt__read_double("0.25x", &end) == 0.25 && *end == 'x');
    assert_true(nt__read_double("0,25", &end) == 0 && *end == ',');
    assert_true(nt__read_float("1.5e-3", &end) == 1.5e-3f && *end == 0);
    nt__text built = {0};
    nt__text_add(&built, "%g", 0.5);
    nt__text_add(&built, " %g", 1e-7);
    assert_string_equal(built.data, "0.5 1e-07");
    nt__text_free(&built);
    char *copy = nt__sprintf("%.3g", 2.5);
    assert_string_equal(copy, "2.5");
    nt__free(copy);
    nt__fail(NT_INVALID, "%g", 0.125);
    assert_string_equal(nt_error_message(), "0.125");
    snprintf(text, sizeof text, "%g", 0.5); /* the program's own locale stays */
    assert_string_equal(text, "0,5");
    setlocale(LC_ALL, "C");
}

static int set_up(void **state) {
    return scratch_make(state) == 0 ? comma_make() : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_decimal_point_is_a_point)};
    return cmocka_run_group_tests_name("locale", tests, set_up, scratch_remove);
}
