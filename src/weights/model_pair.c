/* A field of a run against what a file of weights says of it: found, compared, taken, told.
 * Not here: which fields a run takes (adopt.c), which differences it refuses (model_compare.c).
 */
#include "weights/model_pair.h"

#include <string.h>

/* ---- what a file says of a field -------------------------------------------------------------------------------- */

/* The text of its value, under whatever marker it was then; NULL: there is none. */
static const char *text_in(const json_t *facts, const char *name) {
    static const char *const sections[] = {"config", "devices", "host"};
    const char *text = NULL;
    for (size_t i = 0; !text && i < sizeof sections / sizeof *sections; i++)
        text = json_string_value(json_object_get(json_object_get(facts, sections[i]), name));
    return text;
}

static bool was_derived(const json_t *facts, const char *name) {
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(facts, "derived"), i, item) {
        const char *text = json_string_value(item);
        if (text && strcmp(text, name) == 0) return true;
    }
    return false;
}

/* Whether the model depends on it: other Host fields are of the run that is under way. */
static bool is_of_model(const json_t *facts, const nt_field_info *field) {
    return field->marker != NT_HOST || was_derived(facts, field->name);
}

/* Array `index` of a field: it has the field's name, or "FIELD.MEMBER" where the field is a set. NULL beyond the last.
 */
static const nt__named_array *array_in(const nt__weights *weights, const nt_field_info *field, size_t index,
                                       const char **member) {
    size_t length = strlen(field->name);
    for (size_t i = 0; i < weights->field_count; i++) {
        const char *name = weights->fields[i].name, *rest = name + length;
        bool is_its = strncmp(name, field->name, length) == 0 &&
                      (field->type == NT_FIELD_ARRAYS ? *rest == '.' && rest[1] : *rest == 0);
        if (!is_its || index--) continue;
        *member = *rest ? rest + 1 : NULL;
        return &weights->fields[i];
    }
    return NULL;
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

static bool is_array(const nt_field_info *field) {
    return nt__field_holds_arrays(field);
}

/* Whether two structs print the same for a field that has a text form. */
static bool prints_same(const nt_field_info *field, const void *a, const void *b, bool *failed) {
    nt__text left = {0}, right = {0};
    nt__field_print(field, a, &left);
    nt__field_print(field, b, &right);
    *failed |= left.failed || right.failed;
    bool same =
        !left.failed && !right.failed && left.length == right.length && memcmp(left.data, right.data, left.length) == 0;
    nt__text_free(&left);
    nt__text_free(&right);
    return same;
}

static bool has_value(const nt_field_info *field, const void *fields, const nt__pair_value *v, bool *failed) {
    nt_field_info alone = *field;
    alone.offset = 0;
    return prints_same(&alone, (const char *)fields + field->offset, v->bytes, failed);
}

static bool same_elements(const nt_array *a, const nt__named_array *b) {
    return a && nt__type_equal(nt__array_type(a), b->type) && memcmp(a->data, b->data, a->bytes) == 0;
}

/* Whether the field of the struct has the arrays of the file. */
static bool has_arrays(const nt_field_info *field, const void *fields, const nt__weights *weights) {
    const char *member;
    const nt__named_array *array;
    const void *at = (const char *)fields + field->offset;
    if (field->type == NT_FIELD_ARRAY) {
        array = array_in(weights, field, 0, &member);
        return array && same_elements(*(nt_array *const *)at, array);
    }
    const nt_arrays *set = *(nt_arrays *const *)at;
    size_t count = 0;
    for (; (array = array_in(weights, field, count, &member)); count++)
        if (!set || count >= nt_arrays_count(set) || strcmp(nt_arrays_name(set, count), member) != 0 ||
            !same_elements(nt_arrays_at(set, count), array))
            return false;
    return set && count == nt_arrays_count(set);
}

static nt_array *copy_of(const nt__named_array *array) {
    return nt_array_from(array->type.dtype, array->type.shape, array->data);
}

static nt_status set_array(const nt_field_info *field, void *fields, const nt__weights *weights) {
    const char *member;
    nt_array **at = (nt_array **)((char *)fields + field->offset),
             *copy = copy_of(array_in(weights, field, 0, &member));
    if (!copy) return NT_OUT_OF_MEMORY;
    nt_array_free(*at);
    *at = copy;
    return NT_OK;
}

static nt_status set_arrays(const nt_field_info *field, void *fields, const nt__weights *weights) {
    const char *member;
    const nt__named_array *array;
    nt_arrays **at = (nt_arrays **)((char *)fields + field->offset), *set = nt_arrays_new();
    nt_status status = set ? NT_OK : NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && (array = array_in(weights, field, i, &member)); i++)
        status = nt_arrays_put(set, member, copy_of(array));
    if (status != NT_OK) {
        nt_arrays_free(set);
        return status;
    }
    nt_arrays_free(*at);
    *at = set;
    return NT_OK;
}

/* ---- a field of a run against the file -------------------------------------------------------------------------- */

bool nt__pair_find(const nt__task *task, const nt__weights *weights, size_t index, nt__pair *out, nt_status *status) {
    const nt_field_info *field = &task->experiment->fields[index];
    const char *member;
    *out = (nt__pair){.task = (nt__task *)task, .weights = weights, .field = field, .index = index};
    if (*status != NT_OK || !is_of_model(weights->facts, field)) return false;
    out->derived = was_derived(weights->facts, field->name);
    if (is_array(field)) return field->marker == NT_DEVICE && out->derived && array_in(weights, field, 0, &member);
    out->text = nt__field_has_flag(field) ? text_in(weights->facts, field->name) : NULL;
    if (!out->text) return false;
    *status = nt__field_unprint(field, out->text, &out->task->arena, out->value.bytes);
    return *status == NT_OK;
}

bool nt__pair_is_same(const nt__pair *p, bool *failed) {
    return p->text ? has_value(p->field, p->task->fields, &p->value, failed)
                   : has_arrays(p->field, p->task->fields, p->weights);
}

bool nt__pair_is_chosen(const nt__pair *p, bool *failed) {
    const nt__task *task = p->task;
    if (!p->text) return *(void *const *)((const char *)task->fields + p->field->offset) != NULL;
    nt__text now = {0};
    nt__field_print(p->field, task->fields, &now);
    const char *before =
        json_string_value(json_object_get(json_object_get(p->weights->facts, "given"), p->field->name));
    bool is_as_before = before && now.data && strcmp(before, now.data) == 0;
    *failed |= now.failed;
    nt__text_free(&now);
    return !is_as_before && (task->given[p->index] || !prints_same(p->field, task->fields, task->defaults, failed));
}

void nt__pair_note(const nt__pair *p) {
    p->task->known[p->index] = true;
    p->task->derived[p->index] |= p->derived;
}

nt_status nt__pair_take(const nt__pair *p) {
    if (p->text) {
        memcpy((char *)p->task->fields + p->field->offset, p->value.bytes, p->field->size);
        return NT_OK;
    }
    return p->field->type == NT_FIELD_ARRAY ? set_array(p->field, p->task->fields, p->weights)
                                            : set_arrays(p->field, p->task->fields, p->weights);
}

void nt__pair_tell(nt__differences *l, const nt__pair *p, const char *here) {
    nt__text now = {0};
    nt__field_show(p->field, p->task->fields, p->field->marker != NT_HOST, &now);
    l->text.failed |= now.failed;
    if (p->text)
        nt__difference_add(l, "%s%s: %s in the file, %s %s", p->field->name, p->derived ? " (set by derive)" : "",
                           p->text, now.data ? now.data : "", here);
    else
        nt__difference_add(l, "%s (set by derive): the file has other arrays than %s %s", p->field->name,
                           now.data ? now.data : "", here);
    nt__text_free(&now);
}

/* ---- fields that only one side has ------------------------------------------------------------------------------ */

static void list_removed(const nt__task *task, const json_t *facts, nt__differences *l) {
    const char *name;
    json_t *item;
    size_t i;
    json_object_foreach(json_object_get((json_t *)facts, "config"), name, item) {
        if (!nt__field_find(task->experiment, name))
            nt__difference_add(l, "%s: %s in the file, and %s has no such field", name,
                               json_is_string(item) ? json_string_value(item) : "?", task->experiment->name);
    }
    json_array_foreach(json_object_get(facts, "derived"), i, item) {
        name = json_string_value(item);
        bool is_told = name && json_object_get(json_object_get(facts, "config"), name);
        if (name && !is_told && !nt__field_find(task->experiment, name))
            nt__difference_add(l, "%s: derive set it when the file was written, and %s has no such field", name,
                               task->experiment->name);
    }
}

static void list_added_and_retyped(const nt__task *task, const json_t *facts, nt__differences *l) {
    const json_t *types = json_object_get(facts, "types");
    for (size_t i = 0; i < task->experiment->field_count; i++) {
        const nt_field_info *field = &task->experiment->fields[i];
        const char *then = json_string_value(json_object_get(types, field->name));
        const char *now = nt__field_type_name(field->type);
        nt__text text = {0};
        if (!is_of_model(facts, field)) continue;
        if (then && strcmp(then, now) != 0)
            nt__difference_add(l, "%s: %s in the file, %s here", field->name, then, now);
        if (field->marker != NT_GRAPH_CONST || text_in(facts, field->name)) continue;
        nt__field_print(field, task->fields, &text);
        l->text.failed |= text.failed;
        nt__difference_add(l, "%s: the file has no such field; %s here", field->name, text.data ? text.data : "");
        nt__text_free(&text);
    }
}

void nt__model_list_changes(const nt__task *task, const json_t *facts, nt__differences *l) {
    list_removed(task, facts, l);
    list_added_and_retyped(task, facts, l);
}

nt_status nt__model_warn(nt_status status, const nt__task *task, const char *source, const char *what,
                         nt__differences *l) {
    if (status == NT_OK && l->text.failed) status = NT_OUT_OF_MEMORY;
    if (status == NT_OK && l->count)
        status = nt__warn("%s: %s: %s%s", task->experiment->name, source, what, nt__differences_shown(l));
    nt__text_free(&l->text);
    return status;
}

nt_status nt__model_warn_of_nothing(const nt__task *task, const char *source) {
    bool any = task->experiment->hooks.derive != NULL;
    for (size_t i = 0; i < task->experiment->field_count; i++)
        any |= task->experiment->fields[i].marker == NT_GRAPH_CONST;
    if (!any) return NT_OK;
    return nt__warn("%s: %s does not say with which fields it was trained, so the GraphConst fields%s could not be "
                    "compared with it: see to it that they are those of the training",
                    task->experiment->name, source, task->experiment->hooks.derive ? " and what derive sets" : "");
}

const char *nt__model_other_experiment(const nt__task *task, const nt__weights *weights) {
    const char *name = json_string_value(json_object_get(weights->facts, "experiment"));
    return name && strcmp(name, task->experiment->name) != 0 ? name : NULL;
}
