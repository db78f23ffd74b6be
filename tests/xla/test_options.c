/* Compile options as bytes. The bytes are a table: the engine reads no other encoding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile_options.pb-c.h"
#include "engine.h"

/* Hexadecimal digits and "text" in quotes, blanks between. */
static size_t bytes_of(const char *recipe, uint8_t *out) {
    size_t used = 0;
    for (const char *at = recipe; *at;) {
        unsigned byte;
        if (*at == ' ') {
            at++;
        } else if (*at == '"') {
            for (at++; *at != '"'; at++) out[used++] = (uint8_t)*at;
            at++;
        } else {
            assert_int_equal(sscanf(at, "%2x", &byte), 1);
            out[used++] = (uint8_t)byte;
            at += 2;
        }
    }
    return used;
}

static void assert_encodes(const nt__compile_options *options, const char *recipe) {
    uint8_t wanted[1024], *bytes;
    size_t wanted_length = bytes_of(recipe, wanted), length;
    assert_ok(nt__compile_options_encode(options, &bytes, &length));
    assert_int_equal(length, wanted_length);
    assert_memory_equal(bytes, wanted, length);
    nt__free(bytes);
}

#define BOOL(option, value) \
    { .name = (option), .kind = NT__OVERRIDE_BOOL, .integer = (value) }
#define INT(option, value) \
    { .name = (option), .kind = NT__OVERRIDE_INT, .integer = (value) }
#define STRING(option, value) \
    { .name = (option), .kind = NT__OVERRIDE_STRING, .string = (value) }
#define DOUBLE(option, value) \
    { .name = (option), .kind = NT__OVERRIDE_DOUBLE, .real = (value) }

static void encodes_partitions(void **state) {
    (void)state;
    assert_encodes(&(nt__compile_options){.partitions = 0}, "1a 04 20 01 28 01");
    assert_encodes(&(nt__compile_options){.partitions = 1}, "1a 04 20 01 28 01");
    assert_encodes(&(nt__compile_options){.partitions = 2}, "1a 09 20 01 28 02 30 01 98 01 01");
    assert_encodes(&(nt__compile_options){.partitions = 1024}, "1a 0a 20 01 28 80 08 30 01 98 01 01");
}

static void encodes_each_kind_of_override(void **state) {
    (void)state;
    static const struct {
        nt__override override;
        const char *bytes;
    } rows[] = {
        {INT("xla_backend_optimization_level", 0), "3a 24 0a 1e \"xla_backend_optimization_level\" 12 02 18 00"},
        {BOOL("xla_cpu_enable_fast_min_max", 0), "3a 21 0a 1b \"xla_cpu_enable_fast_min_max\" 12 02 10 00"},
        {BOOL("xla_cpu_enable_fast_min_max", 1), "3a 21 0a 1b \"xla_cpu_enable_fast_min_max\" 12 02 10 01"},
        {STRING("xla_dump_to", "dump_d"), "3a 17 0a 0b \"xla_dump_to\" 12 08 0a 06 \"dump_d\""},
        {STRING("xla_dump_to", ""), "3a 11 0a 0b \"xla_dump_to\" 12 02 0a 00"},
        {INT("n", -1), "3a 10 0a 01 \"n\" 12 0b 18 ff ff ff ff ff ff ff ff ff 01"},
        {DOUBLE("d", 1.5), "3a 0e 0a 01 \"d\" 12 09 21 00 00 00 00 00 00 f8 3f"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char recipe[256];
        snprintf(recipe, sizeof recipe, "1a 04 20 01 28 01 %s", rows[i].bytes);
        assert_encodes(&(nt__compile_options){.overrides = &rows[i].override, .override_count = 1}, recipe);
    }
}

static void sorts_overrides(void **state) {
    (void)state;
    static const nt__override one_way[] = {INT("b", 2), BOOL("c", 1), STRING("a", "x")};
    static const nt__override another[] = {STRING("a", "x"), INT("b", 2), BOOL("c", 1)};
    static const char bytes[] = "1a 04 20 01 28 01  3a 08 0a 01 \"a\" 12 03 0a 01 \"x\"  3a 07 0a 01 \"b\" 12 02 18 02"
                                "  3a 07 0a 01 \"c\" 12 02 10 01";
    assert_encodes(&(nt__compile_options){.overrides = one_way, .override_count = 3}, bytes);
    assert_encodes(&(nt__compile_options){.overrides = another, .override_count = 3}, bytes);
}

static void refuses_bad_options(void **state) {
    (void)state;
    static const nt__override twice[] = {INT("b", 2), INT("a", 1), BOOL("b", 1)};
    static const nt__override nameless = INT("", 1), none = INT(NULL, 1), textless = STRING("s", NULL);
    static const nt__override two = BOOL("flag", 2), kindless = {.name = "odd", .kind = 4};
    static const struct {
        nt__compile_options options;
        const char *message;
    } rows[] = {
        {{.partitions = -1}, "-1 partitions"},
        {{.partitions = 1025}, "1025 partitions"},
        {{.overrides = twice, .override_count = 3}, "option 'b' is given twice"},
        {{.overrides = &nameless, .override_count = 1}, "no name"},
        {{.overrides = &none, .override_count = 1}, "no name"},
        {{.overrides = &textless, .override_count = 1}, "option 's' has no text"},
        {{.overrides = &two, .override_count = 1}, "option 'flag' is a bool with value 2"},
        {{.overrides = &kindless, .override_count = 1}, "option 'odd' is of kind 4"},
        {{.overrides = NULL, .override_count = 2}, "2 overrides and no list"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint8_t *bytes;
        size_t length;
        assert_failed(nt__compile_options_encode(&rows[i].options, &bytes, &length), NT_INVALID, "compile options",
                      rows[i].message);
        assert_null(bytes);
        assert_int_equal(length, 0);
    }
}

static void assert_packs(const Nt__Wire__CompileOptions *options, const char *recipe) {
    uint8_t wanted[256], bytes[256];
    size_t wanted_length = bytes_of(recipe, wanted);
    assert_int_equal(nt__wire__compile_options__get_packed_size(options), wanted_length);
    nt__wire__compile_options__pack(options, bytes);
    assert_memory_equal(bytes, wanted, wanted_length);
}

/* The fields that options of ours do not set: the .proto file must name them right, since the check of options reads
 * them. */
static void knows_the_other_fields(void **state) {
    (void)state;
    Nt__Wire__CompileOptions options = NT__WIRE__COMPILE_OPTIONS__INIT;
    Nt__Wire__BuildOptions build = NT__WIRE__BUILD_OPTIONS__INIT;
    options.build = &build;
    build.replicas = 2;
    build.partitions = 1;
    assert_packs(&options, "1a 04 20 02 28 01");
    build.replicas = 1;
    build.partitions = 2;
    build.use_spmd_partitioning = true;
    assert_packs(&options, "1a 06 20 01 28 02 30 01");

    Nt__Wire__DeviceAssignment assignment = NT__WIRE__DEVICE_ASSIGNMENT__INIT;
    Nt__Wire__ComputationDevices devices = NT__WIRE__COMPUTATION_DEVICES__INIT, *list = &devices;
    int64_t number = 1;
    devices.n_device_of_replica = 1;
    devices.device_of_replica = &number;
    assignment.replicas = assignment.computations = 1;
    assignment.n_devices = 1;
    assignment.devices = &list;
    build = (Nt__Wire__BuildOptions)NT__WIRE__BUILD_OPTIONS__INIT;
    build.replicas = build.partitions = 1;
    build.device_assignment = &assignment;
    assert_packs(&options, "1a 0f 20 01 28 01 4a 09 08 01 10 01 1a 03 0a 01 01");
}

static void survives_failing_allocations(void **state) {
    (void)state;
    static const nt__override overrides[] = {INT("b", 2), STRING("a", "x")};
    nt__compile_options options = {.partitions = 2, .overrides = overrides, .override_count = 2};
    uint8_t *bytes;
    size_t length, failures = 0;
    for (;; failures++) {
        nt__memory_fail_at(failures + 1);
        nt_status status = nt__compile_options_encode(&options, &bytes, &length);
        nt__memory_fail_at(0);
        if (status == NT_OK) break;
        assert_failed(status, NT_OUT_OF_MEMORY, "memory");
        assert_int_equal(nt__memory().live, 0);
    }
    assert_true(failures > 0);
    nt__free(bytes);
    assert_int_equal(nt__memory().live, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_partitions),     cmocka_unit_test(encodes_each_kind_of_override),
        cmocka_unit_test(sorts_overrides),        cmocka_unit_test(refuses_bad_options),
        cmocka_unit_test(knows_the_other_fields), cmocka_unit_test(survives_failing_allocations),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
