/* Readers of text that a person types or another program writes, and of the files that nitro keeps for itself: the rest
 * of the table of readers.c.
 * Not here: files of arrays, records of runs.
 */
#include "fuzz.h"
#include "base/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "array/array.h"
#include "cli/arguments.h"
#include "build/build.h"
#include "experiment/experiment.h"
#include "history/history.h"
#include "nitro.h"
#include "optim/optim.h"
#include "disk/disk.h"
#include "record/record.h"
#include "weights/weights.h"

#define FUZZED(FIELD, DEVICE, GRAPH_CONST) \
    FIELD(bool, flag, false, "")           \
    FIELD(int, count, 1, "")               \
    FIELD(int64_t, large, 1, "")           \
    FIELD(float, real, 0.5f, "") FIELD(double, fine, 0.5, "") FIELD(const char *, text, "x", "")
NT_EXPERIMENT(Fuzzed, FUZZED)
NT_DEFINE(Fuzzed, FUZZED, .build_data = NULL);

/* The content of the file as a text, which ends at its first NUL. NULL with a message; the caller frees it. */
static char *text_of(const char *path) {
    char *text;
    size_t length;
    return nt__read_file(path, &text, &length) == NT_OK ? text : NULL;
}

static void add_samples(fuzz_samples *samples, const char *const *texts, size_t count) {
    for (size_t i = 0; i < count; i++) fuzz_add_text(fuzz_sample(samples), "%s", texts[i]);
}
#define ADD_SAMPLES(...)                                     \
    add_samples(samples, (const char *const[]){__VA_ARGS__}, \
                sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* ---- what a person types ---------------------------------------------------------------------------------------- */

static nt_status read_schedule(const char *path) {
    char *text = text_of(path);
    nt_schedules schedules = {0};
    nt_status status = nt__schedule_parse(text, &schedules);
    for (size_t i = 0; status == NT_OK && i < schedules.count; i++)
        for (int64_t step = 1; step < 20; step++) nt__schedule_value(&schedules.items[i].schedule, step, 10);
    nt__schedules_free(&schedules);
    nt__free(text);
    return status;
}

static void add_schedules(fuzz_samples *samples) {
    ADD_SAMPLES("learning_rate=cosine:1e-3:0", "learning_rate=constant:0.5", "a=warmup:10:piecewise:1:5:0.5:9:0.1",
                "b=one_cycle:1:0.3:25:1e4", "c=linear:0:1@3,restarts:1:0:5:2");
}

/* The first byte says which field. */
static nt_status read_field(const char *path) {
    char *text = text_of(path);
    const nt_experiment *experiment = Fuzzed_experiment();
    Fuzzed fields = Fuzzed_defaults();
    nt__text shown = {0};
    const nt_field_info *field = &experiment->fields[(unsigned char)*text % 6];
    nt_status status = *text ? nt__field_parse(field, text + 1, &fields) : NT_OK;
    if (status == NT_OK) nt__field_print(field, &fields, &shown);
    nt__text_free(&shown);
    nt__free(text);
    return status;
}

static void add_fields(fuzz_samples *samples) {
    ADD_SAMPLES("0true", "112", "2-9223372036854775808", "31e-3", "41.5", "5any text");
}

static nt_status read_words(const char *path) {
    char *text = text_of(path);
    nt__arena arena = {0};
    nt__words words = {0};
    nt_status status = nt__words_split(&arena, "--cflags", text, &words);
    nt__words_free(&words);
    nt__arena_free(&arena);
    nt__free(text);
    return status;
}

static void add_words(fuzz_samples *samples) {
    ADD_SAMPLES("-O2 -I'a b' -DX=\"y z\"", "a\\ b  'c'\"d\"", "");
}

enum { MOST_LINES = 32 };

/* Cuts a text into its lines, in place. */
static int lines_of(char *text, char *lines[MOST_LINES]) {
    int count = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line && count < MOST_LINES; line = strtok_r(NULL, "\n", &rest))
        lines[count++] = line;
    return count;
}

/* A word a line. */
static nt_status read_arguments(const char *path) {
    char *text = text_of(path), *lines[MOST_LINES];
    int count = lines_of(text, lines);
    nt__arguments arguments;
    nt__command_options options = {0};
    Fuzzed fields = Fuzzed_defaults();
    nt_status status = nt__arguments_read(nt__takes_of("train"), count, lines, &arguments);
    if (status == NT_OK && arguments.files.count == 0) status = nt__fail(NT_INVALID, "no file was given at all");
    if (status == NT_OK) status = nt__arguments_options(&arguments, &options);
    if (status == NT_OK) status = nt__arguments_fields(&arguments, Fuzzed_experiment(), &fields);
    nt__command_options_free(&options);
    nt__arguments_free(&arguments);
    nt__free(text);
    return status;
}

static void add_arguments(fuzz_samples *samples) {
    ADD_SAMPLES("net.c\n--max-epochs=3\n--count\n7\n--quiet", "--no-flag\n--seed=5\na.c\nb.c",
                "--schedule=learning_rate=cosine:1:0\n--text=x\n--real=0.25\nx.c");
}

/* A rule a line, for a file of two arrays. */
static nt_status read_maps(const char *path) {
    static const float values[6];
    char *text = text_of(path), *lines[MOST_LINES];
    int count = lines_of(text, lines);
    nt__named_array arrays[] = {{"model.fc.weight", {NT_F32, {.rank = 2, .dims = {2, 3}}}, values},
                                {"model.fc.bias", {NT_F32, {.rank = 1, .dims = {3}}}, values}};
    nt__weights weights = {.arrays = arrays, .count = 2};
    nt_status status = nt__weights_map(&weights, (const char *const *)lines, (size_t)count);
    nt__weights_free(&weights);
    nt__free(text);
    return status;
}

static void add_maps(fuzz_samples *samples) {
    ADD_SAMPLES("model.*.weight=*.dense:transpose\nmodel.fc.bias=", "model.fc.weight=a:1,0\n=kept", "model.*=*");
}

/* ---- files of nitro's own and of compilers ---------------------------------------------------------------------- */

static nt_status read_npy(const char *path) {
    nt_array *array = nt_npy_read(path);
    nt_status status = array ? NT_OK : nt_error_status();
    nt_array_free(array);
    return status;
}

static void put_npy(fuzz_input *out, const char *dictionary, size_t data) {
    size_t length = strlen(dictionary);
    fuzz_add(out, "\x93NUMPY\x01\x00", 8);
    fuzz_add(out, (const unsigned char[]){(unsigned char)length, (unsigned char)(length >> 8)}, 2);
    fuzz_add_text(out, "%s", dictionary);
    for (size_t i = 0; i < data; i++) fuzz_add(out, "", 1);
}

static void add_npy(fuzz_samples *samples) {
    put_npy(fuzz_sample(samples), "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n", 48);
    put_npy(fuzz_sample(samples), "{'descr': '|b1', 'fortran_order': False, 'shape': (), }\n", 1);
    put_npy(fuzz_sample(samples), "{'descr': '<i8', 'fortran_order': True, 'shape': (2L,), }", 16);
}

static nt_status read_log(const char *path) {
    nt__history history;
    nt_status status = nt__history_read(path, true, &history);
    nt__history_free(&history);
    return status;
}

static void add_logs(fuzz_samples *samples) {
    ADD_SAMPLES("{\"hidden\":32,\"type\":\"params\"}\n"
                "{\"experiment\":\"A\",\"started\":\"2026-01-02T03:04:05Z\",\"type\":\"environment\"}\n"
                "{\"loss\":9.5,\"type\":\"metrics\",\"context\":\"train\",\"epoch\":1,\"step\":4}\n"
                "{\"loss\":0.5,\"type\":\"metrics\",\"context\":\"epoch\",\"epoch\":1,\"step\":4}\n"
                "{\"mae\":0.5,\"type\":\"metrics\",\"context\":\"validate\",\"epoch\":1,\"step\":4}\n"
                "{\"status\":\"completed\",\"seconds\":1.5,\"type\":\"finish\"}\n",
                "{\"type\":\"metrics\",\"context\":\"epoch\",\"epoch\":2,\"step\":8,\"loss\":\"nan\"}\n{\"torn",
                "\n\n");
}

/* A file that is damaged is none, without a failure. */
static nt_status read_program(const char *path) {
    char folder[128];
    const char *slash = strrchr(path, '/');
    nt__disk disk = {.folder = folder, .limit = 1 << 20};
    nt__disk_program program;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    nt_status status = nt__disk_look(&disk, slash + 1, &program);
    nt__free(program.data);
    if (status != NT_OK) return status;
    char *kept;
    size_t length;
    status = nt__disk_get(&disk, slash + 1, &kept, &length);
    nt__free(kept);
    return status;
}

static void add_programs(fuzz_samples *samples) {
    fuzz_add(fuzz_sample(samples), "nitroprg\1\0\0\0\3\0\0\0\4\0\0\0\0\0\0\0", 24);
    nt__hash hash = nt__hash_bytes("text", 4);
    fuzz_input *small = fuzz_sample(samples);
    fuzz_add(small, &hash, sizeof hash);
    fuzz_add(small, "text", 4);
}

static nt_status read_dependencies(const char *path) {
    nt__arena arena = {0};
    nt__words files = {0};
    nt_status status = nt__dependencies_read(&arena, path, &files);
    nt__words_free(&files);
    nt__arena_free(&arena);
    return status;
}

static void add_dependencies(fuzz_samples *samples) {
    ADD_SAMPLES("object: a.c \\\n /usr/include/b.h c\\ d.h\n\nb.h:\n", "o: x\\#y $$z\n", "a.o: ");
}

/* What texts find in a folder whose manifest is the file. That there is no such record is an answer too. */
static nt_status find_in(const char *folder) {
    static const char *const texts[] = {"latest:best", "latest:latest", "all:best", "A:latest", "b.safetensors"};
    const nt__retention retention = nt__retention_default();
    nt__record_source source;
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < sizeof texts / sizeof *texts; i++) {
        source = (nt__record_source){0};
        status = nt__record_source_find(texts[i], folder, &retention, &source);
        nt__record_source_free(&source);
        if (status == NT_NOT_FOUND) status = NT_OK;
    }
    if (status != NT_OK) return status;
    source = (nt__record_source){0};
    status = nt__record_source_auto(folder, &source);
    nt__record_source_free(&source);
    return status == NT_NOT_FOUND ? NT_OK : status;
}

static nt_status read_sources(const char *path) {
    char folder[128], manifest[160];
    snprintf(folder, sizeof folder, "%s.runs", path);
    snprintf(manifest, sizeof manifest, "%s/" NT__MANIFEST_FILE, folder);
    bool made = mkdir(folder, 0700) == 0 && link(path, manifest) == 0;
    nt_status status = made ? find_in(folder) : nt__fail(NT_ENGINE, "%s cannot be made", manifest);
    unlink(manifest);
    rmdir(folder);
    return status;
}

static void add_sources(fuzz_samples *samples) {
    ADD_SAMPLES("{\"format_version\":1,\"checkpoints\":[]}",
                "{\"format_version\":1,\"checkpoints\":[{\"file\":\"a.safetensors\",\"run\":\"A\",\"epoch\":1,"
                "\"batch\":0,\"step\":4,\"metric\":\"m\",\"mode\":\"min\",\"score\":0.5,\"sequence\":1},"
                "{\"file\":\"b.safetensors\",\"run\":\"B\",\"parent\":\"A\",\"epoch\":2,\"batch\":3,\"step\":9,"
                "\"sequence\":2,\"written\":1.5}]}");
}

/* What a model needs, as the metadata of a file of parameters have it; what is right is read as a run does. */
static nt_status read_model(const char *path) {
    char *text = text_of(path);
    json_t *facts = NULL;
    nt_status status = text ? nt__model_facts_parse(text, &facts) : nt_error_status();
    json_decref(facts);
    nt__free(text);
    return status;
}

static void add_models(fuzz_samples *samples) {
    ADD_SAMPLES("{\"experiment\":\"E\",\"compute_dtype\":\"f32\",\"seed\":42,\"config\":{\"hidden\":\"8,4\"},"
                "\"devices\":{\"smoothing\":\"0.1\"},\"host\":{},\"derived\":[\"count\"],\"given\":{\"count\":\"0\"},"
                "\"types\":{\"hidden\":\"ints\"},\"inputs\":{\"x\":{\"dtype\":\"f32\",\"row\":[8,3]}},"
                "\"numbers\":[\"0.5\",\"array 00\"]}",
                "{\"numbers\":null,\"seed\":0}", "{\"inputs\":{\"x\":{\"dtype\":\"i8\",\"row\":[]}}}");
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

const fuzz_reader fuzz_more_readers[] = {
    {"npy", read_npy, add_npy, NULL, false},
    {"log", read_log, add_logs, NULL, false},
    {"program", read_program, add_programs, NULL, false},
    {"dependencies", read_dependencies, add_dependencies, NULL, false},
    {"schedule", read_schedule, add_schedules, NULL, true},
    {"field", read_field, add_fields, NULL, true},
    {"words", read_words, add_words, NULL, true},
    {"arguments", read_arguments, add_arguments, NULL, true},
    {"maps", read_maps, add_maps, NULL, true},
    {"sources", read_sources, add_sources, NULL, true},
    {"model", read_model, add_models, NULL, true},
};
_Static_assert(sizeof fuzz_more_readers / sizeof *fuzz_more_readers == FUZZ_MORE_READERS, "fuzz.h says how many");
