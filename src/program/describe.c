/* What moved: the parts and the lines of a program compared with the last one of its role.
 * Lines are compared by operation, types and attributes; places in the source are only shown.
 */
#include "program/program_internal.h"

#include <string.h>

/* The last program of a role in an experiment. */
typedef struct memory {
    nt__arena arena;
    const char *role, *experiment;
    nt__part *parts;
    size_t part_count;
    nt__line *lines;
    size_t line_count;
} memory;

static struct {
    memory *items;
    size_t count, capacity;
} last;

static memory *find(const nt__program *program) {
    for (size_t i = 0; i < last.count; i++)
        if (!strcmp(last.items[i].role, program->role) && !strcmp(last.items[i].experiment, program->experiment))
            return &last.items[i];
    return NULL;
}

/* ---- comparing -------------------------------------------------------------------------------------------------- */

static const char *value_of(const nt__part *parts, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(parts[i].name, name) == 0) return parts[i].value;
    return NULL;
}

static void compare_parts(const memory *old, const nt__program *new, nt__text *out) {
    for (size_t i = 0; i < new->part_count; i++) {
        const char *before = value_of(old->parts, old->part_count, new->parts[i].name);
        const char *between = out->length ? "; " : "";
        if (!before)
            nt__text_add(out, "%s%s: new, %s", between, new->parts[i].name, new->parts[i].value);
        else if (strcmp(before, new->parts[i].value) != 0)
            nt__text_add(out, "%s%s: %s -> %s", between, new->parts[i].name, before, new->parts[i].value);
    }
    for (size_t i = 0; i < old->part_count; i++)
        if (!value_of(new->parts, new->part_count, old->parts[i].name))
            nt__text_add(out, "%s%s: %s -> gone", out->length ? "; " : "", old->parts[i].name, old->parts[i].value);
}

static void add_place(nt__text *out, const nt__line *line) {
    if (!*line->site.file) return;
    nt__text_add(out, "%s:%d in %s: ", line->site.file, line->site.line, line->site.function);
}

/* The first line that differs. */
static void compare_lines(const memory *old, const nt__program *new, nt__text *out) {
    const nt__line *lines = new->printed.lines;
    size_t count = new->printed.line_count, i = 0;
    while (i < count && i < old->line_count && strcmp(lines[i].text, old->lines[i].text) == 0) i++;
    if (i < count) {
        add_place(out, &lines[i]);
        if (i < old->line_count)
            nt__text_add(out, "%s -> %s", old->lines[i].text, lines[i].text);
        else
            nt__text_add(out, "new, %s", lines[i].text);
    } else if (i < old->line_count) {
        add_place(out, &old->lines[i]);
        nt__text_add(out, "%s -> gone", old->lines[i].text);
    } else {
        nt__text_add(out, "the same operations, connected in another way");
    }
}

/* ---- remembering ------------------------------------------------------------------------------------------------ */

static bool copy_lines(memory *to, const nt__program *program) {
    to->line_count = program->printed.line_count;
    to->lines = nt__arena_alloc(&to->arena, to->line_count + 1, sizeof *to->lines);
    for (size_t i = 0; to->lines && i < to->line_count; i++) {
        const nt__line *line = &program->printed.lines[i];
        to->lines[i] = (nt__line){nt__arena_strdup(&to->arena, line->text),
                                  {nt__arena_strdup(&to->arena, line->site.file),
                                   nt__arena_strdup(&to->arena, line->site.function), line->site.line}};
        if (!to->lines[i].text || !to->lines[i].site.file || !to->lines[i].site.function) return false;
    }
    return to->lines != NULL;
}

static bool copy_description(memory *to, const nt__program *program) {
    to->role = nt__arena_strdup(&to->arena, program->role);
    to->experiment = nt__arena_strdup(&to->arena, program->experiment);
    to->part_count = program->part_count;
    to->parts = nt__arena_alloc(&to->arena, to->part_count + 1, sizeof *to->parts);
    for (size_t i = 0; to->parts && i < to->part_count; i++) {
        to->parts[i] = (nt__part){nt__arena_strdup(&to->arena, program->parts[i].name),
                                  nt__arena_strdup(&to->arena, program->parts[i].value)};
        if (!to->parts[i].name || !to->parts[i].value) return false;
    }
    return to->role && to->experiment && to->parts && copy_lines(to, program);
}

bool nt__describe_remember(const nt__program *program) {
    memory new = {0}, *old = find(program);
    bool right = copy_description(&new, program) && (old || NT__GROW(last.items, last.count, last.capacity));
    if (!right) {
        nt__arena_free(&new.arena);
        return false;
    }
    if (old) nt__arena_free(&old->arena);
    *(old ? old : &last.items[last.count++]) = new;
    return true;
}

const char *nt__describe_move(const nt__program *program, nt__arena *arena) {
    nt__text text = {0};
    const memory *old = find(program);
    if (!old) {
        nt__text_add(&text, "first program of its kind");
    } else {
        compare_parts(old, program, &text);
        if (!text.length) compare_lines(old, program, &text);
    }
    const char *kept = text.failed ? NULL : nt__arena_strdup(arena, text.data);
    nt__text_free(&text);
    return kept && nt__describe_remember(program) ? kept : NULL;
}

void nt__descriptions_reset(void) {
    for (size_t i = 0; i < last.count; i++) nt__arena_free(&last.items[i].arena);
    nt__free(last.items);
    memset(&last, 0, sizeof last);
}
