/* The shell: what it holds, and the parts it is made of. */
#ifndef NT_SHELL_SHELL_H
#define NT_SHELL_SHELL_H

#include "build/build.h"
#include "cli/cli.h"
#include "shell/lines.h"

/* A run with the values that it was made with. The text of its flags lives in the arena. */
typedef struct nt__shell_run {
    nt__arena arena;
    nt__arguments arguments;
    const char *name;
    const nt_experiment *experiment;
    void *fields;
    nt_run *run;
    bool is_loaded; /* its parameters came from a file */
} nt__shell_run;

typedef struct nt__shell {
    const nt__arguments *arguments;
    nt__command_options options;
    nt__terminal terminal;
    nt__lines lines;

    nt__built built; /* what is loaded */
    nt__watch watch;
    uint64_t older; /* experiments up to this generation are of objects before it */
    bool is_broken; /* the files do not compile as they are */

    nt__shell_run **runs;
    size_t run_count, run_capacity;
    nt__shell_run *current; /* NULL: there is none */
    int64_t made;           /* runs so far: the next one's name */
    bool failed, quit;      /* a command failed; the end was asked for */
} nt__shell;

/* ---- the files (shell_files.c) ---------------------------------------------------------------------------------- */

/* Compiles and loads the files for the first time. */
nt_status nt__shell_load(nt__shell *shell);
/* Compiles and loads them when one has changed since; `always`: looks at their contents whatever the times say. *loaded
 * is true when the code is new. A failure leaves the code that was loaded before. */
nt_status nt__shell_reload(nt__shell *shell, bool always, bool *loaded);
/* Whether a file has changed since the last look. */
bool nt__shell_is_stale(const nt__shell *shell);
/* Whether the files as they were loaded last define an experiment of that name. */
bool nt__shell_defines(const nt__shell *shell, const char *name);
/* The experiment of that name in the files as they were loaded last; NULL: the only one. */
nt_status nt__shell_choose(const nt__shell *shell, const char *name, const nt_experiment **out);

/* ---- runs (shell_runs.c) ---------------------------------------------------------------------------------------- */

/* Makes a run of the words after "new"; it becomes the current one. */
nt_status nt__shell_new(nt__shell *shell, const nt__words *words);
nt__shell_run *nt__shell_find(const nt__shell *shell, const char *name);
void nt__shell_free(nt__shell *shell, nt__shell_run *run);
/* What the verbs new and predict take, as commands do. */
extern const nt__takes nt__takes_new, nt__takes_predict;
/* Sorts the words of a line that is gone when they are used: copies of them live in the arena. Free the arguments after
 * a failure too. */
nt_status nt__shell_arguments(const nt__takes *verb, const nt__words *words, nt__arena *arena, nt__arguments *out);

/* ---- fields (shell_fields.c) ------------------------------------------------------------------------------------ */

/* Lists those of the current run with their values, else those of the experiment. */
nt_status nt__shell_fields(nt__shell *shell, const nt__words *words);
/* Shows one field of the current run, or one array of a set, "frozen.weight". */
nt_status nt__shell_get(nt__shell *shell, const nt__words *words);
/* "FIELD=VALUE": gives a Device field of the current run another value, an array that of a .npy file, and shows it. */
nt_status nt__shell_set(nt__shell *shell, const nt__words *words);

/* ---- verbs (verbs.c) -------------------------------------------------------------------------------------------- */

/* What the words after a command are. */
typedef enum nt__shell_words {
    NT__NO_WORDS,
    NT__RUN_NAMES,
    NT__SPLIT_NAMES,
    NT__FLAG_NAMES,
    NT__FIELD_NAMES,
    NT__FIELDS_TO_SET,
    NT__PREDICTION_FLAGS,
    NT__UNITS
} nt__shell_words;

/* `words` are those after the command's name. */
typedef struct nt__shell_verb {
    const char *name, *operands, *summary;
    nt__shell_words completes;
    size_t fewest, most; /* words; SIZE_MAX: any number */
    bool uses_run;       /* there has to be one */
    bool uses_code;      /* files that changed are compiled and loaded first */
    nt_status (*run)(nt__shell *shell, const nt__words *words);
} nt__shell_verb;
/* NULL beyond the last. */
const nt__shell_verb *nt__shell_verb_at(size_t index);
/* Runs a line. A failure is reported, and noted in the shell. */
void nt__shell_run_line(nt__shell *shell, const char *line);

/* complete.c: adds what the last word of `line` may become. */
void nt__shell_complete(const char *line, nt__arena *arena, nt__words *words, void *shell);

#endif
