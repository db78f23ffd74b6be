/* Compile options as a user writes them: read, tried on the engine, encoded, and a list of the well-known ones.
 * Not here: the engine's form of them (the folder xla).
 */
#include "program/program.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct nt__options {
    nt__arena arena; /* all below */
    nt__override *overrides;
    size_t count;
    char *text;
};

/* ---- well-known options ----------------------------------------------------------------------------------------- */

/* Both plugins of scripts/plugins.txt know these. */
static const char *const known[][2] = {
    {"xla_allow_excess_precision", "bool: intermediate values may have more precision than their type"},
    {"xla_backend_optimization_level", "0 to 3: 0 compiles faster, and its programs run several times slower"},
    {"xla_cpu_enable_concurrency_optimized_scheduler", "bool: order operations for more of them at once"},
    {"xla_cpu_enable_fast_math", "bool: reorder arithmetic and ignore nan and infinity"},
    {"xla_cpu_enable_fast_min_max", "bool: min and max may lose a nan"},
    {"xla_cpu_max_isa", "text: the newest instructions to use, as AVX2"},
    {"xla_cpu_multi_thread_eigen", "bool: matrix products use several threads"},
    {"xla_cpu_parallel_codegen_split_count", "1 to 1024: pieces that are compiled at once"},
    {"xla_cpu_prefer_vector_width", "0 to 4096: bits of a vector, as 256"},
    {"xla_cpu_use_onednn", "bool: matrix products by oneDNN"},
    {"xla_cpu_use_xnnpack", "bool: operations by XNNPACK"},
    {"xla_disable_hlo_passes", "text: passes to leave out, divided by commas"},
    {"xla_dump_to", "text: folder for the program before and after optimisation"},
    {"xla_dump_hlo_as_text", "bool: with xla_dump_to, as text"},
    {"xla_llvm_disable_expensive_passes", "bool: compile faster, run slower"},
};

static void list_known(nt__text *out) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        nt__text_add(out, "\n  %-46s %s", known[i][0], known[i][1]);
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static bool read_integer(const char *text, int64_t *out) {
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return end != text && !*end && errno == 0;
}

static bool read_real(const char *text, double *out) {
    char *end;
    *out = nt__read_double(text, &end);
    return end != text && !*end && isfinite(*out);
}

static nt_status read_text(nt__options *options, const char *value, nt__override *out) {
    size_t length = strlen(value);
    bool is_quoted = length >= 2 && value[0] == '"' && value[length - 1] == '"';
    out->kind = NT__OVERRIDE_STRING;
    out->string = is_quoted ? nt__arena_sprintf(&options->arena, "%.*s", (int)(length - 2), value + 1)
                            : nt__arena_strdup(&options->arena, value);
    return out->string ? NT_OK : NT_OUT_OF_MEMORY;
}

static nt_status read_value(nt__options *options, const char *value, nt__override *out) {
    bool is_true = strcmp(value, "true") == 0;
    if (is_true || strcmp(value, "false") == 0) {
        out->kind = NT__OVERRIDE_BOOL;
        out->integer = is_true;
    } else if (read_integer(value, &out->integer)) {
        out->kind = NT__OVERRIDE_INT;
    } else if (read_real(value, &out->real)) {
        out->kind = NT__OVERRIDE_DOUBLE;
    } else {
        return read_text(options, value, out);
    }
    return NT_OK;
}

static nt_status read_option(nt__options *options, const char *given) {
    const char *equals = given ? strchr(given, '=') : NULL;
    if (!equals || equals == given || !equals[1])
        return nt__fail(NT_INVALID, "compile option '%s' is not written NAME=VALUE, as in %s=1", given ? given : "NULL",
                        known[1][0]);
    nt__override *override = &options->overrides[options->count];
    override->name = nt__arena_sprintf(&options->arena, "%.*s", (int)(equals - given), given);
    if (!override->name) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < options->count; i++)
        if (strcmp(options->overrides[i].name, override->name) == 0)
            return nt__fail(NT_INVALID, "compile option '%s' is given twice: give it once", override->name);
    options->count++;
    nt_status status = nt__option_check_range("compile option", override->name, equals + 1);
    return status == NT_OK ? read_value(options, equals + 1, override) : status;
}

static int by_name(const void *a, const void *b) {
    const char *const *left = a, *const *right = b;
    return strcmp(*left, *right);
}

static nt_status write_text(nt__options *options, const char *const *texts) {
    nt__text text = {0};
    const char **sorted = nt__arena_alloc(&options->arena, options->count, sizeof *sorted);
    if (!sorted) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < options->count; i++) sorted[i] = texts[i];
    qsort(sorted, options->count, sizeof *sorted, by_name);
    for (size_t i = 0; i < options->count; i++) nt__text_add(&text, "%s%s", i ? " " : "", sorted[i]);
    options->text = text.failed ? NULL : nt__arena_strdup(&options->arena, text.data);
    nt__text_free(&text);
    return options->text ? NT_OK : NT_OUT_OF_MEMORY;
}

nt_status nt__options_read(const char *const *texts, size_t count, nt__options **out) {
    *out = NULL;
    if (count == 0) return NT_OK;
    if (!texts) return nt__fail(NT_INVALID, "%zu compile options and no list of them (NULL)", count);
    nt__options *options = nt__alloc(1, sizeof *options);
    if (!options) return NT_OUT_OF_MEMORY;
    options->overrides = nt__arena_alloc(&options->arena, count, sizeof *options->overrides);
    nt_status status = options->overrides ? NT_OK : NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && i < count; i++) status = read_option(options, texts[i]);
    if (status == NT_OK) status = write_text(options, texts);
    if (status == NT_OK)
        *out = options;
    else
        nt__options_free(options);
    return status;
}

void nt__options_free(nt__options *options) {
    if (!options) return;
    nt__arena_free(&options->arena);
    nt__free(options);
}

/* ---- asking ----------------------------------------------------------------------------------------------------- */

/* The usual options, or the user's, with the pass among those that are left out. */
static nt_status encode_keeping_barriers(const nt__options *options, uint8_t **bytes, size_t *length) {
    static const char name[] = "xla_disable_hlo_passes", pass[] = "cse_barrier_expander";
    size_t count = options ? options->count : 0, at = 0;
    nt__arena arena = {0};
    nt__override *overrides = nt__arena_alloc(&arena, count + 1, sizeof *overrides);
    nt_status status = overrides ? NT_OK : NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && i < count; i++) overrides[i] = options->overrides[i];
    while (status == NT_OK && at < count && strcmp(overrides[at].name, name) != 0) at++;
    bool given = status == NT_OK && at < count && overrides[at].kind == NT__OVERRIDE_STRING;
    const char *passes = given ? nt__arena_sprintf(&arena, "%s,%s", overrides[at].string, pass) : pass;
    if (!passes) status = NT_OUT_OF_MEMORY;
    if (status == NT_OK) {
        overrides[at] = (nt__override){.name = name, .kind = NT__OVERRIDE_STRING, .string = passes};
        nt__compile_options all = {.overrides = overrides, .override_count = at < count ? count : count + 1};
        status = nt__compile_options_encode(&all, bytes, length);
    }
    nt__arena_free(&arena);
    return status;
}

nt_status nt__options_encode(const nt__options *options, bool keep_barriers, uint8_t **bytes, size_t *length) {
    if (keep_barriers) return encode_keeping_barriers(options, bytes, length);
    nt__compile_options all = {0};
    if (options) all = (nt__compile_options){.overrides = options->overrides, .override_count = options->count};
    return nt__compile_options_encode(&all, bytes, length);
}

const char *nt__options_text(const nt__options *options) {
    return options->text;
}

bool nt__options_ask_for_files(const nt__options *options) {
    static const char dump[] = "xla_dump";
    for (size_t i = 0; i < options->count; i++)
        if (strncmp(options->overrides[i].name, dump, sizeof dump - 1) == 0) return true;
    return false;
}

/* ---- trying ----------------------------------------------------------------------------------------------------- */

static nt_status fail_with_known(nt_status status, const nt__options *options) {
    nt__text list = {0};
    list_known(&list);
    if (list.failed)
        status = NT_OUT_OF_MEMORY;
    else
        nt__fail(status, "the engine refuses the compile options %s: %s\noptions that are often used:%s", options->text,
                 nt_error_message(), list.data);
    nt__text_free(&list);
    return status;
}

nt_status nt__options_try(nt__engine *engine, const nt__options *options) {
    static const char text[] = "module @options {\n"
                               "  func.func public @main(%arg0: tensor<f32>) -> tensor<f32> {\n"
                               "    return %arg0 : tensor<f32>\n"
                               "  }\n"
                               "}\n";
    static const nt__port argument = {"x", {NT_F32, {0}}, NT__OUTPUT, -1},
                          result = {"y", {NT_F32, {0}}, NT__OUTPUT, -1};
    static const nt__signature signature = {&argument, 1, &result, 1};
    uint8_t *bytes;
    size_t length;
    nt__executable *executable = NULL;
    if (!options) return NT_OK;
    nt_status status = nt__options_encode(options, false, &bytes, &length);
    if (status != NT_OK) return status;
    status = nt__executable_compile(engine, "a trivial program", text, sizeof text - 1, &signature, bytes, length,
                                    &executable);
    nt__executable_free(&executable);
    nt__free(bytes);
    return status == NT_ENGINE ? fail_with_known(NT_INVALID, options) : status;
}
