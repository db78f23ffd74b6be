/* Sets of named arrays.
 * Not here: files of them (the folder format).
 */
#include <string.h>

#include "array/array.h"

typedef struct member {
    char *name;
    nt_array *array;
} member;

struct nt_arrays {
    member *members;
    size_t count, capacity, references;
};

nt_arrays *nt_arrays_new(void) {
    nt_arrays *set = nt__alloc(1, sizeof *set);
    if (set) set->references = 1;
    return set;
}

static const member *find(const nt_arrays *set, const char *name) {
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->members[i].name, name) == 0) return &set->members[i];
    return NULL;
}

/* Takes the array over when it gives NT_OK. */
static nt_status put(nt_arrays *set, const char *name, nt_array *array) {
    if (!*name) return nt__fail(NT_INVALID, "an array of a set needs a name");
    if (find(set, name)) return nt__fail(NT_INVALID, "the set has an array '%s' already", name);
    if (!NT__GROW(set->members, set->count, set->capacity)) return NT_OUT_OF_MEMORY;
    char *copy = nt__strdup(name);
    if (!copy) return NT_OUT_OF_MEMORY;
    set->members[set->count++] = (member){copy, array};
    return NT_OK;
}

nt_status nt_arrays_put(nt_arrays *set, const char *name, nt_array *array) {
    if (!array && !*nt_error_message())
        return nt__fail(NT_INVALID, "nt_arrays_put: array is NULL (for the name '%s')", name ? name : "NULL");
    if (!array) return nt_error_status();
    bool given = nt__given(set, "nt_arrays_put", "set") && nt__given(name, "nt_arrays_put", "name");
    nt_status status = given ? put(set, name, array) : NT_INVALID;
    if (status != NT_OK) nt_array_free(array);
    return status;
}

static nt_array *fail_unknown(const nt_arrays *set, const char *name) {
    nt__text names = {0};
    for (size_t i = 0; i < set->count; i++) nt__text_add(&names, "%s%s", i ? ", " : "", set->members[i].name);
    if (!names.failed)
        nt__fail(NT_INVALID, "the set has no array '%s'; it has: %s", name, names.length ? names.data : "none");
    nt__text_free(&names);
    return NULL;
}

nt_array *nt_arrays_find(const nt_arrays *set, const char *name) {
    if (!nt__given(set, "nt_arrays_find", "set") || !nt__given(name, "nt_arrays_find", "name")) return NULL;
    const member *found = find(set, name);
    return found ? found->array : fail_unknown(set, name);
}

size_t nt_arrays_count(const nt_arrays *set) {
    return nt__given(set, "nt_arrays_count", "set") ? set->count : 0;
}

const char *nt_arrays_name(const nt_arrays *set, size_t index) {
    if (!nt__given(set, "nt_arrays_name", "set")) return NULL;
    return index < set->count ? set->members[index].name : NULL;
}

nt_array *nt_arrays_at(const nt_arrays *set, size_t index) {
    if (!nt__given(set, "nt_arrays_at", "set")) return NULL;
    return index < set->count ? set->members[index].array : NULL;
}

nt_arrays *nt_arrays_retain(nt_arrays *set) {
    if (set) __atomic_fetch_add(&set->references, 1, __ATOMIC_RELAXED);
    return set;
}

void nt_arrays_free(nt_arrays *set) {
    if (!set || __atomic_sub_fetch(&set->references, 1, __ATOMIC_ACQ_REL) > 0) return;
    for (size_t i = 0; i < set->count; i++) {
        nt__free(set->members[i].name);
        nt_array_free(set->members[i].array);
    }
    nt__free(set->members);
    nt__free(set);
}

nt_arrays *nt__arrays_copy(const nt_arrays *set) {
    nt_arrays *copy = nt_arrays_new();
    nt_status status = copy ? NT_OK : NT_OUT_OF_MEMORY;
    for (size_t i = 0; status == NT_OK && i < set->count; i++)
        status = nt_arrays_put(copy, set->members[i].name, nt_array_retain(set->members[i].array));
    if (status == NT_OK) return copy;
    nt_arrays_free(copy);
    return NULL;
}

void nt__arrays_replace(nt_arrays *set, size_t index, nt_array *array) {
    nt_array_free(set->members[index].array);
    set->members[index].array = array;
}
