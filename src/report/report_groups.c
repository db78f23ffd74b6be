/* The groups' section of the binding report: how each group is trained, and where each number of that is from.
 * Not here: the other sections (report.c), how a group is resolved (groups.c).
 */
#include <string.h>

#include "report/report.h"

static const char *source_of(const void *hook, const char *name) {
    return hook ? name : "default";
}

void nt__add_count(int64_t count, nt__text *out) {
    if (count >= 1000) {
        nt__add_count(count / 1000, out);
        nt__text_add(out, ",%03d", (int)(count % 1000));
    } else {
        nt__text_add(out, "%d", (int)count);
    }
}

/* ---- scalars ---------------------------------------------------------------------------------------------------- */

static const char *schedules_source(const nt__resident *resident) {
    return resident->schedules_from_option ? "option" : "schedules hook";
}

/* The decay of a hook and the average are put after the rule; the default rule has no input of its own. */
static const char *input_source(const nt__task *task, const nt__training *training, const nt__rate *input) {
    if (training->decay_is_hooked && strcmp(input->scalar, "weight_decay") == 0) return "weight_decay hook";
    if (task->settings.ema_decay > 0 && strcmp(input->scalar, "ema_decay") == 0)
        return nt__source_name(task->settings.from.ema_decay);
    return "optimizer hook";
}

static void add_input(const nt__resident *resident, const nt__training *training, const nt__rate *input,
                      nt__text *out) {
    if (input->binding)
        nt__text_add(out, "    %s by schedule '%s' [%s]\n", input->scalar, input->binding->name,
                     schedules_source(resident));
    else
        nt__text_add(out, "    %s %.3g [%s]\n", input->scalar, input->value,
                     input_source(resident->task, training, input));
}

static bool rule_has(const nt__training *training, const char *scalar) {
    bool is_input;
    return strcmp(scalar, "learning_rate") == 0 ||
           (nt__rule_has_number(&training->rule, scalar, &is_input) && is_input);
}

/* A schedule for all groups that this group's rule has no use for. */
static void add_unused(const nt__resident *resident, const nt__training *training, nt__text *out) {
    for (size_t i = 0; i < resident->binding_count; i++) {
        const nt__binding *binding = &resident->bindings[i];
        if (binding->field < 0 && binding->group < 0 && !rule_has(training, binding->scalar))
            nt__text_add(out, "    schedule '%s' sets nothing here: the rule has no %s\n", binding->name,
                         binding->scalar);
    }
}

static void add_scalars(const nt__resident *resident, size_t g, nt__text *out) {
    const nt__training *training = &resident->traced->training[g];
    size_t count = nt__rule_input_count(&training->rule);
    if (resident->task->experiment->hooks.rate_ratio)
        nt__text_add(out, "    rate ratio %.3g [rate_ratio hook]\n", resident->rates[g].ratio);
    for (size_t i = 0; i < count; i++) add_input(resident, training, &resident->inputs[training->first_input + i], out);
    add_unused(resident, training, out);
}

/* ---- decay ------------------------------------------------------------------------------------------------------ */

static const char *const anchors[] = {
    [NT_ANCHOR_ZERO] = "zero", [NT_ANCHOR_INITIAL] = "the initial values", [NT_ANCHOR_ARRAY] = "an array"};

/* More than these would be no line to read. */
enum { MOST_NAMES = 16 };

/* What the decay leaves alone, by name. */
static void add_spared(const nt__traced *traced, const nt__training *training, nt__text *out) {
    size_t named = 0;
    nt__text_add(out, "    no decay of %zu of %zu arrays", training->spared_count, training->array_count);
    for (size_t i = 0; i < traced->layout.row_count && named < MOST_NAMES; i++)
        if (training->spared[i]) nt__text_add(out, "%s %s", named++ ? "," : ":", traced->layout.rows[i].path);
    if (named < training->spared_count) nt__text_add(out, " and %zu more", training->spared_count - named);
    nt__text_add(out, " [%s]\n", source_of(traced->task->experiment->hooks.no_decay, "no_decay hook"));
}

static void add_decay(const nt__traced *traced, const nt__training *training, nt__text *out) {
    if (!training->decays) return;
    nt__text_add(out, "    decays to %s [%s]\n", anchors[training->anchor.kind],
                 source_of(traced->task->experiment->hooks.decay_anchor, "decay_anchor hook"));
    add_spared(traced, training, out);
}

/* ---- a group ---------------------------------------------------------------------------------------------------- */

static void add_rate(const nt__resident *resident, size_t g, nt__text *out) {
    const nt__rate *rate = &resident->rates[g];
    if (resident->traced->training[g].frozen) {
        nt__text_add(out, "frozen, ");
        return;
    }
    if (rate->binding)
        nt__text_add(out, "rate by schedule '%s', ", rate->binding->name);
    else
        nt__text_add(out, "rate %.3g, ", resident->task->settings.learning_rate * rate->ratio);
    nt__text_add(out, "ratio %.2f, rule %s, ", rate->ratio, nt_rule_name(resident->traced->training[g].rule));
}

static void add_group(const nt__resident *resident, size_t g, nt__text *out) {
    nt__text_add(out, "  %s: ", resident->traced->layout.groups[g].name);
    if (resident->rates) add_rate(resident, g, out);
    nt__add_count(resident->traced->layout.groups[g].length, out);
    nt__text_add(out, " parameters\n");
    if (!resident->rates || resident->traced->training[g].frozen) return;
    add_scalars(resident, g, out);
    add_decay(resident->traced, &resident->traced->training[g], out);
}

void nt__report_add_groups(const nt__resident *resident, nt__text *out) {
    if (!resident->traced->layout.group_count) return;
    nt__text_add(out, "parameter groups (G = %zu)\n", resident->traced->layout.group_count);
    for (size_t g = 0; g < resident->traced->layout.group_count; g++) add_group(resident, g, out);
}
