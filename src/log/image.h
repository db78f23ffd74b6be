/* Images as PNG. */
#ifndef NT_LOG_IMAGE_H
#define NT_LOG_IMAGE_H

#include "array/array.h"

/* Of u8 [height, width, channels], 1, 3 or 4 channels. The caller frees *png. NT_NOT_FOUND: built without libpng. */
nt_status nt__png_of(const nt_array *pixels, void **png, size_t *length);

#endif
