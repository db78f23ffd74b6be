/* The commands of nitro, and what they share. */
#ifndef NT_CLI_CLI_H
#define NT_CLI_CLI_H

#include "cli/arguments.h"
#include "build/build.h"
#include "cli/terminal.h"
#include "process/process.h"

/* What a command does, which says what of the manual is about it. */
typedef enum nt__does {
    NT__COMPILES = 1,         /* files of the user's */
    NT__OPENS_ENGINE = 2,     /* or looks after what an engine made */
    NT__TAKES_FIELDS = 4,     /* of an experiment, as flags */
    NT__MAKES_RUN = 8,        /* one, and ends with it */
    NT__IS_SHELL = 16,        /* makes runs by commands of its own */
    NT__TRAINS = 32,          /* and so writes checkpoints */
    NT__READS_LOG = 64,       /* or writes one */
    NT__KEEPS_PROGRAMS = 128, /* on disk */
} nt__does;

typedef struct nt__command {
    const char *name;
    unsigned does;
    const char *operands; /* "FILE.c [MORE.c ...] [flags]" */
    const char *summary;  /* one line */
    const char *manual;   /* what it does, in whole sentences */
    nt__exit_code (*run)(const nt__arguments *arguments);
} nt__command;

/* NULL beyond the last, NULL when there is none of that name. */
const nt__command *nt__command_at(size_t index);
const nt__command *nt__command_find(const char *name);

/* Those that there are, NULL after the last: to be said once, before the others are asked. */
void nt__commands_register(const nt__command *const *commands);

/* ---- failures (fail.c) ------------------------------------------------------------------------------------------ */

/* Prints "nitro: " and the thread's message, and returns `code`. */
nt__exit_code nt__report(nt__exit_code code);
/* The same with a code that fits the status: of work that failed, and of words of the user's that were refused. */
nt__exit_code nt__report_failure(nt_status status);
nt__exit_code nt__report_wrong_use(nt_status status);

/* ---- the manual ------------------------------------------------------------------------------------------------- */

void nt__print_usage(FILE *out);
/* False: memory was short. */
bool nt__print_manual(FILE *out);
bool nt__print_command_manual(const nt__command *command, FILE *out);
/* The fields of an experiment with their values, its presets, and the run keywords with the defaults that it gives
 * them.
 */
bool nt__print_experiment(const nt_experiment *experiment, const void *fields, FILE *out);

/* ---- from a command line to a run ------------------------------------------------------------------------------- */

/* Compiles and loads the files of the arguments. The caller frees what was built; after a failure there is nothing to
 * free. */
nt__exit_code nt__load_files(const nt__arguments *arguments, const nt__command_options *options, const char *command,
                             nt__built *built);

typedef struct nt__session {
    const nt__arguments *arguments;
    nt__command_options options;
    nt__built built;
    nt__words sources, given; /* files; fields that have a flag */
    const nt_experiment *experiment;
    void *fields;
    nt_run *run;
    nt__terminal terminal;
    bool has_terminal, engine_used;
} nt__session;

/* The terminal of the process's own streams: it shows notices and warnings until it is closed. */
void nt__open_terminal(nt__terminal *terminal, const nt__command_options *options);
void nt__close_terminal(nt__terminal *terminal);
/* Fields before any flag: the preset's, else the defaults. */
nt_status nt__set_start(const nt_experiment *experiment, const char *preset, void *fields);
/* Everything up to a run that is ready to use; one that only evaluates has the weights of
 * --weights, else those that training left in run_dir, and writes no log. The session is to be closed also
 * when this fails. */
nt__exit_code nt__session_open(const nt__arguments *arguments, const char *command, bool evaluates, nt__session *out);
/* The same for a run that is only looked at: no engine, no progress, nothing that a run is used for. */
nt__exit_code nt__session_plan(const nt__arguments *arguments, const char *command, nt__session *out);
/* Frees everything, writes the counters when they were asked for, and returns `code`, or another one when closing
 * failed. */
nt__exit_code nt__session_close(nt__session *session, nt__exit_code code);
/* Clears the progress line and reports why the work ended. */
nt__exit_code nt__session_fail(nt__session *session, nt_status status);
/* The folder that a command was given, else the newest run below runs/. The caller frees it. */
nt_status nt__choose_run(const nt__arguments *arguments, char **out);
/* Path of the parameters of a run; NULL when memory is short. The caller frees it. */
char *nt__session_weights(const nt__session *session);
/* Writes the parameters; a former file becomes "<path>.previous". Refused where they would replace a file and are
 * initial values (no step was trained and none were loaded), and where another run holds the file's folder. */
nt_status nt__keep_parameters(nt_run *run, bool is_loaded, const char *path);

/* What --input and --out of a prediction name: begins as {0}, and is to be freed after a failure too. */
typedef struct nt__prediction {
    nt__arena arena;
    const char *out;
    bool quiet;
    nt_named_array *fields; /* with references of their own */
    size_t count, capacity;
    nt__words named; /* fields that --input names: each has to be one that forward reads */
} nt__prediction;
nt_status nt__prediction_read(const nt__command_options *options, nt__prediction *p);
/* Predicts, writes the file and says so. */
nt_status nt__prediction_make(const nt__prediction *prediction, const nt_experiment *experiment, nt_run *run,
                              nt__terminal *terminal);
void nt__prediction_free(nt__prediction *prediction);

#endif
