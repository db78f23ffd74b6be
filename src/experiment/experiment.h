/* Experiments at run time: the registry, loading, and fields read from text and written as text.
 * Not here: data, devices, training.
 */
#ifndef NT_EXPERIMENT_EXPERIMENT_H
#define NT_EXPERIMENT_EXPERIMENT_H

#include "array/array.h"
#include "nitro/experiment.h"

/* Goes up when a definition is registered: what was the newest one may no longer be. */
uint64_t nt__experiment_generation(void);
/* The generation with which the newest definition of that name came; 0 when there is none. */
uint64_t nt__experiment_generation_of(const char *name);
/* nt_experiment_load of an object that may have no experiment; the message is only what is wrong with the object.
 * `lasts`: nothing is ever written over this file, so its first load needs no copy and no room for one. */
nt_status nt__object_load(const char *path, bool lasts);

const nt_field_info *nt__field_find(const nt_experiment *experiment, const char *name);
/* Sets a field of the struct from text ("512", "1e-3", "true", any string). Strings are borrowed. The error names the
 * field, its type, the text and an example of what is right; a number out of the type's range is an error too. */
nt_status nt__field_parse(const nt_field_info *field, const char *text, void *fields);
/* Adds the value as text: 256, 0.1, true, "path". Of an array or set of arrays the types and shapes, of another type
 * its name; never an element. */
void nt__field_print(const nt_field_info *field, const void *fields, nt__text *out);
/* The value of such a text, of a field with a text form, written to `at`, any address. A string lives in the arena. */
nt_status nt__field_unprint(const nt_field_info *field, const char *text, nt__arena *arena, void *at);
/* Copies the fields that two definitions have alike, by name and type. The others of `to` stay as they are. Strings are
 * borrowed. */
void nt__fields_copy(const nt_experiment *from, const void *from_fields, const nt_experiment *to, void *to_fields);
/* The same for a reader: a long string is cut. `follow` says that arrays of Host fields are alive and may be looked at.
 */
void nt__field_show(const nt_field_info *field, const void *fields, bool follow, nt__text *out);
/* bool, integers and floating types. */
bool nt__field_is_number(const nt_field_info *field);
/* An array or a set of them. */
bool nt__field_holds_arrays(const nt_field_info *field);
/* A text that is one of a few words. */
bool nt__field_is_choice(const nt_field_info *field);
/* Adds these words: "relu, gelu". Nothing for another field. */
void nt__field_print_choices(const nt_field_info *field, nt__text *out);
bool nt__field_fits_marker(const nt_field_info *field);
/* Whether a value that C set is one: a choice one of its words, a list with a count that a list may have. */
nt_status nt__field_check(const nt_field_info *field, const void *fields);
nt_status nt__fields_check(const nt_experiment *experiment, const void *fields);
/* Types that text can be read as. */
bool nt__field_has_flag(const nt_field_info *field);
/* A number of a field as a double (bool: 0 or 1); other types give 0. */
double nt__field_number(const nt_field_info *field, const void *fields);
/* Writes a number as a value of the field's type to `at`, any address. An error names the field when the type does not
 * have the number: a fraction or an infinity for an integer, more than the type holds, not 0 or 1 for a bool. A
 * floating type rounds. */
nt_status nt__field_from_number(const nt_field_info *field, double number, void *at);
/* Element type of a number. */
nt_dtype nt__field_dtype(nt_field_type type);
/* "bool", "int", "string", "uint64_t", "nt_array *", ... */
const char *nt__field_type_name(nt_field_type type);
/* The type as it was declared ("size_t"), what messages and tables say; "bool" and "string" for these two. */
const char *nt__field_type_text(const nt_field_info *field);
/* "Host", "Device", "GraphConst". */
const char *nt__marker_name(nt_marker marker);

/* How an experiment is shown. */
typedef struct nt__shown {
    const nt_experiment *experiment;
    const void *fields;
    bool follow;         /* as for nt__field_show */
    const bool *derived; /* fields to be marked as derived; NULL: none */
} nt__shown;
/* A line a field: name, marker, value. */
void nt__experiment_table(const nt__shown *shown, nt__text *out);
/* "Fashion(hidden = 256, smoothing = 0.1)" */
void nt__experiment_line(const nt__shown *shown, nt__text *out);
/* Writes a text of lines, with escapes for what a terminal would obey, and frees it. */
nt_status nt__text_write(nt__text *text, FILE *out);

/* Around a call of a host hook. What it returned, else that of a call of ours in it that has no status to return: an
 * operation, for which no trace is under way, or an element that an array has not. The message names the hook. */
void nt__hook_begin(const nt_experiment *experiment, const char *hook);
nt_status nt__hook_end(const nt_experiment *experiment, const char *hook, nt_status status);

/* Names of presets: each has one, no two have the same. */
nt_status nt__presets_check(const nt_experiment *experiment);
/* The place of a preset; the error lists the presets. */
nt_status nt__preset_find(const nt_experiment *experiment, const char *name, size_t *out);

/* The definition itself: hooks that must be there, types that a marker does not take, fields of the run marked
 * GraphConst, presets. The error names the experiment, its file and what to write. */
nt_status nt__experiment_check(const nt_experiment *experiment);

#endif
