/* What differs between two programs: a named value that went into them, else the first operation. Operations are
 * compared by name, types, attributes and literals; places in the source are only shown, so an inserted line moves
 * nothing.
 * Not here: which programs are compared (describe.c, and the check of a run against newer code).
 */
#include "program/program_internal.h"

#include <string.h>

/* ---- parts ------------------------------------------------------------------------------------------------------ */

static const char *value_of(const nt__part *parts, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(parts[i].name, name) == 0) return parts[i].value;
    return NULL;
}

/* The flat parameters follow from the model: their size says that it moved and not where. */
static bool is_consequence(const char *name) {
    return strncmp(name, "parameters", strlen("parameters")) == 0;
}

/* True when a value moved that explains by itself why the operations did. */
static bool compare_parts(const nt__description *old, const nt__description *new, nt__text *out) {
    bool explained = false;
    for (size_t i = 0; i < new->part_count; i++) {
        const nt__part *part = &new->parts[i];
        const char *before = value_of(old->parts, old->part_count, part->name), *between = out->length ? "; " : "";
        if (!before) {
            nt__text_add(out, "%s%s: new, %s", between, part->name, part->value);
        } else if (strcmp(before, part->value) != 0) {
            nt__text_add(out, "%s%s: %s -> %s", between, part->name, before, part->value);
            explained |= !is_consequence(part->name);
        }
    }
    for (size_t i = 0; i < old->part_count; i++)
        if (!value_of(new->parts, new->part_count, old->parts[i].name))
            nt__text_add(out, "%s%s: %s -> gone", out->length ? "; " : "", old->parts[i].name, old->parts[i].value);
    return explained;
}

/* ---- operations ------------------------------------------------------------------------------------------------- */

/* Lines in their order; `users`: only those that a call of the user's made. */
typedef struct walk {
    const nt__line *lines;
    size_t count, at;
    bool users;
} walk;

/* Files of nitro begin like the name of this one. */
static bool is_users(const nt__line *line) {
    static const char own[] = __FILE__, within[] = "program/compare.c";
    return *line->site.file && strncmp(line->site.file, own, sizeof own - sizeof within) != 0;
}

static void skip_others(walk *w) {
    while (w->users && w->at < w->count && !is_users(&w->lines[w->at])) w->at++;
}

static walk walk_of(const nt__description *description, bool users) {
    walk w = {description->lines, description->line_count, 0, users};
    skip_others(&w);
    return w;
}

static const nt__line *line_at(const walk *w) {
    return w->at < w->count ? &w->lines[w->at] : NULL;
}

static void step(walk *w) {
    w->at++;
    skip_others(w);
}

static bool is_same(const walk *a, const walk *b) {
    return line_at(a) && line_at(b) && strcmp(line_at(a)->text, line_at(b)->text) == 0;
}

enum { LINES_THAT_AGREE = 2, LINES_SKIPPED = 8 };

/* Do the two go on alike? Copies are walked. */
static bool agree(walk a, walk b) {
    for (int i = 0; i < LINES_THAT_AGREE; i++, step(&a), step(&b))
        if (!is_same(&a, &b)) return false;
    return true;
}

/* Does `longer` have a few lines more here, and goes on like `shorter` after them? */
static bool has_more(walk longer, walk shorter) {
    for (int i = 0; i < LINES_SKIPPED && line_at(&longer); i++) {
        step(&longer);
        if (agree(longer, shorter)) return true;
    }
    return false;
}

static void add_place(nt__text *out, const nt__line *line) {
    if (!*line->site.file) return;
    nt__text_add(out, "%s:%d in %s: ", line->site.file, line->site.line, line->site.function);
}

static void add_new(nt__text *out, const nt__line *line) {
    add_place(out, line);
    nt__text_add(out, "new, %s", line->text);
}

static void add_gone(nt__text *out, const nt__line *line) {
    add_place(out, line);
    nt__text_add(out, "%s -> gone", line->text);
}

/* False when the lines are the same. */
static bool compare_lines(walk old, walk new, nt__text *out) {
    while (is_same(&old, &new)) {
        step(&old);
        step(&new);
    }
    const nt__line *before = line_at(&old), *after = line_at(&new);
    if (!before && !after) return false;
    if (!before || (after && has_more(new, old))) {
        add_new(out, after);
    } else if (!after || has_more(old, new)) {
        add_gone(out, before);
    } else {
        add_place(out, after);
        nt__text_add(out, "%s -> %s", before->text, after->text);
    }
    return true;
}

/* ---- connections ------------------------------------------------------------------------------------------------ */

/* The first line of text that differs, counted from 1. */
static long first_different(const char *a, const char *b) {
    long line = 1;
    while (*a && *a == *b) {
        line += *a == '\n';
        a++;
        b++;
    }
    return line;
}

static void compare_connections(const nt__description *old, const nt__description *new, nt__text *out) {
    long index = first_different(old->text, new->text) - new->first_line;
    if (index >= 0 && (size_t)index < new->line_count) add_place(out, &new->lines[index]);
    nt__text_add(out, "the same operations, connected in another way");
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

/* The user's calls are looked at first: what nitro adds around them follows from them, and from the parts. */
static void compare_operations(const nt__description *old, const nt__description *new, bool parts_moved,
                               nt__text *out) {
    if (strcmp(old->text, new->text) == 0) return;
    if (compare_lines(walk_of(old, true), walk_of(new, true), out) || parts_moved) return;
    if (compare_lines(walk_of(old, false), walk_of(new, false), out)) return;
    compare_connections(old, new, out);
}

void nt__description_compare(const nt__description *old, const nt__description *new, nt__text *out) {
    nt__text parts = {0}, operations = {0};
    bool explained = compare_parts(old, new, &parts);
    if (!explained) compare_operations(old, new, parts.length > 0, &operations);
    nt__text_add(out, "%s%s%s", parts.length ? parts.data : "", parts.length && operations.length ? "; " : "",
                 operations.length ? operations.data : "");
    if (!parts.length && !operations.length) nt__text_add(out, "the same program, which was not found compiled");
    out->failed |= parts.failed || operations.failed;
    nt__text_free(&parts);
    nt__text_free(&operations);
}

nt__description nt__description_of(const nt__program *program) {
    return (nt__description){program->parts,
                             program->part_count,
                             program->printed.lines,
                             program->printed.line_count,
                             program->printed.text.data,
                             program->printed.first_line};
}

bool nt__program_compare(const nt__program *old, const nt__program *new, nt__text *out) {
    if (nt__hash_equal(old->key, new->key)) return false;
    nt__description before = nt__description_of(old), after = nt__description_of(new);
    nt__description_compare(&before, &after, out);
    return true;
}
