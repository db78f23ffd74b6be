/* The programs on disk through the command: the second start compiles nothing and says so, and nitro cache lists,
 * counts and removes what is kept.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>

#include "command.h"

static const char tiny[] =
    "#include <nitro.h>\n"
    "#define TINY(FIELD, DEVICE, GRAPH_CONST) GRAPH_CONST(int, hidden, 4, \"units\")\n"
    "NT_EXPERIMENT(Tiny, TINY)\n"
    "static nt_status split(nt_data *data, const char *name, int64_t rows) {\n"
    "    nt_split(data, name, .batch = 8);\n"
    "    nt_split_field(data, name, \"x\", nt_array_new(NT_F32, nt_dims(rows, 3)));\n"
    "    nt_split_field(data, name, \"label\", nt_array_new(NT_U8, nt_dims(rows)));\n"
    "    return nt_data_status(data);\n"
    "}\n"
    "static nt_status build_data(const Tiny *e, nt_data *data) {\n"
    "    (void)e;\n"
    "    split(data, \"train\", 32);\n"
    "    split(data, \"val\", 16);\n"
    "    return split(data, \"test\", 16);\n"
    "}\n"
    "static nt_tensor forward(const Tiny_view *e, nt_model *m, nt_batch *batch) {\n"
    "    nt_tensor x = nt_relu(nt_dense(m, \"hidden\", nt_field(batch, \"x\"), e->hidden));\n"
    "    return nt_dense(m, \"logits\", x, 2);\n"
    "}\n"
    "static nt_tensor loss(const Tiny_view *e, nt_tensor logits, nt_batch *batch) {\n"
    "    (void)e;\n"
    "    return nt_cross_entropy(logits, nt_field(batch, \"label\"));\n"
    "}\n"
    "static void metrics(const Tiny *e, nt_metrics *out, const nt_array *logits, const nt_host_batch *batch) {\n"
    "    (void)e;\n"
    "    nt_metric_accuracy(out, \"accuracy\", logits, nt_host_field(batch, \"label\"));\n"
    "}\n"
    "NT_DEFINE(Tiny, TINY, .build_data = build_data, .forward = forward, .loss = loss, .metrics = metrics);\n";

static char source[SCRATCH_PATH], run_dir[2 * SCRATCH_PATH];

static int make_all(void **state) {
    if (command_make(state) != 0) return -1;
    put_text("tiny.c", tiny);
    snprintf(source, sizeof source, "%s", scratch("tiny.c"));
    snprintf(run_dir, sizeof run_dir, "--run-dir=%s/run", scratch_folder);
    return 0;
}

/* An empty cache of programs; the compiled experiment stays where it is. */
static int empty_cache(void **state) {
    (void)state;
    unsetenv("NITRO_CACHE_SIZE");
    setenv("NITRO_CACHE_DIR", scratch("nitro-cache"), 1);
    return nitro("cache", "clear")->code;
}

static const ended *train(const char *flag) {
    const ended *e = flag ? nitro("train", source, run_dir, flag) : nitro("train", source, run_dir);
    if (e->code != 0) fail_msg("exit %d: %s", e->code, e->err);
    return e;
}

static void misuse(const ended *e, const char *message) {
    assert_int_equal(e->code, 2);
    assert_string_equal(e->out, "");
    assert_has(e->err, "nitro: ", message);
}

/* ---- runs ------------------------------------------------------------------------------------------------------- */

static void the_second_start_compiles_nothing_and_says_so(void **state) {
    (void)state;
    const ended *e = train(NULL);
    assert_has(e->err, "compiled gradient of Tiny in ", "compiled optimizer of Tiny in ",
               "compiled evaluation of Tiny in ", "; 3 programs, ");
    assert_has_not(e->err, "from the cache");
    e = train(NULL);
    assert_has(e->err, "\n3 programs from the cache on disk, 0 compiled\n");
    assert_has_not(e->err, "compiled gradient");
    e = train("--quiet");
    assert_has_not(e->err, "from the cache");
    assert_has_not(e->err, "compiled");
    e = train("--no-cache");
    assert_has(e->err, "compiled gradient of Tiny in ");
    assert_has_not(e->err, "from the cache");
    e = nitro("evaluate", source, run_dir);
    assert_int_equal(e->code, 0);
    assert_has(e->err, "\n1 program from the cache on disk, 0 compiled\n");
    e = nitro("evaluate", source, run_dir, "--quiet");
    assert_int_equal(e->code, 0);
    assert_string_equal(e->err, "");
    assert_has(e->out, "test accuracy ");
}

static void damage_one(void) {
    char path[2 * SCRATCH_PATH] = "";
    DIR *folder = opendir(scratch("nitro-cache/programs"));
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        if (strstr(entry->d_name, ".program"))
            snprintf(path, sizeof path, "%s/%.255s", scratch("nitro-cache/programs"), entry->d_name);
    closedir(folder);
    assert_int_equal(truncate(path, 200), 0);
}

/* The counters of a process say where its programs came from. */
static void the_counters_tell_the_disk(void **state) {
    (void)state;
    static char stats[MOST_OUTPUT];
    char flag[2 * SCRATCH_PATH];
    snprintf(flag, sizeof flag, "--stats=%s/stats.json", scratch_folder);
    train(flag);
    read_output("stats.json", stats);
    assert_has(stats, "\"misses\": 3,", "\"disk_hits\": 0,", "\"disk_refused\": 0,", "\"entries\": 3,");
    damage_one();
    train(flag);
    read_output("stats.json", stats);
    assert_has(stats, "\"hits\": ", "\"misses\": 1,", "\"disk_hits\": 2,", "\"disk_refused\": 1,", "\"entries\": 3,",
               "\"compile_seconds\": ", "\"reports\": [");
}

static void what_moved_is_told_from_start_to_start(void **state) {
    (void)state;
    train(NULL);
    const ended *e = train("--hidden=5");
    assert_has(e->err, "compiled gradient of Tiny in ", "(GraphConst hidden: 4 -> 5; ");
    e = train(NULL);
    assert_has(e->err, "\n3 programs from the cache on disk, 0 compiled\n");
}

static void compile_options_are_flags(void **state) {
    (void)state;
    static const char first[] = "--compile-option=xla_cpu_enable_fast_min_max=false";
    train(NULL);
    const ended *e = nitro("train", source, run_dir, first, "--compile-option", "xla_cpu_prefer_vector_width=128");
    assert_int_equal(e->code, 0);
    assert_has(e->err, "(compile options: none -> xla_cpu_enable_fast_min_max=false xla_cpu_prefer_vector_width=128)");
    e = nitro("train", source, run_dir, first, "--compile_option", "xla_cpu_prefer_vector_width=128");
    assert_has(e->err, "\n3 programs from the cache on disk, 0 compiled\n");
    e = nitro("train", source, run_dir, "--compile-option=xla_wrong=1");
    assert_int_equal(e->code, 1);
    assert_has(e->err, "nitro: the engine refuses the compile options xla_wrong=1: ", "'xla_wrong'",
               "options that are often used:");
    e = nitro("train", source, run_dir, "--compile-option=7");
    assert_int_equal(e->code, 1);
    assert_has(e->err, "compile option '7' is not written NAME=VALUE");
    misuse(nitro("train", source, "--compile-option"), "--compile-option needs a value");
}

/* ---- nitro cache ------------------------------------------------------------------------------------------------ */

static void what_is_kept_is_listed_and_counted(void **state) {
    (void)state;
    const char *plugin = getenv("NITRO_PLUGIN"), *file = plugin ? strrchr(plugin, '/') : NULL;
    assert_non_null(file);
    const ended *e = nitro("cache", "list");
    assert_int_equal(e->code, 0);
    assert_has(e->out, "no programs in ", "nitro-cache/programs\n");
    train(NULL);
    e = nitro("cache", "list");
    assert_int_equal(e->code, 0);
    assert_has(e->out, "  program ", "experiment", "last used", "\n  gradient    Tiny ", "\n  optimizer   Tiny ",
               "\n  evaluation  Tiny ", file ? file + 1 : "no plugin", " KiB  ");
    assert_true(strstr(e->out, "evaluation") < strstr(e->out, "gradient")); /* used last */
    e = nitro("cache", "stats");
    assert_int_equal(e->code, 0);
    assert_has(e->out, "nitro-cache/programs\n", "  programs  3\n", "  limit     2.0 GiB\n", "  in use    yes\n",
               "  engine    its programs can be kept\n");
}

static void a_damaged_program_is_listed_and_replaced(void **state) {
    (void)state;
    train(NULL);
    damage_one();
    assert_has(nitro("cache", "list")->out, "\n  (damaged) ");
    const ended *e = train(NULL);
    assert_has(e->err, "; on disk: the saved one is not used: its length is wrong)",
               "\n2 programs from the cache on disk, "
               "1 compiled\n");
    assert_has_not(nitro("cache", "list")->out, "(damaged)");
}

static void clearing_says_what_it_removed(void **state) {
    (void)state;
    train(NULL);
    const ended *e = nitro("cache", "clear");
    assert_int_equal(e->code, 0);
    assert_has(e->out, "removed 3 programs (", "KiB) from ", "nitro-cache/programs\n");
    assert_has_not(e->out, "experiments");
    assert_int_equal(scratch_entries(scratch("nitro-cache/programs")), 0);
    e = nitro("cache", "clear", "--all");
    assert_int_equal(e->code, 0);
    assert_has(e->out, "removed 0 programs (0 bytes) from ", "removed 2 files of compiled experiments from ",
               "nitro-cache/experiments\n");
    assert_int_equal(scratch_entries(scratch("nitro-cache/experiments")), 0);
    assert_has(train(NULL)->err, "compiled gradient of Tiny in ");
    nitro("cache", "clear");
    nitro("evaluate", source, run_dir);
    assert_has(nitro("cache", "clear")->out, "removed 1 program (");
}

static void a_cache_that_is_not_wanted_can_be_looked_at(void **state) {
    (void)state;
    train(NULL);
    setenv("NITRO_CACHE_SIZE", "0", 1);
    assert_has(nitro("cache", "stats")->out, "  programs  3\n", "  in use    NITRO_CACHE_SIZE is 0\n");
    assert_has(nitro("devices")->out, "  programs   not kept on disk: NITRO_CACHE_SIZE is 0\n");
    assert_has_not(train(NULL)->err, "from the cache");
    assert_has(nitro("cache", "clear")->out, "removed 3 programs");
    setenv("NITRO_CACHE_SIZE", "lots", 1);
    const ended *e = nitro("cache", "stats");
    assert_int_equal(e->code, 1);
    assert_has(e->err, "nitro: there is no cache on disk: NITRO_CACHE_SIZE is 'lots', which is no size");
    assert_has(train(NULL)->err, "compiled programs are not kept on disk: NITRO_CACHE_SIZE is 'lots'");
}

static void a_folder_of_others_is_refused(void **state) {
    (void)state;
    train(NULL);
    assert_int_equal(chmod(scratch("nitro-cache/programs"), 0777), 0);
    const ended *e = nitro("cache", "list");
    assert_int_equal(e->code, 1);
    assert_has(e->err, "nitro: there is no cache on disk: others may write into the folder ",
               "delete it with all that it holds");
    assert_has(nitro("devices")->out, "  programs   not kept on disk: others may write into the folder ");
    e = train(NULL);
    assert_has(e->err, "compiled programs are not kept on disk: others may write", "compiled gradient of Tiny in ");
    assert_int_equal(chmod(scratch("nitro-cache/programs"), 0700), 0);
    assert_has(nitro("devices")->out, "  programs   kept in ");
}

static void wrong_words_are_refused(void **state) {
    (void)state;
    static const char usage[] = "write nitro cache list, nitro cache stats or nitro cache clear";
    misuse(nitro("cache"), usage);
    misuse(nitro("cache", "list", "stats"), usage);
    misuse(nitro("cache", "lst"), "there is no 'nitro cache lst': write nitro cache list");
    misuse(nitro("cache", "list", "--quiet"), "--quiet is a flag of nitro train and not of this command");
    misuse(nitro("train", source, "--all"), "--all is a flag of nitro cache and not of this command");
    const ended *e = nitro("cache", "--help");
    assert_int_equal(e->code, 0);
    assert_has(e->out, "usage: nitro cache list | stats | clear [--all]\n", "--all", "clear: removes all of");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_second_start_compiles_nothing_and_says_so, empty_cache),
        cmocka_unit_test_setup(the_counters_tell_the_disk, empty_cache),
        cmocka_unit_test_setup(what_moved_is_told_from_start_to_start, empty_cache),
        cmocka_unit_test_setup(compile_options_are_flags, empty_cache),
        cmocka_unit_test_setup(what_is_kept_is_listed_and_counted, empty_cache),
        cmocka_unit_test_setup(a_damaged_program_is_listed_and_replaced, empty_cache),
        cmocka_unit_test_setup(clearing_says_what_it_removed, empty_cache),
        cmocka_unit_test_setup(a_cache_that_is_not_wanted_can_be_looked_at, empty_cache),
        cmocka_unit_test_setup(a_folder_of_others_is_refused, empty_cache),
        cmocka_unit_test_setup(wrong_words_are_refused, empty_cache),
    };
    return cmocka_run_group_tests(tests, make_all, scratch_remove);
}
