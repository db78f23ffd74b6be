/* The command line: files and flags, before an experiment says which fields there are. */
#ifndef NT_CLI_ARGUMENTS_H
#define NT_CLI_ARGUMENTS_H

#include "base/words.h"
#include "nitro/run.h"
#include "optim/optim.h"

/* ---- commands and their flags ----------------------------------------------------------------------------------- */

/* What a command takes: of it flags and fields are read. */
typedef struct nt__takes {
    const char *command;
    const char *flags, *idle; /* sets of flags that it uses, and that it takes and does not use: words */
} nt__takes;
/* One a command, in their order (commands.def); NULL beyond the last, and when there is none of that name. */
const nt__takes *nt__takes_at(size_t index);
const nt__takes *nt__takes_of(const char *command);

typedef enum nt__flag_group { NT__FLAGS_RUN, NT__FLAGS_OUTPUT, NT__FLAGS_BUILD } nt__flag_group;

/* What flags other than fields of an experiment set. */
typedef struct nt__command_options {
    nt_run_options run;
    const char *split, *weights;                        /* of an evaluation; weights of a prediction too */
    const char *out;                                    /* of a prediction */
    const char *stats;                                  /* file for the counters */
    const char *experiment, *cflags, *ldflags;          /* of the build */
    bool watch;                                         /* of the shell */
    bool strict;                                        /* a warning is an error */
    nt__words inputs, schedules, compile_options, maps; /* every value, in order */
    nt__words metrics;                                  /* of runs that are looked at */
    const char *mode, *epochs, *x;                      /* likewise */
    nt_schedules parsed;                                /* the schedules; the options of the run point here */
    bool resolved;                                      /* help: as a run would have it */
    bool all;                                           /* clear everything */
    bool help;
} nt__command_options;

/* A flag that is no field of an experiment, described like one: its offset is in nt__command_options. */
typedef struct nt__keyword {
    nt_field_info field;
    size_t given;         /* offset of the bool that says the flag was there; NT__NOT_NOTED: there is none */
    nt__flag_group group; /* where the manual lists it */
    const char *set;      /* commands take it by this name; most often others belong to it too */
    const char *alone;    /* the value of the flag without one; NULL: it needs one */
    bool is_list;         /* may be given several times; each value is a word of the nt__words at the offset */
} nt__keyword;
#define NT__NOT_NOTED SIZE_MAX

/* NULL beyond the last. */
const nt__keyword *nt__keyword_at(size_t index);
/* Dashes and underscores are the same in a name. */
const nt__keyword *nt__keyword_find(const char *name);
/* Whether a command has a use for it. */
bool nt__uses(const nt__takes *command, const nt__keyword *keyword);
/* The command's keyword that a flag sets, also one that "no-" turns off, and one that it has no use for. A keyword of
 * another command is none here, so that a field may have its name. */
const nt__keyword *nt__keyword_of(const nt__takes *command, const char *name);

/* ---- what was typed --------------------------------------------------------------------------------------------- */

typedef struct nt__flag {
    const char *name;  /* "max-epochs", without the dashes in front */
    const char *value; /* NULL: none */
    bool is_next_word; /* the value stood in a word of its own */
} nt__flag;

typedef struct nt__arguments {
    nt__arena arena;
    const nt__takes *command;
    nt__words files; /* everything that is neither a flag nor its value */
    nt__flag *flags;
    size_t flag_count, flag_capacity;
} nt__arguments;

/* Sorts the words after the command's name. */
nt_status nt__arguments_read(const nt__takes *command, int count, char *const *words, nt__arguments *out);
void nt__arguments_free(nt__arguments *arguments);
/* There is a file, all end in .c, and all exist. `command` is for the message. */
nt_status nt__arguments_check_files(const nt__arguments *arguments, const char *command);

/* Puts the flags of `from` in front of those of `to`, so that these win; keywords that the command of `to` has not are
 * left out. Names and values are borrowed. */
nt_status nt__arguments_inherit(nt__arguments *to, const nt__arguments *from);

/* Fills the options from the flags that are no fields. The others are left for nt__arguments_fields. Free the options
 * after a failure too. */
nt_status nt__arguments_options(const nt__arguments *arguments, nt__command_options *out);
void nt__command_options_free(nt__command_options *options);
/* Sets fields from the other flags. A flag that is no field either is an error with the closest names; `experiment`
 * NULL: no flag is a field. */
nt_status nt__arguments_fields(const nt__arguments *arguments, const nt_experiment *experiment, void *fields);

/* Adds the names of the fields that have a flag. */
nt_status nt__arguments_given(const nt__arguments *arguments, const nt_experiment *experiment, nt__words *out);
/* unused.c: error for a flag that has no effect beside the others. */
nt_status nt__options_check_together(const nt__takes *command, const nt__command_options *options);

/* "max_epochs" becomes "max-epochs". The name lives in the arena; NULL when memory is short. */
char *nt__flag_name(nt__arena *arena, const char *name);

#endif
