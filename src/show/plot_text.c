/* Curves in the terminal, as Braille dots: two across and four down in each character.
 * Not here: which curves (plot.c), files (plot_file.c).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "show/show.h"

enum { ACROSS = 2, DOWN = 4, ROWS = 12, LABEL = 10, USUAL_WIDTH = 80, LEAST_WIDTH = 24, MOST_WIDTH = 200, CELL = 32 };

/* ---- the range -------------------------------------------------------------------------------------------------- */

static void include(nt__plot_range *range, double x_first, double x_last, double low, double high) {
    if (!isfinite(low) || !isfinite(high)) return;
    range->x_low = fmin(range->x_low, x_first);
    range->x_high = fmax(range->x_high, x_last);
    range->y_low = fmin(range->y_low, low);
    range->y_high = fmax(range->y_high, high);
}

bool nt__plot_range_of(const nt__plot_panel *panel, nt__plot_range *out) {
    *out = (nt__plot_range){INFINITY, -INFINITY, INFINITY, -INFINITY};
    for (size_t c = 0; c < panel->count; c++) {
        const nt__curve *curve = panel->curves[c].points;
        for (size_t i = 0; i < curve->part_count; i++) {
            const nt__curve_part *part = &curve->parts[i];
            double y = nt__part_y(part);
            include(out, part->x_first, part->x_last, y, y);
        }
        if (panel->curves[c].is_marked)
            include(out, panel->curves[c].mark_x, panel->curves[c].mark_x, panel->curves[c].mark_y,
                    panel->curves[c].mark_y);
    }
    return out->x_low <= out->x_high;
}

/* ---- a canvas --------------------------------------------------------------------------------------------------- */

typedef struct canvas {
    int columns;
    nt__plot_range range;
    uint8_t dots[ROWS][MOST_WIDTH]; /* the bits of a Braille character */
    uint8_t curve[ROWS][MOST_WIDTH];
    bool mark[ROWS][MOST_WIDTH];
} canvas;

/* Where a value lies between the ends, in steps from 0 to `most`; in the middle where there is one value only. */
static int place_of(double value, double low, double high, int most) {
    double share = high > low ? (value - low) / (high - low) : 0.5;
    return (int)fmin(fmax(round(share * most), 0), most);
}

static int dot_x(const canvas *c, double x) {
    return place_of(x, c->range.x_low, c->range.x_high, c->columns * ACROSS - 1);
}

static int dot_y(const canvas *c, double y) {
    return ROWS * DOWN - 1 - place_of(y, c->range.y_low, c->range.y_high, ROWS * DOWN - 1);
}

static void put_dot(canvas *c, int x, int y, size_t curve) {
    static const uint8_t bits[DOWN][ACROSS] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    c->dots[y / DOWN][x / ACROSS] |= bits[y % DOWN][x % ACROSS];
    c->curve[y / DOWN][x / ACROSS] = (uint8_t)curve;
}

/* All dots of the straight line, as many as its longer side has. */
static void put_line(canvas *c, int x0, int y0, int x1, int y1, size_t curve) {
    int steps = abs(x1 - x0) > abs(y1 - y0) ? abs(x1 - x0) : abs(y1 - y0);
    put_dot(c, x0, y0, curve);
    for (int i = 1; i <= steps; i++) {
        double share = (double)i / steps;
        put_dot(c, x0 + (int)lround(share * (x1 - x0)), y0 + (int)lround(share * (y1 - y0)), curve);
    }
}

static void put_curve(canvas *c, const nt__plot_curve *curve, size_t number) {
    bool has_last = false;
    int last_x = 0, last_y = 0;
    for (size_t i = 0; i < curve->points->part_count; i++) {
        double y = nt__part_y(&curve->points->parts[i]);
        bool is_there = isfinite(y);
        int x = dot_x(c, nt__part_x(&curve->points->parts[i]));
        int row = is_there ? dot_y(c, y) : 0;
        if (is_there) put_line(c, has_last ? last_x : x, has_last ? last_y : row, x, row, number);
        has_last = is_there;
        last_x = x;
        last_y = row;
    }
    if (curve->is_marked) c->mark[dot_y(c, curve->mark_y) / DOWN][dot_x(c, curve->mark_x) / ACROSS] = true;
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

static const char *const colours[] = {"\033[34m", "\033[33m", "\033[32m", "\033[31m", "\033[35m", "\033[36m"};
enum { COLOURS = sizeof colours / sizeof *colours };

/* Braille patterns begin at U+2800, in UTF-8 three bytes. */
static void print_dots(uint8_t dots, FILE *out) {
    if (dots)
        fprintf(out, "\xe2%c%c", 0xa0 + (dots >> 6), 0x80 + (dots & 0x3f));
    else
        fputc(' ', out);
}

static void print_cell(const canvas *c, int row, int column, bool coloured, FILE *out) {
    bool has_colour = coloured && (c->dots[row][column] || c->mark[row][column]);
    if (has_colour) fputs(colours[c->curve[row][column] % COLOURS], out);
    if (c->mark[row][column])
        fputc('*', out);
    else
        print_dots(c->dots[row][column], out);
    if (has_colour) fputs("\033[0m", out);
}

/* Blanks after the last dot are left out. */
static void print_row(const canvas *c, int row, bool coloured, FILE *out) {
    char label[CELL] = "";
    int end = c->columns;
    if (row == 0 || row == ROWS - 1)
        nt__format(label, sizeof label, "%.4g", row == 0 ? c->range.y_high : c->range.y_low);
    while (end > 0 && !c->dots[row][end - 1] && !c->mark[row][end - 1]) end--;
    fprintf(out, "%*s \u2502", LABEL, label);
    for (int column = 0; column < end; column++) print_cell(c, row, column, coloured, out);
    fputc('\n', out);
}

static void print_axis(const canvas *c, const char *axis, FILE *out) {
    char low[CELL], high[CELL];
    fprintf(out, "%*s \u2514", LABEL, "");
    for (int i = 0; i < c->columns; i++) fputs("\u2500", out);
    nt__format(low, sizeof low, "%.10g", c->range.x_low);
    nt__format(high, sizeof high, "%.10g", c->range.x_high);
    int room = c->columns - (int)strlen(low) - (int)strlen(axis) - (int)strlen(high);
    int before = room > 0 ? room / 2 : 1, behind = room > 1 ? room - before : 1;
    fprintf(out, "\n%*s  %s%*s%s%*s%s\n", LABEL, "", low, before, "", axis, behind, "", high);
}

static void print_head(const nt__plot_panel *panel, bool coloured, FILE *out) {
    fprintf(out, "%s%s%s\n", panel->name, *panel->note ? ", " : "", panel->note);
    for (size_t i = 0; panel->count > 1 && i < panel->count; i++)
        fprintf(out, "  %s%s%s\n", coloured ? colours[i % COLOURS] : "", panel->curves[i].run,
                coloured ? "\033[0m" : "");
}

static int columns_of(nt__screen screen) {
    int width = screen.columns ? (int)screen.columns : USUAL_WIDTH;
    width = width < LEAST_WIDTH ? LEAST_WIDTH : width > MOST_WIDTH ? MOST_WIDTH : width;
    return width - LABEL - 2;
}

static bool draw_panel(const nt__plot_panel *panel, nt__screen screen, FILE *out) {
    canvas *c = nt__alloc(1, sizeof *c);
    if (!c) return false;
    c->columns = columns_of(screen);
    bool has_points = nt__plot_range_of(panel, &c->range);
    print_head(panel, screen.colours, out);
    for (size_t i = 0; has_points && i < panel->count; i++) put_curve(c, &panel->curves[i], i);
    for (int row = 0; has_points && row < ROWS; row++) print_row(c, row, screen.colours, out);
    if (has_points)
        print_axis(c, panel->axis, out);
    else
        fprintf(out, "  no finite value\n");
    nt__free(c);
    return true;
}

bool nt__plot_draw(const nt__plot *plot, nt__screen screen, FILE *out) {
    bool good = true;
    fprintf(out, "%s\n", plot->title);
    for (size_t i = 0; good && i < plot->count; i++) {
        fputc('\n', out);
        good = draw_panel(&plot->panels[i], screen, out);
    }
    return good;
}
