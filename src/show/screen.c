/* What standard output is.
 * Not here: what is written to it.
 */
#include "show/show.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

nt__screen nt__screen_of_output(void) {
    struct winsize size;
    const char *no_colour = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return (nt__screen){0};
    bool colours = !(no_colour && *no_colour) && terminal && strcmp(terminal, "dumb") != 0;
    return (nt__screen){.columns = size.ws_col, .rows = size.ws_row, .colours = colours};
}
