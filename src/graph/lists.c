/* Lists with a number for each spatial axis, as the options of convolution and pooling have them. One rule for all: a
 * list that names fewer axes than there are goes on with its last entry. Where 0 is a number too, as in paddings, only
 * the text of the call says how many entries there are; it is read here. */
#include <ctype.h>
#include <string.h>

#include "graph/emit.h"
#include "graph/window.h"

#define REFUSE(format, ...) (nt__trace_fail(options->site, options->what, format, __VA_ARGS__), false)

/* ---- the text of a call ----------------------------------------------------------------------------------------- */

static const char *skip_spaces(const char *at) {
    while (isspace((unsigned char)*at)) at++;
    return at;
}

/* The "{...}" of ".name = {...}"; NULL where the text has another form. */
static const char *braces_of(const char *text, const char *name) {
    size_t length = strlen(name);
    for (const char *dot = text; (dot = strchr(dot, '.')); dot++) {
        const char *at = skip_spaces(dot + 1);
        if (strncmp(at, name, length) != 0) continue;
        at = skip_spaces(at + length);
        if (*at != '=') continue;
        at = skip_spaces(at + 1);
        return *at == '{' ? at : NULL;
    }
    return NULL;
}

/* The comma or brace that ends an entry; NULL: there is none. */
static const char *end_of_entry(const char *at) {
    for (int depth = 0; *at; at++) {
        bool opens = *at == '{' || *at == '(', closes = *at == '}' || *at == ')';
        if (depth == 0 && (closes || *at == ',')) return at;
        depth += opens - closes;
    }
    return NULL;
}

/* How many entries a list was given, each of `numbers` numbers with or without braces of its own. `otherwise`: the text
 * does not say it, as where an entry names its place. */
static int entries_of(const char *written, const char *name, int numbers, int otherwise) {
    const char *at = written ? braces_of(written, name) : NULL;
    int given = 0;
    if (!at) return otherwise;
    for (at = skip_spaces(at + 1); *at != '}'; at = skip_spaces(at)) {
        const char *end = end_of_entry(at);
        if (!end || *at == '[') return otherwise;
        given += *at == '{' ? numbers : 1;
        at = *end == ',' ? end + 1 : end;
    }
    return (given + numbers - 1) / numbers;
}

/* ---- lists ------------------------------------------------------------------------------------------------------ */

static bool refuse_more(const nt__list_options *options, const char *name, int axis) {
    return REFUSE("%s has a number for spatial axis %d, and there %s %d", name, axis, options->axes == 1 ? "is" : "are",
                  options->axes);
}

bool nt__list_numbers(const nt__list_options *options, const char *name, const int64_t given[NT_CONV_AXES],
                      int64_t first, nt_shape *out) {
    out->rank = options->axes;
    for (int i = 0; i < NT_CONV_AXES; i++) {
        if (given[i] < 0 || given[i] > INT32_MAX)
            return REFUSE("%s %lld of spatial axis %d: it must be from 1 to %d", name, (long long)given[i], i,
                          INT32_MAX);
        if (i < options->axes)
            out->dims[i] = given[i] ? given[i] : i ? out->dims[i - 1] : first;
        else if (given[i])
            return refuse_more(options, name, i);
    }
    return true;
}

bool nt__list_output_padding(const nt__list_options *options, const int64_t given[NT_CONV_AXES], nt_shape *out) {
    int entries = entries_of(options->written, "output_padding", 1, options->axes);
    out->rank = options->axes;
    for (int i = 0; i < NT_CONV_AXES; i++)
        if (i < options->axes)
            out->dims[i] = i == 0 || i < entries || entries == 0 ? given[i] : out->dims[i - 1];
        else if (given[i])
            return refuse_more(options, "output padding", i);
    return true;
}

static bool is_far(int64_t pad) {
    return pad > INT32_MAX || pad < -INT32_MAX;
}

bool nt__list_padding(const nt__list_options *options, const int64_t given[NT_CONV_AXES][2], bool same, nt_shape *low,
                      nt_shape *high) {
    int entries = entries_of(options->written, "pad", 2, options->axes);
    low->rank = high->rank = options->axes;
    for (int i = 0; i < NT_CONV_AXES; i++) {
        const int64_t *pad = given[i];
        if (same && (pad[0] || pad[1])) return REFUSE("%s", "both `same` and `pad` are given");
        if (is_far(pad[0]) || is_far(pad[1]))
            return REFUSE("padding [%lld,%lld] of spatial axis %d is not possible", (long long)pad[0],
                          (long long)pad[1], i);
        if (i >= options->axes && (pad[0] || pad[1])) return refuse_more(options, "padding", i);
        if (i >= options->axes) continue;
        bool goes_on = i >= entries && entries > 0;
        low->dims[i] = goes_on ? low->dims[i - 1] : pad[0];
        high->dims[i] = goes_on ? high->dims[i - 1] : pad[1];
    }
    return true;
}
