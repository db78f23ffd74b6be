/* What moved: the last program of each role and experiment, which the next one is compared with.
 * Not here: the comparison (compare.c).
 */
#include "program/program_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last program of a role in an experiment. */
typedef struct memory {
    nt__arena arena;
    const char *role, *experiment;
    nt__description description;
} memory;

static struct {
    pthread_mutex_t lock;
    memory *items;
    size_t count, capacity;
} last = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Call it and what it finds with the lock held. */
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

/* Takes the copy over. False when memory is short. */
static bool put(const nt__program *program, memory *new) {
    memory *old = find(program);
    if (!old && !NT__GROW(last.items, last.count, last.capacity)) return false;
    if (old) nt__arena_free(&old->arena);
    *(old ? old : &last.items[last.count++]) = *new;
    return true;
}

bool nt__describe_remember(const nt__program *program) {
    memory new = {0};
    bool right = copy_description(&new, program);
    pthread_mutex_lock(&last.lock);
    right = right && put(program, &new);
    pthread_mutex_unlock(&last.lock);
    if (!right) nt__arena_free(&new.arena);
    return right;
}

static void add_move(const nt__program *program, nt__text *text) {
    nt__description now = nt__description_of(program);
    pthread_mutex_lock(&last.lock);
    const memory *old = find(program);
    if (old)
        nt__description_compare(&old->description, &now, text);
    else
        nt__text_add(text, "first program of its kind");
    pthread_mutex_unlock(&last.lock);
}

const char *nt__describe_move(const nt__program *program, nt__arena *arena) {
    nt__text text = {0};
    add_move(program, &text);
    const char *kept = text.failed ? NULL : nt__arena_strdup(arena, text.data);
    nt__text_free(&text);
    return kept && nt__describe_remember(program) ? kept : NULL;
}

/* ---- to and from bytes ------------------------------------------------------------------------------------------ */

bool nt__describe_knows(const nt__program *program) {
    pthread_mutex_lock(&last.lock);
    bool knows = find(program) != NULL;
    pthread_mutex_unlock(&last.lock);
    return knows;
}

void nt__describe_name(const nt__program *program, char out[NT__DESCRIBE_NAME]) {
    const nt__hash parts[2] = {nt__hash_bytes(program->experiment, strlen(program->experiment)),
                               nt__hash_bytes(program->role, strlen(program->role))};
    char hex[33];
    nt__hash_hex(nt__hash_bytes(parts, sizeof parts), hex);
    snprintf(out, NT__DESCRIBE_NAME, "%s.last", hex);
}

/* Numbers, then texts, each with its NUL: the program; name and value of the parts; text, file, function and number of
 * the lines. */
enum { PARTS, LINES, FIRST_LINE, NUMBERS };
void nt__describe_write(const nt__program *program, nt__text *out) {
    const uint64_t numbers[NUMBERS] = {
        [PARTS] = program->part_count,
        [LINES] = program->printed.line_count,
        [FIRST_LINE] = (uint64_t)program->printed.first_line,
    };
    nt__text_put(out, (const char *)numbers, sizeof numbers);
    nt__text_add(out, "%s%c", program->printed.text.data, 0);
    for (size_t i = 0; i < program->part_count; i++)
        nt__text_add(out, "%s%c%s%c", program->parts[i].name, 0, program->parts[i].value, 0);
    for (size_t i = 0; i < program->printed.line_count; i++) {
        const nt__line *line = &program->printed.lines[i];
        nt__text_add(out, "%s%c%s%c%s%c%d%c", line->text, 0, line->site.file, 0, line->site.function, 0,
                     line->site.line, 0);
    }
}

typedef struct reader {
    const char *at, *end;
} reader;

/* NULL when no whole text is left. */
static const char *next_text(reader *r) {
    const char *text = r->at;
    size_t left = (size_t)(r->end - r->at), length = strnlen(text, left);
    if (length == left) return NULL;
    r->at += length + 1;
    return text;
}

/* Points into the bytes; the lists are in the arena. False: there is less than the counts say. */
static bool read_description(reader *r, const uint64_t *numbers, nt__arena *arena, nt__program *out) {
    uint64_t most = (uint64_t)(r->end - r->at);
    if (numbers[PARTS] > most || numbers[LINES] > most || numbers[FIRST_LINE] > most) return false;
    const char *program = next_text(r);
    out->parts = nt__arena_alloc(arena, numbers[PARTS] + 1, sizeof *out->parts);
    out->printed.lines = nt__arena_alloc(arena, numbers[LINES] + 1, sizeof *out->printed.lines);
    out->printed.text.data = program ? nt__arena_strdup(arena, program) : NULL;
    if (!out->parts || !out->printed.lines || !out->printed.text.data) return false;
    out->printed.first_line = (int)numbers[FIRST_LINE];
    for (; out->part_count < numbers[PARTS]; out->part_count++) {
        const char *name = next_text(r), *value = next_text(r);
        if (!name || !value) return false;
        out->parts[out->part_count] = (nt__part){name, value};
    }
    for (; out->printed.line_count < numbers[LINES]; out->printed.line_count++) {
        const char *text = next_text(r), *file = next_text(r), *function = next_text(r), *line = next_text(r);
        if (!text || !file || !function || !line) return false;
        out->printed.lines[out->printed.line_count] = (nt__line){text, {file, function, (int)strtol(line, NULL, 10)}};
    }
    return true;
}

/* Bytes that are none of nt__describe_write are as good as none. */
nt_status nt__describe_read(const nt__program *program, const char *data, size_t length) {
    nt__arena arena = {0};
    nt__program read = {.role = program->role, .experiment = program->experiment};
    uint64_t numbers[NUMBERS];
    if (length < sizeof numbers) return NT_OK;
    memcpy(numbers, data, sizeof numbers);
    reader r = {data + sizeof numbers, data + length};
    nt__fail_nothing();
    bool whole = read_description(&r, numbers, &arena, &read);
    nt_status status = whole ? NT_OK : nt_error_status();
    if (whole && !nt__describe_remember(&read)) status = NT_OUT_OF_MEMORY;
    nt__arena_free(&arena);
    return status;
}

void nt__descriptions_reset(void) {
    pthread_mutex_lock(&last.lock);
    for (size_t i = 0; i < last.count; i++) nt__arena_free(&last.items[i].arena);
    nt__free(last.items);
    last.items = NULL;
    last.count = last.capacity = 0;
    pthread_mutex_unlock(&last.lock);
}
