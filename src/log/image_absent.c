/* Images where nitro was built without libpng. */
#include "base/base.h"
#include "log/image.h"

nt_status nt__png_of(const nt_array *pixels, void **png, size_t *length) {
    (void)pixels;
    *png = NULL;
    *length = 0;
    return nt__fail(NT_NOT_FOUND,
                    "this nitro was built without libpng, so images cannot be logged: install libpng-dev and "
                    "build again, or log no image");
}
