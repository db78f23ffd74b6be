/* nitro plot: the curves of one or more runs, in the terminal or in a file. Not here: drawing (plot_text.c,
 * plot_file.c).
 */
#include <string.h>

#include "command/command.h"
#include "show/show.h"

/* A panel has a curve of each run that has such values. */
typedef struct plotting {
    nt__arena arena;
    const nt__command_options *options;
    nt__history *runs;
    size_t run_count;
    nt__words names;
    nt__plot plot;
    nt__curve *curves; /* of all panels, run by run */
    nt__plot_curve *shown;
} plotting;

/* ---- names ------------------------------------------------------------------------------------------------------ */

static bool is_among(const char *name, const nt__words *names) {
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->items[i], name) == 0) return true;
    return false;
}

/* Those that were named, else every column; the loss of the steps where no epoch has ended. */
static nt_status choose_names(plotting *p) {
    nt__words_add_all(&p->names, &p->options->metrics);
    for (size_t r = 0; p->options->metrics.count == 0 && r < p->run_count; r++)
        for (size_t i = 0; p->runs[r].row_count && i < p->runs[r].metric_count; i++)
            if (!is_among(p->runs[r].metrics[i], &p->names)) nt__words_add(&p->names, p->runs[r].metrics[i]);
    if (p->names.count == 0) nt__words_add(&p->names, "train/loss");
    return p->names.failed ? NT_OUT_OF_MEMORY : NT_OK;
}

/* Lines of a context come more often than epochs. */
static nt_status choose_axis(const nt__command_options *options, const char *name, nt__axis *out) {
    const char *x = options->x;
    *out = strchr(name, '/') ? NT__AXIS_STEP : NT__AXIS_EPOCH;
    if (!x) return NT_OK;
    *out = strcmp(x, "step") == 0 ? NT__AXIS_STEP : NT__AXIS_EPOCH;
    if (*out == NT__AXIS_STEP || strcmp(x, "epoch") == 0) return NT_OK;
    return nt__fail(NT_INVALID, "--x is '%s': write epoch or step", x);
}

/* ---- panels ----------------------------------------------------------------------------------------------------- */

/* The best epoch of a column. */
static nt_status mark(plotting *p, const nt__history *run, const char *name, nt__axis axis, nt__plot_curve *curve,
                      nt__plot_panel *panel) {
    nt__best best;
    if (nt__history_metric(run, name) < 0) return NT_OK;
    nt_status status = nt__history_best(run, name, p->options->mode, &best);
    if (status == NT_OK && best.direction == NT__DIRECTION_UNKNOWN) panel->note = "no best without --mode=max or min";
    if (status != NT_OK || !best.found) return status;
    const nt__history_row *row = &run->rows[best.row];
    curve->is_marked = true;
    curve->mark_x = (double)(axis == NT__AXIS_STEP ? row->step : row->epoch);
    curve->mark_y = *nt__row_value(row, best.metric);
    if (p->run_count > 1) return NT_OK;
    panel->note =
        nt__arena_sprintf(&p->arena, "%s %.4g in epoch %lld", best.direction == NT__LARGER_IS_BETTER ? "max" : "min",
                          curve->mark_y, (long long)row->epoch);
    return panel->note ? NT_OK : NT_OUT_OF_MEMORY;
}

static nt_status add_curve(plotting *p, const nt__history *run, nt__axis axis, const nt__curve *points,
                           nt__plot_panel *panel) {
    nt__plot_curve *curve = &panel->curves[panel->count++];
    *curve = (nt__plot_curve){.run = run->folder, .points = points};
    return mark(p, run, panel->name, axis, curve, panel);
}

/* A run without such values is left out; the first error is told when none has any. */
static nt_status add_panel(plotting *p, const char *name) {
    nt__axis axis;
    nt__kept_error error = {0};
    nt__plot_panel *panel = &p->plot.panels[p->plot.count];
    size_t first = p->plot.count * p->run_count;
    nt_status status = choose_axis(p->options, name, &axis);
    *panel = (nt__plot_panel){
        .name = name, .note = "", .axis = axis == NT__AXIS_STEP ? "step" : "epoch", .curves = &p->shown[first]};
    for (size_t r = 0; status == NT_OK && r < p->run_count; r++) {
        nt__curve *points = &p->curves[first + r];
        status = nt__curve_read(&p->runs[r], name, axis, points);
        if (status == NT_OK)
            status = add_curve(p, &p->runs[r], axis, points, panel);
        else if (nt__error_keep(&error, status) == NT_INVALID)
            status = NT_OK;
    }
    if (status != NT_OK) return status;
    p->plot.count++;
    return panel->count ? NT_OK : nt__error_raise(&error);
}

static nt_status add_panels(plotting *p) {
    size_t panels = p->names.count, curves = panels * p->run_count;
    p->plot.panels = nt__arena_alloc(&p->arena, panels, sizeof *p->plot.panels);
    p->curves = nt__arena_alloc(&p->arena, curves, sizeof *p->curves);
    p->shown = nt__arena_alloc(&p->arena, curves, sizeof *p->shown);
    nt_status status = p->plot.panels && p->curves && p->shown ? NT_OK : NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && i < panels; i++) status = add_panel(p, p->names.items[i]);
    return status;
}

/* Without colours curves of several runs cannot be told apart: each has a panel of its own. */
static nt_status part(plotting *p) {
    nt__plot_panel *parts = nt__arena_alloc(&p->arena, p->plot.count * p->run_count + 1, sizeof *parts);
    size_t count = 0;
    if (!parts) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < p->plot.count; i++) {
        const nt__plot_panel *panel = &p->plot.panels[i];
        for (size_t c = 0; c < panel->count; c++) {
            char *name = nt__arena_sprintf(&p->arena, "%s: %s", panel->curves[c].run, panel->name);
            if (!name) return NT_OUT_OF_MEMORY;
            parts[count] = *panel;
            parts[count].name = name;
            parts[count].curves = &panel->curves[c];
            parts[count++].count = 1;
        }
    }
    p->plot.panels = parts;
    p->plot.count = count;
    return NT_OK;
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

static nt_status read_runs(plotting *p, const nt__arguments *arguments) {
    size_t count = arguments->files.count ? arguments->files.count : 1;
    char *newest = NULL;
    nt_status status = arguments->files.count ? NT_OK : nt__choose_run(arguments, &newest);
    p->runs = status == NT_OK ? nt__arena_alloc(&p->arena, count, sizeof *p->runs) : NULL;
    if (status == NT_OK && !p->runs) status = NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && i < count; i++) {
        status = nt__history_read(newest ? newest : arguments->files.items[i], false, &p->runs[i]);
        p->run_count++;
    }
    nt__free(newest);
    return status;
}

static nt_status choose_title(plotting *p) {
    const char *name = nt__history_experiment(&p->runs[0]);
    p->plot.title = p->run_count == 1 ? nt__arena_sprintf(&p->arena, "%s (%s)", name, p->runs[0].folder)
                                      : nt__arena_sprintf(&p->arena, "%s: %zu runs", name, p->run_count);
    return p->plot.title ? NT_OK : NT_OUT_OF_MEMORY;
}

/* The text with escapes; NULL: memory is short. */
static const char *shown(plotting *p, const char *text) {
    nt__text out = {0};
    nt__text_show(&out, text, "");
    const char *kept = out.failed ? NULL : nt__arena_strdup(&p->arena, out.data ? out.data : "");
    nt__text_free(&out);
    return kept;
}

/* Names of runs and metrics are drawn as text, in a terminal or a file: from here on they are nothing else. */
static nt_status show_names(plotting *p) {
    bool good = (p->plot.title = shown(p, p->plot.title)) != NULL;
    for (size_t i = 0; good && i < p->plot.count; i++) {
        nt__plot_panel *panel = &p->plot.panels[i];
        good = (panel->name = shown(p, panel->name)) != NULL;
        for (size_t c = 0; good && c < panel->count; c++)
            good = (panel->curves[c].run = shown(p, panel->curves[c].run)) != NULL;
    }
    return good ? NT_OK : NT_OUT_OF_MEMORY;
}

static nt_status show(plotting *p) {
    nt__screen screen = nt__screen_of_output();
    const char *out = p->options->out;
    if (out) {
        nt_status status = nt__plot_write(&p->plot, out);
        if (status == NT_OK) nt__say_line(stdout, "%s", out);
        return status;
    }
    nt_status status = p->run_count > 1 && !screen.colours ? part(p) : NT_OK;
    return status != NT_OK ? status : nt__plot_draw(&p->plot, screen, stdout) ? NT_OK : NT_OUT_OF_MEMORY;
}

static void release(plotting *p) {
    for (size_t i = 0; p->curves && i < p->names.count * p->run_count; i++) nt__curve_free(&p->curves[i]);
    for (size_t i = 0; i < p->run_count; i++) nt__history_free(&p->runs[i]);
    nt__words_free(&p->names);
    nt__arena_free(&p->arena);
}

static nt__exit_code plot_runs(const nt__arguments *arguments, const nt__command_options *options) {
    plotting p = {.options = options};
    nt_status status = read_runs(&p, arguments);
    if (status == NT_OK) status = choose_names(&p);
    if (status == NT_OK) status = add_panels(&p);
    if (status == NT_OK) status = choose_title(&p);
    if (status == NT_OK) status = show_names(&p);
    if (status == NT_OK) status = show(&p);
    release(&p);
    return status == NT_OK ? NT__EXIT_DONE : nt__report_failure(status);
}

static nt__exit_code run_plot(const nt__arguments *arguments) {
    nt__command_options options;
    nt_status status = nt__arguments_options(arguments, &options);
    if (status == NT_OK) status = nt__arguments_fields(arguments, NULL, NULL);
    nt__exit_code code = status == NT_OK ? plot_runs(arguments, &options) : nt__report_wrong_use(status);
    nt__command_options_free(&options);
    return code;
}

static const char manual[] =
    "Draws curves of one or more runs in the terminal, or with --out in a file: the mean loss and the validation\n"
    "metrics of the epochs, the best one marked, or what --metric names. CONTEXT/NAME is every line of a context, as\n"
    "train/loss; of many neighbours the mean is drawn. On a terminal without colours each run has a panel of its own.\n"
    "Without a RUN the one below runs/ that was written last.";

const nt__command nt__plot_command = {
    .name = "plot",
    .does = NT__READS_LOG,
    .operands = "[RUN ...] [flags]",
    .summary = "the curves of runs, in the terminal or a file",
    .manual = manual,
    .run = run_plot,
};
