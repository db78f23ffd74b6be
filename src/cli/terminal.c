/* What a person sees of a run. The progress line is drawn over itself on a terminal only, at most ten times a second;
 * everything that counts is in the results.
 * Not here: what is measured.
 */
#include "cli/terminal.h"
#include "base/files.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

#include "show/show.h"

enum { LINE_SIZE = 256, USUAL_COLUMNS = 80 };
static const double least_pause = 0.1;

void nt__terminal_open(nt__terminal *terminal, FILE *results, FILE *notices, bool live, bool quiet) {
    *terminal = (nt__terminal){.results = results, .notices = notices, .live = live && !quiet, .quiet = quiet};
    pthread_mutex_init(&terminal->lock, NULL);
}

/* ---- the progress line ------------------------------------------------------------------------------------------ */

/* Call with the lock held. Spaces erase on every terminal. */
static void erase(nt__terminal *terminal) {
    if (terminal->shown) fprintf(terminal->notices, "\r%*s\r", terminal->shown, "");
    fflush(terminal->notices);
    terminal->shown = 0;
    terminal->drawn = 0;
}

void nt__terminal_clear(nt__terminal *terminal) {
    pthread_mutex_lock(&terminal->lock);
    erase(terminal);
    pthread_mutex_unlock(&terminal->lock);
}

void nt__terminal_restart(nt__terminal *terminal) {
    pthread_mutex_lock(&terminal->lock);
    terminal->has_pace = terminal->has_header = false;
    terminal->metrics_width = 0;
    pthread_mutex_unlock(&terminal->lock);
}

void nt__terminal_close(nt__terminal *terminal) {
    nt__terminal_clear(terminal);
    pthread_mutex_destroy(&terminal->lock);
}

/* A line that fills the last column could wrap, and the next one would not be drawn over it. */
static int usable_columns(FILE *notices) {
    struct winsize size;
    int file = fileno(notices);
    bool known = file >= 0 && ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    return (known ? size.ws_col : USUAL_COLUMNS) - 1;
}

static void draw(nt__terminal *terminal, const char *line) {
    char shown[LINE_SIZE];
    size_t width;
    nt__show(line, "", shown, sizeof shown);
    int bytes = (int)nt__fitting(shown, (size_t)usable_columns(terminal->notices), &width);
    int left_over = terminal->shown > (int)width ? terminal->shown - (int)width : 0;
    fprintf(terminal->notices, "\r%.*s%*s", bytes, shown, left_over, "");
    fflush(terminal->notices);
    terminal->shown = (int)width + left_over;
    terminal->drawn = nt__seconds();
}

/* Formats after what `line` holds already; what does not fit is cut. */
static NT__PRINTF(2, 3) void append(char line[LINE_SIZE], const char *format, ...) {
    size_t length = strlen(line);
    va_list arguments;
    va_start(arguments, format);
    nt__vformat(line + length, LINE_SIZE - length, format, arguments);
    va_end(arguments);
}

static void append_duration(char line[LINE_SIZE], double seconds) {
    int64_t whole = seconds < 1e9 ? llround(seconds) : 1000000000;
    if (whole < 60)
        append(line, "%" PRId64 " s", whole);
    else if (whole < 3600)
        append(line, "%" PRId64 " min %02" PRId64 " s", whole / 60, whole % 60);
    else
        append(line, "%" PRId64 " h %02" PRId64 " min", whole / 3600, whole / 60 % 60);
}

/* Steps a second since the first one, which is left out because it may have waited for a compile. */
static void append_pace(nt__terminal *terminal, const nt_event *event, char line[LINE_SIZE]) {
    if (!terminal->has_pace) {
        terminal->has_pace = true;
        terminal->first_step = event->step;
        terminal->first_seconds = event->seconds;
    }
    double seconds = event->seconds - terminal->first_seconds;
    int64_t steps = event->step - terminal->first_step;
    if (steps <= 0 || seconds <= 0) return;
    double pace = (double)steps / seconds;
    append(line, "  %.*f steps/s  ", pace < 10 ? 2 : 0, pace);
    if (event->steps < event->step) return;
    append_duration(line, (double)(event->steps - event->step) / pace);
    append(line, " left");
}

static void describe_step(nt__terminal *terminal, const nt_event *event, char line[LINE_SIZE]) {
    append(line, "epoch %" PRId64 "/%" PRId64 "  step %" PRId64, event->epoch, event->max_epochs, event->step);
    if (event->steps > 0) append(line, "/%" PRId64, event->steps);
    append(line, "  loss %.4g", nt__plain_nan(event->loss));
    append_pace(terminal, event, line);
}

static void describe_batch(const nt_event *event, char line[LINE_SIZE]) {
    if (event->kind == NT_EVENT_PREDICTING)
        append(line, "predicting");
    else
        append(line, "evaluating %s", event->split ? event->split : "");
    append(line, "  batch %" PRId64 "/%" PRId64, event->batch, event->batches);
}

static void progress(nt__terminal *terminal, const nt_event *event) {
    char line[LINE_SIZE] = "";
    if (!terminal->live || nt__seconds() - terminal->drawn < least_pause) return;
    if (event->kind == NT_EVENT_STEP)
        describe_step(terminal, event, line);
    else
        describe_batch(event, line);
    draw(terminal, line);
}

/* ---- results ---------------------------------------------------------------------------------------------------- */

enum { NUMBER_SIZE = 32, NARROWEST = 10 };

/* Four decimals where they show the value, more digits for small and large ones. */
static const char *number_text(double value, char out[NUMBER_SIZE]) {
    double size = fabs(value);
    value = nt__plain_nan(value);
    if (size != 0 && size < 1e-2)
        nt__format(out, NUMBER_SIZE, "%.3e", value);
    else if (size < 1e5)
        nt__format(out, NUMBER_SIZE, "%.4f", value);
    else
        nt__format(out, NUMBER_SIZE, "%.6g", value);
    return out;
}

/* A column is as wide as its name, and wide enough for a number. */
static int width_of(const char *name) {
    int width = (int)nt__shown_width(name);
    return width > NARROWEST ? width : NARROWEST;
}

/* "val accuracy"; a metric that has the split in its name already keeps it. */
static void column_name(const nt_value *value, char out[LINE_SIZE]) {
    bool is_named = strncmp(value->name, "val_", 4) == 0 || strncmp(value->name, "val ", 4) == 0;
    size_t before = is_named ? 0 : (size_t)snprintf(out, LINE_SIZE, "val ");
    nt__show(value->name, "", out + before, LINE_SIZE - before);
}

/* A column with the gap in front of it; returns its columns on the screen. */
static int print_column(FILE *out, int width, const char *shown) {
    fputs("  ", out);
    return 2 + nt__cell_right(out, (size_t)width, shown);
}

static void print_header(nt__terminal *terminal, const nt_event *event) {
    char name[LINE_SIZE];
    fprintf(terminal->results, "epoch  %*s", width_of("train loss"), "train loss");
    for (size_t i = 0; i < event->value_count; i++) {
        column_name(&event->values[i], name);
        terminal->metrics_width += print_column(terminal->results, width_of(name), name);
    }
    fprintf(terminal->results, "  seconds\n");
}

/* An epoch that was cut short has no metrics; their columns stay empty. */
static void print_row(nt__terminal *terminal, const nt_event *event) {
    char name[LINE_SIZE], number[NUMBER_SIZE];
    fprintf(terminal->results, "%5" PRId64 "  %*s", event->epoch, width_of("train loss"),
            number_text(event->loss, number));
    int left = terminal->metrics_width;
    for (size_t i = 0; i < event->value_count; i++) {
        column_name(&event->values[i], name);
        left -= print_column(terminal->results, width_of(name), number_text(event->values[i].value, number));
    }
    nt__format(number, sizeof number, "%7.2f", event->seconds);
    fprintf(terminal->results, "%*s  %s\n", left > 0 ? left : 0, "", number);
}

/* Call with the lock held. */
static void tell_programs(nt__terminal *terminal) {
    nt_cache_stats_t stats = nt_cache_stats();
    if (terminal->has_programs || terminal->quiet || !stats.disk_hits) return;
    terminal->has_programs = true;
    erase(terminal);
    fprintf(terminal->notices, "%" PRIu64 " program%s from the cache on disk, %" PRIu64 " compiled\n", stats.disk_hits,
            stats.disk_hits == 1 ? "" : "s", stats.misses);
    fflush(terminal->notices);
}

void nt__terminal_programs(nt__terminal *terminal) {
    pthread_mutex_lock(&terminal->lock);
    tell_programs(terminal);
    pthread_mutex_unlock(&terminal->lock);
}

/* Every program of the training was used when its first epoch has ended. */
static void epoch(nt__terminal *terminal, const nt_event *event) {
    tell_programs(terminal);
    erase(terminal);
    if (!terminal->has_header) print_header(terminal, event);
    terminal->has_header = true;
    print_row(terminal, event);
    fflush(terminal->results);
}

/* "test accuracy"; "test_loss" has the split in its name already. */
void nt__terminal_results(nt__terminal *terminal, const char *split, const nt_results *results) {
    char number[NUMBER_SIZE];
    size_t length = strlen(split);
    for (size_t i = 0; i < results->count; i++) {
        const nt_value *value = &results->values[i];
        bool is_named = strncmp(value->name, split, length) == 0 && value->name[length] == '_';
        number_text(value->value, number);
        nt__terminal_line(terminal, "%s%s%s %s", is_named ? "" : split, is_named ? "" : " ", value->name, number);
    }
}

void nt__terminal_line(nt__terminal *terminal, const char *format, ...) {
    va_list arguments;
    pthread_mutex_lock(&terminal->lock);
    erase(terminal);
    va_start(arguments, format);
    nt__vsay(terminal->results, format, arguments);
    va_end(arguments);
    fputc('\n', terminal->results);
    fflush(terminal->results);
    pthread_mutex_unlock(&terminal->lock);
}

void nt__terminal_lines(nt__terminal *terminal, const char *text) {
    pthread_mutex_lock(&terminal->lock);
    erase(terminal);
    nt__say_lines(terminal->results, text);
    fputc('\n', terminal->results);
    fflush(terminal->results);
    pthread_mutex_unlock(&terminal->lock);
}

/* ---- events and notices ----------------------------------------------------------------------------------------- */

static void setup(nt__terminal *terminal, const nt_event *event) {
    if (terminal->quiet || !event->text || !*event->text) return;
    erase(terminal);
    bool ends_line = event->text[strlen(event->text) - 1] == '\n';
    nt__say_lines(terminal->notices, event->text);
    if (!ends_line) fputc('\n', terminal->notices);
}

void nt__terminal_event(const nt_event *event, void *context) {
    static void (*const shows[])(nt__terminal *, const nt_event *) = {
        [NT_EVENT_SETUP] = setup,         [NT_EVENT_STEP] = progress, [NT_EVENT_EVALUATING] = progress,
        [NT_EVENT_PREDICTING] = progress, [NT_EVENT_EPOCH] = epoch,
    };
    nt__terminal *terminal = context;
    pthread_mutex_lock(&terminal->lock);
    shows[event->kind](terminal, event);
    pthread_mutex_unlock(&terminal->lock);
}

static void show_line(nt__terminal *terminal, const char *before, const char *line) {
    pthread_mutex_lock(&terminal->lock);
    erase(terminal);
    fprintf(terminal->notices, "%s%s\n", before, line);
    pthread_mutex_unlock(&terminal->lock);
}

void nt__terminal_notice(const char *line, void *context) {
    show_line(context, "", line);
}

nt_status nt__terminal_warning(const char *line, void *context) {
    nt__terminal *terminal = context;
    if (terminal->strict) return NT_INVALID;
    show_line(terminal, "warning: ", line);
    return NT_OK;
}
