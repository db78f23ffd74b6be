/* What the files of golden operations have in common: names of a case's inputs, builders of one and of two operands,
 * and the two tests of a table of rows. Include after cmocka.
 */
#ifndef NT_TESTS_GRAPH_GOLDEN_FILES_H
#define NT_TESTS_GRAPH_GOLDEN_FILES_H

#include "golden.h"

#define IN(name) golden_input(c, name)
#define X c->inputs[0]

#define UNARY(name)                                       \
    static nt_tensor build_##name(const golden_case *c) { \
        return nt_##name(X);                              \
    }
#define BINARY(name)                                      \
    static nt_tensor build_##name(const golden_case *c) { \
        return nt_##name(IN("a"), IN("b"));               \
    }

/* Tests NAME_f32 and NAME_f64 of the table NAME; names of cases that are left out follow, or NULL. */
#define FILE_TEST(rows, file, ...)                                                                  \
    static const golden_plan rows##_plan = {file, rows, sizeof rows / sizeof *rows, {__VA_ARGS__}}; \
    static void rows##_f32(void **state) {                                                          \
        (void)state;                                                                                \
        golden_check(&rows##_plan, NT_F32);                                                         \
    }                                                                                               \
    static void rows##_f64(void **state) {                                                          \
        (void)state;                                                                                \
        golden_check(&rows##_plan, NT_F64);                                                         \
    }

#endif
