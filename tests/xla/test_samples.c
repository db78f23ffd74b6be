/* Runs every sample of tests/engine_ops: a program, its arguments and the results it must have. The samples are the
 * reference for the spelling of the programs; their results were computed by other software than the engine.
 *
 * Lines of an .expected file:
 *   # comment
 *   in f32 [2,3] 1 2 3 4 5 6    an argument; fewer values than elements are repeated
 *   tol 1e-6                    |a - b| <= tol * (1 + |a|) for the results that follow; 0: the same bits
 *   out f32 [2,3] ...           a result
 *   error TEXT                  compiling or running fails with a message that holds TEXT
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <dirent.h>
#include <math.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine.h"
#include "base/files.h"

enum { MOST_PORTS = 128, PATH_SIZE = 4096 };

/* ---- reading a sample ------------------------------------------------------------------------------------------- */

typedef struct array {
    nt__type type;
    size_t bytes;
    uint8_t *data;
    double tolerance;
} array;

typedef struct sample {
    char *text;
    size_t length;
    array arguments[MOST_PORTS], results[MOST_PORTS];
    size_t argument_count, result_count;
    char error[256];
    double tolerance; /* of the results that follow */
} sample;

/* Element types as the programs spell them. */
static nt_dtype dtype_named(const char *name) {
    static const char *const names[NT_DTYPE_COUNT] = {
        [NT_F32] = "f32",  [NT_F64] = "f64",  [NT_BF16] = "bf16", [NT_F16] = "f16", [NT_I8] = "i8",
        [NT_I16] = "i16",  [NT_I32] = "i32",  [NT_I64] = "i64",   [NT_U8] = "ui8",  [NT_U16] = "ui16",
        [NT_U32] = "ui32", [NT_U64] = "ui64", [NT_BOOL] = "i1",
    };
    int dtype = 0;
    while (dtype < NT_DTYPE_COUNT && strcmp(names[dtype], name) != 0) dtype++;
    assert_true(dtype < NT_DTYPE_COUNT);
    return (nt_dtype)dtype;
}

/* "[2,3]" */
static nt_shape read_shape(const char *text) {
    nt_shape shape = {0};
    assert_int_equal(*text, '[');
    for (char *at = (char *)text + 1; *at != ']'; at += *at == ',') {
        assert_true(shape.rank < NT_MAX_RANK);
        shape.dims[shape.rank++] = strtoll(at, &at, 10);
    }
    return shape;
}

/* A double does not hold every integer of 64 bits. */
static void put_value(nt_dtype dtype, uint8_t *at, const char *text) {
    if (nt_dtype_is_float(dtype)) {
        nt__element_set(dtype, at, strtod(text, NULL));
        return;
    }
    uint64_t bits = *text == '-' ? (uint64_t)strtoll(text, NULL, 10) : strtoull(text, NULL, 10);
    memcpy(at, &bits, nt_dtype_size(dtype)); /* the low bytes come first */
}

/* "f32 [2,3] 1 2 3": cuts `line` up. */
static array read_array(char *line, double tolerance) {
    char *rest = NULL;
    array out = {.tolerance = tolerance};
    out.type.dtype = dtype_named(strtok_r(line, " ", &rest));
    out.type.shape = read_shape(strtok_r(NULL, " ", &rest));
    assert_true(nt__type_bytes(out.type, &out.bytes));
    out.data = nt__alloc(out.bytes, 1);
    assert_non_null(out.data);
    size_t size = nt_dtype_size(out.type.dtype), used = 0;
    for (char *word; used < out.bytes && (word = strtok_r(NULL, " ", &rest)); used += size)
        put_value(out.type.dtype, out.data + used, word);
    assert_true(used > 0 || out.bytes == 0);
    for (size_t i = used; i < out.bytes; i++) out.data[i] = out.data[i - used];
    return out;
}

static void read_line(sample *out, char *line) {
    char *value = strchr(line, ' ');
    if (*line == '#' || *line == 0) return;
    assert_non_null(value);
    *value++ = 0;
    if (strcmp(line, "in") == 0) {
        assert_true(out->argument_count < MOST_PORTS);
        out->arguments[out->argument_count++] = read_array(value, 0);
    } else if (strcmp(line, "out") == 0) {
        assert_true(out->result_count < MOST_PORTS);
        out->results[out->result_count++] = read_array(value, out->tolerance);
    } else if (strcmp(line, "tol") == 0) {
        out->tolerance = strtod(value, NULL);
    } else {
        assert_string_equal(line, "error");
        snprintf(out->error, sizeof out->error, "%s", value);
    }
}

static void read_file(const char *name, const char *ending, char **data, size_t *length) {
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/engine_ops/%s%s", getenv("NT_TESTS"), name, ending);
    assert_ok(nt__read_file(path, data, length));
}

static void read_sample(const char *name, sample *out) {
    char *lines, *rest = NULL;
    size_t length;
    *out = (sample){.tolerance = 1e-6};
    read_file(name, ".mlir", &out->text, &out->length);
    read_file(name, ".expected", &lines, &length);
    for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) read_line(out, line);
    nt__free(lines);
}

static void free_sample(sample *from) {
    for (size_t i = 0; i < from->argument_count; i++) nt__free(from->arguments[i].data);
    for (size_t i = 0; i < from->result_count; i++) nt__free(from->results[i].data);
    nt__free(from->text);
}

/* ---- the signature ---------------------------------------------------------------------------------------------- */

/* The result that an argument of @main gives its memory to, as its attributes in the text say; -1: it keeps it. A mere
 * donor goes to result 0. */
static int donated_to(const char *text, size_t argument) {
    static const char alias[] = "tf.aliasing_output = ", donor[] = "jax.buffer_donor";
    char name[32];
    snprintf(name, sizeof name, "%%arg%zu:", argument);
    const char *at = strstr(text, name);
    assert_non_null(at);
    const char *end = at + strcspn(at + 1, "%)\n") + 1;
    const char *alias_at = strstr(at, alias), *donor_at = strstr(at, donor);
    if (alias_at && alias_at < end) return atoi(alias_at + sizeof alias - 1);
    return donor_at && donor_at < end ? 0 : -1;
}

typedef struct ports {
    nt__port arguments[MOST_PORTS], results[MOST_PORTS];
} ports;

static nt__signature signature_of(const sample *from, ports *out) {
    for (size_t i = 0; i < from->argument_count; i++)
        out->arguments[i] = (nt__port){"argument", from->arguments[i].type, NT__BATCH, donated_to(from->text, i)};
    for (size_t i = 0; i < from->result_count; i++)
        out->results[i] = (nt__port){"result", from->results[i].type, NT__OUTPUT, -1};
    return (nt__signature){out->arguments, from->argument_count, out->results, from->result_count};
}

/* ---- comparing -------------------------------------------------------------------------------------------------- */

/* The same bits, both nan, or, for floats, within the tolerance. */
static bool equal_elements(const array *wanted, const uint8_t *want, const uint8_t *got) {
    nt_dtype dtype = wanted->type.dtype;
    if (memcmp(want, got, nt_dtype_size(dtype)) == 0) return true;
    if (!nt_dtype_is_float(dtype)) return false;
    double a = nt__element_get(dtype, want), b = nt__element_get(dtype, got);
    return (isnan(a) && isnan(b)) || fabs(a - b) <= wanted->tolerance * (1 + fabs(a));
}

static void assert_equal_arrays(const array *wanted, const uint8_t *got, size_t number) {
    size_t size = nt_dtype_size(wanted->type.dtype);
    for (size_t at = 0; at < wanted->bytes; at += size) {
        if (equal_elements(wanted, wanted->data + at, got + at)) continue;
        print_error("result %zu, element %zu: %.9g, wanted %.9g\n", number, at / size,
                    nt__element_get(wanted->type.dtype, got + at),
                    nt__element_get(wanted->type.dtype, wanted->data + at));
        fail();
    }
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

typedef struct slots {
    nt__buffer arguments[MOST_PORTS], results[MOST_PORTS];
    nt__buffer *argument_list[MOST_PORTS], *result_list[MOST_PORTS];
} slots;

static nt_status run_once(nt__executable *executable, const sample *from, slots *out) {
    for (size_t i = 0; i < from->argument_count; i++) {
        out->argument_list[i] = &out->arguments[i];
        assert_ok(nt__buffer_upload(engine, 0, "argument", NT__BATCH, from->arguments[i].type, from->arguments[i].data,
                                    &out->arguments[i]));
    }
    for (size_t i = 0; i < from->result_count; i++) out->result_list[i] = &out->results[i];
    return nt__executable_run(executable, out->argument_list, from->argument_count, out->result_list,
                              from->result_count);
}

static void free_slots(slots *from) {
    for (size_t i = 0; i < MOST_PORTS; i++) {
        nt__buffer_free(&from->arguments[i]);
        nt__buffer_free(&from->results[i]);
    }
    assert_int_equal(nt__engine_counts_now().all_buffers.live_count, 0);
}

static void assert_donated(const nt__signature *signature, const slots *after) {
    for (size_t i = 0; i < signature->argument_count; i++) {
        bool donated = signature->arguments[i].donated_to >= 0;
        assert_int_equal(after->arguments[i].state, donated ? NT__BUFFER_DONATED : NT__BUFFER_ALIVE);
    }
}

/* A second run must give the bits of the first, which replace the sample's values. */
static void assert_results(sample *from, slots *after) {
    for (size_t i = 0; i < from->result_count; i++) {
        array *wanted = &from->results[i];
        uint8_t *got = nt__alloc(wanted->bytes, 1);
        assert_ok(nt__buffer_read(engine, &after->results[i], got));
        assert_equal_arrays(wanted, got, i);
        memcpy(wanted->data, got, wanted->bytes);
        wanted->tolerance = 0;
        nt__free(got);
    }
}

static void assert_sample(nt__executable *executable, sample *from, const nt__signature *signature) {
    for (int run = 0; run < 2; run++) {
        slots used = {0};
        assert_ok(run_once(executable, from, &used));
        assert_donated(signature, &used);
        assert_results(from, &used);
        free_slots(&used);
    }
}

static void assert_fails(nt_status compiled, nt__executable *executable, const sample *from) {
    slots used = {0};
    nt_status status = compiled == NT_OK ? run_once(executable, from, &used) : compiled;
    assert_failed(status, NT_ENGINE, from->error);
    free_slots(&used);
}

static void a_sample(void **state) {
    sample read;
    ports of_program;
    nt__executable *executable;
    read_sample(*state, &read);
    nt__signature signature = signature_of(&read, &of_program);
    nt_status status = compile(*state, read.text, &signature, &executable);
    if (*read.error) {
        assert_fails(status, executable, &read);
    } else {
        assert_ok(status);
        assert_sample(executable, &read, &signature);
    }
    nt__executable_free(&executable);
    free_sample(&read);
}

/* ---- one test a sample ------------------------------------------------------------------------------------------ */

enum { MOST_SAMPLES = 256, NAME_SIZE = 64 };

static char names[MOST_SAMPLES][NAME_SIZE];

static int by_name(const void *a, const void *b) {
    return strcmp(a, b);
}

static size_t list_samples(void) {
    char path[PATH_SIZE];
    size_t count = 0;
    const char *tests = getenv("NT_TESTS");
    snprintf(path, sizeof path, "%s/engine_ops", tests ? tests : "");
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && count < MOST_SAMPLES && (entry = readdir(folder));) {
        const char *ending = strstr(entry->d_name, ".mlir");
        if (ending) snprintf(names[count++], NAME_SIZE, "%.*s", (int)(ending - entry->d_name), entry->d_name);
    }
    if (folder) closedir(folder);
    qsort(names, count, NAME_SIZE, by_name);
    return count;
}

int main(void) {
    static struct CMUnitTest tests[MOST_SAMPLES];
    size_t count = list_samples();
    if (count == 0) {
        print_error("no samples: NT_TESTS must be the path of the folder tests\n");
        return 1;
    }
    for (size_t i = 0; i < count; i++)
        tests[i] = (struct CMUnitTest){.name = names[i], .test_func = a_sample, .initial_state = names[i]};
    return _cmocka_run_group_tests("samples", tests, count, open_one_device, close_engine);
}
