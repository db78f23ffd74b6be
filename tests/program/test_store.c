/* src/program: the disk after the process's cache, and the limit of the cache, on the fake plugin: whatever fails
 * there is a compile with a reason, and never the end of a run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/resource.h>

#include "../fake/fake.h"
#include "base/files.h"
#include "../xla/engine.h"
#include "disk/disk.h"
#include "program/program.h"

/* ---- programs of one vector ------------------------------------------------------------------------------------- */

typedef struct plan {
    int64_t size; /* 0: 3 */
    const char *options;
    bool loud, no_disk;
} plan;

/* x + 1, which takes the memory of x. */
static nt__printed print_plan(const plan *p, nt__port *port) {
    nt__graph *graph = nt__trace_begin();
    assert_non_null(graph);
    nt_tensor x = nt__input(0, 0, "x", (nt__type){NT_F32, nt_dims(p->size ? p->size : 3)}), y = nt_add(x, 1);
    *port = (nt__port){"y", {nt_dtype_of(y), nt_shape_of(y)}, NT__OUTPUT, -1};
    nt__printed printed;
    assert_ok(nt__print("test", &(nt__result){"y", y, x}, 1, &printed));
    nt__trace_end(graph);
    return printed;
}

static nt_status try_program(const plan *p, nt__printed *printed, const nt__port *port, nt__program **out) {
    char shape[32];
    snprintf(shape, sizeof shape, "f32[%lld]", (long long)(p->size ? p->size : 3));
    nt__part part = {"field x", shape};
    nt__options *options;
    nt_status status = nt__options_read(&p->options, p->options ? 1 : 0, &options);
    if (status != NT_OK) {
        nt__printed_free(printed);
        return status;
    }
    nt__program_spec spec = {.role = "gradient",
                             .experiment = "Toy",
                             .results = port,
                             .result_count = 1,
                             .parts = &part,
                             .part_count = 1,
                             .options = options,
                             .quiet = !p->loud,
                             .no_disk = p->no_disk};
    status = nt__program_new(engine, &spec, printed, out);
    nt__options_free(options);
    return status;
}

static nt__program *program_of(plan p) {
    nt__port port;
    nt__printed printed = print_plan(&p, &port);
    nt__program *program = NULL;
    assert_ok(try_program(&p, &printed, &port, &program));
    return program;
}

/* Makes a program ready and lets it go. */
static void prepare(plan p) {
    nt__program *program = program_of(p);
    assert_ok(nt__program_ready(program));
    nt__program_free(program);
}
#define ready(...) prepare((plan){__VA_ARGS__})

/* The same as in another process, which the reset makes of this one. */
#define ready_afresh(...) (nt_cache_reset(), ready(__VA_ARGS__))

static void run_once(nt__program *program) {
    nt__buffer x = {0};
    upload_floats("x", NT__PARAMETERS, (float[]){1, 2, 3}, 3, &x);
    assert_ok(nt__program_run(program, (nt__buffer *[]){&x}, (nt__buffer *[]){&x}));
    assert_int_equal(x.state, NT__BUFFER_ALIVE);
    nt__buffer_free(&x);
}

/* ---- what was counted ------------------------------------------------------------------------------------------- */

static void assert_counts(uint64_t compiled, uint64_t loaded, uint64_t refused) {
    nt_cache_stats_t stats = nt_cache_stats();
    assert_int_equal(stats.misses, compiled);
    assert_int_equal(stats.disk_hits, loaded);
    assert_int_equal(stats.disk_refused, refused);
    assert_int_equal(stats.entries + stats.dropped, compiled + loaded);
    assert_true((stats.compile_seconds > 0) == (compiled > 0));
    assert_true((stats.load_seconds > 0) == (loaded > 0));
}

static void assert_reported(size_t index, const char *moved, const char *disk) {
    const nt_cache_report_t *report = nt_cache_report(index);
    assert_non_null(report);
    if (!strstr(report->moved, moved) || !strstr(report->disk, disk))
        fail_msg("report %zu: moved '%s', disk '%s'", index, report->moved, report->disk);
    if (!*disk) assert_string_equal(report->disk, "");
}

typedef struct heard {
    int count;
    char lines[16][512];
} heard;

static heard said;

static void hear(const char *line, void *context) {
    (void)context;
    nt_cache_stats(); /* the cache is not locked */
    if (said.count < 16) snprintf(said.lines[said.count], sizeof said.lines[0], "%s", line);
    said.count++;
}

static void assert_said(int index, const char *part) {
    assert_true(index < said.count);
    if (!strstr(said.lines[index], part)) fail_msg("line %d is '%s'", index, said.lines[index]);
}

static nt__disk disk;

static size_t programs_on_disk(void) {
    nt__disk_file *files;
    size_t count;
    assert_ok(nt__disk_files(&disk, nt__disk_program_ending, &files, &count));
    nt__free(files);
    return count;
}

static void damage_programs(void) {
    nt__disk_file *files;
    size_t count;
    char path[2 * SCRATCH_PATH];
    assert_ok(nt__disk_files(&disk, nt__disk_program_ending, &files, &count));
    for (size_t i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", disk.folder, files[i].name);
        FILE *file = fopen(path, "r+b");
        assert_non_null(file);
        assert_int_equal(fseek(file, -1, SEEK_END), 0);
        int last = fgetc(file);
        assert_int_equal(fseek(file, -1, SEEK_END), 0);
        fputc(last ^ 1, file);
        assert_int_equal(fclose(file), 0);
    }
    nt__free(files);
}

static void remove_programs(void) {
    nt__disk_file *files;
    size_t count;
    assert_ok(nt__disk_files(&disk, nt__disk_program_ending, &files, &count));
    for (size_t i = 0; i < count; i++) assert_true(nt__disk_remove(&disk, files[i].name));
    nt__free(files);
}

static void begin(void) {
    nt_set_notice(hear, NULL);
    setenv("NITRO_CACHE_DIR", scratch("cache"), 1);
    unsetenv("NITRO_CACHE_SIZE");
    assert_ok(nt__disk_open(true, &disk));
    assert_non_null(disk.folder);
    assert_ok(nt__engine_open(1, &engine));
}

static void end(void) {
    nt_cache_reset();
    nt__disk_close(&disk);
    assert_ok(nt__engine_close());
    assert_nothing_alive_now();
    assert_int_equal(nt__memory().live, 0);
}

/* ---- a second process ------------------------------------------------------------------------------------------- */

static void the_next_one_loads(void **state) {
    (void)state;
    begin();
    nt__program *program = program_of((plan){.loud = true});
    run_once(program);
    nt__program_free(program);
    assert_counts(1, 0, 0);
    assert_reported(0, "first program of its kind", "");
    assert_int_equal(said.count, 1);
    nt_cache_reset();
    program = program_of((plan){.loud = true});
    for (int i = 0; i < 3; i++) run_once(program);
    nt__program_free(program);
    assert_counts(0, 1, 0);
    assert_null(nt_cache_report(0));
    assert_int_equal(said.count, 1);
    assert_int_equal(fake_count("compiles"), 1);
    assert_int_equal(fake_count("loads"), 1);
    assert_int_equal(fake_count("saves"), 1);
    assert_int_equal(nt__engine_counts_now().loads, 1);
    assert_int_equal(nt__engine_counts_now().compiles, 1);
    /* In the process it is a hit as always. */
    ready();
    assert_int_equal(nt_cache_stats().hits, 1);
    assert_counts(0, 1, 0);
    end();
}

static void what_is_loaded_is_not_saved_again(void **state) {
    (void)state;
    begin();
    uint8_t *bytes;
    size_t length;
    nt__executable *executable, *loaded, *none;
    static const char text[] = "module {\n  func.func public @main(%arg0: tensor<f32>) -> tensor<f32> {\n";
    static const nt__port x = {"x", {NT_F32, {0}}, NT__OUTPUT, -1};
    const nt__signature signature = {&x, 1, &x, 1};
    assert_ok(compile("one", text, &signature, &executable));
    assert_ok(nt__executable_save(executable, &bytes, &length));
    assert_ok(nt__executable_load(engine, "two", bytes, length, &signature, &loaded));
    nt__free(bytes);
    assert_failed(nt__executable_save(loaded, &bytes, &length), NT_INVALID, "saving 'two'", "it was loaded");
    assert_null(bytes);
    assert_failed(nt__executable_load(engine, "three", NULL, 0, &signature, &none), NT_INVALID, "no saved bytes");
    assert_null(none);
    nt__executable_free(&executable);
    assert_int_equal(nt__engine_counts_now().executables.live_count, 1);
    nt__executable_free(&loaded);
    end();
}

/* What moved is told across processes too. */
static void what_moved_is_known_across_processes(void **state) {
    (void)state;
    begin();
    ready(.size = 3);
    ready_afresh(.size = 4, .loud = true);
    assert_counts(1, 0, 0);
    assert_reported(0, "field x: f32[3] -> f32[4]", "");
    assert_said(0, "compiled gradient of Toy in ");
    assert_said(0, "(field x: f32[3] -> f32[4]); 1 program, ");
    ready_afresh(.size = 4, .options = "xla_a=1");
    assert_counts(1, 0, 0);
    assert_reported(0, "compile options: none -> xla_a=1", "");
    ready_afresh(.size = 4, .options = "xla_a=2");
    assert_reported(0, "compile options: xla_a=1 -> xla_a=2", "");
    assert_int_equal(programs_on_disk(), 4);
    end();
}

/* Nothing moved, and the program is compiled all the same. */
static void a_program_that_was_removed_is_the_same_program(void **state) {
    (void)state;
    begin();
    ready();
    remove_programs();
    ready_afresh(.loud = true);
    assert_counts(1, 0, 0);
    assert_reported(0, "the same program, which was not found compiled", "");
    assert_said(0, "(the same program, which was not found compiled); 1 program, ");
    end();
}

static void what_asks_for_no_disk_gets_none(void **state) {
    (void)state;
    begin();
    ready(.no_disk = true);
    ready_afresh(.options = "xla_dump_to=\"/nowhere\"");
    assert_counts(1, 0, 0);
    assert_int_equal(programs_on_disk(), 0);
    ready();
    ready_afresh(.no_disk = true);
    assert_counts(1, 0, 0);
    setenv("NITRO_CACHE_SIZE", "0", 1);
    ready_afresh(.loud = true);
    assert_counts(1, 0, 0);
    assert_int_equal(said.count, 1);
    end();
}

/* ---- failures --------------------------------------------------------------------------------------------------- */

static void a_damaged_program_is_compiled_and_replaced(void **state) {
    (void)state;
    begin();
    ready();
    damage_programs();
    ready_afresh(.loud = true);
    assert_counts(1, 0, 1);
    assert_reported(0, "the same program, which was not found compiled",
                    "the saved one is not used: its checksum is wrong");
    assert_said(0, "; on disk: the saved one is not used: its checksum is wrong); 1 program");
    assert_int_equal(programs_on_disk(), 1);
    ready_afresh();
    assert_counts(0, 1, 0);
    end();
}

/* The settings let the first load fail: with an error, for lack of the device's memory. */
static void a_refused_program_is_compiled_and_replaced(void **state) {
    (void)state;
    begin();
    ready();
    ready_afresh();
    assert_counts(1, 0, 1);
    assert_reported(0, "", "the saved one was refused: loading 'gradient of Toy': engine error");
    assert_string_equal(nt_error_message(), "");
    assert_int_equal(programs_on_disk(), 1);
    ready_afresh();
    assert_counts(0, 1, 0);
    end();
}

static void another_shape_of_the_result_is_refused(void **state) {
    (void)state;
    setenv("NITRO_FAKE", "", 1);
    begin();
    ready();
    nt_cache_reset();
    assert_ok(nt__engine_close());
    setenv("NITRO_FAKE", "result-shape", 1);
    assert_ok(nt__engine_open(1, &engine));
    nt__program *program = program_of((plan){0});
    assert_failed(nt__program_ready(program), NT_INVALID, "compiling 'gradient of Toy': result 0 'y' is f32[3]");
    nt__program_free(program);
    assert_counts(0, 0, 0);
    assert_int_equal(programs_on_disk(), 0);
    end();
}

static void a_save_that_fails_is_told_once(void **state) {
    (void)state;
    begin();
    ready(.size = 3, .loud = true);
    ready(.size = 4, .loud = true);
    assert_counts(2, 0, 0);
    assert_int_equal(said.count, 3);
    assert_said(0, "a compiled program is not kept on disk: saving 'gradient of Toy': engine error");
    assert_int_equal(programs_on_disk(), 0);
    assert_string_equal(nt_error_message(), "");
    end();
}

static void a_plugin_that_cannot_save_is_no_notice(void **state) {
    (void)state;
    begin();
    assert_non_null(strstr(nt__engine_cannot_save(engine), "the plugin has no PJRT_Executable_"));
    ready(.loud = true);
    ready_afresh();
    assert_counts(1, 0, 0);
    assert_int_equal(said.count, 1);
    assert_int_equal(programs_on_disk(), 0);
    assert_int_equal(fake_count("saves"), 0);
    end();
}

static void a_full_disk_is_told_once(void **state) {
    (void)state;
    struct rlimit before, now;
    begin();
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    now = before;
    now.rlim_cur = 64;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
    ready(.size = 3, .loud = true);
    ready(.size = 4, .loud = true);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_counts(2, 0, 0);
    assert_int_equal(said.count, 3);
    assert_said(0, "a compiled program is not kept on disk: writing ");
    assert_int_equal(programs_on_disk(), 0);
    ready_afresh();
    ready_afresh();
    assert_counts(0, 1, 0);
    end();
}

static void a_folder_of_others_is_told_once(void **state) {
    (void)state;
    begin();
    ready();
    chmod(disk.folder, 0777);
    nt_cache_reset();
    ready(.size = 3, .loud = true);
    ready(.size = 4, .loud = true);
    assert_counts(2, 0, 0);
    assert_int_equal(said.count, 3);
    assert_said(0, "compiled programs are not kept on disk: others may write into the folder");
    assert_int_equal(programs_on_disk(), 1);
    end();
}

static uint64_t bytes_on_disk(void) {
    nt__disk_file *files;
    size_t count;
    uint64_t bytes = 0;
    assert_ok(nt__disk_files(&disk, NULL, &files, &count));
    for (size_t i = 0; i < count; i++) bytes += files[i].bytes;
    nt__free(files);
    return bytes;
}

/* What is told of the programs is within the limit too, and gives way to them. */
static void all_files_are_within_the_limit(void **state) {
    (void)state;
    char limit[32];
    begin();
    ready();
    uint64_t all = bytes_on_disk();
    for (uint64_t less = 0; less < 2; less++) {
        snprintf(limit, sizeof limit, "%llu", (unsigned long long)(all - less));
        setenv("NITRO_CACHE_SIZE", limit, 1);
        remove_programs();
        ready_afresh();
        assert_counts(1, 0, 0);
        assert_true(bytes_on_disk() <= all - less);
        assert_int_equal(programs_on_disk(), 1);
    }
    end();
}

static void a_program_that_is_larger_than_the_limit_is_told(void **state) {
    (void)state;
    setenv("NITRO_CACHE_SIZE", "100", 1);
    nt_set_notice(hear, NULL);
    setenv("NITRO_CACHE_DIR", scratch("cache"), 1);
    assert_ok(nt__engine_open(1, &engine));
    ready(.loud = true);
    assert_counts(1, 0, 0);
    assert_said(0, "a compiled program is not kept on disk: 'gradient' has ");
    end();
}

/* Ends with the code of the child, or 128 and its signal. */
static int in_child(void (*work)(void)) {
    int how;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        work();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    return WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
}

static void work_usually(void) {
    setenv("NITRO_FAKE", "", 1);
    begin();
    ready();
    nt_cache_stats_t stats = nt_cache_stats();
    _exit(stats.misses == 1 ? 0 : stats.disk_hits == 1 ? 1 : 2);
}

static void work_and_end_in_load(void) {
    signal(SIGABRT, SIG_DFL);
    setenv("NITRO_FAKE", "load=abort", 1);
    begin();
    ready();
}

/* Should the engine end the process while it loads a program, it does so once. */
static void a_program_that_ends_the_process_does_so_once(void **state) {
    (void)state;
    assert_int_equal(in_child(work_usually), 0);
    assert_int_equal(in_child(work_usually), 1);
    assert_int_equal(in_child(work_and_end_in_load), 128 + SIGABRT);
    assert_int_equal(in_child(work_usually), 0);
    assert_int_equal(in_child(work_usually), 1);
    begin();
    ready();
    assert_counts(0, 1, 0);
    end();
}

/* The content of the plugin counts, not its name or time: another one compiles, a copy does not. */
static char plugin_copy[SCRATCH_PATH];

static void copy_plugin(const char *to, bool longer) {
    char *data;
    size_t length;
    assert_ok(nt__read_file(getenv("NITRO_PLUGIN"), &data, &length));
    assert_ok(nt__write_file_pieces(to, (nt__piece[]){{data, length}, {"x", 1}}, longer ? 2 : 1));
    nt__free(data);
}

static void work_with_copy(void) {
    setenv("NITRO_PLUGIN", plugin_copy, 1);
    work_usually();
}

static void another_plugin_compiles_and_a_copy_does_not(void **state) {
    (void)state;
    snprintf(plugin_copy, sizeof plugin_copy, "%s", scratch("copy.so"));
    assert_int_equal(in_child(work_usually), 0);
    copy_plugin(plugin_copy, false);
    assert_int_equal(in_child(work_with_copy), 1);
    copy_plugin(plugin_copy, true);
    assert_int_equal(in_child(work_with_copy), 0);
    assert_int_equal(in_child(work_with_copy), 1);
    begin();
    assert_int_equal(programs_on_disk(), 2);
    ready();
    assert_counts(0, 1, 0);
    end();
}

/* ---- short memory ----------------------------------------------------------------------------------------------- */

static size_t allocations; /* of the last try */

static bool fails_at(size_t n, const plan *p) {
    nt__port port;
    nt__program *program = NULL;
    nt__printed printed = print_plan(p, &port);
    nt_cache_reset();
    size_t start = nt__memory().total;
    nt__memory_fail_at(n);
    nt_status status = try_program(p, &printed, &port, &program);
    if (status == NT_OK) status = nt__program_ready(program);
    nt__memory_fail_at(0);
    allocations = nt__memory().total - start;
    if (status != NT_OK) {
        assert_failed(status, NT_OUT_OF_MEMORY, "out of host memory");
        assert_counts(0, 0, 0);
        assert_null(nt_cache_report(0));
    }
    if (program) run_once(program);
    nt__program_free(program);
    nt_cache_reset();
    return status != NT_OK;
}

static void short_memory_leaves_nothing(void **state) {
    (void)state;
    begin();
    const plan p = {.options = "xla_a=1"};
    size_t before = nt__memory().live, n = 1, loads;
    /* On the way to a compile: what was kept is removed each time. */
    for (bool failed = true; failed; n++) {
        nt__disk_file *files;
        size_t count;
        assert_ok(nt__disk_files(&disk, NULL, &files, &count));
        for (size_t i = 0; i < count; i++) nt__disk_remove(&disk, files[i].name);
        nt__free(files);
        failed = fails_at(n, &p);
        assert_int_equal(nt__memory().live, before);
    }
    assert_true(n > allocations);
    /* On the way to a load. */
    for (loads = 1; fails_at(loads, &p); loads++) assert_int_equal(nt__memory().live, before);
    assert_true(loads > allocations);
    end();
}

/* ---- the limit of the process's cache --------------------------------------------------------------------------- */

/* 1,000 shapes. */
static void what_nobody_uses_is_bounded(void **state) {
    (void)state;
    enum { SHAPES = 1000, LIMIT = 8 };
    setenv("NITRO_CACHE_SIZE", "0", 1);
    nt_set_notice(hear, NULL);
    assert_ok(nt__engine_open(1, &engine));
    nt_cache_set_limit(LIMIT);
    nt__program *held = program_of((plan){.size = 3});
    run_once(held);
    for (int i = 0; i < SHAPES; i++) {
        ready(.size = 10 + i, .loud = i >= SHAPES / 2);
        assert_true(nt_cache_stats().entries <= LIMIT + 1);
        assert_true(nt__engine_counts_now().executables.live_count <= LIMIT + 1);
    }
    nt_cache_stats_t stats = nt_cache_stats();
    assert_int_equal(stats.misses, SHAPES + 1);
    assert_int_equal(stats.entries, LIMIT + 1);
    assert_int_equal(stats.dropped, SHAPES - LIMIT);
    /* The reports say which shapes there were, and which are gone. */
    assert_string_equal(nt_cache_report(SHAPES)->moved, "field x: f32[1008] -> f32[1009]");
    assert_false(nt_cache_report(0)->dropped);
    for (size_t i = 1; i <= SHAPES; i++) assert_int_equal(nt_cache_report(i)->dropped, i <= SHAPES - LIMIT);
    run_once(held);
    ready(.size = 10 + SHAPES - 1);
    assert_int_equal(nt_cache_stats().hits, 1);
    nt__program_free(held);
    assert_int_equal(nt_cache_stats().entries, LIMIT);
    /* Told once, when the first one goes that is not quiet. */
    assert_int_equal(said.count, SHAPES / 2 + 1);
    assert_said(1, "8 compiled programs are held that no run uses, as many as the limit: those used longest ago are "
                   "dropped, first gradient of Toy (field x: f32[501] -> f32[502])");
    nt_cache_set_limit(0);
    assert_int_equal(nt_cache_stats().entries, 0);
    nt_cache_set_limit(256);
    end();
}

static void the_one_used_longest_ago_goes_first(void **state) {
    (void)state;
    setenv("NITRO_CACHE_SIZE", "0", 1);
    nt_set_notice(hear, NULL);
    assert_ok(nt__engine_open(1, &engine));
    nt_cache_set_limit(2);
    ready(.size = 10);
    ready(.size = 11);
    ready(.size = 10);
    ready(.size = 12, .loud = true);
    assert_true(nt_cache_report(1)->dropped);
    assert_false(nt_cache_report(0)->dropped);
    ready(.size = 10);
    assert_int_equal(nt_cache_stats().hits, 2);
    ready(.size = 11);
    assert_int_equal(nt_cache_stats().misses, 4);
    nt_cache_set_limit(256);
    end();
}

int main(int argc, char **argv) {
    static const fake_case cases[] = {
        {"the next one loads", "", the_next_one_loads},
        {"older version", "api=0.40", the_next_one_loads},
        {"loaded is not saved", "", what_is_loaded_is_not_saved_again},
        {"what moved", "", what_moved_is_known_across_processes},
        {"removed", "", a_program_that_was_removed_is_the_same_program},
        {"no disk asked for", "", what_asks_for_no_disk_gets_none},
        {"damaged", "", a_damaged_program_is_compiled_and_replaced},
        {"load error", "load=error@1", a_refused_program_is_compiled_and_replaced},
        {"load refused", "load=refused@1", a_refused_program_is_compiled_and_replaced},
        {"load oom", "load=oom@1", a_refused_program_is_compiled_and_replaced},
        {"other result shape", "", another_shape_of_the_result_is_refused},
        {"save error", "save=error", a_save_that_fails_is_told_once},
        {"no save", "missing=PJRT_Executable_Serialize", a_plugin_that_cannot_save_is_no_notice},
        {"no load", "missing=PJRT_Executable_DeserializeAndLoad", a_plugin_that_cannot_save_is_no_notice},
        {"full disk", "", a_full_disk_is_told_once},
        {"folder of others", "", a_folder_of_others_is_told_once},
        {"all within the limit", "", all_files_are_within_the_limit},
        {"too large", "", a_program_that_is_larger_than_the_limit_is_told},
        {"load ends the process", "", a_program_that_ends_the_process_does_so_once},
        {"another plugin", "", another_plugin_compiles_and_a_copy_does_not},
        {"short memory", "", short_memory_leaves_nothing},
        {"1,000 shapes", "", what_nobody_uses_is_bounded},
        {"longest ago", "", the_one_used_longest_ago_goes_first},
    };
    return fake_main(argc, argv, cases, COUNT_OF(cases));
}
