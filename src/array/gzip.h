/* Unpacking gzip data that is in memory, for the readers of this folder. */
#ifndef NT_ARRAY_GZIP_H
#define NT_ARRAY_GZIP_H

#include "base/base.h"

/* Whether the bytes start as gzip does. */
bool nt__is_gzip(const void *bytes, size_t length);
/* Unpacks all members, joined; checks their sums, their ends, and that nothing else follows. The caller frees *bytes.
 */
nt_status nt__gunzip(const void *packed, size_t packed_length, char **bytes, size_t *length);

#endif
