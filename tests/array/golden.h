/* The golden files and the JSON that says what a reader must do with each.
 * Include after cmocka.
 */
#ifndef NT_TESTS_ARRAY_GOLDEN_H
#define NT_TESTS_ARRAY_GOLDEN_H

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/scratch.h"
#include "array/array.h"

/* Path of a file below golden/files; valid until the next call. */
static inline const char *golden(const char *file) {
    static char path[SCRATCH_PATH];
    const char *tests = getenv("NT_TESTS");
    assert_non_null(tests); /* the folder of the tests */
    snprintf(path, sizeof path, "%s/golden/files/%s", tests, file);
    return path;
}

static inline json_t *golden_cases(const char *file) {
    json_error_t error;
    json_t *whole = json_load_file(golden(file), 0, &error);
    if (!whole) fail_msg("%s: %s", golden(file), error.text);
    json_t *cases = json_incref(json_object_get(whole, "cases"));
    json_decref(whole);
    assert_true(json_array_size(cases) > 0);
    return cases;
}

/* Each row: a file that is refused, and parts its message must have. */
enum { REFUSAL_PARTS = 4 };
typedef struct refusal {
    const char *file;
    const char *parts[REFUSAL_PARTS];
} refusal;

static inline void assert_message_has(const char *part) {
    if (!strstr(nt_error_message(), part)) fail_msg("'%s' is not in the message '%s'", part, nt_error_message());
}

static inline void assert_refusal(const refusal *rows, size_t count, const char *file) {
    const refusal *row = rows;
    while (row < rows + count && strcmp(row->file, file) != 0) row++;
    if (row == rows + count) fail_msg("no row says what the message for %s must have", file);
    assert_message_has(strchr(file, '/') + 1);
    for (int i = 0; i < REFUSAL_PARTS && row->parts[i]; i++) assert_message_has(row->parts[i]);
}

/* A number of the JSON files: also "inf", "nan", a decimal string, a truth value. */
static inline double golden_number(const json_t *value) {
    if (json_is_string(value)) return strtod(json_string_value(value), NULL);
    return json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
}

static inline void assert_golden_shape(const json_t *expected, nt_shape shape) {
    assert_int_equal(shape.rank, json_array_size(expected));
    for (int i = 0; i < shape.rank; i++)
        assert_int_equal(shape.dims[i], json_integer_value(json_array_get(expected, (size_t)i)));
}

#endif
