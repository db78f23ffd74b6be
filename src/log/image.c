/* Images as PNG, by libpng.
 * Not here: reading any.
 */
#include <png.h>

#include "base/base.h"
#include "log/image.h"

static png_uint_32 format_of(int64_t channels) {
    return channels == 1 ? PNG_FORMAT_GRAY : channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
}

static nt_status fail(png_image *image) {
    nt_status status = nt__fail(NT_INVALID, "libpng cannot write the image: %s", image->message);
    png_image_free(image);
    return status;
}

/* The first call says how much memory the second one may need. */
nt_status nt__png_of(const nt_array *pixels, void **png, size_t *length) {
    const int64_t *dims = pixels->shape.dims;
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .height = (png_uint_32)dims[0],
                       .width = (png_uint_32)dims[1],
                       .format = format_of(dims[2])};
    png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
    *png = nt__alloc(bytes, 1);
    if (!*png) return NT_OUT_OF_MEMORY;
    if (png_image_write_to_memory(&image, *png, &bytes, 0, pixels->data, 0, NULL)) {
        *length = bytes;
        return NT_OK;
    }
    nt__free(*png);
    *png = NULL;
    return fail(&image);
}
