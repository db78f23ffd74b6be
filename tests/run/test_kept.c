/* Runs with programs from the disk, and with compile options: a second process compiles nothing and computes the same
 * bits with the same buffers; options are part of the key.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/wait.h>

#include "toy.h"
#include "base/files.h"

/* ---- a training ------------------------------------------------------------------------------------------------- */

enum { EPOCHS = 3, STEPS = 8 * EPOCHS, PROGRAMS = 4 };

/* What a training leaves after. */
typedef struct outcome {
    nt_cache_stats_t stats;
    double losses[STEPS], accuracy;
    float bias[2];
    uint64_t live_at_2, bytes_at_2, live_at_end, bytes_at_end, peak_bytes;
} outcome;

static nt_status try_training(const nt_run_options *given, heard *h, outcome *out) {
    Toy e = Toy_defaults();
    nt_run_options options = *given;
    nt_run *run;
    nt_results results;
    options.no_log = options.quiet = true;
    options.max_epochs = (nt_maybe_int){true, EPOCHS};
    options.on_event = listen;
    options.event_context = h;
    nt_status status = nt_run_new(Toy_experiment(), &e, &options, &run);
    if (status != NT_OK) return status;
    assert_ok(nt_train(run));
    assert_ok(nt_validate(run, &results));
    out->accuracy = results.values[0].value;
    nt_array *bias = nt_run_parameter(run, "logits.bias");
    assert_non_null(bias);
    memcpy(out->bias, bias->data, sizeof out->bias);
    nt_array_free(bias);
    out->live_at_end = nt__engine_counts_now().all_buffers.live_count;
    out->bytes_at_end = nt__engine_counts_now().all_buffers.live_bytes;
    nt_run_free(run);
    return NT_OK;
}

/* A process of its own would start with a fresh cache: so does each training here. */
static outcome training(const nt_run_options *options) {
    outcome out = {0};
    heard *h = calloc(1, sizeof *h);
    assert_non_null(h);
    assert_ok(try_training(options, h, &out));
    assert_int_equal(h->count, STEPS);
    memcpy(out.losses, h->losses, sizeof out.losses);
    nt__engine_counts at_end = nt__engine_counts_now();
    for (int purpose = 0; purpose < NT__PURPOSE_COUNT; purpose++) {
        /* How many batches lie ready at a moment depends on the threads. */
        if (purpose == NT__BATCH || purpose == NT__STAGED) continue;
        out.live_at_2 += h->at_step_2.buffers[purpose].live_count;
        out.bytes_at_2 += h->at_step_2.buffers[purpose].live_bytes;
        out.peak_bytes += at_end.buffers[purpose].peak_bytes;
    }
    out.stats = nt_cache_stats();
    free(h);
    return out;
}

static void assert_same_bits(const outcome *a, const outcome *b) {
    assert_memory_equal(a->losses, b->losses, sizeof a->losses);
    assert_memory_equal(a->bias, b->bias, sizeof a->bias);
    assert_true(a->accuracy == b->accuracy);
}

static void assert_same_buffers(const outcome *a, const outcome *b) {
    assert_int_equal(a->live_at_2, b->live_at_2);
    assert_int_equal(a->bytes_at_2, b->bytes_at_2);
    assert_int_equal(a->live_at_end, b->live_at_end);
    assert_int_equal(a->bytes_at_end, b->bytes_at_end);
    assert_int_equal(a->peak_bytes, b->peak_bytes);
}

static const nt_run_options usual;
static outcome first; /* of another process, which found no program on disk */

/* Runs before the engine is opened, because a process with an engine must not fork. */
static int train_in_another_process(void **state) {
    if (scratch_make(state) != 0) return -1;
    setenv("NITRO_CACHE_DIR", scratch("cache"), 1);
    unsetenv("NITRO_CACHE_SIZE");
    const char *path = scratch("first");
    pid_t child = fork();
    if (child == 0) {
        first = training(&usual);
        FILE *file = fopen(path, "wb");
        bool written = file && fwrite(&first, sizeof first, 1, file) == 1 && fclose(file) == 0;
        _exit(written && nt_shutdown() == NT_OK ? 0 : 1);
    }
    int how = -1;
    FILE *file = child > 0 && waitpid(child, &how, 0) == child && how == 0 ? fopen(path, "rb") : NULL;
    bool read = file && fread(&first, sizeof first, 1, file) == 1;
    if (file) fclose(file);
    return read ? 0 : -1;
}

static int end_all(void **state) {
    return shut_down(state) == 0 && scratch_remove(state) == 0 ? 0 : -1;
}

static int start_afresh(void **state) {
    (void)state;
    nt_cache_reset();
    setenv("NITRO_CACHE_DIR", scratch("cache"), 1);
    unsetenv("NITRO_CACHE_SIZE");
    return 0;
}

/* ---- from the disk ---------------------------------------------------------------------------------------------- */

/* Donation works in what was loaded: the buffers alive are the same, step by step and at the peak. */
static void a_new_process_compiles_nothing_and_computes_the_same(void **state) {
    (void)state;
    assert_int_equal(first.stats.misses, PROGRAMS);
    assert_int_equal(first.stats.disk_hits, 0);
    outcome second = training(&usual);
    assert_int_equal(second.stats.misses, 0);
    assert_int_equal(second.stats.disk_hits, PROGRAMS);
    assert_int_equal(second.stats.disk_refused, 0);
    assert_int_equal(second.stats.entries, PROGRAMS);
    assert_int_equal(nt__engine_counts_now().compiles, 0);
    assert_int_equal(nt__engine_counts_now().loads, PROGRAMS);
    assert_same_bits(&first, &second);
    assert_same_buffers(&first, &second);
    /* In the same process the programs are there. */
    outcome third = training(&usual);
    assert_int_equal(third.stats.misses + third.stats.disk_hits, PROGRAMS);
    assert_int_equal(third.stats.hits, PROGRAMS);
    assert_same_bits(&first, &third);
}

static void the_counters_tell_it(void **state) {
    (void)state;
    char *text;
    size_t length;
    training(&usual);
    assert_ok(nt_stats_write(scratch("stats.json")));
    assert_ok(nt__read_file(scratch("stats.json"), &text, &length));
    assert_non_null(strstr(text, "\"disk_hits\": 4"));
    assert_non_null(strstr(text, "\"misses\": 0"));
    assert_non_null(strstr(text, "\"disk_refused\": 0"));
    nt__free(text);
}

static void without_the_disk_all_is_compiled(void **state) {
    (void)state;
    outcome out = training(&(nt_run_options){.no_disk_cache = true});
    assert_int_equal(out.stats.misses, PROGRAMS);
    assert_int_equal(out.stats.disk_hits, 0);
    assert_same_bits(&first, &out);
}

/* ---- damage ----------------------------------------------------------------------------------------------------- */

enum { HEAD = 120, MOST_FILES = 16 };

static size_t list_programs(char names[MOST_FILES][SCRATCH_PATH]) {
    char folder[SCRATCH_PATH];
    size_t count = 0;
    snprintf(folder, sizeof folder, "%s", scratch("cache/programs"));
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries));) {
        size_t length = strlen(entry->d_name);
        if (length < 8 || strcmp(entry->d_name + length - 8, ".program") != 0) continue;
        assert_true(count < MOST_FILES);
        snprintf(names[count++], SCRATCH_PATH, "%.2000s/%.255s", folder, entry->d_name);
    }
    closedir(entries);
    return count;
}

static void change_byte(const char *path, double where) {
    char *data;
    size_t length;
    assert_ok(nt__read_file(path, &data, &length));
    data[HEAD + (size_t)((double)(length - HEAD - 1) * where)] ^= 0x10;
    assert_ok(nt__write_file(path, data, length));
    nt__free(data);
}

static void cut(const char *path, double where) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, (off_t)((double)info.st_size * where)), 0);
}

/* What would end a process, or load in silence and compute something else, is compiled again, and is right again. */
static void damaged_programs_are_compiled_again(void **state) {
    (void)state;
    static const struct {
        void (*damage)(const char *path, double where);
        double where;
    } damages[] = {{change_byte, 0}, {change_byte, 0.5}, {change_byte, 1}, {cut, 0}, {cut, 0.4}, {cut, 0.99}};
    char names[MOST_FILES][SCRATCH_PATH];
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        size_t count = list_programs(names);
        assert_int_equal(count, PROGRAMS);
        for (size_t n = 0; n < count; n++) damages[i].damage(names[n], damages[i].where);
        nt_cache_reset();
        outcome out = training(&usual);
        assert_int_equal(out.stats.misses, PROGRAMS);
        assert_int_equal(out.stats.disk_refused, PROGRAMS);
        for (size_t n = 0; n < PROGRAMS; n++)
            assert_non_null(strstr(nt_cache_report(n)->disk, "the saved one is not used: "));
        assert_same_bits(&first, &out);
    }
    nt_cache_reset();
    assert_int_equal(training(&usual).stats.disk_hits, PROGRAMS);
}

/* ---- compile options -------------------------------------------------------------------------------------------- */

static const char *const fast_min_max[] = {"xla_cpu_enable_fast_min_max=false", "xla_cpu_prefer_vector_width=128"};
static const nt_run_options optioned = {.compile_options = fast_min_max, .compile_option_count = 2};

static void options_are_part_of_the_key(void **state) {
    (void)state;
    setenv("NITRO_CACHE_SIZE", "0", 1);
    outcome plain = training(&usual), with = training(&optioned), again = training(&usual);
    assert_int_equal(plain.stats.misses, PROGRAMS);
    assert_int_equal(with.stats.misses, 2 * PROGRAMS);
    assert_int_equal(again.stats.misses, 2 * PROGRAMS);
    assert_same_bits(&plain, &again);
    assert_same_bits(&first, &plain);
    for (int i = 0; i < STEPS; i++) assert_true(fabs(with.losses[i] - plain.losses[i]) <= 1e-5 * plain.losses[i]);
    assert_string_equal(nt_cache_report(PROGRAMS)->moved,
                        "compile options: none -> xla_cpu_enable_fast_min_max=false xla_cpu_prefer_vector_width=128");
    /* The order in which they are given says nothing. */
    const char *const turned[] = {fast_min_max[1], fast_min_max[0]};
    outcome same = training(&(nt_run_options){.compile_options = turned, .compile_option_count = 2});
    assert_int_equal(same.stats.misses, 2 * PROGRAMS);
}

static void options_are_part_of_the_key_on_disk(void **state) {
    (void)state;
    assert_int_equal(training(&optioned).stats.misses, PROGRAMS);
    nt_cache_reset();
    outcome with = training(&optioned);
    assert_int_equal(with.stats.disk_hits, PROGRAMS);
    assert_int_equal(training(&usual).stats.disk_hits, 2 * PROGRAMS);
}

static int built;
static nt_status count_and_build(const void *fields, nt_data *data) {
    built++;
    return toy_build_data(fields, data);
}

static nt_status make_with(const char *const *options, size_t count) {
    nt_experiment counted = *Toy_experiment();
    nt_run *run;
    counted.hooks.build_data = count_and_build;
    nt_run_options all = {.no_log = true, .quiet = true, .compile_options = options, .compile_option_count = count};
    nt_status status = nt_run_new(&counted, NULL, &all, &run);
    if (status == NT_OK) nt_run_free(run);
    return status;
}

/* The engine's words, and a list of the usual ones, before anything is built. */
static void wrong_options_are_refused_before_anything_is_built(void **state) {
    (void)state;
    static const struct {
        const char *option, *part, *more;
    } wrong[] = {
        {"xla_no_such_option=1", "No such compile option: 'xla_no_such_option'", "options that are often used:"},
        {"xla_cpu_enable_fast_min_max=\"false\"",
         "the engine refuses the compile options xla_cpu_enable_fast_min_max=", "\n  xla_cpu_enable_fast_min_max "},
        {"xla_cpu_enable_fast_min_max=perhaps", "perhaps", "bool: min and max may lose a nan"},
        {"7", "compile option '7' is not written NAME=VALUE", "as in "},
        {"=7", "compile option '=7' is not written NAME=VALUE", "as in "},
        {"xla_a=", "compile option 'xla_a=' is not written NAME=VALUE", "as in "},
        {"xla_cpu_parallel_codegen_split_count=-1", "option 'xla_cpu_parallel_codegen_split_count' is -1",
         "must be a whole number from 1 to 1024"},
        {"xla_cpu_parallel_codegen_split_count=2147483647", "is 2147483647", "a whole number from 1 to 1024"},
        {"xla_cpu_parallel_codegen_split_count=\"0\"", "is \"0\"", "a whole number from 1 to 1024"},
        {"xla_cpu_parallel_codegen_split_count=9e9", "is 9e9", "a whole number from 1 to 1024"},
        {"xla_cpu_parallel_codegen_split_count=99999999999999999999", "is 9999", "a whole number from 1 to 1024"},
        {"xla_backend_optimization_level=4", "is 4", "a whole number from 0 to 3"},
        {"xla_cpu_prefer_vector_width=-256", "is -256", "a whole number from 0 to 4096"},
        {NULL, "compile option 'NULL' is not written NAME=VALUE", "as in "},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        nt_status status = make_with(&wrong[i].option, 1);
        assert_fails(status, NT_INVALID, wrong[i].part);
        assert_fails(status, NT_INVALID, wrong[i].more);
    }
    const char *const twice[] = {"xla_a=1", "xla_a=2"};
    assert_fails(make_with(twice, 2), NT_INVALID, "compile option 'xla_a' is given twice");
    assert_fails(make_with(NULL, 2), NT_INVALID, "2 compile options and no list of them");
    assert_int_equal(built, 0);
    assert_int_equal(nt_cache_stats().misses, 0);
    assert_ok(make_with(fast_min_max, 2));
    assert_int_equal(built, 1);
    assert_ok(make_with(NULL, 0));
}

/* Whole numbers, quoted numbers and texts reach the engine as what they are. */
static void options_of_every_kind_are_taken(void **state) {
    (void)state;
    static const char *const kinds[] = {"xla_backend_optimization_level=1", "xla_cpu_max_isa=AVX2",
                                        "xla_cpu_multi_thread_eigen=true",
                                        "xla_cpu_parallel_codegen_split_count=\"4\""};
    assert_ok(make_with(kinds, sizeof kinds / sizeof *kinds));
}

/* Who asks for dumps gets them, also the second time. */
static void dumps_are_written_each_time(void **state) {
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        char option[2 * SCRATCH_PATH], folder[SCRATCH_PATH];
        snprintf(folder, sizeof folder, "%s", scratch(turn ? "dump-1" : "dump-0"));
        snprintf(option, sizeof option, "xla_dump_to=%s", folder);
        const char *const options[] = {option, "xla_dump_hlo_as_text=true"};
        nt_cache_reset();
        outcome out = training(&(nt_run_options){.compile_options = options, .compile_option_count = 2});
        assert_int_equal(out.stats.misses, PROGRAMS);
        assert_true(scratch_entries(folder) >= PROGRAMS);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_process_compiles_nothing_and_computes_the_same),
        cmocka_unit_test_setup(the_counters_tell_it, start_afresh),
        cmocka_unit_test_setup(without_the_disk_all_is_compiled, start_afresh),
        cmocka_unit_test_setup(damaged_programs_are_compiled_again, start_afresh),
        cmocka_unit_test_setup(options_are_part_of_the_key, start_afresh),
        cmocka_unit_test_setup(options_are_part_of_the_key_on_disk, start_afresh),
        cmocka_unit_test_setup(wrong_options_are_refused_before_anything_is_built, start_afresh),
        cmocka_unit_test_setup(options_of_every_kind_are_taken, start_afresh),
        cmocka_unit_test_setup(dumps_are_written_each_time, start_afresh),
    };
    return cmocka_run_group_tests(tests, train_in_another_process, end_all);
}
