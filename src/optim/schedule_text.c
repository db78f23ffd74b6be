/* Schedules as text: written for a reader, and read from "NAME=warmup:100:cosine:1e-3:0".
 * Not here: what the kinds compute (schedule.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "optim/schedule_kinds.h"

/* ---- writing ---------------------------------------------------------------------------------------------------- */

/* The first two numbers of a kind say themselves what they are, the others have their names. */
static void add_numbers(const nt_schedule *s, nt__text *out) {
    for (int i = 0; i < NT_SCHEDULE_NUMBERS && s->kind->numbers[i].name; i++) {
        bool is_left_out = i >= s->kind->required && s->numbers[i] == s->kind->numbers[i].default_value;
        if (is_left_out) continue;
        nt__text_add(out, "%s", i ? " " : "");
        if (i >= 2) nt__text_add(out, "%s ", s->kind->numbers[i].name);
        nt__text_add(out, "%g", s->numbers[i]);
    }
}

static void add_parts(const nt_schedule *s, nt__text *out) {
    for (size_t i = 0; i < s->count; i++) {
        nt__text_add(out, "%s", i ? ", " : "");
        nt__schedule_print(&s->parts[i].schedule, out);
        if (s->parts[i].steps > 0) nt__text_add(out, " for %lld", (long long)s->parts[i].steps);
    }
}

static void add_points(const nt_schedule *s, nt__text *out) {
    for (size_t i = 0; i < s->count; i++)
        nt__text_add(out, ", %g after %lld", s->points[i].value, (long long)s->points[i].after);
}

static void add_warmup(const nt_schedule *s, nt__text *out) {
    if (s->warmup <= 0) return;
    nt__text_add(out, "warmup(%lld", (long long)s->warmup);
    if (s->warmup_from != 0) nt__text_add(out, " from %g", s->warmup_from);
    nt__text_add(out, ") then ");
}

void nt__schedule_print(const nt_schedule *schedule, nt__text *out) {
    add_warmup(schedule, out);
    nt__text_add(out, "%s", schedule->kind->name);
    if (schedule->kind == &nt__schedule_kinds[NT__FUNCTION]) return;
    nt__text_add(out, "(");
    add_numbers(schedule, out);
    if (schedule->kind->holds == NT__POINTS) add_points(schedule, out);
    if (schedule->kind->holds == NT__PARTS) add_parts(schedule, out);
    if (schedule->steps > 0) nt__text_add(out, " steps %lld", (long long)schedule->steps);
    if (schedule->begin > 0) nt__text_add(out, " begin %lld", (long long)schedule->begin);
    nt__text_add(out, ")");
}

nt_status nt_schedule_print(const nt_schedule *schedule, FILE *out) {
    if (!nt__given(schedule, "nt_schedule_print", "schedule") || !nt__given(out, "nt_schedule_print", "out"))
        return NT_INVALID;
    nt_status status = nt__schedule_check(schedule);
    if (status != NT_OK) return status;
    nt__text text = {0};
    nt__schedule_print(schedule, &text);
    status = text.failed ? NT_OUT_OF_MEMORY : NT_OK;
    if (status == NT_OK && fwrite(text.data, 1, text.length, out) != text.length)
        status = nt__fail(NT_IO, "cannot write: %s", strerror(errno));
    nt__text_free(&text);
    return status;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static const struct {
    const char *spelling, *meaning;
} combinations[] = {
    {"warmup:STEPS:...", "a rise from 0 to the first value of what follows, before that"},
    {"...@STEPS,...", "one after the other: the first for STEPS steps"},
};

const char *nt__schedule_spelling(size_t index, const char **meaning) {
    static _Thread_local char text[96];
    size_t kinds = 0;
    while (kinds < NT__KIND_COUNT && nt__schedule_kinds[kinds].spelling) kinds++;
    if (index < kinds) {
        snprintf(text, sizeof text, "%s%s", nt__schedule_kinds[index].name, nt__schedule_kinds[index].spelling);
        *meaning = nt__schedule_kinds[index].meaning;
        return text;
    }
    if (index - kinds >= sizeof combinations / sizeof *combinations) return NULL;
    *meaning = combinations[index - kinds].meaning;
    return combinations[index - kinds].spelling;
}

static nt_status refuse(const char *text) {
    const char *meaning, *spelling;
    nt__text all = {0};
    for (size_t i = 0; (spelling = nt__schedule_spelling(i, &meaning)); i++)
        nt__text_add(&all, "%s%s", i ? ", " : "", spelling);
    nt_status status = all.failed ? NT_OUT_OF_MEMORY
                                  : nt__fail(NT_INVALID,
                                             "'%s' is no schedule: write NAME=KIND:NUMBERS, for example "
                                             "learning_rate=cosine:1e-3:0. There are: %s",
                                             text, all.data);
    nt__text_free(&all);
    return status;
}

/* A text under reading. */
typedef struct reader {
    nt__arena *arena;
    const char *at;
    bool wrong, out_of_memory;
} reader;

static bool takes_word(reader *r, const char *word) {
    size_t length = strlen(word);
    bool found = strncmp(r->at, word, length) == 0 && strchr(":@,", r->at[length]);
    if (found) r->at += length;
    return found;
}

/* ":1e-3". False without a step when there is none. */
static bool takes_number(reader *r, double *out) {
    char *end = NULL;
    if (*r->at != ':') return false;
    *out = nt__read_double(r->at + 1, &end);
    if (end == r->at + 1 || r->at[1] == ' ') return false;
    r->at = end;
    return true;
}

/* A number of steps after `mark`. */
static int64_t read_steps(reader *r, char mark) {
    char *end = NULL;
    long long steps = 0;
    if (*r->at == mark && r->at[1] >= '0' && r->at[1] <= '9') steps = strtoll(r->at + 1, &end, 10);
    if (steps <= 0) r->wrong = true;
    if (end) r->at = end;
    return steps;
}

static const nt_schedule_kind *read_kind(reader *r) {
    for (int i = 0; i < NT__KIND_COUNT; i++)
        if (nt__schedule_kinds[i].spelling && takes_word(r, nt__schedule_kinds[i].name)) return &nt__schedule_kinds[i];
    return NULL;
}

static size_t count_numbers(reader r) {
    size_t count = 0;
    for (double number; takes_number(&r, &number);) count++;
    return count;
}

static void read_points(reader *r, nt_schedule *out) {
    size_t count = count_numbers(*r);
    nt_schedule_point *points = nt__arena_alloc(r->arena, count + 1, sizeof *points);
    if (!points) {
        r->out_of_memory = true;
        return;
    }
    r->wrong |= count == 0 || count % 2 != 0;
    for (size_t i = 0; !r->wrong && i < count / 2; i++) {
        points[i].after = read_steps(r, ':');
        r->wrong |= !takes_number(r, &points[i].value);
    }
    out->points = points;
    out->count = count / 2;
}

static nt_schedule read_one(reader *r) {
    nt_schedule read = {0};
    if (takes_word(r, "warmup")) {
        read.warmup = read_steps(r, ':');
        r->wrong |= *r->at != ':';
        if (!r->wrong) r->at++;
    }
    read.kind = r->wrong ? NULL : read_kind(r);
    if (!read.kind) {
        r->wrong = true;
        return read;
    }
    int count = 0;
    while (count < NT_SCHEDULE_NUMBERS && read.kind->numbers[count].name && takes_number(r, &read.numbers[count]))
        count++;
    r->wrong |= count < read.kind->required;
    nt__schedule_fill(&read);
    if (read.kind->holds == NT__POINTS && !r->wrong) read_points(r, &read);
    return read;
}

static size_t count_parts(const char *text) {
    size_t count = 1;
    while (*text) count += *text++ == ',';
    return count;
}

/* All parts; a single one without steps is that schedule itself. */
static nt_schedule read_all(reader *r) {
    size_t count = count_parts(r->at);
    nt_schedule_part *parts = nt__arena_alloc(r->arena, count, sizeof *parts);
    if (!parts) r->out_of_memory = true;
    for (size_t i = 0; parts && !r->wrong && !r->out_of_memory && i < count; i++) {
        parts[i].schedule = read_one(r);
        if (!r->wrong && i + 1 < count) {
            parts[i].steps = read_steps(r, '@');
            r->wrong |= *r->at != ',';
            r->at++;
        }
    }
    r->wrong |= !r->wrong && *r->at != 0;
    if (r->wrong || r->out_of_memory) return (nt_schedule){0};
    return count == 1 ? parts[0].schedule : nt_schedule_sequence_with(parts, count);
}

nt_status nt__schedule_parse(const char *text, nt_schedules *out) {
    const char *equals = strchr(text, '=');
    if (!equals || equals == text) return refuse(text);
    nt__arena arena = {0};
    reader r = {.arena = &arena, .at = equals + 1};
    nt_schedule schedule = read_all(&r);
    char *name = nt__sprintf("%.*s", (int)(equals - text), text);
    nt_status status = r.out_of_memory || !name ? NT_OUT_OF_MEMORY : r.wrong ? refuse(text) : NT_OK;
    if (status == NT_OK) {
        nt_schedule_set(out, name, schedule);
        status = out->status;
    }
    nt__free(name);
    nt__arena_free(&arena);
    return status;
}
