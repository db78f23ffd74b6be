/* Which code of the user's runs on a thread: hooks, sources, loggers, listeners. For messages of crashes, which only
 * the program that calls nitro can give. Not here: calling them.
 */
#include "base/base.h"

enum { DEEPEST = 8 };

/* Beyond the deepest only the number is known. */
static _Thread_local struct {
    int depth;
    nt_running_hook_t places[DEEPEST];
} hooks;

void nt__hook_enter(const char *hook, const char *of) {
    if (hooks.depth < DEEPEST) hooks.places[hooks.depth] = (nt_running_hook_t){.hook = hook, .of = of};
    hooks.depth++;
}

void nt__hook_leave(void) {
    if (hooks.depth > 0) hooks.depth--;
}

void nt__hook_at(const char *file, int line) {
    if (hooks.depth == 0 || hooks.depth > DEEPEST || !file) return;
    nt_running_hook_t *place = &hooks.places[hooks.depth - 1];
    place->file = file;
    place->line = line;
}

int nt__hook_depth(void) {
    return hooks.depth;
}

bool nt_running_hook(nt_running_hook_t *out) {
    if (!out || hooks.depth == 0) return false;
    *out = hooks.places[(hooks.depth < DEEPEST ? hooks.depth : DEEPEST) - 1];
    return true;
}
