/* Aligned tables of text, and the one kind of cell that several have: a time.
 * Not here: what else is in the cells.
 */
#ifndef NT_CLI_TABLE_H
#define NT_CLI_TABLE_H

#include <stdio.h>

#include "cli/words.h"

/* A moment, in seconds since 1970, as local time: "2026-03-01 14:05:09", or "?" where no calendar reaches. */
enum { NT__TIME = 32 };
const char *nt__time_text(int64_t seconds, char out[NT__TIME]);

enum { NT__TABLE_COLUMNS = 8 };

/* Cells row by row; an empty text is an empty cell. The last column is as wide as it likes. */
typedef struct nt__table {
    nt__arena arena;
    nt__words cells;
} nt__table;
/* Adds a copy of the text, with escapes for what a terminal would obey. */
void nt__table_add(nt__table *table, const char *text);
/* Prints the cells in rows of `columns` and frees them. False when memory was short. */
bool nt__table_print(nt__table *table, size_t columns, FILE *out);

#endif
