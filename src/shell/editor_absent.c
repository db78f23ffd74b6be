/* In the place of editor.c where nitro was built without libedit. */
#include "shell/lines.h"

nt__editor *nt__editor_open(const char *history, const nt__line_hooks *hooks) {
    (void)history, (void)hooks;
    nt__fail(NT_NOT_FOUND, "no line editing, history and completion: this nitro was built without libedit (Debian: "
                           "apt-get install libedit-dev, then build nitro again)");
    return NULL;
}

nt__line_result nt__editor_read(nt__editor *editor, const char **line) {
    (void)editor;
    *line = "";
    return NT__LINE_NONE;
}

void nt__editor_close(nt__editor *editor) {
    (void)editor;
}
