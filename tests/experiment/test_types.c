/* The types of fields: that each has a value that reads back, and what lists and choices take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "experiment/types.h"

#define LISTS(FIELD, DEVICE, GRAPH_CONST)                                                \
    GRAPH_CONST(nt_ints, hidden, NT_INTS(64, 32), "units of the hidden layers")          \
    GRAPH_CONST(NT_CHOICE(relu, gelu, tanh_2), function, "relu", "after a hidden layer") \
    FIELD(nt_reals, betas, NT_REALS(0.9, 0.999), "of the rule")                          \
    FIELD(nt_ints, nothing, {0}, "an empty list")
NT_EXPERIMENT(Lists, LISTS)
NT_DEFINE(Lists, LISTS, .build_data = NULL);

static const nt_field_info *field(const char *name) {
    return nt__field_find(Lists_experiment(), name);
}

static Lists parsed(const char *name, const char *text) {
    Lists fields = Lists_defaults();
    if (nt__field_parse(field(name), text, &fields) != NT_OK) fail_msg("%s", nt_error_message());
    return fields;
}

static void assert_printed(const char *name, const Lists *fields, const char *expected) {
    nt__text out = {0};
    nt__field_print(field(name), fields, &out);
    assert_string_equal(out.data, expected);
    nt__text_free(&out);
}

static void assert_refused(const char *name, const char *text, const char *message) {
    Lists fields = Lists_defaults(), before = fields;
    assert_int_equal(nt__field_parse(field(name), text, &fields), NT_INVALID);
    assert_string_equal(nt_error_message(), message);
    assert_memory_equal(&fields, &before, sizeof fields);
}

/* ---- every type ------------------------------------------------------------------------------------------------- */

/* A new type has a row here: a text that it takes, and how the value is printed. NULL: it has no flag. */
static const struct {
    const char *text, *printed;
} values[] = {
    [NT_FIELD_BOOL] = {"yes", "true"},
    [NT_FIELD_INT8] = {"-128", "-128"},
    [NT_FIELD_UINT8] = {"255", "255"},
    [NT_FIELD_INT16] = {"-32768", "-32768"},
    [NT_FIELD_UINT16] = {"65535", "65535"},
    [NT_FIELD_INT] = {"007", "7"},
    [NT_FIELD_UINT] = {"4294967295", "4294967295"},
    [NT_FIELD_INT64] = {"-9223372036854775808", "-9223372036854775808"},
    [NT_FIELD_UINT64] = {"18446744073709551615", "18446744073709551615"},
    [NT_FIELD_FLOAT] = {"1e-1", "0.1"},
    [NT_FIELD_DOUBLE] = {"0x1p-3", "0.125"},
    [NT_FIELD_STRING] = {"a b", "\"a b\""},
    [NT_FIELD_INTS] = {"64,-3", "64,-3"},
    [NT_FIELD_REALS] = {"0.5,1e-3", "0.5,0.001"},
    [NT_FIELD_ARRAY] = {NULL, "NULL"},
    [NT_FIELD_ARRAYS] = {NULL, "NULL"},
    [NT_FIELD_OTHER] = {NULL, "another type"},
};

static void assert_type(nt_field_type type) {
    _Alignas(16) char bytes[sizeof(nt_ints)] = {0}, again[sizeof(nt_ints)] = {0};
    const nt_field_info info = {.name = "x", .type = type, .marker = NT_HOST};
    nt__text printed = {0};
    nt__arena arena = {0};
    if (!values[type].printed) fail_msg("%s has no row in this test", nt__field_type_name(type));
    assert_int_equal(nt__field_has_flag(&info), values[type].text != NULL);
    if (values[type].text) assert_int_equal(nt__field_parse(&info, values[type].text, bytes), NT_OK);
    nt__field_print(&info, bytes, &printed);
    assert_string_equal(printed.data, values[type].printed);
    if (values[type].text) {
        assert_int_equal(nt__field_unprint(&info, printed.data, &arena, again), NT_OK);
        nt__text second = {0};
        nt__field_print(&info, again, &second);
        assert_string_equal(second.data, printed.data);
        nt__text_free(&second);
    }
    nt__text_free(&printed);
    nt__arena_free(&arena);
}

static void every_type_reads_back_what_it_prints(void **state) {
    (void)state;
    enum { TYPES = sizeof values / sizeof *values };
    assert_int_equal(TYPES, NT_FIELD_OTHER + 1);
    for (nt_field_type type = 0; type <= NT_FIELD_OTHER; type++) assert_type(type);
}

/* ---- lists ------------------------------------------------------------------------------------------------------ */

static void a_list_is_numbers_with_commas(void **state) {
    (void)state;
    Lists fields = Lists_defaults();
    assert_int_equal(fields.hidden.count, 2);
    assert_int_equal(fields.hidden.at[1], 32);
    assert_int_equal(fields.nothing.count, 0);
    assert_printed("hidden", &fields, "64,32");
    assert_printed("betas", &fields, "0.9,0.999");
    assert_printed("nothing", &fields, "none");
    fields = parsed("hidden", "8");
    assert_int_equal(fields.hidden.count, 1);
    assert_true(fields.hidden.at[0] == 8 && fields.hidden.at[1] == 0);
    fields = parsed("betas", "1,2,3");
    assert_true(fields.betas.count == 3 && fields.betas.at[2] == 3);
    assert_int_equal(parsed("hidden", "none").hidden.count, 0);
    assert_int_equal(parsed("hidden", "").hidden.count, 0);
    assert_int_equal(parsed("hidden", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16").hidden.at[15], 16);
    assert_string_equal(nt__field_type_text(field("hidden")), "ints");
}

static void a_list_refuses_what_is_no_number(void **state) {
    (void)state;
    assert_refused("hidden", "4,x",
                   "entry 2 of '4,x': hidden (int64_t): 'x' is not a whole number; write digits, for example 256");
    assert_refused("hidden", "4,",
                   "entry 2 of '4,': hidden (int64_t): '' is not a whole number; write digits, for example 256");
    assert_refused("hidden", ",",
                   "entry 1 of ',': hidden (int64_t): '' is not a whole number; write digits, for example 256");
    assert_refused("hidden", "4, 5",
                   "entry 2 of '4, 5': hidden (int64_t): ' 5' is not a whole number; write digits, for example 256");
    assert_refused("hidden", "1.5",
                   "entry 1 of '1.5': hidden (int64_t): '1.5' is not a whole number; write digits, for example 256");
    assert_refused("betas", "0.9;0.5",
                   "entry 1 of '0.9;0.5': betas (double): '0.9;0.5' is not a number; write for example 0.1 or 1e-3");
    assert_refused("hidden", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
                   "hidden (ints): '1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17' has more numbers than a list holds, "
                   "which is 16");
}

/* ---- choices ---------------------------------------------------------------------------------------------------- */

static void a_choice_is_one_of_its_words(void **state) {
    (void)state;
    assert_string_equal(parsed("function", "tanh_2").function, "tanh_2");
    assert_string_equal(nt__field_type_text(field("function")), "choice");
    assert_refused("function", "rel", "function (choice): 'rel' is none of relu, gelu, tanh_2");
    assert_refused("function", "", "function (choice): '' is none of relu, gelu, tanh_2");
    assert_refused("function", "relu, gelu", "function (choice): 'relu, gelu' is none of relu, gelu, tanh_2");
    nt__text words = {0};
    nt__field_print_choices(field("function"), &words);
    assert_string_equal(words.data, "relu, gelu, tanh_2");
    nt__text_free(&words);
}

static void a_hook_learns_which_word(void **state) {
    (void)state;
    assert_int_equal(nt_choose("gelu", "relu", "gelu"), 1);
    nt__calls_watch();
    assert_int_equal(nt_choose("gelu", "relu", "gleu"), -1);
    assert_int_equal(nt__calls_status(), NT_INVALID);
    assert_non_null(strstr(nt_error_message(), "nt_choose: the value is 'gelu', and the words are 'relu', 'gleu'"));
    nt__calls_watch();
    assert_int_equal(nt_choose(NULL, "relu"), -1);
    assert_int_equal(nt__calls_status(), NT_INVALID);
}

/* ---- texts in files --------------------------------------------------------------------------------------------- */

/* A text reads back as its bytes, and nothing else is taken for one. */
static void a_text_in_quotes_is_exact(void **state) {
    (void)state;
    static const char *const wrong[] = {"",          "\"",        "a",         "\"a",         "a\"",       "\"a\"b\"",
                                        "\"\\\"",    "\"\\x\"",   "\"\\x4\"",  "\"\\x00\"",   "\"\\x4g\"", "\"\\n\"",
                                        "\"\\X41\"", "\"\\x 4\"", "\"\\x-1\"", "\"\\x4\"1\"", "\"a\\\"",   "\"\\x+f\""};
    const nt_field_info info = {.name = "t", .type = NT_FIELD_STRING, .marker = NT_HOST};
    nt__arena arena = {0};
    const char *text = "kept";
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (nt__field_unprint(&info, wrong[i], &arena, &text) != NT_INVALID) fail_msg("%s was taken", wrong[i]);
        assert_string_equal(text, "kept");
    }
    assert_int_equal(nt__field_unprint(&info, "\"a\\\"b\\\\\\x0a\\xff\"", &arena, &text), NT_OK);
    assert_string_equal(text, "a\"b\\\n\xff");
    assert_int_equal(nt__field_unprint(&info, "\"\"", &arena, &text), NT_OK);
    assert_string_equal(text, "");
    assert_int_equal(nt__field_unprint(&info, "NULL", &arena, &text), NT_OK);
    assert_null(text);
    text = "kept";
    assert_int_equal(nt__field_unprint(field("function"), "\"silu\"", &arena, &text), NT_INVALID);
    assert_string_equal(text, "kept");
    assert_int_equal(nt__field_unprint(field("function"), "\"gelu\"", &arena, &text), NT_OK);
    assert_string_equal(text, "gelu");
    nt__arena_free(&arena);
}

/* ---- values that C sets ----------------------------------------------------------------------------------------- */

static void what_c_sets_is_checked(void **state) {
    (void)state;
    Lists fields = Lists_defaults();
    assert_int_equal(nt__fields_check(Lists_experiment(), &fields), NT_OK);
    fields.function = "silu";
    assert_int_equal(nt__fields_check(Lists_experiment(), &fields), NT_INVALID);
    assert_string_equal(nt_error_message(), "function (choice): 'silu' is none of relu, gelu, tanh_2");
    fields.function = NULL;
    assert_int_equal(nt__fields_check(Lists_experiment(), &fields), NT_INVALID);
    fields = Lists_defaults();
    fields.hidden.count = 17;
    assert_int_equal(nt__fields_check(Lists_experiment(), &fields), NT_INVALID);
    assert_string_equal(nt_error_message(), "hidden (ints) has a count of 17; a list has 0 to 16 numbers");
    fields.hidden.count = -1;
    assert_int_equal(nt__fields_check(Lists_experiment(), &fields), NT_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_reads_back_what_it_prints),
        cmocka_unit_test(a_list_is_numbers_with_commas),
        cmocka_unit_test(a_list_refuses_what_is_no_number),
        cmocka_unit_test(a_choice_is_one_of_its_words),
        cmocka_unit_test(a_hook_learns_which_word),
        cmocka_unit_test(what_c_sets_is_checked),
        cmocka_unit_test(a_text_in_quotes_is_exact),
    };
    return cmocka_run_group_tests_name("types", tests, NULL, NULL);
}
