/* Running an executable: every argument and result slot is checked, the program launched, donated buffers settled.
 * Not here: compiling. A run allocates nothing unless another thread runs the same executable at that moment.
 */
#include <stdatomic.h>

#include "xla/xla_internal.h"

/* ---- checks ----------------------------------------------------------------------------------------------------- */

static nt_status check_count(const char *what, size_t given, size_t wanted, const void *list) {
    if (given != wanted) return nt__fail(NT_INVALID, "%zu %ss given, the program has %zu", given, what, wanted);
    if (given && !list) return nt__fail(NT_INVALID, "no list of %ss (NULL)", what);
    return NT_OK;
}

/* The engine compares only sizes in bytes, so this is the one place where a mixed-up argument shows. */
static nt_status check_argument(const nt__executable *executable, size_t index, const nt__buffer *argument) {
    const nt__port *port = &executable->signature.arguments[index];
    char wanted[NT__TYPE_TEXT], given[NT__TYPE_TEXT];
    nt_status status = nt__buffer_check(argument);
    if (status != NT_OK) return nt__fail_in(status, "argument %zu '%s'", index, port->name);
    if (!nt__type_equal(argument->type, port->type))
        return nt__fail(NT_INVALID, "argument %zu '%s' must be %s, buffer '%s' is %s", index, port->name,
                        nt__type_text(port->type, wanted), argument->name, nt__type_text(argument->type, given));
    if (argument->device != executable->device)
        return nt__fail(NT_INVALID, "argument %zu '%s': buffer '%s' is on device %d, the program runs on device %d",
                        index, port->name, argument->name, argument->device, executable->device);
    return NT_OK;
}

static nt_status check_donated_once(const nt__executable *executable, nt__buffer *const *arguments, size_t donated) {
    const nt__port *ports = executable->signature.arguments;
    for (size_t i = 0; i < executable->signature.argument_count; i++) {
        if (i == donated || arguments[i] != arguments[donated]) continue;
        return nt__fail(NT_INVALID,
                        "buffer '%s' is argument %zu '%s', which is donated, and argument %zu '%s': pass it once",
                        arguments[i]->name, donated, ports[donated].name, i, ports[i].name);
    }
    return NT_OK;
}

static nt_status check_arguments(const nt__executable *executable, nt__buffer *const *arguments) {
    const nt__signature *signature = &executable->signature;
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < signature->argument_count; i++)
        status = check_argument(executable, i, arguments[i]);
    for (size_t i = 0; status == NT_OK && i < signature->argument_count; i++) {
        if (signature->arguments[i].donated_to >= 0) status = check_donated_once(executable, arguments, i);
    }
    return status;
}

/* Whether the slot is the very buffer that gives its memory to this result. */
static bool is_donor(const nt__executable *executable, nt__buffer *const *arguments, size_t result,
                     const nt__buffer *slot) {
    for (size_t i = 0; i < executable->signature.argument_count; i++) {
        if (executable->signature.arguments[i].donated_to == (int)result) return arguments[i] == slot;
    }
    return false;
}

static nt_status check_result(const nt__executable *executable, nt__buffer *const *arguments,
                              nt__buffer *const *results, size_t index) {
    const char *name = executable->signature.results[index].name;
    const nt__buffer *slot = results[index];
    if (!slot) return nt__fail(NT_INVALID, "result %zu '%s' has no slot (NULL)", index, name);
    for (size_t i = 0; i < index; i++) {
        if (results[i] == slot)
            return nt__fail(NT_INVALID, "results %zu '%s' and %zu '%s' have the same slot", i,
                            executable->signature.results[i].name, index, name);
    }
    if (slot->state != NT__BUFFER_ALIVE || is_donor(executable, arguments, index, slot)) return NT_OK;
    return nt__fail(NT_INVALID,
                    "the slot of result %zu '%s' holds buffer '%s', which is alive and not donated to this result: "
                    "free it first",
                    index, name, slot->name);
}

static nt_status check_run(const nt__executable *executable, nt__buffer *const *arguments, size_t argument_count,
                           nt__buffer *const *results, size_t result_count) {
    const nt__signature *signature = &executable->signature;
    nt_status status = check_count("argument", argument_count, signature->argument_count, arguments);
    if (status == NT_OK) status = check_count("result", result_count, signature->result_count, results);
    if (status == NT_OK) status = check_arguments(executable, arguments);
    for (size_t i = 0; status == NT_OK && i < result_count; i++)
        status = check_result(executable, arguments, results, i);
    return status;
}

/* ---- the lists of a run ----------------------------------------------------------------------------------------- */

nt__launch *nt__launch_new(const nt__signature *signature) {
    size_t arguments = signature->argument_count, results = signature->result_count;
    nt__launch *l = nt__alloc(1, sizeof *l + (arguments + results) * sizeof(PJRT_Buffer *) + arguments);
    if (!l) return NULL;
    l->arguments = (PJRT_Buffer **)(l + 1);
    l->results = l->arguments + arguments;
    l->taken = (bool *)(l->results + results);
    return l;
}

/* NULL when memory is short. */
static nt__launch *take_launch(nt__executable *executable) {
    nt__launch *spare = atomic_exchange(&executable->spare, NULL);
    return spare ? spare : nt__launch_new(&executable->signature);
}

static void give_launch_back(nt__executable *executable, nt__launch *launch) {
    nt__free(atomic_exchange(&executable->spare, launch));
}

/* ---- the launch ------------------------------------------------------------------------------------------------- */

static nt_status launch(const nt__executable *executable, nt__launch *l, nt__buffer *const *arguments) {
    size_t argument_count = executable->signature.argument_count;
    for (size_t i = 0; i < argument_count; i++) l->arguments[i] = arguments[i]->raw;
    PJRT_Buffer *const *argument_lists[] = {l->arguments};
    PJRT_Buffer **result_lists[] = {l->results};
    PJRT_ExecuteOptions options = {.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE};
    NT__ARGS(PJRT_LoadedExecutable_Execute, args, .executable = executable->loaded, .options = &options,
             .argument_lists = argument_lists, .num_devices = 1, .num_args = argument_count,
             .output_lists = result_lists);
    return NT__CALL(PJRT_LoadedExecutable_Execute, &args);
}

/* ---- donated buffers -------------------------------------------------------------------------------------------- */

static bool is_deleted(const nt__buffer *buffer) {
    NT__ARGS(PJRT_Buffer_IsDeleted, args, .buffer = buffer->raw);
    return NT__CALL_QUIETLY(PJRT_Buffer_IsDeleted, &args) && args.is_deleted;
}

static void release_donated(const nt__executable *executable, nt__buffer *buffer) {
    nt__buffer_release(buffer, NT__BUFFER_DONATED);
    nt__buffer_copy_name(buffer->donated_to, executable->name);
}

/* A buffer whose memory the engine took is gone before the result counts; one that it copied, because it was lent or
 * another had a share in it, lives beside the result for a moment, and the peak has to show that. */
static void count_taken(const nt__executable *executable, nt__launch *l, nt__buffer *const *arguments) {
    for (size_t i = 0; i < executable->signature.argument_count; i++) {
        if (executable->signature.arguments[i].donated_to < 0) continue;
        l->taken[i] = !arguments[i]->lent && is_deleted(arguments[i]);
        if (l->taken[i]) nt__account_gone(arguments[i]->purpose, arguments[i]->bytes);
    }
}

static void release_arguments(const nt__executable *executable, const nt__launch *l, nt__buffer *const *arguments) {
    for (size_t i = 0; i < executable->signature.argument_count; i++) {
        if (executable->signature.arguments[i].donated_to < 0) continue;
        release_donated(executable, arguments[i]);
        if (!l->taken[i]) nt__account_gone(arguments[i]->purpose, arguments[i]->bytes);
    }
}

/* A failed run leaves donated arguments alone as a rule; the engine is asked, since it has the last word. */
static void settle_failure(const nt__executable *executable, nt__buffer *const *arguments) {
    for (size_t i = 0; i < executable->signature.argument_count; i++) {
        if (executable->signature.arguments[i].donated_to < 0 || !is_deleted(arguments[i])) continue;
        release_donated(executable, arguments[i]);
        nt__account_gone(arguments[i]->purpose, arguments[i]->bytes);
    }
}

/* ---- results ---------------------------------------------------------------------------------------------------- */

static void count_results(const nt__executable *executable) {
    for (size_t i = 0; i < executable->signature.result_count; i++)
        nt__account_made(executable->signature.results[i].purpose, executable->result_bytes[i]);
}

/* Comes last: a slot may be a donated argument. */
static void fill_results(const nt__executable *executable, const nt__launch *l, nt__buffer *const *results) {
    for (size_t i = 0; i < executable->signature.result_count; i++) {
        const nt__port *port = &executable->signature.results[i];
        nt__buffer_fill(results[i], l->results[i], port->name, port->purpose, port->type, executable->result_bytes[i],
                        executable->device);
    }
}

static nt_status run(const nt__executable *executable, nt__launch *l, nt__buffer *const *arguments,
                     nt__buffer *const *results) {
    nt_status status = launch(executable, l, arguments);
    if (status != NT_OK) {
        settle_failure(executable, arguments);
        return nt__fail_in(status, "running '%s'", executable->name);
    }
    count_taken(executable, l, arguments);
    count_results(executable);
    release_arguments(executable, l, arguments);
    fill_results(executable, l, results);
    nt__account_run();
    return NT_OK;
}

nt_status nt__executable_run(nt__executable *executable, nt__buffer *const *arguments, size_t argument_count,
                             nt__buffer *const *results, size_t result_count) {
    if (!executable) return nt__fail(NT_INVALID, "running: no executable (NULL)");
    nt_status status = check_run(executable, arguments, argument_count, results, result_count);
    if (status != NT_OK) return nt__fail_in(status, "running '%s'", executable->name);
    nt__launch *l = take_launch(executable);
    if (!l) return NT_OUT_OF_MEMORY;
    status = run(executable, l, arguments, results);
    give_launch_back(executable, l);
    return status;
}
