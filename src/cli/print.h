/* Text to a terminal: every name, path and line of others goes through here, and what a terminal would obey instead of
 * showing it is written as an escape: \n, \x1b, \u202e.
 */
#ifndef NT_CLI_PRINT_H
#define NT_CLI_PRINT_H

#include <stdio.h>

#include "base/base.h"

/* Writes a part of a line. A line break in it is an escape too; a tab is not. */
void nt__say(FILE *out, const char *format, ...) NT__PRINTF(2, 3);
void nt__vsay(FILE *out, const char *format, va_list arguments) NT__PRINTF(2, 0);
/* The same with a line break after it. */
void nt__say_line(FILE *out, const char *format, ...) NT__PRINTF(2, 3);
/* A text of several lines. */
void nt__say_lines(FILE *out, const char *text);
/* A cell of a table, of a text that was shown: at its left, or at its right; returns its columns. */
int nt__cell_left(FILE *out, size_t width, const char *shown);
int nt__cell_right(FILE *out, size_t width, const char *shown);

#endif
