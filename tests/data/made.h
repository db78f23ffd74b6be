/* Arrays whose elements say where they lie, and looking into messages.
 * Include after cmocka.
 */
#ifndef NT_TESTS_DATA_MADE_H
#define NT_TESTS_DATA_MADE_H

#include <string.h>

#include "data/data.h"

enum { COLUMNS = 3 };

/* i32 [rows, COLUMNS]: element (row, column) is 10 row + column. */
static inline nt_array *made_grid(int64_t rows) {
    nt_array *array = nt_array_new(NT_I32, nt_dims(rows, COLUMNS));
    assert_non_null(array);
    for (int64_t i = 0; i < rows * COLUMNS; i++) {
        int64_t value = 10 * (i / COLUMNS) + i % COLUMNS;
        nt_array_set(array, i, (double)value);
    }
    return array;
}

/* [rows]: element i is i. */
static inline nt_array *made_line(nt_dtype dtype, int64_t rows) {
    nt_array *array = nt_array_new(dtype, nt_dims(rows));
    assert_non_null(array);
    for (int64_t i = 0; i < rows; i++) nt_array_set(array, i, (double)i);
    return array;
}

static inline void assert_message_has(const char *part) {
    if (!strstr(nt_error_message(), part)) fail_msg("'%s' is not in the message '%s'", part, nt_error_message());
}

static inline void assert_message_has_all(const char *const *parts, size_t count) {
    for (size_t i = 0; i < count && parts[i]; i++) assert_message_has(parts[i]);
}

#endif
