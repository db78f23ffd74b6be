/* Executables: compiled from text or loaded from saved bytes, checked against their signature, asked for their memory,
 * freed. Not here: running them (run.c), keeping them (a cache is the business of its caller).
 */
#include "xla/xla_internal.h"

#include <string.h>

/* ---- the signature ---------------------------------------------------------------------------------------------- */

static nt_status check_ports(const char *what, const nt__port *ports, size_t count) {
    if (count && !ports) return nt__fail(NT_INVALID, "%zu %ss and no list of them (NULL)", count, what);
    for (size_t i = 0; i < count; i++) {
        size_t bytes;
        if (!ports[i].name) return nt__fail(NT_INVALID, "%s %zu has no name (NULL)", what, i);
        nt_status status = nt__type_check(ports[i].type, &bytes);
        if (status != NT_OK) return nt__fail_in(status, "%s %zu '%s'", what, i, ports[i].name);
    }
    return NT_OK;
}

static nt_status check_purposes(const nt__signature *signature) {
    for (size_t i = 0; i < signature->result_count; i++) {
        nt_status status = nt__purpose_check(signature->results[i].purpose);
        if (status != NT_OK) return nt__fail_in(status, "result %zu '%s'", i, signature->results[i].name);
    }
    return NT_OK;
}

/* The engine wants the memory of an argument and of its result to be of one size, and takes no result twice. */
static nt_status check_donation(const nt__signature *signature, size_t index) {
    const nt__port *argument = &signature->arguments[index];
    if (argument->donated_to == -1) return NT_OK;
    if (argument->donated_to < -1 || (size_t)argument->donated_to >= signature->result_count)
        return nt__fail(NT_INVALID, "argument %zu '%s' is donated to result %d: there are %zu", index, argument->name,
                        argument->donated_to, signature->result_count);
    const nt__port *result = &signature->results[argument->donated_to];
    size_t given = 0, wanted = 0;
    nt__type_bytes(argument->type, &given);
    nt__type_bytes(result->type, &wanted);
    if (given != wanted)
        return nt__fail(NT_INVALID,
                        "argument %zu '%s' of %zu bytes is donated to result %d '%s' of %zu: the sizes must "
                        "be equal",
                        index, argument->name, given, argument->donated_to, result->name, wanted);
    for (size_t i = 0; i < index; i++) {
        if (signature->arguments[i].donated_to == argument->donated_to)
            return nt__fail(NT_INVALID, "arguments %zu '%s' and %zu '%s' are both donated to result %d '%s'", i,
                            signature->arguments[i].name, index, argument->name, argument->donated_to, result->name);
    }
    return NT_OK;
}

static nt_status check_signature(const nt__signature *signature) {
    if (!signature) return nt__fail(NT_INVALID, "no signature (NULL)");
    nt_status status = check_ports("argument", signature->arguments, signature->argument_count);
    if (status == NT_OK) status = check_ports("result", signature->results, signature->result_count);
    if (status == NT_OK) status = check_purposes(signature);
    for (size_t i = 0; status == NT_OK && i < signature->argument_count; i++) status = check_donation(signature, i);
    return status;
}

/* NULL on failure. */
static nt__port *copy_ports(nt__arena *arena, const nt__port *ports, size_t count) {
    nt__port *copies = nt__arena_alloc(arena, count, sizeof *copies);
    for (size_t i = 0; copies && i < count; i++) {
        copies[i] = ports[i];
        copies[i].name = nt__arena_strdup(arena, ports[i].name);
        if (!copies[i].name) return NULL;
    }
    return copies;
}

/* ---- making the struct ------------------------------------------------------------------------------------------ */

static bool copy_signature(nt__executable *executable, const nt__signature *signature) {
    nt__arena *arena = &executable->arena;
    size_t arguments = signature->argument_count, results = signature->result_count;
    executable->signature = (nt__signature){
        .arguments = copy_ports(arena, signature->arguments, arguments),
        .argument_count = arguments,
        .results = copy_ports(arena, signature->results, results),
        .result_count = results,
    };
    executable->result_bytes = nt__arena_alloc(arena, results, sizeof *executable->result_bytes);
    executable->spare = nt__launch_new(signature);
    return executable->signature.arguments && executable->signature.results && executable->result_bytes &&
           executable->spare;
}

/* Everything but the lists of a run lies in the executable's own arena, the struct too. */
static void free_struct(nt__executable *executable) {
    nt__arena arena = executable->arena;
    nt__free(executable->spare);
    nt__arena_free(&arena);
}

static nt__executable *new_struct(nt__engine *engine, const char *name, const nt__signature *signature) {
    nt__arena arena = {0};
    nt__executable *executable = nt__arena_alloc(&arena, 1, sizeof *executable);
    if (!executable) return NULL;
    executable->arena = arena;
    executable->engine = engine;
    executable->name = nt__arena_strdup(&executable->arena, name);
    if (executable->name && copy_signature(executable, signature)) {
        for (size_t i = 0; i < signature->result_count; i++)
            nt__type_bytes(signature->results[i].type, &executable->result_bytes[i]);
        return executable;
    }
    free_struct(executable);
    return NULL;
}

/* ---- what the engine says of the program ------------------------------------------------------------------------ */

typedef struct engine_results {
    size_t count;
    const PJRT_Buffer_Type *types;
    const int64_t *dims; /* of all results, one after the other */
    const size_t *ranks;
} engine_results;

static nt_status ask_results(PJRT_Executable *description, engine_results *out) {
    NT__ARGS(PJRT_Executable_NumOutputs, number, .executable = description);
    nt_status status = NT__CALL(PJRT_Executable_NumOutputs, &number);
    if (status != NT_OK) return status;
    NT__ARGS(PJRT_Executable_OutputElementTypes, types, .executable = description);
    status = NT__CALL(PJRT_Executable_OutputElementTypes, &types);
    if (status != NT_OK) return status;
    NT__ARGS(PJRT_Executable_OutputDimensions, dims, .executable = description);
    status = NT__CALL(PJRT_Executable_OutputDimensions, &dims);
    if (status != NT_OK) return status;
    if (types.num_output_types != number.num_outputs || dims.num_outputs != number.num_outputs)
        return nt__fail(NT_ENGINE, "the engine counts %zu results, %zu element types and %zu shapes",
                        number.num_outputs, types.num_output_types, dims.num_outputs);
    *out = (engine_results){number.num_outputs, types.output_types, dims.dims, dims.dim_sizes};
    return NT_OK;
}

/* False when the engine's type is none of ours. */
static bool type_from_engine(PJRT_Buffer_Type engine_type, const int64_t *dims, size_t rank, nt__type *out) {
    int dtype = 0;
    while (dtype < NT_DTYPE_COUNT && nt__engine_type((nt_dtype)dtype) != engine_type) dtype++;
    if (dtype == NT_DTYPE_COUNT || rank > NT_MAX_RANK) return false;
    *out = (nt__type){.dtype = (nt_dtype)dtype, .shape = {.rank = (int)rank}};
    if (rank) memcpy(out->shape.dims, dims, rank * sizeof *dims);
    return true;
}

static nt_status compare_result(const nt__port *port, size_t index, const engine_results *results,
                                const int64_t *dims) {
    char declared[NT__TYPE_TEXT], compiled[NT__TYPE_TEXT];
    nt__type type;
    if (!type_from_engine(results->types[index], dims, results->ranks[index], &type))
        return nt__fail(NT_INVALID,
                        "result %zu '%s' has element type %d of the engine and rank %zu, which nitro has not", index,
                        port->name, (int)results->types[index], results->ranks[index]);
    if (nt__type_equal(type, port->type)) return NT_OK;
    return nt__fail(NT_INVALID, "result %zu '%s' is %s in the signature and %s in the program", index, port->name,
                    nt__type_text(port->type, declared), nt__type_text(type, compiled));
}

static nt_status compare_results(const nt__signature *signature, const engine_results *results) {
    if (results->count != signature->result_count)
        return nt__fail(NT_INVALID, "the signature has %zu results, the program has %zu", signature->result_count,
                        results->count);
    const int64_t *dims = results->dims;
    for (size_t i = 0; i < results->count; i++) {
        nt_status status = compare_result(&signature->results[i], i, results, dims);
        if (status != NT_OK) return status;
        if (results->ranks[i]) dims += results->ranks[i]; /* of scalars alone the engine gives no list */
    }
    return NT_OK;
}

/* The number of the one device the program runs on. */
static nt_status find_device(nt__executable *executable) {
    const nt__engine *engine = executable->engine;
    NT__ARGS(PJRT_LoadedExecutable_AddressableDevices, args, .executable = executable->loaded);
    nt_status status = NT__CALL(PJRT_LoadedExecutable_AddressableDevices, &args);
    if (status != NT_OK) return status;
    if (args.num_addressable_devices != 1)
        return nt__fail(NT_INVALID, "the program runs on %zu devices, must be 1", args.num_addressable_devices);
    for (executable->device = 0; executable->device < engine->facts.device_count; executable->device++) {
        if (engine->devices[executable->device] == args.addressable_devices[0]) return NT_OK;
    }
    return nt__fail(NT_ENGINE, "the program runs on a device that the client does not list");
}

static nt_status describe(nt__executable *executable) {
    NT__ARGS(PJRT_LoadedExecutable_GetExecutable, args, .loaded_executable = executable->loaded);
    nt_status status = NT__CALL(PJRT_LoadedExecutable_GetExecutable, &args);
    executable->description = args.executable;
    engine_results results = {0};
    if (status == NT_OK) status = ask_results(executable->description, &results);
    if (status == NT_OK) status = compare_results(&executable->signature, &results);
    if (status == NT_OK) status = find_device(executable);
    return status;
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* Not every plugin tells. */
static int64_t ask_code_bytes(PJRT_Executable *description) {
    NT__ARGS(PJRT_Executable_GetCompiledMemoryStats, args, .executable = description);
    bool told = NT__CALL_QUIETLY(PJRT_Executable_GetCompiledMemoryStats, &args);
    return told && args.generated_code_size_in_bytes > 0 ? args.generated_code_size_in_bytes : 0;
}

nt_status nt__executable_memory_of(nt__executable *executable, nt__executable_memory *out) {
    if (!executable || !out) return nt__fail(NT_INVALID, "memory of an executable: NULL was given");
    NT__ARGS(PJRT_Executable_GetCompiledMemoryStats, args, .executable = executable->description);
    nt_status status = NT__CALL(PJRT_Executable_GetCompiledMemoryStats, &args);
    if (status != NT_OK) return nt__fail_in(status, "memory of '%s'", executable->name);
    *out = (nt__executable_memory){
        .code_bytes = args.generated_code_size_in_bytes,
        .argument_bytes = args.argument_size_in_bytes,
        .output_bytes = args.output_size_in_bytes,
        .alias_bytes = args.alias_size_in_bytes,
        .temporary_bytes = args.temp_size_in_bytes,
    };
    return NT_OK;
}

/* ---- compiling and freeing -------------------------------------------------------------------------------------- */

/* Also for one that was only made half-way. */
static void discard(nt__executable *executable) {
    NT__ARGS(PJRT_Executable_Destroy, description, .executable = executable->description);
    if (executable->description) (void)NT__CALL_QUIETLY(PJRT_Executable_Destroy, &description);
    NT__ARGS(PJRT_LoadedExecutable_Destroy, loaded, .executable = executable->loaded);
    if (executable->loaded) (void)NT__CALL_QUIETLY(PJRT_LoadedExecutable_Destroy, &loaded);
    free_struct(executable);
}

/* What an executable is made of: text with its options, or bytes that the engine saved. */
typedef struct source {
    const char *text;
    size_t text_length;
    const uint8_t *options;
    size_t options_length;
    const uint8_t *saved; /* NULL: compile the text */
    size_t saved_length;
} source;

static nt_status check_source(const source *from) {
    if (from->saved) return NT_OK;
    if (!from->text || !from->text_length)
        return nt__fail(NT_INVALID, "no program text (%zu bytes)", from->text_length);
    return nt__compile_options_check(from->options, from->options_length);
}

static nt_status compile_text(nt__executable *executable, const source *from) {
    static const char format[] = "mlir";
    PJRT_Program program = {
        .struct_size = PJRT_Program_STRUCT_SIZE,
        .code = (char *)from->text,
        .code_size = from->text_length,
        .format = format,
        .format_size = sizeof format - 1,
    };
    NT__ARGS(PJRT_Client_Compile, args, .client = executable->engine->client, .program = &program,
             .compile_options = (const char *)from->options, .compile_options_size = from->options_length);
    nt_status status = NT__CALL(PJRT_Client_Compile, &args);
    executable->loaded = args.executable;
    return status;
}

/* The engine takes the options that the program was compiled with. */
static nt_status load_saved(nt__executable *executable, const source *from) {
    NT__ARGS(PJRT_Executable_DeserializeAndLoad, args, .client = executable->engine->client,
             .serialized_executable = (const char *)from->saved, .serialized_executable_size = from->saved_length);
    nt_status status = NT__CALL(PJRT_Executable_DeserializeAndLoad, &args);
    executable->loaded = args.loaded_executable;
    executable->was_loaded = true;
    return status;
}

static nt_status make(nt__engine *engine, const char *name, const source *from, const nt__signature *signature,
                      nt__executable **out) {
    nt_status status = nt__engine_check(engine);
    if (status == NT_OK) status = check_source(from);
    if (status == NT_OK) status = check_signature(signature);
    if (status != NT_OK) return status;
    nt__executable *executable = new_struct(engine, name, signature);
    if (!executable) return NT_OUT_OF_MEMORY;
    status = from->saved ? load_saved(executable, from) : compile_text(executable, from);
    if (status == NT_OK) status = describe(executable);
    if (status != NT_OK) {
        discard(executable);
        return status;
    }
    executable->code_bytes = ask_code_bytes(executable->description);
    *out = executable;
    return NT_OK;
}

nt_status nt__executable_compile(nt__engine *engine, const char *name, const char *text, size_t length,
                                 const nt__signature *signature, const uint8_t *options, size_t options_length,
                                 nt__executable **out) {
    if (!out || !name) return nt__fail(NT_INVALID, "compiling: no %s (NULL)", name ? "place for the result" : "name");
    *out = NULL;
    nt__engine_forget_text();
    const source from = {.text = text, .text_length = length, .options = options, .options_length = options_length};
    nt_status status = make(engine, name, &from, signature, out);
    if (status != NT_OK) return nt__fail_in(status, "compiling '%s'", name);
    nt__account_compile((size_t)(*out)->code_bytes);
    return NT_OK;
}

/* ---- saving and loading ----------------------------------------------------------------------------------------- */

const char *nt__engine_cannot_save(const nt__engine *engine) {
    if (nt__engine_check(engine) != NT_OK) return "the engine is not open";
    if (!NT__HAS(PJRT_Executable_Serialize)) return "the plugin has no PJRT_Executable_Serialize";
    if (!NT__HAS(PJRT_Executable_DeserializeAndLoad)) return "the plugin has no PJRT_Executable_DeserializeAndLoad";
    return NULL;
}

static nt_status save(const nt__executable *executable, uint8_t **bytes, size_t *length) {
    if (executable->was_loaded)
        return nt__fail(NT_INVALID, "it was loaded from saved bytes, and only those can be saved again");
    NT__ARGS(PJRT_Executable_Serialize, args, .executable = executable->description);
    nt_status status = NT__CALL(PJRT_Executable_Serialize, &args);
    if (status != NT_OK) return status;
    *bytes = nt__alloc(args.serialized_bytes_size, 1);
    if (*bytes && args.serialized_bytes_size) memcpy(*bytes, args.serialized_bytes, args.serialized_bytes_size);
    *length = *bytes ? args.serialized_bytes_size : 0;
    if (args.serialized_executable_deleter) args.serialized_executable_deleter(args.serialized_executable);
    return *bytes ? NT_OK : NT_OUT_OF_MEMORY;
}

nt_status nt__executable_save(const nt__executable *executable, uint8_t **bytes, size_t *length) {
    *bytes = NULL;
    *length = 0;
    nt_status status = save(executable, bytes, length);
    return status == NT_OK ? NT_OK : nt__fail_in(status, "saving '%s'", executable->name);
}

nt_status nt__executable_load(nt__engine *engine, const char *name, const uint8_t *bytes, size_t length,
                              const nt__signature *signature, nt__executable **out) {
    *out = NULL;
    nt__engine_forget_text();
    nt_status status = bytes && length ? NT_OK : nt__fail(NT_INVALID, "no saved bytes (%zu)", length);
    const source from = {.saved = bytes, .saved_length = length};
    if (status == NT_OK) status = make(engine, name, &from, signature, out);
    if (status != NT_OK) return nt__fail_in(status, "loading '%s'", name);
    nt__account_load((size_t)(*out)->code_bytes);
    return NT_OK;
}

void nt__executable_free(nt__executable **executable) {
    if (!executable || !*executable) return;
    nt__account_executable_gone((size_t)(*executable)->code_bytes);
    discard(*executable);
    *executable = NULL;
}
