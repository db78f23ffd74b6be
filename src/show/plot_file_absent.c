/* Plots in files where nitro was built without cairo. */
#include "show/show.h"

nt_status nt__plot_write(const nt__plot *plot, const char *path) {
    (void)plot;
    return nt__fail(
        NT_NOT_FOUND,
        "--out is '%s', and this nitro was built without cairo, which draws files: install libcairo2-dev and "
        "build again, or leave --out away for a plot in the terminal",
        path);
}
