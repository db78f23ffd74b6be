/* Fields of an experiment: the markers, the types that a field may have, and how a row becomes members of structs.
 *
 * FIELD (Host): host code only, of any C type. A traced hook that touches one does not compile, and the compiler's
 * message has the field's name. Setup, tracing and training never follow a pointer in a Host field that is no string.
 * Changing it compiles nothing.
 * DEVICE: an input of the programs. bool, an integer, float or double is a tensor in traced hooks, an nt_array * too;
 * an nt_arrays * is an nt_tensors there, whose members nt_member(e->frozen, "weight") gives. A run holds a reference of
 * its own to the arrays. Another value compiles nothing; arrays of another type or shape are another program. Where a
 * loss or a layer is given one whose range its header names, as a label smoothing in 0 <= s < 1, a value outside is an
 * error that names the field and the call: when a run is made, after derive, at nt_set_device, and of a schedule.
 * GRAPH_CONST: bool, integers (enums too), float, double, const char *, a choice, a list of numbers: an ordinary C
 * value in traced hooks; it may decide shapes and control flow. Another value is another program.
 *
 * A field is a flag of the command when its type has a text form: bool, integers, float, double, const char *, lists of
 * numbers (--hidden=64,32) and choices. A choice is a text that is one of a few words:
 *
 *     GRAPH_CONST(NT_CHOICE(relu, gelu), activation, "relu", "after each hidden layer")
 *     GRAPH_CONST(nt_ints, hidden, NT_INTS(64, 32), "units of the hidden layers")
 *
 * In hooks it is a const char *, and e->hidden.at[i] for i below e->hidden.count. Another word, and a list with another
 * count than 0 to NT_LIST_MAX, is an error: as a flag, and when a run is made or after derive if C set it.
 */
#ifndef NITRO_FIELDS_H
#define NITRO_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nitro/array.h"
#include "nitro/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- lists and choices ------------------------------------------------------------------------------------------ */

enum { NT_LIST_MAX = 16 };
/* What follows the last number is 0. {0} is the empty list. */
typedef struct nt_ints {
    int64_t count, at[NT_LIST_MAX];
} nt_ints;
typedef struct nt_reals {
    int64_t count;
    double at[NT_LIST_MAX];
} nt_reals;
#define NT_INTS(...) ((nt_ints){sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), {__VA_ARGS__}})
#define NT_REALS(...) ((nt_reals){sizeof((const double[]){__VA_ARGS__}) / sizeof(double), {__VA_ARGS__}})

/* The type const char *, with the words in what the compiler keeps of the type's text. */
#define NT_CHOICE(...) __typeof__(nt_choice_(#__VA_ARGS__))
const char *nt_choice_(const char *words); /* never called */
/* The place of a choice's value among these words, from 0: switch (nt_choose(e->activation, "relu", "gelu")). -1 after
 * keeping an error of the hook that is under way: the value is none of them, as after a slip in one. */
#define nt_choose(value, ...) nt_choose_at(value, (const char *const[]){__VA_ARGS__, NULL}, NT_SITE)
int nt_choose_at(const char *value, const char *const *words, nt_site site);

/* ---- types ------------------------------------------------------------------------------------------------------ */

/* ROW(id, type in C, name, what it is, element type, may be DEVICE, may be GRAPH_CONST, text form), ALSO(id, type) for
 * another type of C with the same values. What it is: NUMBER, TEXT, LIST, ARRAYS or OTHER. The text form names a pair
 * of functions in src/experiment/types.c, that parse and print it; none: there is no flag. */
#define NT_FIELD_TYPES_(ROW, ALSO)                                          \
    ROW(BOOL, bool, "bool", NUMBER, NT_BOOL, 1, 1, bool)                    \
    ROW(INT8, signed char, "int8_t", NUMBER, NT_I8, 1, 1, signed)           \
    ROW(UINT8, unsigned char, "uint8_t", NUMBER, NT_U8, 1, 1, unsigned)     \
    ROW(INT16, short, "int16_t", NUMBER, NT_I16, 1, 1, signed)              \
    ROW(UINT16, unsigned short, "uint16_t", NUMBER, NT_U16, 1, 1, unsigned) \
    ROW(INT, int, "int", NUMBER, NT_I32, 1, 1, signed)                      \
    ROW(UINT, unsigned int, "unsigned", NUMBER, NT_U32, 1, 1, unsigned)     \
    ROW(INT64, long, "int64_t", NUMBER, NT_I64, 1, 1, signed)               \
    ALSO(INT64, long long)                                                  \
    ROW(UINT64, unsigned long, "uint64_t", NUMBER, NT_U64, 1, 1, unsigned)  \
    ALSO(UINT64, unsigned long long)                                        \
    ROW(FLOAT, float, "float", NUMBER, NT_F32, 1, 1, float)                 \
    ROW(DOUBLE, double, "double", NUMBER, NT_F64, 1, 1, double)             \
    ROW(STRING, const char *, "string", TEXT, NT_U8, 0, 1, string)          \
    ROW(INTS, nt_ints, "ints", LIST, NT_I64, 0, 1, list)                    \
    ROW(REALS, nt_reals, "reals", LIST, NT_F64, 0, 1, list)                 \
    ROW(ARRAY, nt_array *, "nt_array *", ARRAYS, NT_U8, 1, 0, array)        \
    ROW(ARRAYS, nt_arrays *, "nt_arrays *", ARRAYS, NT_U8, 1, 0, arrays)

#define NT_NO_FIELD_ROW_(...)
#define NT_FIELD_ID_(id, ...) NT_FIELD_##id,
typedef enum nt_field_type {
    NT_FIELD_TYPES_(NT_FIELD_ID_, NT_NO_FIELD_ROW_) NT_FIELD_OTHER, /* any other type: Host */
} nt_field_type;

typedef enum nt_marker { NT_HOST, NT_DEVICE, NT_GRAPH_CONST } nt_marker;
typedef struct nt_field_info {
    const char *name, *type_name, *default_text, *doc;
    nt_marker marker;
    nt_field_type type;
    size_t size;        /* bytes */
    size_t offset;      /* in the experiment's struct */
    size_t view_offset; /* in its view, which has Device and GraphConst fields */
    int line;           /* of NT_DEFINE: the rows of one macro have no lines of their own */
} nt_field_info;

/* ---- the macros ------------------------------------------------------------------------------------------------- */

/* By pointer, so that arrays and qualified types stay what they are. */
#define NT_FIELD_CASE_(id, type, ...) __typeof__(type) * : NT_FIELD_##id,
#define NT_FIELD_TYPE_(T) \
    _Generic((__typeof__(T) *)0, NT_FIELD_TYPES_(NT_FIELD_CASE_, NT_FIELD_CASE_) default : NT_FIELD_OTHER)
/* Whether a marker takes a type. */
#define NT_DEVICE_CASE_(id, type, name, kind, dtype, device, constant, text) __typeof__(type) * : device,
#define NT_DEVICE_ALSO_(id, type) __typeof__(type) * : 1,
#define NT_DEVICE_TAKES_(T) _Generic((__typeof__(T) *)0, NT_FIELD_TYPES_(NT_DEVICE_CASE_, NT_DEVICE_ALSO_) default : 0)
#define NT_GRAPH_CONST_CASE_(id, type, name, kind, dtype, device, constant, text) __typeof__(type) * : constant,
#define NT_GRAPH_CONST_TAKES_(T) \
    _Generic((__typeof__(T) *)0, NT_FIELD_TYPES_(NT_GRAPH_CONST_CASE_, NT_DEVICE_ALSO_) default : 0)

#define NT_MEMBER_(T, name_, default_, doc_) __typeof__(T) name_;
/* gcc does not name the type if a field stands as a condition or is cast, so it names the field. */
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
/* A Device field's type in the view: its name is the message if one is used as a C value. */
typedef nt_tensor nt_tensor_of_Device_field__mark_it_GRAPH_CONST_for_a_C_value;
#define NT_DEVICE_TENSOR_ ((nt_tensor_of_Device_field__mark_it_GRAPH_CONST_for_a_C_value){0})
#define NT_VIEW_DEVICE_(T, name_, default_, doc_)                                                                    \
    _Static_assert(NT_DEVICE_TAKES_(T),                                                                              \
                   "field " #name_ ": DEVICE takes bool, integers, float, double, nt_array * and nt_arrays *; a " #T \
                   " is for FIELD");                                                                                 \
    __typeof__(_Generic((__typeof__(T) *)0, nt_arrays * * : (nt_tensors){0}, default : NT_DEVICE_TENSOR_)) name_;
#define NT_VIEW_GRAPH_CONST_(T, name_, default_, doc_)                                                            \
    _Static_assert(NT_GRAPH_CONST_TAKES_(T),                                                                      \
                   "field " #name_                                                                                \
                   ": GRAPH_CONST takes bool, integers, float, double, const char *, nt_ints and nt_reals; a " #T \
                   " is for FIELD, an array for DEVICE");                                                         \
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

#ifdef __cplusplus
}
#endif

#endif
