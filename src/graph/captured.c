/* Data that becomes constants of a program: it is counted, and refused where it is too much for program text. The
 * compiler of C sees a Host field in traced code; it does not see a dataset after a global pointer, and that is what
 * arrives here.
 * Not here: the constants themselves (elementwise.c).
 */
#include <string.h>

#include "graph/emit.h"

enum { MOST_ARRAY_BYTES = 1 << 16, MOST_ELEMENTS_OF_A_LINE = 1 << 12 };

#define ADVICE "Make the data a DEVICE field, a field of the batch or a parameter"

void nt__captured_free(nt__captured *captured) {
    nt__free(captured->lines);
    nt__map_free(&captured->by_site);
    nt__map_free(&captured->seen);
}

/* What tells content of a line, or of a type, from the others. */
static nt__hash hash_of(uint64_t line_or_type, const void *content, size_t bytes) {
    nt__hash parts[2] = {{line_or_type, bytes}, nt__hash_bytes(content, bytes)};
    return nt__hash_bytes(parts, sizeof parts);
}

/* True when it is not among what was seen; now it is. Memory that is short is an error of the trace. */
static bool is_new(nt__captured *captured, nt__hash hash) {
    if (nt__map_find(&captured->seen, hash)) return false;
    if (!nt__map_put(&captured->seen, hash, 1)) nt__trace_out_of_memory();
    return true;
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

/* Place of the call's line among those that brought constants in; the count when memory is short. */
static size_t line_of(nt__captured *captured, nt_site site) {
    const uint64_t place[] = {(uintptr_t)site.file, (uint64_t)site.line};
    nt__hash hash = nt__hash_bytes(place, sizeof place);
    uint32_t number = nt__map_find(&captured->by_site, hash);
    if (number) return number - 1;
    if (!NT__GROW(captured->lines, captured->line_count, captured->line_capacity) ||
        !nt__map_put(&captured->by_site, hash, (uint32_t)captured->line_count + 1))
        return captured->line_count;
    captured->lines[captured->line_count] = (struct nt__captured_line){.site = site};
    return captured->line_count++;
}

static bool take(const char *what, const void *content, size_t bytes, size_t elements, nt_site site) {
    nt__captured *captured = &nt__trace_current()->captured;
    size_t line = line_of(captured, site);
    if (line == captured->line_count) {
        nt__trace_out_of_memory();
        return false;
    }
    if (!is_new(captured, hash_of(line, content, bytes))) return true;
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

/* Equal arrays count once: the program has them once. What is too large by itself is not read. */
bool nt__take_constant(const nt_array *array, const char *expression, nt_site site) {
    if (!nt__trace_under_way(site, "constant")) return false;
    char text[NT__TYPE_TEXT];
    nt__captured *captured = &nt__trace_current()->captured;
    size_t bytes = array->bytes, before = captured->array_bytes;
    uint64_t type = nt__hash_bytes(nt__type_text(nt__array_type(array), text), strlen(text)).low;
    bool counts = bytes > MOST_ARRAY_BYTES || is_new(captured, hash_of(type, array->data, bytes));
    if (counts && bytes > MOST_ARRAY_BYTES - before) {
        nt__trace_fail(
            site, "constant",
            "'%.60s' is %s, %zu bytes, after %zu bytes of other constants in this trace, and all may have %d "
            "bytes: they are written into the program. " ADVICE,
            expression, text, bytes, before, MOST_ARRAY_BYTES);
        return false;
    }
    if (counts) captured->array_bytes += bytes;
    return take("constant", array->data, bytes, (size_t)nt_shape_elements(array->shape), site);
}
