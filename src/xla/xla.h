/* The engine: a PJRT plugin, its client, device buffers with accounting, executables. The only folder that knows PJRT.
 *
 * Nothing that would make the engine abort, crash or hang reaches it: every argument is checked here first and refused
 * with a message of ours. Not here: what a program means, caching, the training loop.
 */
#ifndef NT_XLA_XLA_H
#define NT_XLA_XLA_H

#include "array/array.h"

/* ---- the engine: one plugin and one client a process ------------------------------------------------------------ */

typedef struct nt__engine nt__engine;

/* The engine of the process, opened at the first call. The plugin is NITRO_PLUGIN, else the newest PJRT API among the
 * .so files in the plugin folders (NITRO_PLUGIN_PATH, a colon-separated list; else the `plugins` folder of the build or
 * installation); else an error that says how to get one. `devices` is how many CPU devices to ask for. A second call
 * with another number is an error: the client lives as long as the process. */
nt_status nt__engine_open(int devices, nt__engine **out);
/* Closes the client if one is open; buffers, executables and who holds the engine must be gone (else an error that
 * counts them). The plugin stays loaded: it is never unloaded. */
nt_status nt__engine_close(void);
/* Error in a process that was forked from one with an open engine. */
nt_status nt__engine_check_process(void);
/* From one to the other nobody closes the engine: for the life of a run, which is made and used in any thread. */
void nt__engine_hold(void);
void nt__engine_release(void);

typedef struct nt__engine_facts {
    const char *plugin_path;
    int api_major, api_minor;
    const char *platform, *platform_version;
    const char *stablehlo_version; /* "" when the plugin does not say */
    nt__hash plugin_hash; /* of the file's size, modification time and path: cheap; a content hash is the disk cache's
                             business */
    int device_count;
} nt__engine_facts;
const nt__engine_facts *nt__engine_facts_of(const nt__engine *engine);
/* "TFRT_CPU_0" or "cpu:0": the engine's own text for a device. */
const char *nt__device_text(const nt__engine *engine, int device);
/* The complete text of the calling thread's last engine error, of which the message shows the first lines; NULL when
 * there was none since the thread's last compile began. Valid until the thread's next engine error or compile, or until
 * the engine is closed. */
const char *nt__engine_last_text(void);

/* ---- accounting ------------------------------------------------------------------------------------------------- */

typedef enum nt__purpose {
    NT__PARAMETERS,
    NT__OPTIMIZER_STATE,
    NT__ACCUMULATOR,
    NT__LAYER_STATE, /* what a model carries from micro-batch to micro-batch, and the seed of its draws */
    NT__BATCH,       /* in use by a step */
    NT__STAGED,      /* uploaded ahead by the prefetch worker, not yet taken */
    NT__DEVICE_FIELD,
    NT__RATE,   /* scalars of the optimizer's rules */
    NT__FLAG,   /* is this the first micro-batch of a step? */
    NT__OUTPUT, /* losses, predictions */
    NT__PURPOSE_COUNT
} nt__purpose;
const char *nt__purpose_name(nt__purpose purpose);

typedef struct nt__count {
    uint64_t live_count, live_bytes, peak_count, peak_bytes;
} nt__count;
typedef struct nt__transfer {
    uint64_t count, bytes;
} nt__transfer;
typedef struct nt__engine_counts {
    nt__count buffers[NT__PURPOSE_COUNT];
    nt__count all_buffers;
    nt__count executables; /* bytes: generated code, when the engine tells */
    nt__transfer uploads[NT__PURPOSE_COUNT], downloads[NT__PURPOSE_COUNT];
    uint64_t compiles, loads, runs; /* loads: executables made of saved bytes */
} nt__engine_counts;
/* Counters of the process. They need no engine to be open. */
nt__engine_counts nt__engine_counts_now(void);

/* Called for every transfer of the thread that set it, after it was counted. NULL: nobody is told. */
typedef void (*nt__transfer_watcher)(bool upload, nt__purpose purpose, const char *name, size_t bytes, void *context);
void nt__transfers_watch(nt__transfer_watcher watcher, void *context);

/* ---- buffers ---------------------------------------------------------------------------------------------------- */

typedef enum nt__buffer_state {
    NT__BUFFER_EMPTY,
    NT__BUFFER_ALIVE,
    NT__BUFFER_FREED,
    NT__BUFFER_DONATED
} nt__buffer_state;

/* Bytes of a buffer's name with its NUL; a longer one is cut. */
enum { NT__BUFFER_NAME = 64 };

/* One array on one device. A value with one owner: never copy the struct of a live buffer; hand out pointers. All zeros
 * is an empty one. After it was freed or donated `raw` is NULL and the state says which, so that a later use is an
 * error that names the buffer. The names are copies: the program they come from may be freed before the buffer. */
typedef struct nt__buffer {
    void *raw;  /* PJRT_Buffer */
    void *lent; /* host memory lent to the engine for the buffer's life, freed with it */
    void *done; /* PJRT_Event: the engine is done with `lent` */
    nt__type type;
    size_t bytes;
    nt__purpose purpose;
    nt__buffer_state state;
    int device;
    char name[NT__BUFFER_NAME];
    char donated_to[NT__BUFFER_NAME]; /* the program, when the state is NT__BUFFER_DONATED */
} nt__buffer;

/* Copies `data` (row-major, whole; bool bytes are normalised to 0 or 1) to the device. *buffer must not be alive. */
nt_status nt__buffer_upload(nt__engine *engine, int device, const char *name, nt__purpose purpose, nt__type type,
                            const void *data, nt__buffer *buffer);
/* Lends `data`, memory of nt__alloc_aligned, without a copy where the engine can; it is owned by the buffer from here
 * on, also when the call fails. bool bytes must be 0 or 1 already. */
nt_status nt__buffer_lend(nt__engine *engine, int device, const char *name, nt__purpose purpose, nt__type type,
                          void *data, nt__buffer *buffer);
/* Waits for the value and copies it to `out`, which holds buffer->bytes. An execution that failed shows here. */
nt_status nt__buffer_read(nt__engine *engine, nt__buffer *buffer, void *out);
/* Moves the buffer to another purpose's account. */
void nt__buffer_account(nt__buffer *buffer, nt__purpose purpose);
/* Frees the device memory and nulls the pointer. A buffer that is not alive is left as it is. Waits for the engine when
 * the buffer was lent and a run still reads it. */
void nt__buffer_free(nt__buffer *buffer);
/* Frees the buffer and gives the memory that was lent for it, which may be used again; NULL when there is none. */
void *nt__buffer_take_back(nt__buffer *buffer);
/* Error naming the buffer unless it is alive. */
nt_status nt__buffer_check(const nt__buffer *buffer);

/* ---- executables ------------------------------------------------------------------------------------------------ */

/* One argument or result of a program. */
typedef struct nt__port {
    const char *name;
    nt__type type;
    nt__purpose purpose; /* of a result's buffer; unused for arguments */
    int donated_to;      /* an argument: the result that takes its memory, -1 = not donated. Results: -1 */
} nt__port;

typedef struct nt__signature {
    const nt__port *arguments;
    size_t argument_count;
    const nt__port *results;
    size_t result_count;
} nt__signature;

/* Options of a compile: encoded as CompileOptionsProto. Overrides are sorted by name so that equal options are equal
 * bytes. */
typedef struct nt__override {
    const char *name;
    enum { NT__OVERRIDE_STRING, NT__OVERRIDE_BOOL, NT__OVERRIDE_INT, NT__OVERRIDE_DOUBLE } kind;
    const char *string;
    int64_t integer; /* also bool */
    double real;
} nt__override;
typedef struct nt__compile_options {
    int partitions; /* 0 means 1; up to 1024 */
    const nt__override *overrides;
    size_t override_count;
} nt__compile_options;
/* Refuses a value that is no whole number within the range of the option, for those options where the engine would end
 * the process. `kind` begins the message: "compile option". */
nt_status nt__option_check_range(const char *kind, const char *name, const char *value);
/* The protobuf bytes, never empty; free with nt__free. */
nt_status nt__compile_options_encode(const nt__compile_options *options, uint8_t **bytes, size_t *length);

typedef struct nt__executable nt__executable;

/* Compiles StableHLO text for one device. `name` is used in messages ("gradient of Fashion"). The signature is copied.
 * The engine's own results (types and shapes) must equal the signature's. */
nt_status nt__executable_compile(nt__engine *engine, const char *name, const char *text, size_t length,
                                 const nt__signature *signature, const uint8_t *options, size_t options_length,
                                 nt__executable **out);
/* Launches the program. Checks first: count, type, shape, device, alive, no buffer twice when one of the two is
 * donated. `results` are slots that must not be alive; a slot may be the very buffer that is donated to it. Donated
 * arguments become DONATED. When the call fails no result slot is touched, and a donated argument stays alive unless
 * the engine took it all the same. Does not wait, except for the engine's copy of a donated argument that was lent. Any
 * number of threads may run an executable, with buffers of their own. */
nt_status nt__executable_run(nt__executable *executable, nt__buffer *const *arguments, size_t argument_count,
                             nt__buffer *const *results, size_t result_count);
void nt__executable_free(nt__executable **executable);

/* Why programs cannot be saved with this plugin, in words; NULL: they can. */
const char *nt__engine_cannot_save(const nt__engine *engine);
/* The engine's own form of a compiled program, for nt__executable_load in a process with the same plugin on the same
 * kind of processor. An executable that was loaded itself is refused: the engine would save it without an error, and
 * what it saves does not run. Free *bytes with nt__free. */
nt_status nt__executable_save(const nt__executable *executable, uint8_t **bytes, size_t *length);
/* Makes an executable of saved bytes: like a compile, and as strict about the signature. The caller answers for the
 * bytes: of changed or shortened ones, or those of another plugin or processor, the engine may abort the process or
 * compute something else. */
nt_status nt__executable_load(nt__engine *engine, const char *name, const uint8_t *bytes, size_t length,
                              const nt__signature *signature, nt__executable **out);

typedef struct nt__executable_memory {
    int64_t code_bytes, argument_bytes, output_bytes, alias_bytes, temporary_bytes;
} nt__executable_memory;
nt_status nt__executable_memory_of(nt__executable *executable, nt__executable_memory *out);

#endif
