/* Fields: what text each type takes, what it refuses and says, and that printed values read back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "experiment/experiment.h"

#define ALL(FIELD, DEVICE, GRAPH_CONST)            \
    FIELD(bool, shuffle, true, "a bool")           \
    GRAPH_CONST(int, hidden, 256, "an int")        \
    FIELD(int64_t, rows, 5000000000, "an int64_t") \
    DEVICE(float, smoothing, 0.1f, "a float")      \
    DEVICE(double, rate, 1e-3, "a double")         \
    FIELD(const char *, folder, "data", "a string")

NT_EXPERIMENT(All, ALL)
NT_DEFINE(All, ALL, .build_data = NULL);

/* Every type that C has a name for. */
typedef enum activation { RELU, TANH } activation;
struct dataset {
    int rows;
};
#define MANY(FIELD, DEVICE, GRAPH_CONST)                           \
    GRAPH_CONST(activation, function, TANH, "an enum")             \
    GRAPH_CONST(size_t, width, 64, "a size_t")                     \
    GRAPH_CONST(unsigned, depth, 2, "an unsigned")                 \
    DEVICE(int8_t, tiny, -5, "an int8_t")                          \
    DEVICE(uint8_t, byte, 200, "an uint8_t")                       \
    DEVICE(int16_t, low, -300, "an int16_t")                       \
    DEVICE(uint16_t, high, 60000, "an uint16_t")                   \
    DEVICE(long long, wide, -1, "a long long")                     \
    DEVICE(nt_array *, table, NULL, "an array")                    \
    DEVICE(nt_arrays *, frozen, NULL, "a set of arrays")           \
    FIELD(nt_array *, images, NULL, "an array")                    \
    FIELD(struct dataset *, data, NULL, "a pointer")               \
    FIELD(struct dataset, whole, {3}, "a struct")                  \
    FIELD(const char *const *, names, NULL, "an array of strings") \
    FIELD(char[8], code, "abc", "a text of its own")               \
    FIELD(char *, scratch, NULL, "text that may be written")       \
    FIELD(double (*)(double), curve, NULL, "a function")           \
    FIELD(long double, precise, 0.5L, "a long double")

NT_EXPERIMENT(Many, MANY)
NT_DEFINE(Many, MANY, .build_data = NULL);

#define NONE(FIELD, DEVICE, GRAPH_CONST)
NT_EXPERIMENT(None, NONE)
NT_DEFINE(None, NONE, .build_data = NULL);

static const nt_field_info *field(const char *name) {
    const nt_field_info *found = nt__field_find(All_experiment(), name);
    assert_non_null(found);
    return found;
}

/* ---- what the list makes ---------------------------------------------------------------------------------------- */

static void the_list_describes_the_struct(void **state) {
    (void)state;
    const nt_experiment *experiment = All_experiment();
    assert_string_equal(experiment->name, "All");
    assert_int_equal(experiment->size, sizeof(All));
    assert_int_equal(experiment->view_size, sizeof(All_view));
    assert_int_equal(experiment->field_count, 6);
    assert_non_null(strstr(experiment->file, "test_fields.c"));
    const nt_field_info *hidden = field("hidden");
    assert_string_equal(hidden->type_name, "int");
    assert_string_equal(hidden->default_text, "256");
    assert_string_equal(hidden->doc, "an int");
    assert_int_equal(hidden->type, NT_FIELD_INT);
    assert_int_equal(hidden->marker, NT_GRAPH_CONST);
    assert_int_equal(hidden->offset, offsetof(All, hidden));
    assert_int_equal(hidden->view_offset, offsetof(All_view, hidden));
    assert_true(hidden->line > 0);
    assert_null(nt__field_find(experiment, "Hidden"));
    assert_null(nt__field_find(experiment, "hid"));
    assert_null(nt__field_find(experiment, ""));
}

/* An entry a field, in order. The three markers part the list; unmarked is Host. */
static void the_metadata_has_a_row_a_field(void **state) {
    (void)state;
    static const struct {
        const char *name, *type, *default_text, *doc;
        nt_marker marker;
        nt_field_type kind;
        size_t size;
        bool has_flag;
    } rows[] = {
        {"function", "activation", "TANH", "an enum", NT_GRAPH_CONST, NT_FIELD_UINT, sizeof(activation), true},
        {"width", "size_t", "64", "a size_t", NT_GRAPH_CONST, NT_FIELD_UINT64, sizeof(size_t), true},
        {"depth", "unsigned", "2", "an unsigned", NT_GRAPH_CONST, NT_FIELD_UINT, 4, true},
        {"tiny", "int8_t", "-5", "an int8_t", NT_DEVICE, NT_FIELD_INT8, 1, true},
        {"byte", "uint8_t", "200", "an uint8_t", NT_DEVICE, NT_FIELD_UINT8, 1, true},
        {"low", "int16_t", "-300", "an int16_t", NT_DEVICE, NT_FIELD_INT16, 2, true},
        {"high", "uint16_t", "60000", "an uint16_t", NT_DEVICE, NT_FIELD_UINT16, 2, true},
        {"wide", "long long", "-1", "a long long", NT_DEVICE, NT_FIELD_INT64, 8, true},
        {"table", "nt_array *", NULL, "an array", NT_DEVICE, NT_FIELD_ARRAY, sizeof(void *), false},
        {"frozen", "nt_arrays *", NULL, "a set of arrays", NT_DEVICE, NT_FIELD_ARRAYS, sizeof(void *), false},
        {"images", "nt_array *", NULL, "an array", NT_HOST, NT_FIELD_ARRAY, sizeof(void *), false},
        {"data", "struct dataset *", NULL, "a pointer", NT_HOST, NT_FIELD_OTHER, sizeof(void *), false},
        {"whole", "struct dataset", "{3}", "a struct", NT_HOST, NT_FIELD_OTHER, sizeof(struct dataset), false},
        {"names", "const char *const *", NULL, "an array of strings", NT_HOST, NT_FIELD_OTHER, sizeof(void *), false},
        {"code", "char[8]", "\"abc\"", "a text of its own", NT_HOST, NT_FIELD_OTHER, 8, false},
        {"scratch", "char *", NULL, "text that may be written", NT_HOST, NT_FIELD_OTHER, sizeof(void *), false},
        {"curve", "double (*)(double)", NULL, "a function", NT_HOST, NT_FIELD_OTHER, sizeof(void *), false},
        {"precise", "long double", "0.5L", "a long double", NT_HOST, NT_FIELD_OTHER, sizeof(long double), false},
    };
    const nt_experiment *experiment = Many_experiment();
    assert_int_equal(experiment->field_count, sizeof rows / sizeof *rows);
    for (size_t i = 0; i < experiment->field_count; i++) {
        const nt_field_info *info = &experiment->fields[i];
        assert_string_equal(info->name, rows[i].name);
        assert_string_equal(nt__field_type_text(info), rows[i].type);
        if (rows[i].default_text) assert_string_equal(info->default_text, rows[i].default_text);
        assert_string_equal(info->doc, rows[i].doc);
        assert_int_equal(info->marker, rows[i].marker);
        assert_int_equal(info->type, rows[i].kind);
        assert_int_equal(info->size, rows[i].size);
        assert_int_equal(nt__field_has_flag(info), rows[i].has_flag);
    }
}

/* Defaults are evaluated by each call, and changed ones are kept. */
static void fields_of_any_type_have_their_defaults(void **state) {
    (void)state;
    Many e = Many_defaults();
    assert_int_equal(e.function, TANH);
    assert_int_equal(e.whole.rows, 3);
    assert_string_equal(e.code, "abc");
    assert_int_equal(e.high, 60000);
    assert_int_equal(e.wide, -1);
    assert_null(e.images);
}

static void an_experiment_may_have_no_field(void **state) {
    (void)state;
    None e = None_defaults();
    (void)e;
    assert_int_equal(None_experiment()->field_count, 0);
    assert_null(nt__field_find(None_experiment(), "batch"));
    assert_true(sizeof e <= 1);
}

/* In the view a Device field is a tensor and a GraphConst field what it is. A Host field does not compile: cli/misuse.
 */
static void the_view_has_the_same_fields(void **state) {
    (void)state;
    Many_view view;
    assert_true(_Generic(view.table, nt_tensor : true, default : false));
    assert_true(_Generic(view.tiny, nt_tensor : true, default : false));
    assert_true(_Generic(view.frozen, nt_tensors : true, default : false));
    assert_true(_Generic(&view.function, activation * : true, default : false));
    assert_true(_Generic(view.width, size_t : true, default : false));
}

static void defaults_are_the_ones_declared(void **state) {
    (void)state;
    All fields;
    All_experiment()->set_defaults(&fields);
    assert_true(fields.shuffle);
    assert_int_equal(fields.hidden, 256);
    assert_int_equal(fields.rows, 5000000000);
    assert_true(fields.smoothing == 0.1f);
    assert_true(fields.rate == 1e-3);
    assert_string_equal(fields.folder, "data");
}

static void markers_and_element_types_have_names(void **state) {
    (void)state;
    assert_string_equal(nt__marker_name(field("shuffle")->marker), "Host");
    assert_string_equal(nt__marker_name(field("smoothing")->marker), "Device");
    assert_string_equal(nt__marker_name(field("hidden")->marker), "GraphConst");
    assert_string_equal(nt__field_type_name(NT_FIELD_BOOL), "bool");
    assert_string_equal(nt__field_type_name(NT_FIELD_STRING), "string");
    assert_int_equal(nt__field_dtype(NT_FIELD_BOOL), NT_BOOL);
    assert_int_equal(nt__field_dtype(NT_FIELD_INT), NT_I32);
    assert_int_equal(nt__field_dtype(NT_FIELD_INT64), NT_I64);
    assert_int_equal(nt__field_dtype(NT_FIELD_FLOAT), NT_F32);
    assert_int_equal(nt__field_dtype(NT_FIELD_DOUBLE), NT_F64);
}

/* ---- text that is taken ----------------------------------------------------------------------------------------- */

/* Parses into a struct of defaults and returns it; every other field must stay as it was. */
static All parsed(const char *name, const char *text) {
    All fields = All_defaults();
    assert_int_equal(nt__field_parse(field(name), text, &fields), NT_OK);
    return fields;
}

static void bools_are_read(void **state) {
    (void)state;
    static const char *const yes[] = {"true", "1", "yes", "on", "TRUE", "Yes"};
    static const char *const no[] = {"false", "0", "no", "off", "False", "OFF"};
    for (size_t i = 0; i < 6; i++) {
        assert_true(parsed("shuffle", yes[i]).shuffle);
        assert_false(parsed("shuffle", no[i]).shuffle);
    }
}

static void whole_numbers_are_read(void **state) {
    (void)state;
    assert_int_equal(parsed("hidden", "512").hidden, 512);
    assert_int_equal(parsed("hidden", "-3").hidden, -3);
    assert_int_equal(parsed("hidden", "+7").hidden, 7);
    assert_int_equal(parsed("hidden", "010").hidden, 10);
    assert_int_equal(parsed("hidden", "2147483647").hidden, INT_MAX);
    assert_int_equal(parsed("hidden", "-2147483648").hidden, INT_MIN);
    assert_true(parsed("rows", "9223372036854775807").rows == INT64_MAX);
    assert_true(parsed("rows", "-9223372036854775808").rows == INT64_MIN);
}

static void real_numbers_are_read(void **state) {
    (void)state;
    assert_true(parsed("smoothing", "0.25").smoothing == 0.25f);
    assert_true(parsed("smoothing", "1e-3").smoothing == 1e-3f);
    assert_true(parsed("smoothing", "3").smoothing == 3.0f);
    assert_true(parsed("smoothing", "-.5").smoothing == -0.5f);
    assert_true(parsed("smoothing", "inf").smoothing == INFINITY);
    assert_true(parsed("smoothing", "-Infinity").smoothing == -INFINITY);
    assert_true(isnan(parsed("smoothing", "nan").smoothing));
    assert_true(parsed("smoothing", "1e-45").smoothing == FLT_TRUE_MIN);
    assert_true(parsed("smoothing", "0e10").smoothing == 0.0f);
    assert_true(parsed("rate", "0.1").rate == 0.1);
    assert_true(parsed("rate", "0x1p-3").rate == 0.125);
    assert_true(parsed("rate", "1e300").rate == 1e300);
    assert_true(parsed("rate", "0x0p1").rate == 0);
    assert_true(parsed("rate", "nan").rate != parsed("rate", "nan").rate);
}

static void strings_are_borrowed(void **state) {
    (void)state;
    static const char text[] = "any text = 1";
    assert_ptr_equal(parsed("folder", text).folder, text);
    assert_string_equal(parsed("folder", "").folder, "");
}

static void one_field_changes_and_no_other(void **state) {
    (void)state;
    All fields = parsed("hidden", "1"), expected = All_defaults();
    assert_true(fields.shuffle == expected.shuffle && fields.rows == expected.rows);
    assert_true(fields.smoothing == expected.smoothing && fields.rate == expected.rate);
    assert_ptr_equal(fields.folder, expected.folder);
    fields = parsed("smoothing", "1");
    assert_true(fields.hidden == 256 && fields.rate == expected.rate && fields.rows == expected.rows);
}

/* ---- text that is refused --------------------------------------------------------------------------------------- */

static void refuses(const char *name, const char *text, const char *message) {
    All fields = All_defaults(), before = fields;
    assert_int_equal(nt__field_parse(field(name), text, &fields), NT_INVALID);
    assert_string_equal(nt_error_message(), message);
    assert_memory_equal(&fields, &before, sizeof fields);
}

static void a_bool_that_is_none_is_refused(void **state) {
    (void)state;
    refuses("shuffle", "maybe",
            "shuffle (bool): 'maybe' is neither true nor false; write true or false (also 1/0, yes/no, on/off)");
    refuses("shuffle", "",
            "shuffle (bool): '' is neither true nor false; write true or false (also 1/0, yes/no, on/off)");
    refuses("shuffle", "2",
            "shuffle (bool): '2' is neither true nor false; write true or false (also 1/0, yes/no, on/off)");
}

static void a_whole_number_that_is_none_is_refused(void **state) {
    (void)state;
    refuses("hidden", "1e3", "hidden (int): '1e3' is not written as a whole number; write 1000");
    refuses("hidden", "256.0", "hidden (int): '256.0' is not written as a whole number; write 256");
    refuses("hidden", "0x10", "hidden (int): '0x10' is not written as a whole number; write 16");
    refuses("hidden", "2.5", "hidden (int): '2.5' is not a whole number; write digits, for example 256");
    refuses("hidden", "many", "hidden (int): 'many' is not a whole number; write digits, for example 256");
    refuses("hidden", "", "hidden (int): '' is not a whole number; write digits, for example 256");
    refuses("hidden", " 5", "hidden (int): ' 5' is not a whole number; write digits, for example 256");
    refuses("hidden", "5 ", "hidden (int): '5 ' is not a whole number; write digits, for example 256");
    refuses("hidden", "5k", "hidden (int): '5k' is not a whole number; write digits, for example 256");
    refuses("rows", "1e40", "rows (int64_t): '1e40' is not a whole number; write digits, for example 256");
    refuses("rows", "nan", "rows (int64_t): 'nan' is not a whole number; write digits, for example 256");
}

static void a_whole_number_out_of_range_is_refused(void **state) {
    (void)state;
    refuses("hidden", "2147483648",
            "hidden (int): '2147483648' is out of range; it must be from -2147483648 to 2147483647");
    refuses("hidden", "-2147483649",
            "hidden (int): '-2147483649' is out of range; it must be from -2147483648 to 2147483647");
    refuses("hidden", "99999999999999999999",
            "hidden (int): '99999999999999999999' is out of range; it must be from -2147483648 to 2147483647");
    refuses("rows", "9223372036854775808",
            "rows (int64_t): '9223372036854775808' is out of range; it must be from -9223372036854775808 to "
            "9223372036854775807");
}

static void a_real_number_that_is_none_is_refused(void **state) {
    (void)state;
    refuses("smoothing", "much", "smoothing (float): 'much' is not a number; write for example 0.1 or 1e-3");
    refuses("smoothing", "0,1", "smoothing (float): '0,1' is not a number; write for example 0.1 or 1e-3");
    refuses("smoothing", "0.1f", "smoothing (float): '0.1f' is not a number; write for example 0.1 or 1e-3");
    refuses("smoothing", " 1", "smoothing (float): ' 1' is not a number; write for example 0.1 or 1e-3");
    refuses("rate", "", "rate (double): '' is not a number; write for example 0.1 or 1e-3");
}

static void a_real_number_out_of_range_is_refused(void **state) {
    (void)state;
    refuses("smoothing", "1e39", "smoothing (float): '1e39' is out of range; sizes go from 1.4013e-45 to 3.40282e+38");
    refuses("smoothing", "-1e39",
            "smoothing (float): '-1e39' is out of range; sizes go from 1.4013e-45 to 3.40282e+38");
    refuses("smoothing", "1e-60",
            "smoothing (float): '1e-60' is out of range; sizes go from 1.4013e-45 to 3.40282e+38");
    refuses("rate", "1e999", "rate (double): '1e999' is out of range; sizes go from 4.94066e-324 to 1.79769e+308");
    refuses("rate", "0x.01p-2000",
            "rate (double): '0x.01p-2000' is out of range; sizes go from 4.94066e-324 to 1.79769e+308");
}

/* ---- printing --------------------------------------------------------------------------------------------------- */

static void prints(const char *name, const char *text, const char *expected) {
    All fields = parsed(name, text);
    nt__text out = {0};
    nt__field_print(field(name), &fields, &out);
    assert_false(out.failed);
    assert_string_equal(out.data, expected);
    nt__text_free(&out);
}

static void values_are_printed_as_one_would_write_them(void **state) {
    (void)state;
    prints("shuffle", "yes", "true");
    prints("shuffle", "0", "false");
    prints("hidden", "-0042", "-42");
    prints("rows", "-9223372036854775808", "-9223372036854775808");
    prints("smoothing", "0.1", "0.1");
    prints("smoothing", "3", "3");
    prints("smoothing", "0.333333333", "0.33333334");
    prints("smoothing", "16777216", "16777216");
    prints("smoothing", "nan", "nan");
    prints("rate", "0.001", "0.001");
    prints("rate", "0.1000000000000000055511", "0.1");
    prints("rate", "0.30000000000000004", "0.30000000000000004");
    prints("rate", "100000", "100000");
    prints("rate", "-inf", "-inf");
    prints("folder", "data/a b", "\"data/a b\"");
    prints("folder", "a\"b\\c\nd\x7f", "\"a\\\"b\\\\c\\x0ad\\x7f\"");
    prints("folder", "", "\"\"");
}

static void no_string_is_printed_as_null(void **state) {
    (void)state;
    All fields = All_defaults();
    fields.folder = NULL;
    nt__text out = {0};
    nt__field_print(field("folder"), &fields, &out);
    assert_string_equal(out.data, "NULL");
    nt__text_free(&out);
}

static uint32_t next_random(uint32_t *random) {
    *random ^= *random << 13;
    *random ^= *random >> 17;
    *random ^= *random << 5;
    return *random;
}

static void printed_numbers_read_back(void **state) {
    (void)state;
    uint32_t random = 2463534242u;
    for (int i = 0; i < 20000; i++) {
        uint32_t bits = next_random(&random);
        uint64_t long_bits = (uint64_t)bits << 32 | next_random(&random);
        All fields = All_defaults();
        memcpy(&fields.smoothing, &bits, sizeof bits);
        memcpy(&fields.rate, &long_bits, sizeof long_bits);
        if (isnan(fields.smoothing) || isnan(fields.rate)) continue;
        nt__text single = {0}, both = {0};
        nt__field_print(field("smoothing"), &fields, &single);
        nt__field_print(field("rate"), &fields, &both);
        assert_true(parsed("smoothing", single.data).smoothing == fields.smoothing);
        assert_true(parsed("rate", both.data).rate == fields.rate);
        nt__text_free(&single);
        nt__text_free(&both);
    }
}

static void printing_survives_refused_memory(void **state) {
    (void)state;
    All fields = All_defaults();
    for (size_t i = 0; i < All_experiment()->field_count; i++) {
        nt__text out = {0};
        nt__memory_fail_at(1);
        nt__field_print(&All_experiment()->fields[i], &fields, &out);
        assert_true(out.failed);
        nt__text_free(&out);
    }
}

static void values_are_numbers_too(void **state) {
    (void)state;
    All fields = {.shuffle = true, .hidden = -7, .rows = 1LL << 40, .smoothing = 0.5f, .rate = 0.1, .folder = "12"};
    assert_true(nt__field_number(field("shuffle"), &fields) == 1);
    assert_true(nt__field_number(field("hidden"), &fields) == -7);
    assert_true(nt__field_number(field("rows"), &fields) == 1099511627776.0);
    assert_true(nt__field_number(field("smoothing"), &fields) == 0.5);
    assert_true(nt__field_number(field("rate"), &fields) == 0.1);
    assert_true(nt__field_number(field("folder"), &fields) == 0);
    fields.shuffle = false;
    assert_true(nt__field_number(field("shuffle"), &fields) == 0);
}

/* A number that the type has is taken, converted. */
static void numbers_become_values(void **state) {
    (void)state;
    All fields = All_defaults();
    assert_int_equal(nt__field_from_number(field("shuffle"), 0, &fields.shuffle), NT_OK);
    assert_int_equal(nt__field_from_number(field("hidden"), -7, &fields.hidden), NT_OK);
    assert_int_equal(nt__field_from_number(field("rows"), 0x1p62, &fields.rows), NT_OK);
    assert_int_equal(nt__field_from_number(field("smoothing"), 0.1, &fields.smoothing), NT_OK);
    assert_int_equal(nt__field_from_number(field("rate"), 0.1, &fields.rate), NT_OK);
    assert_false(fields.shuffle);
    assert_int_equal(fields.hidden, -7);
    assert_true(fields.rows == (int64_t)1 << 62);
    assert_true(fields.smoothing == 0.1f);
    assert_true(fields.rate == 0.1);
    assert_int_equal(nt__field_from_number(field("rate"), INFINITY, &fields.rate), NT_OK);
    assert_true(isinf(fields.rate));
}

static void numbers_that_a_type_has_not_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *field;
        double number;
        const char *message;
    } cases[] = {
        {"shuffle", 2, "shuffle (bool) cannot be 2"},
        {"hidden", 0.5, "hidden (int) cannot be 0.5"},
        {"hidden", 3e9, "hidden (int) cannot be 3000000000"},
        {"hidden", NAN, "hidden (int) cannot be nan"},
        {"rows", 0x1p63, "rows (int64_t) cannot be 9.22337203685478e+18"},
        {"rows", INFINITY, "rows (int64_t) cannot be inf"},
        {"smoothing", 1e39, "smoothing (float) cannot be 1e+39"},
        {"folder", 1, "folder (string) cannot be 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        All fields = All_defaults(), before = fields;
        const nt_field_info *info = field(cases[i].field);
        assert_int_equal(nt__field_from_number(info, cases[i].number, (char *)&fields + info->offset), NT_INVALID);
        assert_string_equal(nt_error_message(), cases[i].message);
        assert_memory_equal((char *)&fields + info->offset, (char *)&before + info->offset, info->size);
    }
}

static Many many;
static const nt_field_info *of_many(const char *name) {
    const nt_field_info *found = nt__field_find(Many_experiment(), name);
    assert_non_null(found);
    return found;
}

static void shows(const char *name, const char *expected) {
    nt__text out = {0};
    nt__field_show(of_many(name), &many, true, &out);
    assert_false(out.failed);
    assert_string_equal(out.data, expected);
    nt__text_free(&out);
}

static void integers_of_every_size_are_read_and_printed(void **state) {
    (void)state;
    static const struct {
        const char *field, *text, *message;
    } cases[] = {
        {"tiny", "-128", NULL},
        {"tiny", "128", "tiny (int8_t): '128' is out of range; it must be from -128 to 127"},
        {"byte", "255", NULL},
        {"byte", "-1", "byte (uint8_t): '-1' is out of range; it must be from 0 to 255"},
        {"low", "-32768", NULL},
        {"low", "-32769", "low (int16_t): '-32769' is out of range; it must be from -32768 to 32767"},
        {"high", "65535", NULL},
        {"high", "65536", "high (uint16_t): '65536' is out of range; it must be from 0 to 65535"},
        {"wide", "-9223372036854775808", NULL},
        {"width", "18446744073709551615", NULL},
        {"width", "-1", "width (size_t): '-1' is out of range; it must be from 0 to 18446744073709551615"},
        {"width", "1e3", "width (size_t): '1e3' is not written as a whole number; write 1000"},
        {"depth", "4294967295", NULL},
        {"depth", "4294967296", "depth (unsigned): '4294967296' is out of range; it must be from 0 to 4294967295"},
        {"function", "0", NULL},
        {"table", "1",
         "table (nt_array *): '1' was given, but a field of this type has no text form; set it in C, in a "
         "preset, or in derive"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        many = Many_defaults();
        nt_status status = nt__field_parse(of_many(cases[i].field), cases[i].text, &many);
        if (cases[i].message) {
            assert_int_equal(status, NT_INVALID);
            assert_string_equal(nt_error_message(), cases[i].message);
        } else {
            assert_int_equal(status, NT_OK);
            shows(cases[i].field, cases[i].text);
        }
    }
}

/* Types and shapes, never an element; the beginning of a long text. */
static void arrays_are_shown_by_type_and_shape(void **state) {
    (void)state;
    many = Many_defaults();
    shows("table", "NULL");
    shows("frozen", "NULL");
    shows("data", "struct dataset *");
    shows("curve", "double (*)(double)");
    many.table = nt_array_new(NT_F32, nt_dims(3, 4));
    many.frozen = nt_arrays_new();
    nt_arrays_put(many.frozen, "weight", nt_array_new(NT_F64, nt_dims(2)));
    nt_arrays_put(many.frozen, "bias", nt_array_new(NT_U8, nt_dims(1)));
    shows("table", "f32[3,4]");
    shows("frozen", "{weight: f64[2], bias: u8[1]}");
    for (char name[] = "a"; *name < 'k'; ++*name) nt_arrays_put(many.frozen, name, nt_array_new(NT_U8, nt_dims(1)));
    shows("frozen",
          "{weight: f64[2], bias: u8[1], a: u8[1], b: u8[1], c: u8[1], d: u8[1], e: u8[1], f: u8[1], 4 more}");
    nt_array_free(many.table);
    nt_arrays_free(many.frozen);
    All all = All_defaults();
    char text[201];
    memset(text, 'x', sizeof text);
    text[79] = '\xc3';
    text[80] = '\xa9';
    text[200] = 0;
    all.folder = text;
    nt__text out = {0};
    nt__field_show(field("folder"), &all, true, &out);
    assert_int_equal(strlen(out.data), 1 + 79 + 1 + strlen("... (200 bytes)"));
    nt__text_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_describes_the_struct),
        cmocka_unit_test(defaults_are_the_ones_declared),
        cmocka_unit_test(the_metadata_has_a_row_a_field),
        cmocka_unit_test(fields_of_any_type_have_their_defaults),
        cmocka_unit_test(an_experiment_may_have_no_field),
        cmocka_unit_test(the_view_has_the_same_fields),
        cmocka_unit_test(integers_of_every_size_are_read_and_printed),
        cmocka_unit_test(arrays_are_shown_by_type_and_shape),
        cmocka_unit_test(markers_and_element_types_have_names),
        cmocka_unit_test(bools_are_read),
        cmocka_unit_test(whole_numbers_are_read),
        cmocka_unit_test(real_numbers_are_read),
        cmocka_unit_test(strings_are_borrowed),
        cmocka_unit_test(one_field_changes_and_no_other),
        cmocka_unit_test(a_bool_that_is_none_is_refused),
        cmocka_unit_test(a_whole_number_that_is_none_is_refused),
        cmocka_unit_test(a_whole_number_out_of_range_is_refused),
        cmocka_unit_test(a_real_number_that_is_none_is_refused),
        cmocka_unit_test(a_real_number_out_of_range_is_refused),
        cmocka_unit_test(values_are_printed_as_one_would_write_them),
        cmocka_unit_test(no_string_is_printed_as_null),
        cmocka_unit_test(printed_numbers_read_back),
        cmocka_unit_test(printing_survives_refused_memory),
        cmocka_unit_test(values_are_numbers_too),
        cmocka_unit_test(numbers_become_values),
        cmocka_unit_test(numbers_that_a_type_has_not_are_refused),
    };
    return cmocka_run_group_tests_name("fields", tests, NULL, NULL);
}
