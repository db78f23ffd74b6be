/* Mistakes that do not compile: what the compiler says about each, with gcc and with clang. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "command.h"

static const char *const compilers[] = {"gcc", "clang"};
enum { COMPILERS = 2 };

/* Compiles the snippet as the command does, with a mistake switched on ("" for none). */
static const ended *compile(const char *compiler, const char *mistake) {
    char file[SCRATCH_PATH], flag[128];
    snprintf(file, sizeof file, "%s/snippets/misuse.c", getenv("NT_TESTS"));
    snprintf(flag, sizeof flag, "--cflags=%s%s", *mistake ? "-D" : "", mistake);
    setenv("CC", compiler, 1);
    const ended *e = nitro("help", file, flag);
    unsetenv("CC");
    return e;
}

static void the_snippet_itself_compiles(void **state) {
    (void)state;
    for (size_t i = 0; i < COMPILERS; i++) {
        const ended *e = compile(compilers[i], "");
        assert_int_equal(e->code, 0);
        assert_string_equal(e->err, "");
        assert_has(e->out, "Digits (", "Other (", "--batch-size  int               128", "--batch-size  int   64",
                   "data          struct dataset *  NULL", "images        nt_array *        NULL");
    }
}

/* Both lists are on the same line of their files, and name their Host fields alike. */
static void experiments_of_several_files_in_one_compile(void **state) {
    (void)state;
    put_experiment("first.h", "First", "", "FIELD(int, rows, 1, \"\")");
    put_experiment("second.h", "Second", "", "FIELD(int, rows, 2, \"\")");
    put_text("both.c", "#include \"first.h\"\n#undef LIST\n#include \"second.h\"\n");
    for (size_t i = 0; i < COMPILERS; i++) {
        setenv("CC", compilers[i], 1);
        const ended *e = nitro("help", scratch("both.c"));
        unsetenv("CC");
        assert_string_equal(e->err, "");
        assert_int_equal(e->code, 0);
        assert_has(e->out, "First (", "Second (");
    }
}

/* The compiler's message has all of the pieces. */
static void refuses(const char *mistake, const char *first, const char *second) {
    for (size_t i = 0; i < COMPILERS; i++) {
        const ended *e = compile(compilers[i], mistake);
        if (e->code != 1) fail_msg("%s compiles with %s", mistake, compilers[i]);
        assert_string_equal(e->out, "");
        assert_has(e->err, "misuse.c:", "error:", first, second);
        assert_has(e->err, "nitro: compiling '", "misuse.c' failed; the messages of '");
    }
}

/* Where the compiler's own message has no type, gcc names the field. */
static void gcc_names_a_host_field(void **state) {
    (void)state;
    static const char *const mistakes[] = {"HOST_FIELD_AS_CONDITION", "HOST_FIELD_CAST"};
    static const char *const fields[] = {"wide", "scale"};
    for (size_t i = 0; i < 2; i++) {
        char line[128];
        snprintf(line, sizeof line, "%s\u2019 is unavailable: it is a Host field; mark it DEVICE or GRAPH_CONST",
                 fields[i]);
        assert_has(compile("gcc", mistakes[i])->err, line, "declared here");
    }
}

typedef struct mistake {
    const char *name, *first, *second;
} mistake;

static void refuses_all(const mistake *mistakes, size_t count) {
    for (size_t i = 0; i < count; i++) refuses(mistakes[i].name, mistakes[i].first, mistakes[i].second);
}
#define REFUSES_ALL(mistakes) refuses_all(mistakes, sizeof(mistakes) / sizeof *(mistakes))

/* Every way to touch one; the message has the field's name and what to do. */
static void a_host_field_in_a_traced_hook_does_not_compile(void **state) {
    (void)state;
#define HOST(field) field "_is_a_Host_field__mark_it_DEVICE_or_GRAPH_CONST"
    static const mistake mistakes[] = {
        {"HOST_FIELD_AS_SIZE", HOST("batch_size"), "e->batch_size"},
        {"HOST_FIELD_IN_ARITHMETIC", HOST("batch_size"), "e->batch_size"},
        {"HOST_FIELD_ON_THE_RIGHT", HOST("scale"), "e->scale"},
        {"HOST_FIELD_NEGATED", "Host", "scale"},
        {"HOST_FIELD_COMPARED", HOST("batch_size"), "e->batch_size"},
        {"HOST_FIELD_EQUAL", HOST("batch_size"), "e->batch_size"},
        {"HOST_FIELD_AS_CONDITION", "Host", "wide"},
        {"HOST_FIELD_ASSIGNED", HOST("batch_size"), "e->batch_size"},
        {"HOST_FIELD_AS_ARGUMENT", HOST("scale"), "e->scale"},
        {"HOST_FIELD_AS_INDEX", "subscript is not an integer", "e->batch_size"},
        {"HOST_FIELD_INDEXED", "subscripted value", "e->folder"},
        {"HOST_FIELD_CAST", "Host", "scale"},
        {"HOST_FIELD_FOLLOWED", "->", "e->data"},
        {"HOST_ARRAY_AS_CONSTANT", HOST("images"), "e->images"},
        {"HOST_FIELD_AS_OPERAND", HOST("scale"), "e->scale"},
        {"HOST_FIELD_AS_VALUE", HOST("wide"), "e->wide"},
        {"HOST_FIELD_AS_TEXT", HOST("folder"), "e->folder"},
    };
#undef HOST
    REFUSES_ALL(mistakes);
}

/* It is a tensor there: the message says what gives a C value. */
static void a_device_field_as_a_c_value_does_not_compile(void **state) {
    (void)state;
#define DEVICE "nt_tensor_of_Device_field__mark_it_GRAPH_CONST_for_a_C_value"
    static const mistake mistakes[] = {
        {"DEVICE_FIELD_AS_SIZE", DEVICE, "e->smoothing"},        {"DEVICE_FIELD_AS_VALUE", DEVICE, "e->smoothing"},
        {"DEVICE_FIELD_COMPARED", DEVICE, "e->smoothing"},       {"DEVICE_FIELD_IN_ARITHMETIC", DEVICE, "e->smoothing"},
        {"DEVICE_FIELD_AS_CONDITION", "scalar", "e->smoothing"},
    };
#undef DEVICE
    REFUSES_ALL(mistakes);
}

/* And types that a marker does not take. */
static void a_wrong_declaration_does_not_compile(void **state) {
    (void)state;
    static const mistake mistakes[] = {
        {"FIELD_TWICE", "duplicate member", "hidden"},
        {"FIELD_WITHOUT_TYPE", "arguments", "NT_MEMBER_"},
        {"FIELD_OF_UNKNOWN_TYPE", "undeclared", "unknown_type"},
        {"FIELD_WITH_UNKNOWN_MARKER", "CONSTANT", "odd"},
        {"DEVICE_POINTER", "field odd: DEVICE takes bool, integers, float, double, nt_array * and nt_arrays *",
         "a struct dataset * is for FIELD"},
        {"DEVICE_TEXT", "field odd: DEVICE takes", "is for FIELD"},
        {"CONSTANT_ARRAY",
         "field odd: GRAPH_CONST takes bool, integers, float, double, const char *, nt_ints and nt_reals",
         "an array for DEVICE"},
        {"CONSTANT_STRUCT", "field odd: GRAPH_CONST takes", "a struct dataset is for FIELD"},
    };
    REFUSES_ALL(mistakes);
}

static void a_hook_of_the_wrong_type_does_not_compile(void **state) {
    (void)state;
    refuses("HOOK_OF_ANOTHER_TYPE", "forward", ".loss = LOSS");
    refuses("HOOK_OF_ANOTHER_EXPERIMENT", "other_rate", "incompatible");
    refuses("HOOK_WITHOUT_RESULT", "return-type", "void");
}

static void traced_and_host_values_do_not_mix(void **state) {
    (void)state;
    refuses("TRACED_OPERATION_IN_HOST_HOOK", "nt_host_batch", "nt_field(batch, \"label\")");
    refuses("HOST_ARRAY_AS_OPERAND", "nt_array", "nt_relu");
}

static void a_misspelt_operation_does_not_compile(void **state) {
    (void)state;
    refuses("MISSPELT_OPERATION", "nt_rleu", "implicit");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_snippet_itself_compiles),
        cmocka_unit_test(experiments_of_several_files_in_one_compile),
        cmocka_unit_test(gcc_names_a_host_field),
        cmocka_unit_test(a_host_field_in_a_traced_hook_does_not_compile),
        cmocka_unit_test(a_device_field_as_a_c_value_does_not_compile),
        cmocka_unit_test(a_wrong_declaration_does_not_compile),
        cmocka_unit_test(a_hook_of_the_wrong_type_does_not_compile),
        cmocka_unit_test(traced_and_host_values_do_not_mix),
        cmocka_unit_test(a_misspelt_operation_does_not_compile),
    };
    return cmocka_run_group_tests_name("misuse", tests, command_make, scratch_remove);
}
