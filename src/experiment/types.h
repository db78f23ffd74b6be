/* The table of the types of fields, for the experiment folder. */
#ifndef NT_EXPERIMENT_TYPES_H
#define NT_EXPERIMENT_TYPES_H

#include "experiment/experiment.h"

typedef enum nt__field_kind {
    NT__KIND_NUMBER,
    NT__KIND_TEXT,
    NT__KIND_LIST,
    NT__KIND_ARRAYS,
    NT__KIND_OTHER
} nt__field_kind;

typedef struct nt__field_type {
    const char *name;
    nt__field_kind kind;
    nt_dtype dtype; /* of numbers */
    bool may_be_device, may_be_graph_const;
    nt_status (*parse)(const nt_field_info *field, const char *text, void *at);
    void (*print)(const nt_field_info *field, const void *at, nt__text *out);
} nt__field_type;
extern const nt__field_type nt__field_types[NT_FIELD_OTHER + 1];

/* NT_INVALID: "hidden (int): 'x' <why>". */
nt_status nt__field_refuse(const nt_field_info *field, const char *text, const char *why);
/* In quotes, with backslashes before quotes, backslashes and control characters, so that the text stays on one line and
 * ends where it seems to end. */
void nt__print_quoted(const char *text, size_t length, nt__text *out);

#endif
