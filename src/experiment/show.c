/* Experiments for a reader: their fields as a table or a line.
 * Not here: the text of a value (fields.c), the manual of the command.
 */
#include <errno.h>
#include <string.h>

#include "experiment/experiment.h"

static size_t longest_name(const nt_experiment *experiment) {
    size_t longest = 0;
    for (size_t i = 0; i < experiment->field_count; i++) {
        size_t length = strlen(experiment->fields[i].name);
        if (length > longest) longest = length;
    }
    return longest;
}

void nt__experiment_table(const nt__shown *shown, nt__text *out) {
    const nt_experiment *experiment = shown->experiment;
    int width = (int)longest_name(experiment);
    for (size_t i = 0; i < experiment->field_count; i++) {
        const nt_field_info *field = &experiment->fields[i];
        nt__text_add(out, "  %-*s  %-10s  ", width, field->name, nt__marker_name(field->marker));
        nt__field_show(field, shown->fields, shown->follow, out);
        nt__text_add(out, "%s\n", shown->derived && shown->derived[i] ? " (derived)" : "");
    }
}

void nt__experiment_line(const nt__shown *shown, nt__text *out) {
    const nt_experiment *experiment = shown->experiment;
    nt__text_add(out, "%s(", experiment->name);
    for (size_t i = 0; i < experiment->field_count; i++) {
        nt__text_add(out, "%s%s = ", i ? ", " : "", experiment->fields[i].name);
        nt__field_show(&experiment->fields[i], shown->fields, shown->follow, out);
    }
    nt__text_add(out, ")");
}

nt_status nt__text_write(nt__text *text, FILE *out) {
    nt__text shown = {0};
    if (!text->failed) nt__text_show(&shown, text->data ? text->data : "", "\n\t");
    nt_status status = text->failed || shown.failed ? NT_OUT_OF_MEMORY : NT_OK;
    if (status == NT_OK && shown.length && fwrite(shown.data, 1, shown.length, out) != shown.length)
        status = nt__fail(NT_IO, "cannot write: %s", strerror(errno));
    nt__text_free(&shown);
    nt__text_free(text);
    return status;
}

nt_status nt_experiment_print(const nt_experiment *experiment, const void *fields, nt_form form, FILE *out) {
    bool given = nt__given(experiment, "nt_experiment_print", "experiment") &&
                 nt__given(fields, "nt_experiment_print", "fields") && nt__given(out, "nt_experiment_print", "out");
    if (!given) return NT_INVALID;
    nt__shown shown = {.experiment = experiment, .fields = fields, .follow = true};
    nt__text text = {0};
    if (form == NT_LINE) {
        nt__experiment_line(&shown, &text);
    } else {
        nt__text_add(&text, "%s (%s)\n", experiment->name, experiment->file);
        nt__experiment_table(&shown, &text);
    }
    return nt__text_write(&text, out);
}
