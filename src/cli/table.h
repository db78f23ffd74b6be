/* Aligned tables of text. */
#ifndef NT_CLI_TABLE_H
#define NT_CLI_TABLE_H

#include <stdio.h>

#include "cli/words.h"

enum { NT__TABLE_COLUMNS = 8 };

/* Cells row by row; an empty text is an empty cell. The last column is as wide as it likes. */
typedef struct nt__table {
    nt__arena arena;
    nt__words cells;
} nt__table;
/* Adds a copy of the text. */
void nt__table_add(nt__table *table, const char *text);
/* Prints the cells in rows of `columns` and frees them. False when memory was short. */
bool nt__table_print(nt__table *table, size_t columns, FILE *out);

#endif
