/* Rules that change the names of a file's arrays to those of a model, and turn their axes.
 * Not here: whether the result fits the model (load.c).
 */
#include <stdlib.h>
#include <string.h>

#include "base/closest.h"
#include "weights/weights.h"

/* A rule, "FROM=TO:AXES", cut up. */
typedef struct rule {
    const char *text; /* all of it, for messages */
    char *from, *to;
    bool keeps; /* FROM is empty */
    bool transposes, reverses;
    int axes[NT_MAX_RANK], axis_count;
} rule;

/* ---- reading a rule --------------------------------------------------------------------------------------------- */

static nt_status refuse(const rule *r, const char *why) {
    nt__fail(NT_INVALID,
             "the map '%s' is none: %s. A map is FROM=TO, FROM=TO:transpose or FROM=TO:AXES, as in "
             "'model.*.fc.weight=*.dense.weight:transpose'; FROM= leaves an array out, =TO keeps what the model "
             "has",
             r->text, why);
    return NT_INVALID;
}

static int count_stars(const char *pattern) {
    int count = 0;
    for (const char *at = pattern; *at; at++) count += *at == '*';
    return count;
}

/* "2,3,1,0": each axis once. */
static nt_status read_axes(rule *r, const char *text) {
    bool seen[NT_MAX_RANK] = {false};
    r->transposes = true;
    if (strcmp(text, "transpose") == 0) {
        r->reverses = true;
        return NT_OK;
    }
    for (const char *at = text;; at++) {
        char *end;
        long axis = strtol(at, &end, 10);
        if (end == at || axis < 0 || axis >= NT_MAX_RANK || r->axis_count == NT_MAX_RANK || seen[axis])
            return refuse(r, "after the colon stands neither 'transpose' nor a list of different axes");
        seen[axis] = true;
        r->axes[r->axis_count++] = (int)axis;
        at = end;
        if (!*at) break;
        if (*at != ',') return refuse(r, "after the colon stands neither 'transpose' nor a list of different axes");
    }
    for (int i = 0; i < r->axis_count; i++)
        if (!seen[i]) return refuse(r, "the axes are not those from 0 on, each once");
    return NT_OK;
}

static nt_status read_rule(nt__arena *arena, const char *text, rule *out) {
    *out = (rule){.text = text};
    const char *equals = strchr(text, '=');
    if (!equals) return refuse(out, "it has no '='");
    out->keeps = equals == text;
    const char *colon = strchr(equals, ':');
    size_t to_length = colon ? (size_t)(colon - equals - 1) : strlen(equals + 1);
    out->from = nt__arena_sprintf(arena, "%.*s", (int)(equals - text), text);
    out->to = nt__arena_sprintf(arena, "%.*s", (int)to_length, equals + 1);
    if (!out->from || !out->to) return NT_OUT_OF_MEMORY;
    if (out->keeps && !*out->to) return refuse(out, "it names nothing");
    if (count_stars(out->from) > 1 || count_stars(out->to) > 1) return refuse(out, "a side has more than one '*'");
    if (!out->keeps && count_stars(out->to) > count_stars(out->from))
        return refuse(out, "TO has a '*' and FROM has none");
    return colon ? read_axes(out, colon + 1) : NT_OK;
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

/* What the star stands for, in *star with *length; a pattern without one matches itself alone. */
static bool match(const char *pattern, const char *name, const char **star, size_t *length) {
    const char *at = strchr(pattern, '*');
    *star = "";
    *length = 0;
    if (!at) return strcmp(pattern, name) == 0;
    size_t before = (size_t)(at - pattern), behind = strlen(at + 1), all = strlen(name);
    if (all < before + behind || strncmp(pattern, name, before) != 0 || strcmp(at + 1, name + all - behind) != 0)
        return false;
    *star = name + before;
    *length = all - before - behind;
    return true;
}

/* TO with what the star of FROM stood for. */
static const char *rename_to(nt__arena *arena, const char *to, const char *star, size_t length) {
    const char *at = strchr(to, '*');
    if (!at) return to;
    return nt__arena_sprintf(arena, "%.*s%.*s%s", (int)(at - to), to, (int)length, star, at + 1);
}

bool nt__weights_fits(const char *pattern, const char *path) {
    const char *star;
    size_t length;
    return match(pattern, path, &star, &length);
}

bool nt__weights_keeps(const nt__weights *weights, const char *path) {
    for (size_t i = 0; i < weights->kept_count; i++)
        if (nt__weights_fits(weights->kept[i], path)) return true;
    return false;
}

/* ---- axes ------------------------------------------------------------------------------------------------------- */

static nt_status check_axes(const rule *r, const nt__named_array *array) {
    char text[NT__TYPE_TEXT];
    int rank = array->type.shape.rank;
    if (r->reverses ? rank >= 2 : rank == r->axis_count) return NT_OK;
    return nt__fail(NT_INVALID, "the map '%s' cannot turn the axes of '%s', which is %s", r->text, array->name,
                    nt__type_text(array->type, text));
}

/* Elements in the order of the new axes: axis i of the result is axis axes[i] of the array. */
static void turn(const nt__named_array *from, const int *axes, nt_array *to) {
    int rank = to->shape.rank;
    size_t size = nt_dtype_size(to->dtype);
    int64_t strides[NT_MAX_RANK] = {0}, stride = 1, index[NT_MAX_RANK] = {0}, count = nt_shape_elements(to->shape);
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= from->type.shape.dims[i];
    }
    for (int64_t k = 0; k < count; k++) {
        int64_t at = 0;
        for (int i = 0; i < rank; i++) at += index[i] * strides[axes[i]];
        memcpy((char *)to->data + (size_t)k * size, (const char *)from->data + (size_t)at * size, size);
        for (int i = rank - 1; i >= 0 && ++index[i] == to->shape.dims[i]; i--) index[i] = 0;
    }
}

static nt_status transpose(nt__weights *weights, const rule *r, nt__named_array *array) {
    nt_status status = check_axes(r, array);
    if (status != NT_OK) return status;
    int axes[NT_MAX_RANK] = {0}, rank = array->type.shape.rank;
    nt_shape shape = {.rank = rank};
    for (int i = 0; i < rank; i++) {
        axes[i] = r->reverses ? rank - 1 - i : r->axes[i];
        shape.dims[i] = array->type.shape.dims[axes[i]];
    }
    nt_array *turned = nt_array_new(array->type.dtype, shape);
    if (!turned) return NT_OUT_OF_MEMORY;
    turn(array, axes, turned);
    weights->made[weights->made_count++] = turned;
    array->type.shape = shape;
    array->data = turned->data;
    weights->transposed++;
    return NT_OK;
}

/* ---- rules that fit nothing ------------------------------------------------------------------------------------- */

enum { MOST_NAMES = 6 };

/* Each rule with the names of arrays that are close to it, then some of all names. */
static nt_status fail_unfit(const rule *rules, size_t count, const char **names, size_t name_count) {
    nt__text text = {0};
    nt__text_say(&text, "no map fits an array of the file of weights, so none would be renamed or left out:");
    for (size_t i = 0; i < count; i++) {
        if (rules[i].keeps) continue;
        nt__text_add(&text, "\n  %s", rules[i].text);
        nt__add_closest(&text, rules[i].from, names, name_count, "");
    }
    nt__text_say(&text, "\nCorrect the part before the '=', or leave the maps out. The file has: ");
    for (size_t i = 0; i < name_count && i <= MOST_NAMES; i++)
        nt__text_add(&text, "%s%s", i ? ", " : "", i < MOST_NAMES ? names[i] : "...");
    nt_status status = text.failed ? NT_OUT_OF_MEMORY : nt__fail(NT_INVALID, "%s", text.data);
    nt__text_free(&text);
    return status;
}

static bool fits_some(const rule *r, const char **names, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (nt__weights_fits(r->from, names[i])) return true;
    return false;
}

/* A name that was written wrongly would else go unseen: the arrays of a file may fit the model without any map. */
static nt_status check_fit(nt__weights *weights, const rule *rules, size_t count) {
    size_t name_count = weights->count + weights->unknown_count;
    const char **names = nt__arena_alloc(&weights->arena, name_count + 1, sizeof *names);
    weights->unfit = nt__arena_alloc(&weights->arena, count, sizeof *weights->unfit);
    if (!names || !weights->unfit) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < weights->count; i++) names[i] = weights->arrays[i].name;
    for (size_t i = 0; i < weights->unknown_count; i++) names[weights->count + i] = weights->unknown[i].name;
    for (size_t i = 0; i < count; i++)
        if (!rules[i].keeps && !fits_some(&rules[i], names, name_count))
            weights->unfit[weights->unfit_count++] = rules[i].text;
    bool none_fits = weights->unfit_count && weights->unfit_count == count - weights->kept_count;
    return none_fits ? fail_unfit(rules, count, names, name_count) : NT_OK;
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

/* The first rule that fits a name is that array's. *name becomes the new one. NULL: none fits. */
static const rule *find_rule(nt__weights *weights, const rule *rules, size_t count, const char **name,
                             nt_status *status) {
    const char *star;
    size_t length;
    for (size_t i = 0; i < count; i++) {
        const rule *r = &rules[i];
        if (r->keeps || !match(r->from, *name, &star, &length)) continue;
        *name = rename_to(&weights->arena, r->to, star, length);
        if (!*name) *status = NT_OUT_OF_MEMORY;
        return r;
    }
    return NULL;
}

/* *keeps: the array stays in the list. */
static nt_status apply(nt__weights *weights, const rule *rules, size_t count, nt__named_array *array, bool *keeps) {
    nt_status status = NT_OK;
    const char *name = array->name;
    const rule *r = find_rule(weights, rules, count, &name, &status);
    *keeps = !r || *r->to;
    if (status != NT_OK || !r || !*keeps) return status;
    if (r->transposes) status = transpose(weights, r, array);
    weights->renamed += strcmp(name, array->name) != 0;
    array->name = name;
    return status;
}

/* Of what no array can be, only the names count. */
static nt_status apply_to_unknown(nt__weights *weights, const rule *rules, size_t count) {
    size_t left = 0;
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < weights->unknown_count; i++) {
        nt__unknown_array unknown = weights->unknown[i];
        const rule *r = find_rule(weights, rules, count, &unknown.name, &status);
        if (!r || *r->to) weights->unknown[left++] = unknown;
    }
    weights->unknown_count = left;
    return status;
}

static nt_status check_names(const nt__weights *weights) {
    for (size_t i = 0; i < weights->count; i++)
        if (nt__weights_find(weights, weights->arrays[i].name) != &weights->arrays[i])
            return nt__fail(NT_INVALID, "the maps give two arrays of the file the name '%s'", weights->arrays[i].name);
    return NT_OK;
}

static nt_status apply_all(nt__weights *weights, const rule *rules, size_t count) {
    size_t left = 0;
    for (size_t i = 0; i < weights->count; i++) {
        bool keeps;
        nt_status status = apply(weights, rules, count, &weights->arrays[i], &keeps);
        if (status != NT_OK) return status;
        if (keeps) weights->arrays[left++] = weights->arrays[i];
    }
    weights->count = left;
    nt_status status = apply_to_unknown(weights, rules, count);
    return status == NT_OK ? check_names(weights) : status;
}

nt_status nt__weights_map(nt__weights *weights, const char *const *maps, size_t count) {
    if (count == 0) return NT_OK;
    rule *rules = nt__arena_alloc(&weights->arena, count, sizeof *rules);
    weights->kept = nt__arena_alloc(&weights->arena, count, sizeof *weights->kept);
    weights->made = nt__arena_alloc(&weights->arena, weights->count + 1, sizeof *weights->made);
    nt_status status = rules && weights->kept && weights->made ? NT_OK : NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && i < count; i++) {
        status = read_rule(&weights->arena, maps[i], &rules[i]);
        if (status == NT_OK && rules[i].keeps) weights->kept[weights->kept_count++] = rules[i].to;
    }
    weights->is_mapped = true;
    weights->has_renames = weights->kept_count < count;
    if (status == NT_OK) status = check_fit(weights, rules, count);
    return status == NT_OK ? apply_all(weights, rules, count) : status;
}
