/* What differs between two programs: a named value that went into them, else the first operation. Operations are
 * compared by name, types, attributes and literals; places in the source are only shown, so an inserted line moves
 * nothing. A person is shown floating constants as decimal numbers, and of a long line the part that differs.
 * Not here: which programs are compared (describe.c, and the check of a run against newer code).
 */
#include "program/program_internal.h"

#include <stdio.h>
#include <stdlib.h>
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

/* ---- showing a line --------------------------------------------------------------------------------------------- */

/* Whether a floating type that an element is printed in begins here, as in "8x3xbf16>". */
static bool floating_type(const char *tensor, nt_dtype *out) {
    tensor += strlen("tensor<");
    for (size_t digits; (digits = strspn(tensor, "0123456789")) && tensor[digits] == 'x';) tensor += digits + 1;
    for (int dtype = 0; dtype < NT_DTYPE_COUNT; dtype++) {
        const char *name = nt__dtype_text((nt_dtype)dtype);
        *out = (nt_dtype)dtype;
        if (nt_dtype_is_float(*out) && strncmp(tensor, name, strlen(name)) == 0) return true;
    }
    return false;
}

enum { DECIMAL = 32 };

/* The shortest decimal number that has these bits. False: there is none, as of a nan with a sign. */
static bool shortest_decimal(nt_dtype dtype, uint64_t bits, char out[DECIMAL]) {
    double number = nt__element_get(dtype, &bits);
    for (int digits = 1; digits <= 17; digits++) {
        uint64_t back = 0;
        nt__format(out, DECIMAL, "%.*g", digits, nt__plain_nan(number));
        nt__element_set(dtype, &back, nt__read_double(out, NULL));
        if (back == bits) return true;
    }
    return false;
}

/* Adds the number whose bits stand here in hexadecimal digits, and returns what is after them. The type that follows
 * says how to read them; where they are no element of it they stay as they are. */
static const char *add_element(const char *at, nt__text *out) {
    char *end, decimal[DECIMAL];
    uint64_t bits = strtoull(at, &end, 16);
    const char *type = strstr(at, "tensor<");
    nt_dtype dtype;
    bool is_element = type && floating_type(type, &dtype) && (size_t)(end - at) == 2 + 2 * nt_dtype_size(dtype);
    if (is_element && shortest_decimal(dtype, bits, decimal))
        nt__text_say(out, decimal);
    else
        nt__text_put(out, at, (size_t)(end - at));
    return end;
}

/* Adds a line with its floating constants in decimal. */
static void add_readable(const char *line, nt__text *out) {
    for (const char *bits; (bits = strstr(line, "0x")); line = add_element(bits, out))
        nt__text_put(out, line, (size_t)(bits - line));
    nt__text_say(out, line);
}

enum { SHOWN = 120, SHOWN_BEFORE = 24 };

/* Adds a line cut to SHOWN characters: its beginning, or its name and what begins shortly before `important`. */
static void add_cut(nt__text *out, const nt__text *line, size_t important) {
    size_t from = 0;
    if (line->length > SHOWN && important + SHOWN_BEFORE > SHOWN) {
        from = important - SHOWN_BEFORE;
        if (line->length - from < SHOWN) from = line->length - SHOWN;
        nt__text_put(out, line->data, strcspn(line->data, " "));
        nt__text_say(out, " ...");
    }
    size_t left = line->length - from;
    nt__text_put(out, line->data + from, left > SHOWN ? SHOWN : left);
    if (left > SHOWN) nt__text_say(out, "...");
}

static size_t first_difference(const char *a, const char *b) {
    size_t i = 0;
    while (a[i] && a[i] == b[i]) i++;
    return i;
}

/* Adds "before -> after" such that the difference is seen; where one of the two is NULL the other. */
static void add_shown(nt__text *out, const char *before, const char *after) {
    nt__text old = {0}, new = {0};
    if (before) add_readable(before, &old);
    if (after) add_readable(after, &new);
    bool right = !old.failed && !new.failed;
    size_t important = right && before && after ? first_difference(old.data, new.data) : 0;
    if (right && before) add_cut(out, &old, important);
    if (before && after) nt__text_say(out, " -> ");
    if (right && after) add_cut(out, &new, important);
    out->failed |= !right;
    nt__text_free(&old);
    nt__text_free(&new);
}

/* ---- the first operation that differs --------------------------------------------------------------------------- */

static void add_place(nt__text *out, const nt__line *line) {
    if (!*line->site.file) return;
    nt__text_add(out, "%s:%d in %s: ", line->site.file, line->site.line, line->site.function);
}

static void add_new(nt__text *out, const nt__line *line) {
    add_place(out, line);
    nt__text_say(out, "new, ");
    add_shown(out, NULL, line->text);
}

static void add_gone(nt__text *out, const nt__line *line) {
    add_place(out, line);
    add_shown(out, line->text, NULL);
    nt__text_say(out, " -> gone");
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
        add_shown(out, before->text, after->text);
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
