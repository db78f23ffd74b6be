/* Scopes, parameters, batch fields: what a hook names during a trace.
 * Not here: layer state (state.c), random numbers (random.c), mixed precision (precision.c).
 */
#include <stdio.h>
#include <string.h>

#include "nn/model.h"

nt_model *nt__model_new(nt__model_roles roles) {
    nt_model *model = nt__alloc(1, sizeof *model);
    if (model) model->roles = roles;
    return model;
}

static void free_leaves(nt__leaves *leaves) {
    nt__free(leaves->items);
    nt__free(leaves->uses);
    nt__map_free(&leaves->by_path);
}

void nt__model_free(nt_model *model) {
    if (!model) return;
    nt__arena_free(&model->arena);
    free_leaves(&model->parameters);
    free_leaves(&model->states);
    nt__free(model->draws.items);
    nt__map_free(&model->draws.by_path);
    nt__free(model);
}

const nt__leaf *nt__model_leaves(const nt_model *model, size_t *count) {
    *count = model->parameters.count;
    return model->parameters.items;
}

/* Nothing is declared, and leaf i is values[i]; with NULL it is an input once it is used. */
static void begin_leaves(nt__leaves *leaves, const nt_tensor *values) {
    for (size_t i = 0; i < leaves->count; i++)
        leaves->uses[i] = (nt__use){.value = values ? values[i] : (nt_tensor){0}};
}

void nt__model_begin(nt_model *model, bool training, const nt_tensor *values) {
    model->learning = !values;
    model->training = training;
    model->ended = false;
    model->scopes = model->reuses = 0;
    model->path[0] = 0;
    nt__policy_begin(model);
    model->root = model->keys = (nt_tensor){0};
    model->known = model->draws.count;
    begin_leaves(&model->parameters, values);
    begin_leaves(&model->states, NULL);
    for (size_t i = 0; i < model->draws.count; i++) model->draws.items[i].drawn = 0;
}

bool nt__model_open(const nt_model *m, const char *path, const char *what, nt_site site) {
    if (m->ended)
        nt__trace_fail(site, what,
                       "'%s' is of the model, which is that of forward (or train_step), and that has returned: call "
                       "the layer there, not in another hook, and return from it what the loss needs",
                       path);
    return !m->ended;
}

bool nt_is_training_at(const nt_model *m, nt_site site) {
    return nt__trace_given(m, site, "is_training", "m") && m->training;
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
    if (length + strlen(name) + strlen(after) >= NT__MAX_PATH) {
        nt__trace_fail(site, what, "the path '%s%s' is longer than %d characters", m->path, name, NT__MAX_PATH - 1);
        return false;
    }
    strcat(strcat(m->path, name), after);
    return true;
}

bool nt__path_extend(nt_model *m, nt_site site, const char *what, const char *name, size_t *length) {
    *length = strlen(m->path);
    return extend_path(m, site, what, name, "");
}

nt__hash nt__path_hash(const char *path) {
    return nt__hash_bytes(path, strlen(path));
}

void nt__path_restore(nt_model *m, size_t length) {
    m->path[length] = 0;
}

bool nt_scope_enter(nt_model *m, nt_site site, const char *format, ...) {
    char name[NT__MAX_PATH];
    if (!nt__trace_given(m, site, "scope", "m") || !nt__trace_given(format, site, "scope", "format")) return false;
    va_list arguments;
    va_start(arguments, format);
    nt__vformat(name, sizeof name, format, arguments);
    va_end(arguments);
    if (m->scopes == NT__MAX_SCOPES) {
        nt__trace_fail(site, "scope", "'%s' is more than %d scopes deep", name, NT__MAX_SCOPES);
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

/* Nested ones are one. */
bool nt_reuse_enter(nt_model *m, nt_site site) {
    if (!nt__trace_given(m, site, "reuse", "m")) return false;
    if (m->reuses++ == 0) m->reuse_site = site;
    return true;
}

bool nt_reuse_leave(nt_model *m) {
    if (!nt__trace_given(m, (nt_site){0}, "reuse", "m")) return false;
    if (m->reuses > 0)
        m->reuses--;
    else
        nt__trace_fail((nt_site){0}, "reuse", "nt_reuse_leave without nt_reuse_enter; NT_REUSE does both");
    return false;
}

/* What forward has declared is what an evaluation has to declare, and the hook that follows may declare more. */
static void restart(nt__leaves *leaves) {
    leaves->forward_count = leaves->count;
    leaves->has_more = true;
    for (size_t i = 0; i < leaves->count; i++) leaves->uses[i] = (nt__use){.value = leaves->uses[i].value};
}

void nt__model_restart(nt_model *model) {
    model->ended = false;
    model->scopes = model->reuses = 0;
    model->path[0] = 0;
    nt__policy_begin(model);
    restart(&model->parameters);
    restart(&model->states);
    for (size_t i = 0; i < model->draws.count; i++) model->draws.items[i].drawn = 0;
}

static void check_scopes(const nt_model *m) {
    if (m->reuses)
        nt__trace_fail(m->reuse_site, "reuse",
                       "NT_REUSE was entered and never left: leave its body at its end only, not by return or break");
    if (m->scopes == 0) return;
    nt__trace_fail(
        m->scope_sites[m->scopes - 1], "scope",
        "'%.*s' was entered and never left: leave the body of NT_SCOPE at its end only, not by return or break",
        (int)strlen(m->path) - 1, m->path);
}

/* A run may be laid out by either mode: each has to have it all. The counter of draws is the model's own. */
static void check_evaluation(const nt__leaves *leaves, const char *kind) {
    size_t count = leaves->has_more ? leaves->forward_count : leaves->count;
    for (size_t i = 0; i < count; i++) {
        const nt__leaf *leaf = &leaves->items[i];
        if (leaves->uses[i].declared || strcmp(leaf->path, NT__DRAWS_PATH) == 0) continue;
        nt__trace_fail(leaf->site, kind,
                       "'%s' is declared when the model trains and not when it is evaluated: declare it in forward "
                       "whatever the mode",
                       leaf->path);
    }
}

void nt__model_end(nt_model *m) {
    check_scopes(m);
    nt__policy_end(m);
    m->ended = true;
    if (m->training) return;
    check_evaluation(&m->parameters, "parameter");
    check_evaluation(&m->states, "state");
}

/* ---- leaves: parameters and states ------------------------------------------------------------------------------ */

size_t nt__leaves_find(const nt__leaves *leaves, const char *path) {
    uint32_t number = nt__map_find(&leaves->by_path, nt__path_hash(path));
    return number ? number - 1 : leaves->count;
}

/* Texts of a site that outlive the user's code. False when memory is short. */
static bool keep_site(nt__arena *arena, nt_site *site) {
    site->file = nt__arena_strdup(arena, site->file);
    site->function = nt__arena_strdup(arena, site->function);
    return site->file && site->function;
}

/* A new leaf at the end, its texts copied. False after keeping an error. */
static bool add_leaf(nt_model *m, nt__leaves *leaves, const nt__leaf *leaf) {
    nt__leaf kept = *leaf;
    kept.path = nt__arena_strdup(&m->arena, leaf->path);
    if (!kept.path || !keep_site(&m->arena, &kept.site) || !NT__GROW(leaves->items, leaves->count, leaves->capacity) ||
        !NT__GROW(leaves->uses, leaves->count, leaves->use_capacity) ||
        !nt__map_put(&leaves->by_path, nt__path_hash(leaf->path), (uint32_t)leaves->count + 1)) {
        nt__trace_out_of_memory();
        return false;
    }
    leaves->items[leaves->count] = kept;
    leaves->uses[leaves->count++] = (nt__use){.declared = false};
    return true;
}

/* A leaf as it is in this trace, declared from here on. */
static nt_tensor use_leaf(const nt_model *m, nt__leaves *leaves, size_t index, int role, const char *kind,
                          nt__type type, nt_site site) {
    const nt__leaf *leaf = &leaves->items[index];
    nt__use *use = &leaves->uses[index];
    if (use->declared && !m->reuses)
        return nt__trace_fail(site, kind,
                              "'%s' was declared at %s:%d already; give one of the two another name or scope, or share "
                              "the %s with NT_REUSE",
                              leaf->path, use->declared_at.file, use->declared_at.line, kind);
    if (!nt__type_equal(leaf->type, type)) {
        char first[NT__TYPE_TEXT], now[NT__TYPE_TEXT];
        return nt__trace_fail(site, kind, "'%s' is %s here and %s at %s:%d", leaf->path, nt__type_text(type, now),
                              nt__type_text(leaf->type, first), leaf->site.file, leaf->site.line);
    }
    if (!use->value.trace) use->value = nt__input(role, (int)index, leaf->path, type);
    use->declared = true;
    use->declared_at = site;
    return m->reuses && use->next.trace ? use->next : use->value;
}

/* Parameters and states are saved in one file, by path. */
static bool is_free(const nt_model *m, const nt__leaves *leaves, const nt__leaf *leaf, const char *kind) {
    bool is_state = leaves == &m->states;
    const nt__leaves *others = is_state ? &m->parameters : &m->states;
    size_t index = nt__leaves_find(others, leaf->path);
    if (index == others->count) return true;
    const nt__leaf *other = &others->items[index];
    nt__trace_fail(leaf->site, kind, "'%s' is a %s at %s:%d; give one of the two another name or scope", leaf->path,
                   is_state ? "parameter" : "state", other->site.file, other->site.line);
    return false;
}

nt_tensor nt__declare(nt_model *m, nt__leaves *leaves, const nt__leaf *leaf, int role, const char *kind) {
    if (!nt__model_open(m, leaf->path, kind, leaf->site) || !is_free(m, leaves, leaf, kind)) return nt__failed();
    if (!nt__init_possible(leaf, kind)) return nt__failed();
    size_t index = nt__leaves_find(leaves, leaf->path);
    if (index < leaves->count || (m->learning && add_leaf(m, leaves, leaf)))
        return use_leaf(m, leaves, index, role, kind, leaf->type, leaf->site);
    return nt__trace_fail(leaf->site, kind,
                          "'%s' was not declared when the training programs were traced, so it has no value: declare "
                          "it in forward whatever the mode",
                          leaf->path);
}

nt_tensor nt__parameter(nt_model *m, const char *name, nt_shape shape, nt_parameter_options options, nt_site site) {
    nt__type type = {options.dtype, shape};
    char text[NT__TYPE_TEXT];
    if (!nt__trace_given(m, site, "parameter", "m") || !nt__trace_given(name, site, "parameter", "name"))
        return nt__failed();
    if (nt_shape_elements(shape) < 1 || !nt_dtype_is_float(type.dtype))
        return nt__trace_fail(site, "parameter",
                              "'%s%s' cannot be %s: a parameter is floating and has at least 1 element", m->path, name,
                              nt__type_text(type, text));
    size_t scopes;
    if (!nt__path_extend(m, site, "parameter", name, &scopes)) return nt__failed();
    const nt__leaf leaf = {m->path, type, options.init, site};
    nt_tensor value = nt__declare(m, &m->parameters, &leaf, m->roles.parameter, "parameter");
    nt__path_restore(m, scopes);
    return value;
}

nt_tensor nt_parameter_at(nt_model *m, const char *name, nt_shape shape, nt_parameter_options options, nt_site site) {
    nt_tensor value = nt__parameter(m, name, shape, options, site);
    return options.dtype == NT_F32 && !nt__tensor_failed(value) ? nt_to_compute_at(m, value, site) : value;
}

nt_tensor nt__model_value(const nt_model *model, size_t leaf) {
    return model->parameters.uses[leaf].value;
}

void nt__model_set_value(nt_model *model, size_t leaf, nt_tensor value) {
    model->parameters.uses[leaf].value = value;
}

void nt__model_reach(nt_model *model, size_t leaf) {
    model->parameters.uses[leaf].reached = true;
}

bool nt__model_reached(const nt_model *model, size_t leaf) {
    return model->parameters.uses[leaf].reached;
}

/* ---- batch fields ----------------------------------------------------------------------------------------------- */

static nt_tensor cut_rows(nt_tensor x, int64_t rows, nt_site site) {
    return rows == 0 || nt_shape_of(x).dims[0] == rows ? x : nt__real_rows(x, rows, site);
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
        if (!batch->inputs[i].trace)
            batch->inputs[i] = cut_rows(nt__input(batch->role, (int)i, name, batch->fields[i].type), batch->rows, site);
        return batch->inputs[i];
    }
    if (*batch->taken && batch->count == 1)
        return nt__trace_fail(site, "field",
                              "forward reads '%s' and '%s', and one array without a name was given: name each, as in "
                              "--input %s=FILE --input %s=FILE",
                              batch->taken, name, batch->taken, name);
    nt__text names = {0};
    for (i = 0; i < batch->count; i++) nt__text_add(&names, "%s%s", i ? ", " : "", field_name(batch, i));
    nt_tensor failed = nt__trace_fail(site, "field", "the batch has no field '%s'; its fields are: %s", name,
                                      names.data ? names.data : "none");
    nt__text_free(&names);
    return failed;
}
