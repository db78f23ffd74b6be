/* nitro devices: it opens the engine and says what it is; the allocator is the one the command was linked with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "command.h"

#if defined(__SANITIZE_ADDRESS__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_SANITIZED 1
#endif
#endif

#ifdef IS_SANITIZED
static const char allocator[] = "  allocator  the C library's\n";
#else
static const char allocator[] = "  allocator  tcmalloc\n";
#endif

static void the_engine_is_described(void **state) {
    (void)state;
    char plugin[SCRATCH_PATH];
    int major = 0, minor = 0;
    const ended *e = nitro("devices");
    assert_int_equal(e->code, 0);
    snprintf(plugin, sizeof plugin, "  plugin     %s\n", getenv("NITRO_PLUGIN"));
    assert_has(e->out, plugin, "  platform   cpu", "  StableHLO  ", "  devices    ", allocator);
    const char *api = strstr(e->out, "  PJRT API   ");
    assert_non_null(api);
    assert_int_equal(sscanf(api, "  PJRT API   %d.%d", &major, &minor), 2);
    assert_true(major > 0 || minor > 0);
}

static void a_plugin_that_is_not_there_is_a_failure(void **state) {
    (void)state;
    char before[SCRATCH_PATH];
    snprintf(before, sizeof before, "%s", getenv("NITRO_PLUGIN"));
    setenv("NITRO_PLUGIN", scratch("absent.so"), 1);
    const ended *e = nitro("devices");
    setenv("NITRO_PLUGIN", before, 1);
    assert_int_equal(e->code, 1);
    assert_has(e->err, "nitro: ", "absent.so");
    assert_string_equal(e->out, "");
}

/* The engine would end the process. */
static void unknown_engine_flags_are_refused(void **state) {
    (void)state;
    setenv("XLA_FLAGS", "--no_such_flag", 1);
    const ended *e = nitro("devices");
    assert_int_equal(e->code, 1);
    assert_has(e->err, "nitro: ", "XLA_FLAGS='--no_such_flag'", "correct or unset it");
    static const char outside[] = "--xla_cpu_enable_fast_math=false\t--xla_cpu_parallel_codegen_split_count=-1";
    put_text("flags", outside);
    for (int in_file = 0; in_file < 2; in_file++) {
        setenv("XLA_FLAGS", in_file ? scratch("flags") : outside, 1);
        e = nitro("devices");
        assert_int_equal(e->code, 1);
        assert_has(e->err, "XLA_FLAGS 'xla_cpu_parallel_codegen_split_count' is -1, and must be a whole number from 1");
    }
    setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false --xla_cpu_parallel_codegen_split_count=4", 1);
    e = nitro("devices");
    unsetenv("XLA_FLAGS");
    assert_int_equal(e->code, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_engine_is_described),
        cmocka_unit_test(a_plugin_that_is_not_there_is_a_failure),
        cmocka_unit_test(unknown_engine_flags_are_refused),
    };
    return cmocka_run_group_tests_name("devices", tests, command_make, scratch_remove);
}
