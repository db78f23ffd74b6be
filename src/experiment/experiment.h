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
 * `never_rewritten`: its name stands for its content. */
nt_status nt__object_load(const char *path, bool never_rewritten);

const nt_field_info *nt__field_find(const nt_experiment *experiment, const char *name);
/* Sets a field of the struct from text ("512", "1e-3", "true", any string). Strings are borrowed. The error names the
 * field, its type, the text and an example of what is right; a number out of the type's range is an error too. */
nt_status nt__field_parse(const nt_field_info *field, const char *text, void *fields);
/* Adds the value as text: 256, 0.1, true, "path". */
void nt__field_print(const nt_field_info *field, const void *fields, nt__text *out);
/* Copies the fields that two definitions have alike, by name and type. The others of `to` stay as they are. Strings are
 * borrowed. */
void nt__fields_copy(const nt_experiment *from, const void *from_fields, const nt_experiment *to, void *to_fields);
/* A number of a field as a double (bool: 0 or 1); strings give 0. */
double nt__field_number(const nt_field_info *field, const void *fields);
/* Writes a number as a value of the field's type to `at`, any address. An error names the field when the type does not
 * have the number: a fraction or an infinity for an integer, more than the type holds, not 0 or 1 for a bool. A
 * floating type rounds. */
nt_status nt__field_from_number(const nt_field_info *field, double number, void *at);
/* Element type of a Device field; strings cannot be one. */
nt_dtype nt__field_dtype(nt_field_type type);
/* "bool", "int", "int64_t", "float", "double", "string": what messages and tables say. The declaration's own text has
 * _Bool where a header makes bool a macro. */
const char *nt__field_type_name(nt_field_type type);
/* "Host", "Device", "GraphConst". */
const char *nt__marker_name(nt_marker marker);

/* The definition itself: hooks that must be there, Device strings, fields of the run marked GraphConst. The error names
 * the experiment, its file and what to write. */
nt_status nt__experiment_check(const nt_experiment *experiment);

#endif
