/* A program of a handle: its text, its key, its signature. */
#include "program/program_internal.h"

#include <string.h>

/* The key is the content: the text, the compile options, and the plugin that compiles it. */
static void find_key(nt__program *program) {
    const nt__engine_facts *facts = nt__engine_facts_of(program->engine);
    const nt__hash content[2] = {nt__hash_bytes(program->printed.text.data, program->printed.text.length),
                                 nt__hash_bytes(program->options, program->options_length)};
    program->content = nt__hash_bytes(content, sizeof content);
    const nt__hash all[2] = {program->content, facts->plugin_hash};
    program->key = nt__hash_bytes(all, sizeof all);
}

/* Beside those of the caller, so that another engine and other options are told like a changed field. */
static void add_own_parts(nt__program *program, const nt__program_spec *spec) {
    const char *path = nt__engine_facts_of(program->engine)->plugin_path, *slash = strrchr(path, '/');
    const char *options = spec->options ? nt__options_text(spec->options) : "";
    program->parts[program->part_count++] = (nt__part){"compile options", *options ? options : "none"};
    program->parts[program->part_count++] = (nt__part){"engine plugin", slash ? slash + 1 : path};
}

static bool copy_parts(nt__program *program, const nt__program_spec *spec) {
    enum { OWN_PARTS = 2 };
    program->parts = nt__arena_alloc(&program->arena, spec->part_count + OWN_PARTS, sizeof *program->parts);
    if (!program->parts) return false;
    for (size_t i = 0; i < spec->part_count; i++) program->parts[i] = spec->parts[i];
    program->part_count = spec->part_count;
    add_own_parts(program, spec);
    for (size_t i = 0; i < program->part_count; i++) {
        program->parts[i].name = nt__arena_strdup(&program->arena, program->parts[i].name);
        program->parts[i].value = nt__arena_strdup(&program->arena, program->parts[i].value);
        if (!program->parts[i].name || !program->parts[i].value) return false;
    }
    return true;
}

static bool copy_ports(nt__program *program, const nt__program_spec *spec) {
    const nt__printed *printed = &program->printed;
    program->arguments = nt__arena_alloc(&program->arena, printed->argument_count + 1, sizeof *program->arguments);
    program->results = nt__arena_alloc(&program->arena, spec->result_count + 1, sizeof *program->results);
    if (!program->arguments || !program->results) return false;
    for (size_t i = 0; i < printed->argument_count; i++) {
        const nt__argument *argument = &printed->arguments[i];
        program->arguments[i] = (nt__port){argument->name, argument->type, NT__OUTPUT, argument->donated_to};
    }
    program->result_count = spec->result_count;
    for (size_t i = 0; i < spec->result_count; i++) {
        program->results[i] = spec->results[i];
        if (!(program->results[i].name = nt__arena_strdup(&program->arena, spec->results[i].name))) return false;
    }
    return true;
}

/* What nt_remat computes again must not become one with the first time. The engines for the host take the barriers
 * away too early, by a pass that other engines need. */
static bool must_keep_barriers(const nt__program *program) {
    return program->printed.has_barriers && strcmp(nt__engine_facts_of(program->engine)->platform, "cpu") == 0;
}

nt_status nt__program_new(nt__engine *engine, const nt__program_spec *spec, nt__printed *printed, nt__program **out) {
    nt__program *program = nt__alloc(1, sizeof *program);
    *out = NULL;
    if (!program) {
        nt__printed_free(printed);
        return NT_OUT_OF_MEMORY;
    }
    program->engine = engine;
    program->printed = *printed;
    *printed = (nt__printed){0};
    program->quiet = spec->quiet;
    program->no_disk = spec->no_disk || (spec->options && nt__options_ask_for_files(spec->options));
    program->role = nt__arena_strdup(&program->arena, spec->role);
    program->experiment = nt__arena_strdup(&program->arena, spec->experiment);
    if (spec->failure_folder) program->failure_folder = nt__arena_strdup(&program->arena, spec->failure_folder);
    bool copied = program->role && program->experiment && (!spec->failure_folder || program->failure_folder) &&
                  copy_parts(program, spec) && copy_ports(program, spec);
    nt_status status = copied ? NT_OK : NT_OUT_OF_MEMORY;
    if (status == NT_OK)
        status =
            nt__options_encode(spec->options, must_keep_barriers(program), &program->options, &program->options_length);
    if (status != NT_OK) {
        nt__program_free(program);
        return status;
    }
    find_key(program);
    *out = program;
    return NT_OK;
}

nt__signature nt__program_signature(const nt__program *program) {
    return (nt__signature){program->arguments, program->printed.argument_count, program->results,
                           program->result_count};
}

const nt__argument *nt__program_arguments(const nt__program *program, size_t *count) {
    *count = program->printed.argument_count;
    return program->printed.arguments;
}

nt_status nt__program_run(nt__program *program, nt__buffer *const *arguments, nt__buffer *const *results) {
    nt_status status = nt__program_ready(program);
    if (status != NT_OK) return status;
    return nt__executable_run(program->entry->executable, arguments, program->printed.argument_count, results,
                              program->result_count);
}

nt_status nt__program_memory(nt__program *program, nt__executable_memory *out) {
    nt_status status = nt__program_ready(program);
    return status == NT_OK ? nt__executable_memory_of(program->entry->executable, out) : status;
}

const char *nt__program_text(const nt__program *program) {
    return program->printed.text.data;
}
