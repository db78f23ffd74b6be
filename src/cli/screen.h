/* What output goes to: its size, and whether it has colours. */
#ifndef NT_CLI_SCREEN_H
#define NT_CLI_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

typedef struct nt__screen {
    size_t columns, rows; /* 0: no end, as of a file or a pipe */
    bool colours;
} nt__screen;
/* Of standard output. NO_COLOR turns colours off. */
nt__screen nt__screen_of_output(void);

#endif
