/* The flat layout: which group and which place in its buffer each parameter has. */
#include <string.h>

#include "optim/rules.h"

static int find_group(const nt__layout *layout, const char *name) {
    for (size_t i = 0; i < layout->group_count; i++)
        if (strcmp(layout->groups[i].name, name) == 0) return (int)i;
    return -1;
}

/* Groups in the order of their first leaf, `default` first when some leaf is in it. */
static bool collect_groups(nt__layout *layout, size_t count, const char *const *names) {
    for (size_t i = 0; i < count; i++) {
        if (find_group(layout, names[i]) >= 0) continue;
        const char *name = nt__arena_strdup(&layout->arena, names[i]);
        if (!name) return false;
        size_t at = strcmp(name, "default") == 0 ? 0 : layout->group_count;
        memmove(layout->groups + at + 1, layout->groups + at, sizeof *layout->groups * (layout->group_count - at));
        layout->groups[at] = (nt__group){.name = name};
        layout->group_count++;
    }
    return true;
}

/* The others of the group are those of the rows before. */
static nt_status refuse_mixed(const nt__layout *layout, size_t index, const nt__leaf *leaf, int number) {
    const nt__row *first = layout->rows;
    while (first < layout->rows + index && first->group != number) first++;
    return nt__fail(NT_INVALID,
                    "%s:%d in %s: parameter '%s' is %s and '%s' is %s, and both are in group '%s': a group has one "
                    "element type. The param_group hook puts them into two groups",
                    leaf->site.file, leaf->site.line, leaf->site.function, leaf->path, nt_dtype_name(leaf->type.dtype),
                    first->path, nt_dtype_name(first->type.dtype), layout->groups[number].name);
}

static nt_status place(nt__layout *layout, size_t index, const nt__leaf *leaf, const char *group_name) {
    int number = find_group(layout, group_name);
    nt__group *group = &layout->groups[number];
    if (group->length > 0 && group->dtype != leaf->type.dtype) return refuse_mixed(layout, index, leaf, number);
    const char *path = nt__arena_strdup(&layout->arena, leaf->path);
    if (!path) return NT_OUT_OF_MEMORY;
    int64_t length = nt_shape_elements(leaf->type.shape);
    layout->rows[index] = (nt__row){path, leaf->type, number, group->length, length};
    group->dtype = leaf->type.dtype;
    group->length += length;
    return NT_OK;
}

/* ---- arrays and bundles of a group ------------------------------------------------------------------------------ */

static bool list_arrays(nt__layout *layout, size_t g) {
    nt__group *group = &layout->groups[g];
    nt_rule_array *arrays = nt__arena_alloc(&layout->arena, layout->row_count, sizeof *arrays);
    if (!arrays) return false;
    for (size_t i = 0; i < layout->row_count; i++) {
        const nt__row *row = &layout->rows[i];
        if (row->group != (int)g) continue;
        arrays[group->array_count++] = (nt_rule_array){row->path, row->type.shape, row->offset, row->length};
    }
    group->arrays = arrays;
    return true;
}

/* How often the `period` arrays from `at` on come one after the other. */
static size_t count_repeats(const nt__group *group, size_t at, size_t period) {
    size_t end = at + period;
    while (end < group->array_count && nt_shape_equal(group->arrays[end].shape, group->arrays[end - period].shape))
        end++;
    return (end - at) / period;
}

/* The period whose repetitions take in the most arrays from `at` on, the shortest of such; 0: nothing repeats. */
static size_t find_period(const nt__group *group, size_t at, size_t *repeats) {
    size_t best = 0, most = 0, left = group->array_count - at;
    for (size_t period = 1; 2 * period <= left && most < left; period++) {
        size_t count = count_repeats(group, at, period);
        if (count < 2 || count * period <= most) continue;
        best = period;
        most = count * period;
        *repeats = count;
    }
    return best;
}

static nt__bundle bundle_of(const nt__group *group, size_t at, size_t index, size_t period, size_t repeats) {
    const nt_rule_array *array = &group->arrays[index], *first = &group->arrays[at];
    const nt_rule_array *last = &group->arrays[at + period - 1];
    return (nt__bundle){.shape = array->shape,
                        .length = array->length,
                        .repeats = (int64_t)repeats,
                        .start = first->offset,
                        .period = last->offset + last->length - first->offset,
                        .offset = array->offset - first->offset};
}

static bool list_bundles(nt__layout *layout, size_t g) {
    nt__group *group = &layout->groups[g];
    nt__bundle *bundles = nt__arena_alloc(&layout->arena, group->array_count, sizeof *bundles);
    if (!bundles) return false;
    for (size_t at = 0; at < group->array_count;) {
        size_t repeats = 1, period = find_period(group, at, &repeats);
        if (period == 0) period = 1;
        for (size_t i = 0; i < period; i++)
            bundles[group->bundle_count++] = bundle_of(group, at, at + i, period, repeats);
        at += period * repeats;
    }
    group->bundles = bundles;
    return true;
}

static nt_status list_parts(nt__layout *layout) {
    for (size_t g = 0; g < layout->group_count; g++)
        if (!list_arrays(layout, g) || !list_bundles(layout, g)) return NT_OUT_OF_MEMORY;
    return NT_OK;
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

nt_status nt__layout_build(const nt__leaf *leaves, size_t count, const char *const *group_names, nt__layout *out) {
    *out = (nt__layout){0};
    if (count == 0)
        return nt__fail(
            NT_INVALID,
            "the model has no parameters: forward declares them with nt_parameter or a layer such as nt_dense");
    const char **names = nt__alloc(count, sizeof *names);
    out->rows = nt__arena_alloc(&out->arena, count, sizeof *out->rows);
    out->groups = nt__arena_alloc(&out->arena, count + 1, sizeof *out->groups);
    nt_status status = names && out->rows && out->groups ? NT_OK : NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && i < count; i++) names[i] = group_names ? group_names[i] : "default";
    if (status == NT_OK && !collect_groups(out, count, names)) status = NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && i < count; i++) status = place(out, i, &leaves[i], names[i]);
    out->row_count = count;
    if (status == NT_OK) status = list_parts(out);
    nt__free(names);
    if (status != NT_OK) nt__layout_free(out);
    return status;
}

void nt__layout_free(nt__layout *layout) {
    nt__arena_free(&layout->arena);
    *layout = (nt__layout){0};
}

nt__type nt__group_type(const nt__group *group) {
    return (nt__type){group->dtype, nt_dims(group->length)};
}

nt__type nt__gradients_type(const nt__group *group) {
    int64_t rows = (group->length + NT__SUMMED_APART - 1) / NT__SUMMED_APART;
    return (nt__type){group->dtype, nt_dims(rows * NT__SUMMED_APART)};
}

nt_tensor nt__layout_leaf(const nt__row *row, nt_tensor flat) {
    nt_tensor piece = nt_slice(flat, nt_dims(row->offset), nt_dims(row->offset + row->length));
    return nt_reshape_at(piece, row->type.shape, NT_SITE);
}

/* Each leaf is written to its place. One concatenation would compile faster, but the engines make it one kernel that
 * passes over the length of the longest leaf for each of the others, with masked loads far beyond their ends: a masked
 * load of a page that was never touched takes a processor's microcode, so steps took 1 to 10 times as long, by what the
 * allocator had given (bench/README.md).
 */
nt_tensor nt__layout_gather(const nt__layout *layout, int group, const nt_tensor *leaves) {
    const nt__group *of = &layout->groups[group];
    nt_tensor flat = nt_full(of->dtype, nt__gradients_type(of).shape, 0);
    for (size_t i = 0; i < layout->row_count; i++) {
        const nt__row *row = &layout->rows[i];
        if (row->group == group) flat = nt_update_slice(flat, nt_reshape(leaves[i], row->length), nt_dims(row->offset));
    }
    return flat;
}

nt_tensor nt__gradients_of(const nt__group *group, nt_tensor flat) {
    return nt_slice(flat, nt_dims(0), nt_dims(group->length));
}
