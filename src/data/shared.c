/* Rows that two splits have in common, told as a warning: what is measured on rows that were trained on says little,
 * and a limit that was computed as 0 means all rows. Not here: what is an error of a split (splits.c).
 */
#include <inttypes.h>
#include <string.h>

#include "data/data_internal.h"

/* ---- what a split says of it ------------------------------------------------------------------------------------ */

static bool is_between(char byte) {
    return byte == ',' || byte == ' ';
}

/* The next name of a list with commas between them; its length is 0 at the end. */
static size_t next_name(const char **list) {
    while (is_between(**list)) (*list)++;
    size_t length = 0;
    while ((*list)[length] && !is_between((*list)[length])) length++;
    return length;
}

static bool says_it_shares(const nt__split *split, const nt__split *other) {
    const char *at = split->options.shares ? split->options.shares : "";
    for (size_t length; (length = next_name(&at)); at += length)
        if (strlen(other->name) == length && memcmp(other->name, at, length) == 0) return true;
    return false;
}

static bool is_split(const nt_data *data, const char *name, size_t length) {
    for (size_t i = 0; i < nt__data_split_count(data); i++) {
        const char *other = nt__data_split_at(data, i)->name;
        if (strlen(other) == length && memcmp(other, name, length) == 0) return true;
    }
    return false;
}

nt_status nt__split_check_shares(nt_data *data, const nt__split *split) {
    const char *at = split->options.shares ? split->options.shares : "";
    for (size_t length; (length = next_name(&at)); at += length)
        if (!is_split(data, at, length))
            return nt__fail(
                NT_INVALID,
                "split '%s': shares is '%s', and there is no split '%.*s' (the splits: %s): name the splits "
                "that may have the same rows, with commas between them",
                split->name, split->options.shares, (int)length, at, nt__data_split_names(data));
    return NT_OK;
}

/* ---- common rows ------------------------------------------------------------------------------------------------ */

/* Rows first <= row < end, counted in the whole array or source as `a` has it. */
typedef struct common {
    int64_t first, end;
} common;

static int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t earlier(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Two arrays may lie in the same memory. */
static common of_fields(const nt__split *a, const nt__split_field *field, const nt__split *b,
                        const nt__split_field *other) {
    int64_t size = (int64_t)nt__field_row_bytes(field);
    if (!field->array || !other->array || !size) return (common){0};
    int64_t shift = (intptr_t)other->array->data - (intptr_t)field->array->data;
    int64_t other_size = (int64_t)nt__field_row_bytes(other), other_first = shift + b->options.first * other_size;
    int64_t low = later(a->options.first * size, other_first);
    int64_t high = earlier((a->options.first + a->rows) * size, other_first + b->rows * other_size);
    return low < high ? (common){low / size, (high + size - 1) / size} : (common){0};
}

static bool have_one_source(const nt__split *a, const nt__split *b) {
    return nt__split_has_source(a) && a->source.context && a->source.context == b->source.context &&
           a->source.read == b->source.read;
}

static common of_sources(const nt__split *a, const nt__split *b) {
    common rows = {later(a->options.first, b->options.first),
                   earlier(a->options.first + a->rows, b->options.first + b->rows)};
    return have_one_source(a, b) && rows.first < rows.end ? rows : (common){0};
}

bool nt__split_shares_array(const nt__split *a, const nt__split *b) {
    for (size_t i = 0; i < a->field_count; i++) {
        const nt__split_field *other = nt__split_field_find(b, a->fields[i].name);
        if (other && other->array && a->fields[i].array && other->array->data == a->fields[i].array->data) return true;
    }
    return have_one_source(a, b);
}

/* Of the first field that has some; the names of all that have. */
static common find_common(const nt__split *a, const nt__split *b, nt__text *names) {
    common found = of_sources(a, b);
    if (found.end) nt__text_add(names, "source '%s'", a->source.name);
    for (size_t i = 0; i < a->field_count; i++) {
        const nt__split_field *other = nt__split_field_find(b, a->fields[i].name);
        common rows = other ? of_fields(a, &a->fields[i], b, other) : (common){0};
        if (!rows.end) continue;
        nt__text_add(names, "%s%s", names->length ? ", " : "", a->fields[i].name);
        if (!found.end) found = rows;
    }
    return found;
}

/* ---- telling ---------------------------------------------------------------------------------------------------- */

/* "rows 0..15999 (.first = 0, .limit = 16000)" */
static void add_range(const nt__split *split, nt__text *out) {
    nt__text_add(out, "'%s' has the rows %" PRId64 "..%" PRId64 " (.first = %" PRId64 ", .limit = %" PRId64 "%s)",
                 split->name, split->options.first, split->options.first + split->rows - 1, split->options.first,
                 split->options.limit, split->options.limit ? "" : ": all");
}

static nt_status warn_pair(const nt__split *a, const nt__split *b) {
    nt__text names = {0}, ranges = {0};
    common rows = find_common(a, b, &names);
    bool with_train = strcmp(a->name, "train") == 0 || strcmp(b->name, "train") == 0;
    if (rows.end) {
        add_range(a, &ranges);
        nt__text_say(&ranges, ", ");
        add_range(b, &ranges);
    }
    nt_status status = names.failed || ranges.failed ? NT_OUT_OF_MEMORY : NT_OK;
    if (status == NT_OK && rows.end)
        status =
            nt__warn("splits '%s' and '%s' share the rows %" PRId64 "..%" PRId64 " of %s, so %s: %s. Give each rows "
                     "of its own, or say that it is meant: .shares = \"%s\" in the nt_split of '%s'",
                     a->name, b->name, rows.first, rows.end - 1, names.data,
                     with_train ? "what is measured on them was trained on" : "they measure the same", ranges.data,
                     a->name, b->name);
    nt__text_free(&names);
    nt__text_free(&ranges);
    return status;
}

nt_status nt__data_warn_shared(const nt_data *data) {
    nt_status status = NT_OK;
    size_t count = nt__data_split_count(data);
    for (size_t i = 0; i < count; i++)
        for (size_t k = i + 1; status == NT_OK && k < count; k++) {
            const nt__split *a = nt__data_split_at(data, i), *b = nt__data_split_at(data, k);
            if (!says_it_shares(a, b) && !says_it_shares(b, a)) status = warn_pair(a, b);
        }
    return status;
}
