/* Scopes, parameters, batch fields: what a hook names during a trace. */
#include <stdio.h>
#include <string.h>

#include "nn/nn.h"

enum { MAX_PATH = 256, MAX_SCOPES = 32 };

typedef struct leaf_state {
    nt_tensor value;     /* in the current trace */
    bool declared;       /* in the current trace */
    nt_site declared_at; /* in the current trace */
} leaf_state;

struct nt_model {
    nt__arena arena;
    int role;
    nt__leaf *leaves;
    leaf_state *states; /* beside leaves */
    size_t count, leaf_capacity, state_capacity;
    nt__map by_path; /* one more than the index of the leaf */
    bool learning;
    char path[MAX_PATH]; /* the scopes, each with its dot */
    size_t scope_ends[MAX_SCOPES];
    nt_site scope_sites[MAX_SCOPES]; /* where each was entered */
    int scopes;
};

nt_model *nt__model_new(int role) {
    nt_model *model = nt__alloc(1, sizeof *model);
    if (model) model->role = role;
    return model;
}

void nt__model_free(nt_model *model) {
    if (!model) return;
    nt__arena_free(&model->arena);
    nt__free(model->leaves);
    nt__free(model->states);
    nt__map_free(&model->by_path);
    nt__free(model);
}

const nt__leaf *nt__model_leaves(const nt_model *model, size_t *count) {
    *count = model->count;
    return model->leaves;
}

void nt__model_begin(nt_model *model, const nt_tensor *values) {
    model->learning = !values;
    model->scopes = 0;
    model->path[0] = 0;
    for (size_t i = 0; i < model->count; i++)
        model->states[i] = (leaf_state){.value = values ? values[i] : (nt_tensor){0}};
}

/* ---- scopes ----------------------------------------------------------------------------------------------------- */

/* Names end up in paths, messages and files of others: text, without dots, spaces, quotes and control characters. */
static bool plain_name(const char *name) {
    bool plain = *name && nt__is_utf8(name, strlen(name));
    for (const char *c = name; plain && *c; c++) plain = (unsigned char)*c > ' ' && *c != 127 && !strchr(".\"\\", *c);
    return plain;
}

/* Appends a name to the path; false after keeping an error. */
static bool extend_path(nt_model *m, nt_site site, const char *what, const char *name, const char *after) {
    size_t length = strlen(m->path);
    if (!plain_name(name)) {
        nt__trace_fail(site, what, "'%s' is not a name: it must not be empty or hold dots, spaces or quotes", name);
        return false;
    }
    if (length + strlen(name) + strlen(after) >= MAX_PATH) {
        nt__trace_fail(site, what, "the path '%s%s' is longer than %d characters", m->path, name, MAX_PATH - 1);
        return false;
    }
    strcat(strcat(m->path, name), after);
    return true;
}

bool nt_scope_enter(nt_model *m, nt_site site, const char *format, ...) {
    char name[MAX_PATH];
    if (!nt__trace_given(m, site, "scope", "m") || !nt__trace_given(format, site, "scope", "format")) return false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    if (m->scopes == MAX_SCOPES) {
        nt__trace_fail(site, "scope", "'%s' is more than %d scopes deep", name, MAX_SCOPES);
        return false;
    }
    size_t end = strlen(m->path);
    if (!extend_path(m, site, "scope", name, ".")) return false;
    m->scope_sites[m->scopes] = site;
    m->scope_ends[m->scopes++] = end;
    return true;
}

bool nt_scope_leave(nt_model *m) {
    if (!nt__trace_given(m, (nt_site){0}, "scope", "m")) return false;
    if (m->scopes > 0)
        m->path[m->scope_ends[--m->scopes]] = 0;
    else
        nt__trace_fail((nt_site){0}, "scope", "nt_scope_leave without nt_scope_enter; NT_SCOPE does both");
    return false;
}

void nt__model_end(nt_model *m) {
    if (m->scopes == 0) return;
    nt__trace_fail(
        m->scope_sites[m->scopes - 1], "scope",
        "'%.*s' was entered and never left: leave the body of NT_SCOPE at its end only, not by return or break",
        (int)strlen(m->path) - 1, m->path);
}

/* ---- parameters ------------------------------------------------------------------------------------------------- */

static nt__hash hash_of(const char *path) {
    return nt__hash_bytes(path, strlen(path));
}

/* m->count when there is none. */
static size_t find_leaf(const nt_model *m, const char *path) {
    uint32_t number = nt__map_find(&m->by_path, hash_of(path));
    return number ? number - 1 : m->count;
}

/* A new leaf at index m->count. False after keeping an error. */
static bool add_leaf(nt_model *m, const char *path, nt__type type, nt_init init, nt_site site) {
    const char *kept = nt__arena_strdup(&m->arena, path);
    const char *file = nt__arena_strdup(&m->arena, site.file), *function = nt__arena_strdup(&m->arena, site.function);
    if (!kept || !file || !function || !NT__GROW(m->leaves, m->count, m->leaf_capacity) ||
        !NT__GROW(m->states, m->count, m->state_capacity) ||
        !nt__map_put(&m->by_path, hash_of(path), (uint32_t)m->count + 1)) {
        nt__trace_out_of_memory();
        return false;
    }
    m->leaves[m->count] = (nt__leaf){kept, type, init, {file, function, site.line}};
    m->states[m->count] = (leaf_state){.value = nt__input(m->role, (int)m->count, path, type)};
    m->count++;
    return true;
}

static nt_tensor use_leaf(nt_model *m, size_t index, nt__type type, nt_site site) {
    const nt__leaf *leaf = &m->leaves[index];
    leaf_state *state = &m->states[index];
    if (state->declared)
        return nt__trace_fail(site, "parameter",
                              "'%s' was declared at %s:%d already; give one of the two another name or scope",
                              leaf->path, state->declared_at.file, state->declared_at.line);
    if (!nt__type_equal(leaf->type, type)) {
        char first[NT__TYPE_TEXT], now[NT__TYPE_TEXT];
        return nt__trace_fail(site, "parameter", "'%s' is %s here and %s at %s:%d", leaf->path,
                              nt__type_text(type, now), nt__type_text(leaf->type, first), leaf->site.file,
                              leaf->site.line);
    }
    state->declared = true;
    state->declared_at = site;
    return state->value;
}

nt_tensor nt_parameter_at(nt_model *m, const char *name, nt_shape shape, nt_parameter_options options, nt_site site) {
    nt__type type = {options.dtype, shape};
    char text[NT__TYPE_TEXT];
    if (!nt__trace_given(m, site, "parameter", "m") || !nt__trace_given(name, site, "parameter", "name"))
        return nt__failed();
    if (nt_shape_elements(shape) < 1 || !nt_dtype_is_float(type.dtype))
        return nt__trace_fail(site, "parameter",
                              "'%s%s' cannot be %s: a parameter is floating and has at least 1 element", m->path, name,
                              nt__type_text(type, text));
    size_t scope = strlen(m->path);
    if (!extend_path(m, site, "parameter", name, "")) return nt__trace_fail(site, "parameter", "the name failed");
    size_t index = find_leaf(m, m->path);
    bool known = index < m->count || (m->learning && add_leaf(m, m->path, type, options.init, site));
    nt_tensor value = known ? use_leaf(m, index, type, site)
                            : nt__trace_fail(site, "parameter",
                                             "'%s' was not declared when the training programs were traced, so it has "
                                             "no value: declare it in forward whatever the mode",
                                             m->path);
    m->path[scope] = 0;
    return value;
}

/* ---- batch fields ----------------------------------------------------------------------------------------------- */

static nt_tensor cut_rows(nt_tensor x, int64_t rows, nt_site site) {
    nt_shape start = {.rank = nt_rank(x)}, limit = nt_shape_of(x);
    if (rows == 0 || limit.dims[0] == rows) return x;
    limit.dims[0] = rows;
    return nt_slice_at(x, start, limit, site);
}

/* "" for a field that has no name yet. */
static const char *field_name(const nt_batch *batch, size_t i) {
    return batch->fields[i].name ? batch->fields[i].name : batch->taken;
}

static size_t find_field(const nt_batch *batch, const char *name) {
    size_t i = 0;
    while (i < batch->count && strcmp(field_name(batch, i), name) != 0) i++;
    return i;
}

/* The field without a name, which takes this one; `count` when there is none or it has a name already. */
static size_t take_name(nt_batch *batch, const char *name) {
    size_t i = 0;
    while (i < batch->count && *field_name(batch, i)) i++;
    if (i < batch->count) snprintf(batch->taken, sizeof batch->taken, "%s", name);
    return i;
}

nt_tensor nt_field_at(nt_batch *batch, const char *name, nt_site site) {
    if (!nt__trace_given(batch, site, "field", "batch") || !nt__trace_given(name, site, "field", "name"))
        return nt__failed();
    size_t i = find_field(batch, name);
    if (i == batch->count) i = take_name(batch, name);
    if (i < batch->count) {
        if (!batch->inputs[i].trace) batch->inputs[i] = nt__input(batch->role, (int)i, name, batch->fields[i].type);
        return cut_rows(batch->inputs[i], batch->rows, site);
    }
    nt__text names = {0};
    for (i = 0; i < batch->count; i++) nt__text_add(&names, "%s%s", i ? ", " : "", field_name(batch, i));
    nt_tensor failed = nt__trace_fail(site, "field", "the batch has no field '%s'; its fields are: %s", name,
                                      names.data ? names.data : "none");
    nt__text_free(&names);
    return failed;
}
