/* What an image is.
 * Not here: its form in a file (image.c).
 */
#include "array/array.h"
#include "log/log.h"

nt_status nt__check_image(const nt_array *pixels) {
    char text[NT__TYPE_TEXT];
    const nt_shape *shape = &pixels->shape;
    bool has_axes = pixels->dtype == NT_U8 && shape->rank == 3 && shape->dims[0] > 0 && shape->dims[1] > 0;
    int64_t channels = shape->rank == 3 ? shape->dims[2] : 0;
    if (has_axes && (channels == 1 || channels == 3 || channels == 4)) return NT_OK;
    return nt__fail(NT_INVALID,
                    "the pixels are %s, and an image is u8[height,width,channels] with 1 (grey), 3 (RGB) or 4 (RGBA) "
                    "channels",
                    nt__type_text((nt__type){pixels->dtype, pixels->shape}, text));
}
