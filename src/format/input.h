/* The content of a file of data, plain or packed with gzip, a part at a time: what its header states is known before
 * the rest is read.
 */
#ifndef NT_FORMAT_INPUT_H
#define NT_FORMAT_INPUT_H

#include "format/format.h"

typedef struct nt__input nt__input;

/* A regular file; its first bytes say whether it is packed. */
nt_status nt__input_open(const char *path, nt__input **out);
/* Up to `most` bytes more; fewer only at the end. The end of packed data is one when its sums are right and nothing but
 * zeros follows, or another member, which is joined. */
nt_status nt__input_read(nt__input *input, void *to, size_t most, size_t *length);
/* How many bytes are still to come. Of packed data it is the most that so many bytes can be unpacked to. */
size_t nt__input_left(const nt__input *input);
/* How many came. */
size_t nt__input_position(const nt__input *input);
/* An array of what is left, which must be as long as its type asks for. No more than that is unpacked, and nothing is
 * made of that size when it cannot be there. */
nt_status nt__input_array(nt__input *input, nt__type type, nt_array **out);
void nt__input_close(nt__input *input);

#endif
