/* What moved: the last program of each role and experiment, which the next one is compared with.
 * Not here: the comparison (compare.c).
 */
#include "program/program_internal.h"

#include <string.h>

/* The last program of a role in an experiment. */
typedef struct memory {
    nt__arena arena;
    const char *role, *experiment;
    nt__description description;
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

/* ---- remembering ------------------------------------------------------------------------------------------------ */

static nt__line *copy_lines(nt__arena *arena, const nt__line *from, size_t count) {
    nt__line *lines = nt__arena_alloc(arena, count + 1, sizeof *lines);
    for (size_t i = 0; lines && i < count; i++) {
        lines[i] = (nt__line){nt__arena_strdup(arena, from[i].text),
                              {nt__arena_strdup(arena, from[i].site.file),
                               nt__arena_strdup(arena, from[i].site.function), from[i].site.line}};
        if (!lines[i].text || !lines[i].site.file || !lines[i].site.function) return NULL;
    }
    return lines;
}

static nt__part *copy_parts(nt__arena *arena, const nt__part *from, size_t count) {
    nt__part *parts = nt__arena_alloc(arena, count + 1, sizeof *parts);
    for (size_t i = 0; parts && i < count; i++) {
        parts[i] = (nt__part){nt__arena_strdup(arena, from[i].name), nt__arena_strdup(arena, from[i].value)};
        if (!parts[i].name || !parts[i].value) return NULL;
    }
    return parts;
}

static bool copy_description(memory *to, const nt__program *program) {
    nt__description from = nt__description_of(program), *d = &to->description;
    to->role = nt__arena_strdup(&to->arena, program->role);
    to->experiment = nt__arena_strdup(&to->arena, program->experiment);
    *d = from;
    d->parts = copy_parts(&to->arena, from.parts, from.part_count);
    d->lines = copy_lines(&to->arena, from.lines, from.line_count);
    d->text = nt__arena_strdup(&to->arena, from.text);
    return to->role && to->experiment && d->parts && d->lines && d->text;
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
        nt__description now = nt__description_of(program);
        nt__description_compare(&old->description, &now, &text);
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
