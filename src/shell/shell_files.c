/* The shell's files: compiled and loaded when they change, while runs made before keep their code.
 * Not here: how an object is made and found again (build.c).
 */
#include <string.h>

#include "shell/shell.h"
#include "experiment/experiment.h"

static nt__build_request request_of(const nt__shell *shell) {
    return (nt__build_request){.files = shell->arguments->files.items,
                               .file_count = shell->arguments->files.count,
                               .cflags = shell->options.cflags,
                               .ldflags = shell->options.ldflags,
                               .loaded = shell->built.object};
}

/* The new object takes the place of the old one, whose code stays loaded. */
static void take(nt__shell *shell, nt__built *built, uint64_t before) {
    if (built->loaded) shell->older = before;
    nt__built_free(&shell->built);
    shell->built = *built;
}

static nt_status build(nt__shell *shell, bool *loaded) {
    nt__build_request request = request_of(shell);
    nt__built built;
    uint64_t before = nt__experiment_generation();
    struct timespec since = nt__watch_now();
    nt_status status = nt__build(&request, &built);
    shell->is_broken = status != NT_OK;
    if (status == NT_OK) status = nt__watch_take(&shell->watch, &built.files, since);
    if (status != NT_OK) {
        /* Not again until a file changes. */
        nt__watch_again(&shell->watch);
        return status;
    }
    *loaded = built.loaded;
    take(shell, &built, before);
    return NT_OK;
}

nt_status nt__shell_load(nt__shell *shell) {
    bool loaded;
    return build(shell, &loaded);
}

bool nt__shell_is_stale(const nt__shell *shell) {
    return nt__watch_changed(&shell->watch);
}

static void announce(const nt__shell *shell) {
    const nt__built *built = &shell->built;
    if (shell->options.run.quiet) return;
    if (built->compile_seconds > 0)
        nt__notice("loaded %s: compiled in %.3f s, loaded in %.3f s; new makes a run with it",
                   shell->arguments->files.items[0], built->compile_seconds, built->load_seconds);
    else
        nt__notice("loaded %s: it was compiled before, loaded in %.3f s; new makes a run with it",
                   shell->arguments->files.items[0], built->load_seconds);
}

nt_status nt__shell_reload(nt__shell *shell, bool always, bool *loaded) {
    *loaded = false;
    if (always || nt__shell_is_stale(shell)) {
        nt_status status = build(shell, loaded);
        if (*loaded) announce(shell);
        return status == NT_OK ? NT_OK : nt__fail_in(status, "the code that was loaded before is still used");
    }
    if (shell->is_broken)
        nt__notice("the files do not compile; the code that was loaded before is still used (reload tries again)");
    return NT_OK;
}

/* ---- experiments ------------------------------------------------------------------------------------------------ */

/* Those of former versions of the files stay registered. */
bool nt__shell_defines(const nt__shell *shell, const char *name) {
    return nt__experiment_generation_of(name) > shell->older;
}

static bool is_current(const nt__shell *shell, const nt_experiment *experiment) {
    return nt__shell_defines(shell, experiment->name);
}

static nt_status fail_to_choose(const nt__shell *shell, const char *problem, const char *advice) {
    nt__text names = {0};
    const nt_experiment *experiment;
    for (size_t i = 0; (experiment = nt_experiment_at(i)); i++)
        if (is_current(shell, experiment)) nt__text_add(&names, "%s%s", names.length ? ", " : "", experiment->name);
    nt_status status = names.failed ? NT_OUT_OF_MEMORY
                                    : nt__fail(NT_INVALID, "%s: %s. %s", problem, names.data ? names.data : "", advice);
    nt__text_free(&names);
    return status;
}

nt_status nt__shell_choose(const nt__shell *shell, const char *name, const nt_experiment **out) {
    const nt_experiment *experiment;
    size_t found = 0, fitting = 0;
    for (size_t i = 0; (experiment = nt_experiment_at(i)); i++) {
        if (!is_current(shell, experiment)) continue;
        found++;
        if (name && strcmp(experiment->name, name) != 0) continue;
        *out = experiment;
        fitting++;
    }
    if (!found)
        return nt__fail(NT_INVALID,
                        "'%s' has no experiment: declare one with NT_EXPERIMENT and define it with NT_DEFINE",
                        shell->arguments->files.items[0]);
    if (!fitting)
        return fail_to_choose(shell, "the files have no experiment of that name, they have", "Choose one of these");
    if (fitting > 1)
        return fail_to_choose(shell, "the files have several experiments", "Choose one with --experiment=NAME");
    return NT_OK;
}
