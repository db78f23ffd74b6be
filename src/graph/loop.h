/* Lists of tensors that the user's functions take and return (loop.c). */
#ifndef NT_GRAPH_LOOP_H
#define NT_GRAPH_LOOP_H

#include "graph/region.h"
#include "nitro/control.h"

/* The tensors before the first that is not set. False after keeping the error that one after it is. */
bool nt__count_values(const nt_tensor *list, const char *name, const char *what, nt_site site, size_t *count);
/* What an operation returns once an error was kept. */
nt_values nt__failed_values(void);

#endif
