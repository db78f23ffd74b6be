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
 * that is set later. A field is a flag of the command when its type is bool, an integer, float, double or const char *.
 * The hooks are in nitro/hooks.h, those that give a setting in nitro/settings.h.
 *
 * FIELD (Host): host code only, of any C type. A traced hook that touches one does not compile, and the compiler's
 * message has the field's name. Setup, tracing and training never follow a pointer in a Host field that is no string.
 * Changing it compiles nothing.
 * DEVICE: an input of the programs. bool, an integer, float or double is a tensor in traced hooks, an nt_array * too;
 * an nt_arrays * is an nt_tensors there, whose members nt_member(e->frozen, "weight") gives. A run holds a reference of
 * its own to the arrays. Another value compiles nothing; arrays of another type or shape are another program. Where a
 * loss or a layer is given one whose range its header names, as a label smoothing in 0 <= s < 1, a value outside is an
 * error that names the field and the call: when a run is made, behind derive, at nt_set_device, and of a schedule.
 * GRAPH_CONST: bool, integers (enums too), float, double, const char *: an ordinary C value in traced hooks; it may
 * decide shapes and control flow. Another value is another program.
 */
#ifndef NITRO_EXPERIMENT_H
#define NITRO_EXPERIMENT_H

#include <stdio.h>

#include "nitro/hooks.h"

typedef enum nt_marker { NT_HOST, NT_DEVICE, NT_GRAPH_CONST } nt_marker;
typedef enum nt_field_type {
    NT_FIELD_BOOL,
    NT_FIELD_INT,
    NT_FIELD_INT64,
    NT_FIELD_FLOAT,
    NT_FIELD_DOUBLE,
    NT_FIELD_STRING, /* Host or GraphConst */
    NT_FIELD_INT8,
    NT_FIELD_UINT8,
    NT_FIELD_INT16,
    NT_FIELD_UINT16,
    NT_FIELD_UINT,
    NT_FIELD_UINT64,
    NT_FIELD_ARRAY,  /* nt_array *: Host or Device */
    NT_FIELD_ARRAYS, /* nt_arrays *: Host or Device */
    NT_FIELD_OTHER,  /* any other type: Host */
} nt_field_type;

typedef struct nt_field_info {
    const char *name, *type_name, *default_text, *doc;
    nt_marker marker;
    nt_field_type type;
    size_t size;        /* bytes */
    size_t offset;      /* in the experiment's struct */
    size_t view_offset; /* in its view, which has Device and GraphConst fields */
    int line;           /* of NT_DEFINE: the rows of one macro have no lines of their own */
} nt_field_info;

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

/* By pointer, so that arrays and qualified types stay what they are. */
#define NT_FIELD_TYPE_(T) \
    _Generic((__typeof__(T) *)0,              \
        bool *: NT_FIELD_BOOL,                \
        signed char *: NT_FIELD_INT8,         \
        unsigned char *: NT_FIELD_UINT8,      \
        short *: NT_FIELD_INT16,              \
        unsigned short *: NT_FIELD_UINT16,    \
        int *: NT_FIELD_INT,                  \
        unsigned int *: NT_FIELD_UINT,        \
        long *: NT_FIELD_INT64,               \
        unsigned long *: NT_FIELD_UINT64,     \
        long long *: NT_FIELD_INT64,          \
        unsigned long long *: NT_FIELD_UINT64,\
        float *: NT_FIELD_FLOAT,              \
        double *: NT_FIELD_DOUBLE,            \
        const char **: NT_FIELD_STRING,       \
        nt_array **: NT_FIELD_ARRAY,          \
        nt_arrays **: NT_FIELD_ARRAYS,        \
        default: NT_FIELD_OTHER)
/* Whether a marker takes a type. The choice is between array types, not a condition, which a compiler would print in
 * full beside the message. */
#define NT_AS_TYPE_(field_type) char(*)[1 + (field_type)]
#define NT_DEVICE_TAKES_(T)                                                                                        \
    _Generic((NT_AS_TYPE_(NT_FIELD_TYPE_(T)))0, NT_AS_TYPE_(NT_FIELD_OTHER) : 0, NT_AS_TYPE_(NT_FIELD_STRING) : 0, \
             default : 1)
#define NT_GRAPH_CONST_TAKES_(T)                                                                                  \
    _Generic((NT_AS_TYPE_(NT_FIELD_TYPE_(T)))0, NT_AS_TYPE_(NT_FIELD_OTHER) : 0, NT_AS_TYPE_(NT_FIELD_ARRAY) : 0, \
             NT_AS_TYPE_(NT_FIELD_ARRAYS) : 0, default : 1)

#define NT_MEMBER_(T, name_, default_, doc_) __typeof__(T) name_;
/* gcc does not name the type where a field stands as a condition or is cast, so it names the field. */
#if defined __GNUC__ && !defined __clang__ && __GNUC__ >= 12
#define NT_HOST_FIELD_ __attribute__((unavailable("it is a Host field; mark it DEVICE or GRAPH_CONST")))
#else
#define NT_HOST_FIELD_
#endif
/* A Host field's type in the view: its name is the error message. The number keeps the tags of all experiments of a
 * compile apart, which may be declared in several files. */
#define NT_VIEW_HOST_(T, name_, default_, doc_)                                              \
    struct NT_JOIN3(name_, _is_a_Host_field__mark_it_DEVICE_or_GRAPH_CONST__, __COUNTER__) { \
        char sentinel;                                                                       \
    } name_ NT_HOST_FIELD_;
/* A Device field's type in the view: its name is the message where one is used as a C value. */
typedef nt_tensor nt_tensor_of_Device_field__mark_it_GRAPH_CONST_for_a_C_value;
#define NT_DEVICE_TENSOR_ ((nt_tensor_of_Device_field__mark_it_GRAPH_CONST_for_a_C_value){0})
#define NT_VIEW_DEVICE_(T, name_, default_, doc_)                                                                    \
    _Static_assert(NT_DEVICE_TAKES_(T),                                                                              \
                   "field " #name_ ": DEVICE takes bool, integers, float, double, nt_array * and nt_arrays *; a " #T \
                   " is for FIELD");                                                                                 \
    __typeof__(_Generic((__typeof__(T) *)0, nt_arrays * * : (nt_tensors){0}, default : NT_DEVICE_TENSOR_)) name_;
#define NT_VIEW_GRAPH_CONST_(T, name_, default_, doc_)                                                         \
    _Static_assert(NT_GRAPH_CONST_TAKES_(T),                                                                   \
                   "field " #name_ ": GRAPH_CONST takes bool, integers, float, double and const char *; a " #T \
                   " is for FIELD, an array for DEVICE");                                                      \
    __typeof__(T) name_;
#define NT_DEFAULT_(T, name_, default_, doc_) .name_ = default_,
#define NT_INFO_(T, name_, default_, doc_, marker_, view_offset_) \
    {.name = #name_,                                              \
     .type_name = #T,                                             \
     .default_text = #default_,                                   \
     .doc = doc_,                                                 \
     .marker = marker_,                                           \
     .type = NT_FIELD_TYPE_(T),                                   \
     .size = sizeof(((nt_self *)0)->name_),                       \
     .offset = offsetof(nt_self, name_),                          \
     .view_offset = view_offset_,                                 \
     .line = __LINE__},
#define NT_INFO_HOST_(T, name_, default_, doc_) NT_INFO_(T, name_, default_, doc_, NT_HOST, 0)
#define NT_INFO_DEVICE_(T, name_, default_, doc_) \
    NT_INFO_(T, name_, default_, doc_, NT_DEVICE, offsetof(nt_self_view, name_))
#define NT_INFO_GRAPH_CONST_(T, name_, default_, doc_) \
    NT_INFO_(T, name_, default_, doc_, NT_GRAPH_CONST, offsetof(nt_self_view, name_))

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

#endif
