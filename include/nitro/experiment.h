/* Experiments: one field list makes the struct, the traced view, the flags and their documentation.
 *
 *     #define FASHION(FIELD, DEVICE, GRAPH_CONST)                                  \
 *         GRAPH_CONST(int, hidden, 256, "units in each hidden layer")              \
 *         DEVICE(float, smoothing, 0.0f, "label smoothing")                        \
 *         FIELD(int, batch, 128, "images in a micro-batch")
 *
 *     NT_EXPERIMENT(Fashion, FASHION)      struct Fashion, struct Fashion_view, Fashion_defaults()
 *     ... the hooks ...
 *     NT_DEFINE(Fashion, FASHION, .build_data = build_data, .forward = forward, .loss = loss)
 *
 * A row is type, name, default, and a text that says what the field is. The default is an expression, evaluated each
 * time that Fashion_defaults() is called and when a run looks for changes, so it makes no arrays: NULL stands for one
 * that is set later. The hooks are in nitro/hooks.h, those that give a setting in nitro/settings.h.
 *
 * Markers and types of fields are in nitro/fields.h.
 */
#ifndef NITRO_EXPERIMENT_H
#define NITRO_EXPERIMENT_H

#include <stdio.h>

#include "nitro/fields.h"
#include "nitro/hooks.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nt_experiment {
    const char *name, *file;
    const char *compiler; /* that compiled it: "gcc 12.2.0" */
    size_t size, view_size;
    const nt_field_info *fields;
    size_t field_count;
    void (*set_defaults)(void *e);
    nt_hooks hooks;
} nt_experiment;

/* NT_DEFINE registers its experiment when the program or shared object is loaded; the newest definition of a name is
 * the one that counts. */
void nt_experiment_register(const nt_experiment *experiment);
/* The newest experiment of that name, NULL when there is none. */
const nt_experiment *nt_experiment_find(const char *name);
/* All registered experiments, newest definition of each name, in the order of their first registration; NULL beyond the
 * last. */
const nt_experiment *nt_experiment_at(size_t index);
/* Loads a shared object that was compiled from experiments (cc -shared -fPIC), the first time or anew after an edit.
 * Each call loads a copy of its own, which stays until the process ends: the code that is there now runs, static and
 * thread-local variables begin with their initial values, and runs made before keep the code that they were made with.
 * Its definitions are the newest afterwards. NT_NOT_FOUND: it has none. */
nt_status nt_experiment_load(const char *path);

/* Fills `fields`, a struct of the experiment, with its defaults and then with what the preset sets. Values set after
 * this call win over both. An unknown name is an error that lists the presets. */
nt_status nt_preset(const nt_experiment *experiment, const char *name, void *fields);

typedef enum nt_form {
    NT_TABLE, /* a line a field: name, marker, value */
    NT_LINE   /* one line, without a newline: "Fashion(hidden = 256, smoothing = 0.1)" */
} nt_form;
/* Writes the fields for a reader. Of arrays the element type and shape and never an element, of long strings the
 * beginning: the length grows with the number of fields only. */
nt_status nt_experiment_print(const nt_experiment *experiment, const void *fields, nt_form form, FILE *out);

/* ---- the macros ------------------------------------------------------------------------------------------------- */

#define NT_EXPERIMENT(E, FIELDS)                                                                           \
    typedef struct E {                                                                                     \
        FIELDS(NT_MEMBER_, NT_MEMBER_, NT_MEMBER_)                                                         \
    } E;                                                                                                   \
    typedef struct E##_view {                                                                              \
        FIELDS(NT_VIEW_HOST_, NT_VIEW_DEVICE_, NT_VIEW_GRAPH_CONST_)                                       \
    } E##_view;                                                                                            \
    typedef struct E##_preset {                                                                            \
        const char *name, *doc;                                                                            \
        void (*set)(struct E * e); /* changes fields; those it leaves have their defaults. NULL: all do */ \
    } E##_preset;                                                                                          \
    typedef struct E##_hooks {                                                                             \
        NT_HOOK_MEMBERS_(E, E##_view) /* nitro/hooks.h */                                                  \
        const E##_preset *presets;    /* NT_PRESETS(E, {"name", "what it is for", function}, ...) */       \
    } E##_hooks;                                                                                           \
    static inline E E##_defaults(void) {                                                                   \
        return (E){FIELDS(NT_DEFAULT_, NT_DEFAULT_, NT_DEFAULT_)};                                         \
    }                                                                                                      \
    const nt_experiment *E##_experiment(void);

#ifdef __clang__
#define NT_COMPILER_ "clang " __clang_version__
#else
#define NT_COMPILER_ "gcc " __VERSION__
#endif

#define NT_PRESETS(E, ...) ((const E##_preset[]){__VA_ARGS__, {NULL, NULL, NULL}})

#define NT_DEFINE(E, FIELDS, ...)                                                        \
    static const E##_hooks E##_hooks_ = {__VA_ARGS__};                                   \
    NT_HOOK_CALLS_(E)                                                                    \
    static const char *E##_preset_(size_t index, const char **doc, void *e) {            \
        const E##_preset *preset = E##_hooks_.presets;                                   \
        for (size_t i = 0; preset && preset->name && i < index; i++) preset++;           \
        if (!preset || !preset->name) return NULL;                                       \
        if (doc) *doc = preset->doc;                                                     \
        if (e && preset->set) preset->set(e);                                            \
        return preset->name;                                                             \
    }                                                                                    \
    static void E##_set_defaults_(void *e) {                                             \
        *(E *)e = E##_defaults();                                                        \
    }                                                                                    \
    const nt_experiment *E##_experiment(void) {                                          \
        typedef E nt_self __attribute__((unused));                                       \
        typedef E##_view nt_self_view __attribute__((unused));                           \
        static const nt_field_info fields[] = {                                          \
            FIELDS(NT_INFO_HOST_, NT_INFO_DEVICE_, NT_INFO_GRAPH_CONST_){.name = NULL}}; \
        static nt_experiment self = {.name = #E,                                         \
                                     .file = __FILE__,                                   \
                                     .compiler = NT_COMPILER_,                           \
                                     .size = sizeof(E),                                  \
                                     .view_size = sizeof(E##_view),                      \
                                     .fields = fields,                                   \
                                     .field_count = sizeof fields / sizeof *fields - 1,  \
                                     .set_defaults = E##_set_defaults_};                 \
        /* Set once, when it is registered: threads call this at the same time. */       \
        if (self.hooks.preset) return &self;                                             \
        self.hooks = (nt_hooks){NT_HOOK_SETS_(E).preset = E##_preset_};                  \
        return &self;                                                                    \
    }                                                                                    \
    __attribute__((constructor)) static void E##_register_(void) {                       \
        nt_experiment_register(E##_experiment());                                        \
    }                                                                                    \
    _Static_assert(1, "a semicolon may follow")

#ifdef __cplusplus
}
#endif

#endif
