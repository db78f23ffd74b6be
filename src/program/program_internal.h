/* Inside of the program folder. */
#ifndef NT_PROGRAM_PROGRAM_INTERNAL_H
#define NT_PROGRAM_PROGRAM_INTERNAL_H

#include "program/program.h"

/* A compiled program. The cache and each handle's program hold a reference. */
typedef struct nt__entry {
    nt__hash key;
    nt__executable *executable;
    size_t references;
    bool is_made_now;          /* by some thread: the others wait for it */
    uint64_t used;             /* the cache's clock at its last use */
    nt_cache_report_t *report; /* NULL: it came from the disk */
} nt__entry;

struct nt__program {
    nt__engine *engine;
    nt__arena arena; /* role, experiment, ports, parts */
    const char *role, *experiment;
    nt__printed printed;
    nt__port *arguments, *results;
    size_t result_count;
    nt__part *parts;
    size_t part_count;
    bool quiet, no_disk;
    const char *failure_folder; /* NULL: a failed compile writes no file */
    uint8_t *options;
    size_t options_length;
    nt__hash content; /* of text and options */
    nt__hash key;     /* of the content and the plugin */
    nt__entry *entry; /* NULL until first used */
};

/* After a failed compile: puts the user's line before the thread's message and the arguments after it, and writes
 * "<failure_folder>/failed-<role>.txt" with the engine's whole text and the program. A file that cannot be written is
 * left out of the message. */
nt_status nt__program_explain(const nt__program *program, nt_status status);

/* What programs are compared by. */
typedef struct nt__description {
    const nt__part *parts;
    size_t part_count;
    const nt__line *lines;
    size_t line_count;
    const char *text;
    int first_line; /* of the text that lines[0] belongs to */
} nt__description;
nt__description nt__description_of(const nt__program *program);
/* Adds what differs between two programs that are not the same: the parts, and the first operation unless the value of
 * a part explains it. */
void nt__description_compare(const nt__description *old, const nt__description *new, nt__text *out);
/* The ports as the engine wants them. */
nt__signature nt__program_signature(const nt__program *program);

/* Remembers a program as the last one of its role and experiment. False when memory is short. These may be called from
 * any thread. */
bool nt__describe_remember(const nt__program *program);
/* Says what differs between a program and the last one of its role and experiment, and remembers the new one. The text
 * is in `arena`; NULL when memory is short. */
const char *nt__describe_move(const nt__program *program, nt__arena *arena);
/* Whether a program of this role and experiment is remembered. */
bool nt__describe_knows(const nt__program *program);
/* What is remembered of a program, as bytes for another process, and the name of the file they are kept in. Reading
 * remembers them as of the last program of this role and experiment; bytes that make no sense are left alone. */
enum { NT__DESCRIBE_NAME = 96 };
void nt__describe_name(const nt__program *program, char out[NT__DESCRIBE_NAME]);
void nt__describe_write(const nt__program *program, nt__text *out);
nt_status nt__describe_read(const nt__program *program, const char *data, size_t length);
/* Forgets what was remembered. */
void nt__descriptions_reset(void);

#endif
