/* Data that becomes constants of a program: it is counted, and refused where it is too much for program text. The
 * compiler of C sees a Host field in traced code; it does not see a dataset behind a global pointer, and that is what
 * arrives here.
 * Not here: the constants themselves (elementwise.c).
 */
#include <string.h>

#include "graph/node.h"

enum { MOST_ARRAY_BYTES = 1 << 16, MOST_ELEMENTS_OF_A_LINE = 1 << 12 };

#define ADVICE "Make the data a DEVICE field, a field of the batch or a parameter"

void nt__captured_free(nt__captured *captured) {
    nt__free(captured->lines);
    nt__free(captured->seen);
}

/* ---- content seen before ---------------------------------------------------------------------------------------- */

static nt__hash *place_of(nt__hash *table, size_t capacity, nt__hash hash) {
    size_t at = hash.low & (capacity - 1);
    while ((table[at].low || table[at].high) && !nt__hash_equal(table[at], hash)) at = (at + 1) & (capacity - 1);
    return &table[at];
}

static bool make_room(nt__captured *captured) {
    if (2 * captured->seen_count < captured->seen_capacity) return true;
    size_t capacity = captured->seen_capacity ? 2 * captured->seen_capacity : 64;
    nt__hash *table = nt__alloc(capacity, sizeof *table);
    if (!table) return false;
    for (size_t i = 0; i < captured->seen_capacity; i++) {
        nt__hash hash = captured->seen[i];
        if (hash.low || hash.high) *place_of(table, capacity, hash) = hash;
    }
    nt__free(captured->seen);
    captured->seen = table;
    captured->seen_capacity = capacity;
    return true;
}

/* True when the line did not bring in this content before. Call with room made. */
static bool is_new(nt__captured *captured, size_t line, const void *content, size_t bytes) {
    nt__hash parts[2] = {{line, bytes}, nt__hash_bytes(content, bytes)};
    nt__hash hash = nt__hash_bytes(parts, sizeof parts);
    nt__hash *place = place_of(captured->seen, captured->seen_capacity, hash);
    if (nt__hash_equal(*place, hash)) return false;
    *place = hash;
    captured->seen_count++;
    return true;
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

/* Place of the call's line among those that brought constants in; the count when memory is short. */
static size_t line_of(nt__captured *captured, nt_site site) {
    for (size_t i = 0; i < captured->line_count; i++)
        if (captured->lines[i].site.line == site.line && captured->lines[i].site.file == site.file) return i;
    if (!NT__GROW(captured->lines, captured->line_count, captured->line_capacity)) return captured->line_count;
    captured->lines[captured->line_count] = (struct nt__captured_line){.site = site};
    return captured->line_count++;
}

static bool take(const char *what, const void *content, size_t bytes, size_t elements, nt_site site) {
    nt__captured *captured = &nt__trace_current()->captured;
    size_t line = line_of(captured, site);
    if (line == captured->line_count || !make_room(captured)) {
        nt__trace_out_of_memory();
        return false;
    }
    if (!is_new(captured, line, content, bytes)) return true;
    size_t *count = &captured->lines[line].elements;
    *count += elements;
    if (*count <= MOST_ELEMENTS_OF_A_LINE) return true;
    nt__trace_fail(site, what,
                   "this line has made constants of %zu different elements in one trace, and a line may make %d: they "
                   "are written into the program. " ADVICE,
                   *count, MOST_ELEMENTS_OF_A_LINE);
    return false;
}

/* A number without a place is the library's own. */
bool nt__take_number(const char *what, double value, nt_site site) {
    if (!nt__trace_under_way(site, what)) return false;
    return !site.file || take(what, &value, sizeof value, 1, site);
}

bool nt__take_constant(const nt_array *array, const char *expression, nt_site site) {
    if (!nt__trace_under_way(site, "constant")) return false;
    char type[NT__TYPE_TEXT];
    size_t *bytes = &nt__trace_current()->captured.array_bytes, before = *bytes;
    if (array->bytes > MOST_ARRAY_BYTES - before) {
        nt__trace_fail(
            site, "constant",
            "'%.60s' is %s, %zu bytes, after %zu bytes of other constants in this trace, and all may have %d "
            "bytes: they are written into the program. " ADVICE,
            expression, nt__type_text(nt__array_type(array), type), array->bytes, before, MOST_ARRAY_BYTES);
        return false;
    }
    *bytes += array->bytes;
    return take("constant", array->data, array->bytes, (size_t)nt_shape_elements(array->shape), site);
}
