/* The code of an experiment that calls exit: the process would end like a command that is done, with nothing saved.
 * Not here: _exit and signals, which no handler sees.
 */
#include "process/process.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "nitro/status.h"

static atomic_bool forbidden;

/* Any thread may be the one that called exit. */
static void object_to_exit(void) {
    if (!atomic_load(&forbidden)) return;
    nt_running_hook_t hook = {.hook = "a function that no hook called"};
    nt_running_hook(&hook);
    fflush(stdout);
    fprintf(
        stderr,
        "\nnitro: the code of the experiment called exit, in %s%s%s, so the command ends here and nothing is saved; "
        "a hook returns, and a source that fails returns nt_fail(...)\n",
        hook.hook, hook.of ? " of " : "", hook.of ? hook.of : "");
    fflush(stderr);
    _exit(NT__EXIT_FAILED);
}

void nt__forbid_exit(void) {
    atexit(object_to_exit);
    atomic_store(&forbidden, true);
}

void nt__allow_exit(void) {
    atomic_store(&forbidden, false);
}
