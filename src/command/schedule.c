/* nitro schedule: the schedules of a run, before it: steps and values, a picture, a CSV file.
 * Not here: what a schedule computes.
 */
#include "command/command.h"
#include "base/files.h"

#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "show/show.h"
#include "log/log.h"
#include "run/run.h"

enum { TABLE_ROWS = 11, PLOT_ROWS = 8, LEVELS = 8, LABEL = 10, USUAL_WIDTH = 80, LEAST_WIDTH = 24, MOST_WIDTH = 200 };

/* The step at place i of `count` that are spread over all steps; the first is 1 and the last is `steps`. */
static int64_t spread(int64_t i, int64_t count, int64_t steps) {
    return count < 2 ? 1 : 1 + (int64_t)llround((double)i * (double)(steps - 1) / (double)(count - 1));
}

static int64_t fewer(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

static bool print_values(const nt_schedule *schedule, int64_t steps) {
    nt__table table = {0};
    nt__table_add(&table, "step");
    nt__table_add(&table, "value");
    int64_t rows = fewer(steps, TABLE_ROWS);
    for (int64_t i = 0; i < rows; i++) {
        char text[48];
        int64_t step = spread(i, rows, steps);
        snprintf(text, sizeof text, "%lld", (long long)step);
        nt__table_add(&table, text);
        nt__format(text, sizeof text, "%.6g", nt_schedule_value(schedule, step, steps));
        nt__table_add(&table, text);
    }
    return nt__table_print(&table, 2, stdout);
}

/* ---- the picture ------------------------------------------------------------------------------------------------ */

static int width_of_output(void) {
    struct winsize size;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    int width = known ? size.ws_col : USUAL_WIDTH;
    return width < LEAST_WIDTH ? LEAST_WIDTH : width > MOST_WIDTH ? MOST_WIDTH : width;
}

/* A bar a column, in eighths of a row: nothing at `low`, all rows at `high`. A value that is not finite has no bar. */
static void print_row(const double *values, int count, double low, double high, int row) {
    static const char *const blocks[LEVELS + 1] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    for (int i = 0; i < count; i++) {
        double share = high > low ? (values[i] - low) / (high - low) : 0.5;
        double level = isfinite(share) ? round(share * PLOT_ROWS * LEVELS) - row * LEVELS : 0;
        fputs(blocks[(int)fmin(fmax(level, 0), LEVELS)], stdout);
    }
}

static void print_plot(const nt_schedule *schedule, int64_t steps) {
    double values[MOST_WIDTH], low = INFINITY, high = -INFINITY;
    int count = (int)fewer(steps, width_of_output() - LABEL - 2);
    for (int i = 0; i < count; i++) {
        values[i] = nt_schedule_value(schedule, spread(i, count, steps), steps);
        if (isfinite(values[i])) {
            low = fmin(low, values[i]);
            high = fmax(high, values[i]);
        }
    }
    for (int row = PLOT_ROWS - 1; row >= 0; row--) {
        char label[32] = "";
        if (row == PLOT_ROWS - 1 || row == 0) nt__format(label, sizeof label, "%.3g", row ? high : low);
        printf("%*s ", LABEL, label);
        print_row(values, count, low, high, row);
        putchar('\n');
    }
}

/* ---- all steps -------------------------------------------------------------------------------------------------- */

static void add_header(const nt_run *run, nt__text *out) {
    const char *name, *source;
    nt__text_say(out, "step");
    for (size_t i = 0; nt__plan_schedule(run, i, &name, &source); i++) {
        nt__text_say(out, ",");
        nt__csv_put(out, name);
    }
    nt__text_say(out, "\n");
}

static void add_values(const nt_run *run, int64_t step, nt__text *out) {
    const char *name, *source;
    const nt_schedule *schedule;
    nt__text_integer(out, step);
    for (size_t i = 0; (schedule = nt__plan_schedule(run, i, &name, &source)); i++)
        nt__text_add(out, ",%.17g", nt_schedule_value(schedule, step, nt__plan_steps(run)));
    nt__text_say(out, "\n");
}

static nt_status write_file(const nt_run *run, const char *path) {
    nt__text text = {0};
    add_header(run, &text);
    for (int64_t step = 1; step <= nt__plan_steps(run); step++) add_values(run, step, &text);
    nt_status status = text.failed ? NT_OUT_OF_MEMORY : nt__write_file(path, text.data, text.length);
    nt__text_free(&text);
    return status == NT_IO ? nt__fail_in(status, "--out") : status;
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

static nt_status print_one(const nt_schedule *schedule, const char *name, const char *source, int64_t steps) {
    nt__say(stdout, "%s: ", name);
    nt_status status = nt_schedule_print(schedule, stdout);
    if (status != NT_OK) return status;
    printf(" [%s], %lld steps\n", source, (long long)steps);
    if (steps <= 0) return NT_OK;
    if (!print_values(schedule, steps)) return NT_OUT_OF_MEMORY;
    print_plot(schedule, steps);
    return NT_OK;
}

static nt_status print_all(const nt__session *session) {
    const char *name, *source;
    const nt_schedule *schedule;
    nt_status status = NT_OK;
    size_t i = 0;
    for (; status == NT_OK && (schedule = nt__plan_schedule(session->run, i, &name, &source)); i++) {
        if (i) putchar('\n');
        status = print_one(schedule, name, source, nt__plan_steps(session->run));
    }
    if (i == 0)
        printf("%s has no schedule: every value stays as it is. nitro help FILE.c --resolved shows them\n",
               session->experiment->name);
    if (status != NT_OK || !session->options.out) return status;
    return write_file(session->run, session->options.out);
}

static nt__exit_code run_schedule(const nt__arguments *arguments) {
    nt__session session;
    nt__exit_code code = nt__session_plan(arguments, "schedule", &session);
    if (code == NT__EXIT_DONE) {
        nt_status status = print_all(&session);
        if (status != NT_OK) code = nt__report_failure(status);
    }
    return nt__session_close(&session, code);
}

static const char manual[] =
    "Prints the whole of each schedule that a run with these flags would have: steps, values, and a picture. --out\n"
    "writes every step. Reads the data for its number of steps; needs no engine and compiles no program. Takes all\n"
    "flags of nitro train; those that change no schedule have no effect.";

const nt__command nt__schedule_command = {
    .name = "schedule",
    .does = NT__COMPILES | NT__TAKES_FIELDS,
    .operands = "FILE.c [MORE.c ...] [flags]",
    .summary = "print and plot the schedules before a run",
    .manual = manual,
    .run = run_schedule,
};
