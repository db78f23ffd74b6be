/* Which run a command looks at.
 */
#include <string.h>

#include "cli/cli.h"
#include "base/files.h"
#include "history/history.h"

static const char usual_folder[] = "runs";

static nt_status newest_run(char **out) {
    nt__run_folders runs = {0};
    nt_status status = nt__is_folder(usual_folder)
                           ? nt__run_folders_find(usual_folder, &runs)
                           : nt__fail(NT_NOT_FOUND, "there is no folder runs/ here: name the folder of a run");
    if (status == NT_OK && runs.count == 0)
        status = nt__fail(NT_NOT_FOUND, "there is no run below runs/: train first, or name the folder of a run");
    size_t newest = 0;
    while (newest + 1 < runs.count && !runs.items[newest].has_log) newest++;
    *out = status == NT_OK && runs.items ? nt__strdup(runs.items[newest].path) : NULL;
    if (status == NT_OK && !*out) status = NT_OUT_OF_MEMORY;
    nt__run_folders_free(&runs);
    return status;
}

nt_status nt__choose_run(const nt__arguments *arguments, char **out) {
    *out = NULL;
    if (arguments->files.count == 0) return newest_run(out);
    *out = nt__strdup(arguments->files.items[0]);
    return *out ? NT_OK : NT_OUT_OF_MEMORY;
}
