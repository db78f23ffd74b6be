/* Facts of a model in a file: each member of another kind than it has is refused by name, with its value.
 * Not here: what right facts mean (test_adopt.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "weights/weights.h"

static void assert_right(const char *text) {
    json_t *facts;
    if (nt__model_facts_parse(text, &facts) != NT_OK) fail_msg("%s: %s", text, nt_error_message());
    json_decref(facts);
}

static void assert_wrong(const char *text, const char *message) {
    json_t *facts = NULL;
    assert_int_equal(nt__model_facts_parse(text, &facts), NT_INVALID);
    assert_null(facts);
    if (!strstr(nt_error_message(), message)) fail_msg("%s: %s", text, nt_error_message());
}

static void what_nitro_writes_is_right(void **state) {
    (void)state;
    assert_right("{}");
    assert_right("{\"experiment\":\"E\",\"compute_dtype\":\"bf16\",\"seed\":0,\"config\":{\"a\":\"1\"},\"devices\":{},"
                 "\"host\":{},\"derived\":[\"a\"],\"given\":{},\"types\":{},\"numbers\":null,"
                 "\"inputs\":{\"x\":{\"dtype\":\"f32\",\"row\":[3,0]}},\"later\":[1,{}]}");
}

static void another_kind_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *name, *value, *must;
    } cases[] = {
        {"experiment", "3", "it must be a text"},
        {"compute_dtype", "\"f64\"", "it must be \"f32\", \"bf16\" or \"f16\""},
        {"compute_dtype", "null", "it must be \"f32\""},
        {"seed", "-1", "it must be a whole number from 0"},
        {"seed", "4.0", "it must be a whole number from 0"},
        {"seed", "\"4\"", "it must be a whole number from 0"},
        {"config", "[]", "it must be an object of texts"},
        {"config", "{\"a\":1}", "it must be an object of texts"},
        {"devices", "{\"a\":null}", "it must be an object of texts"},
        {"host", "\"\"", "it must be an object of texts"},
        {"derived", "{}", "it must be a list of texts"},
        {"derived", "[1]", "it must be a list of texts"},
        {"given", "{\"a\":true}", "it must be an object of texts"},
        {"types", "{\"a\":{}}", "it must be an object of texts"},
        {"inputs", "{\"x\":{\"row\":[1]}}", "it must be an object of {\"dtype\""},
        {"inputs", "{\"x\":{\"dtype\":\"f99\",\"row\":[]}}", "it must be an object of"},
        {"inputs", "{\"x\":{\"dtype\":\"f32\",\"row\":[1.5]}}", "it must be an object of"},
        {"inputs", "{\"x\":{\"dtype\":\"f32\",\"row\":[-1]}}", "it must be an object of"},
        {"inputs", "{\"x\":{\"dtype\":\"f32\",\"row\":[1,1,1,1,1,1,1,1]}}", "it must be an object of"},
        {"numbers", "[0.5]", "it must be a list of texts, or null"},
        {"numbers", "false", "it must be a list of texts, or null"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256], message[256];
        snprintf(text, sizeof text, "{\"%s\":%s}", cases[i].name, cases[i].value);
        snprintf(message, sizeof message, "its fact '%s' is %.20s", cases[i].name, cases[i].value);
        assert_wrong(text, message);
        assert_wrong(text, cases[i].must);
    }
}

/* All of a value is shown, or nothing of it. */
static void a_long_value_is_not_shown(void **state) {
    (void)state;
    char text[256];
    snprintf(text, sizeof text, "{\"derived\":[\"%080d\",1]}", 0);
    assert_wrong(text, "its fact 'derived' is too long to be shown, and it must be a list of texts");
    snprintf(text, sizeof text, "{\"derived\":[\"%054d\",1]}", 0);
    assert_wrong(text, "000\",1], and it must be a list of texts");
    snprintf(text, sizeof text, "{\"derived\":[\"%055d\",1]}", 0);
    assert_wrong(text, "its fact 'derived' is too long to be shown");
}

static void what_is_no_object_is_refused(void **state) {
    (void)state;
    assert_wrong("[]", "the metadata 'nitro_model' are no JSON object");
    assert_wrong("{", "its facts are not JSON: ");
    assert_wrong("{\"seed\":1,\"seed\":2}", "its facts are not JSON: duplicate object key");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nitro_writes_is_right),
        cmocka_unit_test(another_kind_is_refused_by_name),
        cmocka_unit_test(a_long_value_is_not_shown),
        cmocka_unit_test(what_is_no_object_is_refused),
    };
    return cmocka_run_group_tests_name("model_schema", tests, NULL, NULL);
}
