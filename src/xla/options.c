/* Compile options as the plugin's protobuf bytes, and the check of such bytes before the plugin sees them.
 * Not here: which options a program is compiled with.
 */
#include "xla/xla_internal.h"

#include <stdlib.h>
#include <string.h>

#include "compile_options.pb-c.h"

typedef Nt__Wire__CompileOptions wire_options;
typedef Nt__Wire__BuildOptions wire_build;
typedef Nt__Wire__Override wire_override;
typedef Nt__Wire__OverrideValue wire_value;

/* ---- encoding --------------------------------------------------------------------------------------------------- */

static nt_status check_override(const nt__override *override) {
    if (!override->name || !*override->name) return nt__fail(NT_INVALID, "an option has no name");
    switch (override->kind) {
    case NT__OVERRIDE_STRING:
        if (override->string) return NT_OK;
        return nt__fail(NT_INVALID, "option '%s' has no text (NULL)", override->name);
    case NT__OVERRIDE_BOOL:
        if (override->integer == 0 || override->integer == 1) return NT_OK;
        return nt__fail(NT_INVALID, "option '%s' is a bool with value %lld, must be 0 or 1", override->name,
                        (long long) override->integer);
    case NT__OVERRIDE_INT:
    case NT__OVERRIDE_DOUBLE: return NT_OK;
    }
    return nt__fail(NT_INVALID, "option '%s' is of kind %d, which is none", override->name, (int) override->kind);
}

static nt_status check_options(const nt__compile_options *options) {
    if (!options) return nt__fail(NT_INVALID, "no options (NULL)");
    if (options->partitions < 0 || options->partitions > NT__MAX_DEVICES)
        return nt__fail(NT_INVALID, "%d partitions, must be 1 to %d (0 means 1)", options->partitions, NT__MAX_DEVICES);
    if (options->override_count && !options->overrides)
        return nt__fail(NT_INVALID, "%zu overrides and no list of them (NULL)", options->override_count);
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < options->override_count; i++)
        status = check_override(&options->overrides[i]);
    return status;
}

static void set_value(wire_value *value, const nt__override *override) {
    nt__wire__override_value__init(value);
    switch (override->kind) {
    case NT__OVERRIDE_STRING:
        value->value_case = NT__WIRE__OVERRIDE_VALUE__VALUE_TEXT;
        value->text = (char *) override->string;
        break;
    case NT__OVERRIDE_BOOL:
        value->value_case = NT__WIRE__OVERRIDE_VALUE__VALUE_FLAG;
        value->flag = (protobuf_c_boolean) override->integer;
        break;
    case NT__OVERRIDE_INT:
        value->value_case = NT__WIRE__OVERRIDE_VALUE__VALUE_INTEGER;
        value->integer = override->integer;
        break;
    case NT__OVERRIDE_DOUBLE:
        value->value_case = NT__WIRE__OVERRIDE_VALUE__VALUE_REAL;
        value->real = override->real;
        break;
    }
}

static int by_name(const void *a, const void *b) {
    const wire_override *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

/* A map has no order, so equal options are equal bytes only when sorted. */
static nt_status sort_overrides(wire_options *wire) {
    if (wire->n_overrides) qsort(wire->overrides, wire->n_overrides, sizeof *wire->overrides, by_name);
    for (size_t i = 1; i < wire->n_overrides; i++) {
        if (by_name(&wire->overrides[i - 1], &wire->overrides[i]) == 0)
            return nt__fail(NT_INVALID, "option '%s' is given twice: give it once", wire->overrides[i]->name);
    }
    return NT_OK;
}

static nt_status add_overrides(nt__arena *arena, const nt__compile_options *options, wire_options *wire) {
    size_t count = options->override_count;
    wire_override *overrides = nt__arena_alloc(arena, count, sizeof *overrides);
    wire_value *values = nt__arena_alloc(arena, count, sizeof *values);
    wire->overrides = nt__arena_alloc(arena, count, sizeof *wire->overrides);
    if (!overrides || !values || !wire->overrides) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        nt__wire__override__init(&overrides[i]);
        set_value(&values[i], &options->overrides[i]);
        overrides[i].name = (char *)options->overrides[i].name;
        overrides[i].value = &values[i];
        wire->overrides[i] = &overrides[i];
    }
    wire->n_overrides = count;
    return sort_overrides(wire);
}

static void set_build(wire_build *build, int partitions) {
    bool several = partitions > 1;
    build->replicas = 1;
    build->partitions = several ? partitions : 1;
    build->use_spmd_partitioning = several;
    build->use_shardy_partitioner = several;
}

static nt_status pack(const wire_options *wire, uint8_t **bytes, size_t *length) {
    size_t size = nt__wire__compile_options__get_packed_size(wire);
    *bytes = nt__alloc(size, 1);
    if (!*bytes) return NT_OUT_OF_MEMORY;
    *length = nt__wire__compile_options__pack(wire, *bytes);
    return NT_OK;
}

static nt_status encode(const nt__compile_options *options, uint8_t **bytes, size_t *length) {
    nt_status status = check_options(options);
    if (status != NT_OK) return status;
    nt__arena arena = {0};
    wire_options wire = NT__WIRE__COMPILE_OPTIONS__INIT;
    wire_build build = NT__WIRE__BUILD_OPTIONS__INIT;
    set_build(&build, options->partitions);
    wire.build = &build;
    status = add_overrides(&arena, options, &wire);
    if (status == NT_OK) status = pack(&wire, bytes, length);
    nt__arena_free(&arena);
    return status;
}

nt_status nt__compile_options_encode(const nt__compile_options *options, uint8_t **bytes, size_t *length) {
    *bytes = NULL;
    *length = 0;
    nt_status status = encode(options, bytes, length);
    return status == NT_OK ? NT_OK : nt__fail_in(status, "compile options");
}

/* ---- checking --------------------------------------------------------------------------------------------------- */

/* The decoder reports bytes it cannot read and memory that is short alike: the allocator notes the second. */
static void *decoder_alloc(void *short_of_memory, size_t size) {
    void *block = nt__alloc(size, 1);
    if (!block) *(bool *)short_of_memory = true;
    return block;
}

static void decoder_free(void *short_of_memory, void *block) {
    (void)short_of_memory;
    nt__free(block);
}

static nt_status check_build(const wire_build *build) {
    long long replicas = build ? build->replicas : 0, partitions = build ? build->partitions : 0;
    if (replicas < 1 || partitions < 1)
        return nt__fail(NT_INVALID, "compile options with %lld replicas and %lld partitions: both must be at least 1",
                        replicas, partitions);
    if (replicas > 1 || partitions > 1)
        return nt__fail(NT_INVALID,
                        "compile options with %lld replicas and %lld partitions: a program here runs on one device",
                        replicas, partitions);
    return NT_OK;
}

nt_status nt__compile_options_check(const uint8_t *bytes, size_t length) {
    if (!bytes || !length)
        return nt__fail(NT_INVALID, "no compile options (%zu bytes): make them with nt__compile_options_encode",
                        length);
    bool short_of_memory = false;
    ProtobufCAllocator allocator = {decoder_alloc, decoder_free, &short_of_memory};
    wire_options *wire = nt__wire__compile_options__unpack(&allocator, length, bytes);
    if (!wire && short_of_memory) return NT_OUT_OF_MEMORY;
    if (!wire)
        return nt__fail(NT_INVALID,
                        "the %zu bytes of compile options are not valid: make them with "
                        "nt__compile_options_encode",
                        length);
    nt_status status = check_build(wire->build);
    nt__wire__compile_options__free_unpacked(wire, &allocator);
    return status;
}
