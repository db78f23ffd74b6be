/* Inside of printing: which nodes are needed, lines under construction, operations that run bodies. */
#ifndef NT_GRAPH_PRINTER_H
#define NT_GRAPH_PRINTER_H

#include "graph/region.h"

typedef struct nt__printer {
    nt__graph *graph;
    const nt__result *results;
    size_t result_count;
    bool *needed;
    uint32_t *taken_by;      /* one more than the result that takes an argument's memory */
    uint32_t *number;        /* of the argument or value that stands for a node; of a result: its place on its line */
    uint32_t next;           /* number of the next value */
    int depth;               /* of braces that are open */
    nt__text words;          /* of the present line: as it is remembered, */
    nt__text line;           /* and with its value numbers */
    nt_site site, kept_site; /* of the present line, and the copy of that */
    nt__printed *out;
    size_t line_capacity;
} nt__printer;

/* ---- which nodes (needed.c) ------------------------------------------------------------------------------------- */

/* Marks what the results of the program need: of operations that run bodies only the results that are used, and in
 * their bodies what these are made of. False when memory is short. */
bool nt__mark_needed(nt__printer *p);
/* Whether a result of the operation or, of a loop, its carry is needed. */
bool nt__result_needed(const nt__printer *p, const nt__control *control, size_t index);
/* Whether the body is printed in the operation's place. */
bool nt__is_inline(const nt__control *control);

/* ---- parts of the text (print.c) -------------------------------------------------------------------------------- */

/* "%7", "%arg1", "%7#2". */
void nt__print_name(const nt__printer *p, const nt__node *node, nt__text *text);
void nt__print_indent(const nt__printer *p);
/* Remembers the lines that p->words holds. False when memory is short. */
bool nt__keep_lines(nt__printer *p, nt_site site);
/* The nodes of a region that are needed. */
bool nt__print_nodes(nt__printer *p, const nt__region *region);
/* An operation that runs bodies, or has several results (print_control.c). */
bool nt__print_control(nt__printer *p, const nt__control *control);
/* A constant with the same element everywhere, given by its bytes (print.c). */
void nt__print_filled(nt__type type, const void *element, nt__text *text);

#endif
