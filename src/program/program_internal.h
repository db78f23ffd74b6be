/* Inside of the program folder. */
#ifndef NT_PROGRAM_PROGRAM_INTERNAL_H
#define NT_PROGRAM_PROGRAM_INTERNAL_H

#include "program/program.h"

/* A compiled program. The cache and each handle's program hold a reference. */
typedef struct nt__entry {
    nt__hash key;
    nt__executable *executable;
    size_t references;
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
    bool quiet;
    uint8_t *options;
    size_t options_length;
    nt__hash key;
    nt__entry *entry; /* NULL until first used */
};

/* Remembers a program as the last one of its role and experiment. False when memory is short. */
bool nt__describe_remember(const nt__program *program);
/* Says what differs between a program and the last one of its role and experiment, and remembers the new one. The text
 * is in `arena`; NULL when memory is short. */
const char *nt__describe_move(const nt__program *program, nt__arena *arena);
/* Forgets what was remembered. */
void nt__descriptions_reset(void);

#endif
