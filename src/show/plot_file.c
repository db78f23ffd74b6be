/* Curves in an SVG or PNG file, by cairo.
 * Not here: which curves (plot.c), the terminal (plot_text.c).
 */
#include <cairo-svg.h>
#include <cairo.h>
#include <math.h>

#include "show/show.h"
#include "base/files.h"

enum {
    PANEL_WIDTH = 520,
    PANEL_HEIGHT = 340,
    HEAD = 44,
    LEFT = 70,
    RIGHT = 16,
    TOP = 34,
    BOTTOM = 46,
    TICKS = 6,
    CELL = 32
};
static const double margin = 0.05, margin_with_mark = 0.12; /* of the range, above and below */

/* Seven that people who see few colours tell apart (Okabe and Ito). */
static const double palette[][3] = {{0.00, 0.45, 0.70}, {0.90, 0.62, 0.00}, {0.00, 0.62, 0.45}, {0.84, 0.37, 0.00},
                                    {0.80, 0.47, 0.65}, {0.34, 0.71, 0.91}, {0.40, 0.40, 0.40}};

/* ---- places ----------------------------------------------------------------------------------------------------- */

/* The box of the curves, and what its sides stand for. */
typedef struct area {
    cairo_t *c;
    double left, top, width, height;
    nt__plot_range range;
} area;

static double place_x(const area *a, double x) {
    return a->left + a->width * (x - a->range.x_low) / (a->range.x_high - a->range.x_low);
}

static double place_y(const area *a, double y) {
    return a->top + a->height * (1 - (y - a->range.y_low) / (a->range.y_high - a->range.y_low));
}

/* A range of one value has that in its middle. */
static void widen(double *low, double *high, double share) {
    double room = *high > *low ? (*high - *low) * share : fmax(fabs(*low) * margin, 0.5);
    *low -= room;
    *high += room;
}

static bool find_range(const nt__plot_panel *panel, nt__plot_range *range) {
    bool is_marked = false;
    for (size_t i = 0; i < panel->count; i++) is_marked = is_marked || panel->curves[i].is_marked;
    if (!nt__plot_range_of(panel, range)) return false;
    widen(&range->y_low, &range->y_high, is_marked ? margin_with_mark : margin);
    if (range->x_low == range->x_high) widen(&range->x_low, &range->x_high, 0);
    return true;
}

/* ---- axes ------------------------------------------------------------------------------------------------------- */

/* 1, 2 or 5 times a power of ten, so that there are few ticks. */
static double tick_step(double low, double high) {
    double raw = (high - low) / TICKS, power = pow(10, floor(log10(raw))), share = raw / power;
    return power * (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10);
}

static void show_text(cairo_t *c, double x, double y, double align, const char *text) {
    cairo_text_extents_t size;
    cairo_text_extents(c, text, &size);
    cairo_move_to(c, x - align * size.x_advance, y);
    cairo_show_text(c, text);
}

static void stroke(cairo_t *c, double x0, double y0, double x1, double y1) {
    cairo_move_to(c, x0, y0);
    cairo_line_to(c, x1, y1);
    cairo_stroke(c);
}

static const char *tick_text(double value, double step, char out[CELL]) {
    nt__format(out, CELL, "%.6g", fabs(value) < step / 2 ? 0 : value);
    return out;
}

static void draw_x_tick(const area *a, double x, const char *text) {
    double bottom = a->top + a->height;
    cairo_set_source_rgb(a->c, 0.9, 0.9, 0.9);
    stroke(a->c, place_x(a, x), a->top, place_x(a, x), bottom);
    cairo_set_source_rgb(a->c, 0.2, 0.2, 0.2);
    show_text(a->c, place_x(a, x), bottom + 16, 0.5, text);
}

static void draw_y_tick(const area *a, double y, const char *text) {
    cairo_set_source_rgb(a->c, 0.9, 0.9, 0.9);
    stroke(a->c, a->left, place_y(a, y), a->left + a->width, place_y(a, y));
    cairo_set_source_rgb(a->c, 0.2, 0.2, 0.2);
    show_text(a->c, a->left - 6, place_y(a, y) + 4, 1, text);
}

/* At the multiples of a step between the ends. */
static void draw_ticks(const area *a, double low, double high, double step,
                       void (*draw)(const area *a, double value, const char *text)) {
    char text[CELL];
    double first = ceil(low / step);
    int count = (int)(floor(high / step) - first) + 1;
    for (int i = 0; i < count; i++) draw(a, (first + i) * step, tick_text((first + i) * step, step, text));
}

static void draw_axes(const area *a, const char *axis) {
    cairo_set_line_width(a->c, 1);
    cairo_set_font_size(a->c, 11);
    const nt__plot_range *r = &a->range;
    draw_ticks(a, r->x_low, r->x_high, fmax(tick_step(r->x_low, r->x_high), 1), draw_x_tick);
    draw_ticks(a, r->y_low, r->y_high, tick_step(r->y_low, r->y_high), draw_y_tick);
    cairo_set_source_rgb(a->c, 0.2, 0.2, 0.2);
    cairo_rectangle(a->c, a->left, a->top, a->width, a->height);
    cairo_stroke(a->c);
    show_text(a->c, a->left + a->width / 2, a->top + a->height + 34, 0.5, axis);
}

/* ---- curves ----------------------------------------------------------------------------------------------------- */

static void set_colour(cairo_t *c, size_t number, double alpha) {
    const double *colour = palette[number % (sizeof palette / sizeof *palette)];
    cairo_set_source_rgba(c, colour[0], colour[1], colour[2], alpha);
}

/* A line; a value that is not finite breaks it. */
static void draw_line(const area *a, const nt__curve *curve, size_t number) {
    bool is_open = false;
    cairo_set_line_width(a->c, 2);
    cairo_set_line_join(a->c, CAIRO_LINE_JOIN_ROUND);
    cairo_set_line_cap(a->c, CAIRO_LINE_CAP_ROUND);
    set_colour(a->c, number, 1);
    for (size_t i = 0; i < curve->part_count; i++) {
        double x = nt__part_x(&curve->parts[i]), y = nt__part_y(&curve->parts[i]);
        if (isfinite(y) && is_open)
            cairo_line_to(a->c, place_x(a, x), place_y(a, y));
        else if (isfinite(y))
            cairo_move_to(a->c, place_x(a, x), place_y(a, y));
        if (isfinite(y) && !is_open) cairo_line_to(a->c, place_x(a, x), place_y(a, y));
        is_open = isfinite(y);
    }
    cairo_stroke(a->c);
}

/* A white star of five points, with the line's colour around. */
static void draw_mark(const area *a, const nt__plot_curve *curve, size_t number) {
    double x = place_x(a, curve->mark_x), y = place_y(a, curve->mark_y);
    for (int i = 0; i < 10; i++) {
        double radius = i % 2 ? 4 : 10, angle = i * M_PI / 5;
        cairo_line_to(a->c, x + radius * sin(angle), y - radius * cos(angle));
    }
    cairo_close_path(a->c);
    cairo_set_source_rgb(a->c, 1, 1, 1);
    cairo_fill_preserve(a->c);
    set_colour(a->c, number, 1);
    cairo_set_line_width(a->c, 1.5);
    cairo_stroke(a->c);
}

static void draw_names(const area *a, const nt__plot_panel *panel) {
    cairo_set_font_size(a->c, 11);
    for (size_t i = 0; panel->count > 1 && i < panel->count; i++) {
        double y = a->top + 16 + 15 * (double)i, right = a->left + a->width - 8;
        set_colour(a->c, i, 1);
        cairo_set_line_width(a->c, 2);
        stroke(a->c, right - 18, y - 4, right, y - 4);
        cairo_set_source_rgb(a->c, 0.2, 0.2, 0.2);
        show_text(a->c, right - 24, y, 1, panel->curves[i].run);
    }
}

static void draw_panel(cairo_t *c, const nt__plot_panel *panel, double x, double y) {
    area a = {.c = c,
              .left = x + LEFT,
              .top = y + TOP,
              .width = PANEL_WIDTH - LEFT - RIGHT,
              .height = PANEL_HEIGHT - TOP - BOTTOM};
    char title[256];
    snprintf(title, sizeof title, "%s%s%s", panel->name, *panel->note ? ", " : "", panel->note);
    cairo_set_source_rgb(c, 0, 0, 0);
    cairo_set_font_size(c, 14);
    show_text(c, a.left, a.top - 10, 0, title);
    if (!find_range(panel, &a.range)) {
        show_text(c, a.left, a.top + 20, 0, "no finite value");
        return;
    }
    draw_axes(&a, panel->axis);
    for (size_t i = 0; i < panel->count; i++) draw_line(&a, panel->curves[i].points, i);
    for (size_t i = 0; i < panel->count; i++)
        if (panel->curves[i].is_marked) draw_mark(&a, &panel->curves[i], i);
    draw_names(&a, panel);
}

/* ---- a file ----------------------------------------------------------------------------------------------------- */

static size_t columns_of(size_t panels) {
    return panels <= 1 ? 1 : panels <= 4 ? 2 : 3;
}

static void draw(cairo_surface_t *surface, const nt__plot *plot) {
    size_t columns = columns_of(plot->count);
    cairo_t *c = cairo_create(surface);
    cairo_set_source_rgb(c, 1, 1, 1);
    cairo_paint(c);
    cairo_set_source_rgb(c, 0, 0, 0);
    cairo_select_font_face(c, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_BOLD);
    cairo_set_font_size(c, 18);
    show_text(c, 16, 28, 0, plot->title);
    cairo_select_font_face(c, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    for (size_t i = 0; i < plot->count; i++) {
        size_t row = i / columns, column = i % columns;
        draw_panel(c, &plot->panels[i], (double)(column * PANEL_WIDTH), (double)(HEAD + row * PANEL_HEIGHT));
    }
    cairo_destroy(c);
}

static cairo_status_t take(void *text, const unsigned char *bytes, unsigned length) {
    nt__text_put(text, (const char *)bytes, length);
    return ((nt__text *)text)->failed ? CAIRO_STATUS_NO_MEMORY : CAIRO_STATUS_SUCCESS;
}

static cairo_status_t render(const nt__plot *plot, bool is_svg, nt__text *out) {
    size_t columns = columns_of(plot->count), rows = (plot->count + columns - 1) / columns;
    int width = (int)columns * PANEL_WIDTH, height = HEAD + (int)rows * PANEL_HEIGHT;
    cairo_surface_t *surface = is_svg ? cairo_svg_surface_create_for_stream(take, out, width, height)
                                      : cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
    draw(surface, plot);
    cairo_status_t status = is_svg ? CAIRO_STATUS_SUCCESS : cairo_surface_write_to_png_stream(surface, take, out);
    cairo_surface_finish(surface);
    if (status == CAIRO_STATUS_SUCCESS) status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    return status;
}

nt_status nt__plot_write(const nt__plot *plot, const char *path) {
    bool is_svg = nt__ends_in(path, ".svg");
    nt__text file = {0};
    if (!is_svg && !nt__ends_in(path, ".png"))
        return nt__fail(NT_INVALID, "--out is '%s': a plot is an .svg or a .png file", path);
    cairo_status_t drawn = render(plot, is_svg, &file);
    nt_status status = NT_OK;
    if (file.failed || drawn == CAIRO_STATUS_NO_MEMORY)
        status = nt__fail(NT_OUT_OF_MEMORY, "--out: no memory for '%s'", path);
    else if (drawn != CAIRO_STATUS_SUCCESS)
        status = nt__fail(NT_IO, "--out: '%s' cannot be drawn: %s", path, cairo_status_to_string(drawn));
    else
        status = nt__write_file(path, file.data, file.length);
    nt__text_free(&file);
    return status;
}
