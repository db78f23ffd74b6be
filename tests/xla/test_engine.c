/* Opening, asking and closing the engine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine.h"

static void refuses_impossible_device_counts(void **state) {
    (void)state;
    assert_failed(nt__engine_open(0, &engine), NT_INVALID, "0 devices", "1 to 1024");
    assert_null(engine);
    assert_failed(nt__engine_open(-1, &engine), NT_INVALID, "-1 devices");
    assert_failed(nt__engine_open(1025, &engine), NT_INVALID, "1025 devices");
    assert_failed(nt__engine_open(1, NULL), NT_INVALID, "NULL");
}

static void closing_what_is_not_open_is_fine(void **state) {
    (void)state;
    assert_ok(nt__engine_close());
}

static void tells_facts(void **state) {
    (void)state;
    assert_ok(nt__engine_open(1, &engine));
    const nt__engine_facts *facts = nt__engine_facts_of(engine);
    assert_string_equal(facts->plugin_path, getenv("NITRO_PLUGIN"));
    assert_int_equal(facts->api_major, 0);
    assert_true(facts->api_minor >= 81);
    assert_string_equal(facts->platform, "cpu");
    assert_true(strlen(facts->platform_version) > 0);
    assert_int_equal(strncmp(facts->stablehlo_version, "1.", 2), 0);
    assert_true(facts->plugin_hash.low != 0 || facts->plugin_hash.high != 0);
    assert_int_equal(facts->device_count, 1);
    assert_ok(nt__engine_close());
}

static void names_devices(void **state) {
    (void)state;
    assert_ok(nt__engine_open(3, &engine));
    assert_int_equal(nt__engine_facts_of(engine)->device_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_non_null(strstr(nt__device_text(engine, i), (const char[]){(char)('0' + i), 0}));
        for (int j = 0; j < i; j++) assert_string_not_equal(nt__device_text(engine, i), nt__device_text(engine, j));
    }
    assert_string_equal(nt__device_text(engine, 3), "no device");
    assert_string_equal(nt__device_text(engine, -1), "no device");
    assert_ok(nt__engine_close());
    assert_string_equal(nt__device_text(engine, 0), "no device");
}

static void opens_once(void **state) {
    (void)state;
    nt__engine *again;
    assert_ok(nt__engine_open(2, &engine));
    assert_ok(nt__engine_open(2, &again));
    assert_ptr_equal(engine, again);
    assert_failed(nt__engine_open(3, &again), NT_INVALID, "open with 2 devices", "now 3");
    assert_null(again);
    assert_ok(nt__engine_close());
}

static void opens_again_after_a_close(void **state) {
    (void)state;
    for (int devices = 1; devices <= 3; devices++) {
        assert_ok(nt__engine_open(devices, &engine));
        assert_int_equal(nt__engine_facts_of(engine)->device_count, devices);
        assert_ok(nt__engine_close());
    }
}

static void a_closed_engine_is_an_error(void **state) {
    (void)state;
    nt__buffer buffer = {0};
    const float value = 1;
    nt__type type = type_of(NT_F32, nt_dims(1));
    assert_ok(nt__engine_open(1, &engine));
    assert_ok(nt__engine_close());
    assert_failed(nt__buffer_upload(engine, 0, "x", NT__BATCH, type, &value, &buffer), NT_INVALID, "uploading 'x'",
                  "closed", "nt__engine_open");
    assert_failed(nt__buffer_upload(NULL, 0, "x", NT__BATCH, type, &value, &buffer), NT_INVALID, "no engine (NULL)");
}

static const char identity[] = "module @identity {\n"
                               "  func.func public @main(%arg0: tensor<1xf32>) -> tensor<1xf32> {\n"
                               "    return %arg0 : tensor<1xf32>\n"
                               "  }\n"
                               "}\n";

static void refuses_to_close_while_something_lives(void **state) {
    (void)state;
    const float value = 1;
    nt__buffer a = {0}, b = {0}, c = {0};
    nt__port port = {.name = "x", .type = type_of(NT_F32, nt_dims(1)), .purpose = NT__OUTPUT, .donated_to = -1};
    nt__signature signature = {.arguments = &port, .argument_count = 1, .results = &port, .result_count = 1};
    nt__executable *executable;
    assert_ok(nt__engine_open(1, &engine));
    upload_floats("a", NT__PARAMETERS, &value, 1, &a);
    upload_floats("b", NT__PARAMETERS, &value, 1, &b);
    upload_floats("c", NT__STAGED, &value, 1, &c);
    assert_ok(compile("identity", identity, &signature, &executable));
    assert_failed(nt__engine_close(), NT_INVALID, "2 parameters", "1 staged batch", "1 executables");
    nt__buffer_free(&a);
    nt__buffer_free(&b);
    nt__buffer_free(&c);
    assert_failed(nt__engine_close(), NT_INVALID, "alive on the devices: 1 executables;");
    nt__executable_free(&executable);
    assert_null(executable);
    assert_ok(nt__engine_close());
}

/* Every allocation of an open, one after the other, fails once. */
static void survives_failing_allocations(void **state) {
    (void)state;
    size_t failures = 0;
    for (;; failures++) {
        nt__memory_fail_at(failures + 1);
        nt_status status = nt__engine_open(2, &engine);
        nt__memory_fail_at(0);
        if (status == NT_OK) break;
        assert_failed(status, NT_OUT_OF_MEMORY, "memory");
        assert_null(engine);
        assert_int_equal(nt__memory().live, 0);
    }
    assert_true(failures > 0);
    assert_ok(nt__engine_close());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_impossible_device_counts),
        cmocka_unit_test(closing_what_is_not_open_is_fine),
        cmocka_unit_test(tells_facts),
        cmocka_unit_test(names_devices),
        cmocka_unit_test(opens_once),
        cmocka_unit_test(opens_again_after_a_close),
        cmocka_unit_test(a_closed_engine_is_an_error),
        cmocka_unit_test(refuses_to_close_while_something_lives),
        cmocka_unit_test(survives_failing_allocations),
    };
    return cmocka_run_group_tests_name("engine", tests, NULL, close_engine);
}
