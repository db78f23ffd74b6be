/* What a word of the shell may become.
 * Not here: the keys (editor.c).
 */
#include <string.h>

#include "shell/shell.h"
#include "log/log.h"

/* `typed` is the beginning of the word. */
typedef struct completion {
    const nt__shell *shell;
    nt__arena *arena;
    nt__words *words;
    const char *typed;
} completion;

static void offer(completion *c, const char *word) {
    if (!word)
        c->words->failed = true;
    else if (strncmp(word, c->typed, strlen(c->typed)) == 0)
        nt__words_add(c->words, word);
}

static void offer_commands(completion *c) {
    const nt__shell_verb *command;
    for (size_t i = 0; (command = nt__shell_verb_at(i)); i++) offer(c, command->name);
}

static void offer_runs(completion *c) {
    for (size_t i = 0; i < c->shell->run_count; i++) offer(c, c->shell->runs[i]->name);
}

static void offer_splits(completion *c) {
    static const char *const usual[] = {"train", "val", "test"};
    for (size_t i = 0; c->shell->current && i < sizeof usual / sizeof *usual; i++)
        if (nt_run_has_split(c->shell->current->run, usual[i])) offer(c, usual[i]);
}

static void offer_units(completion *c) {
    offer(c, "epochs");
    offer(c, "steps");
}

static void offer_flag(completion *c, const char *name) {
    char *dashed = nt__flag_name(c->arena, name);
    offer(c, dashed ? nt__arena_sprintf(c->arena, "--%s=", dashed) : NULL);
}

static void offer_keywords(completion *c, const nt__takes *verb) {
    const nt__keyword *keyword;
    for (size_t i = 0; (keyword = nt__keyword_at(i)); i++)
        if (nt__uses(verb, keyword)) offer_flag(c, keyword->field.name);
}

/* Names of presets once the flag is there. */
static void offer_presets(completion *c, const nt_experiment *experiment) {
    static const char flag[] = "--preset=";
    const char *name;
    if (strncmp(c->typed, flag, sizeof flag - 1) != 0) return;
    for (size_t i = 0; experiment->hooks.preset && (name = experiment->hooks.preset(i, NULL, NULL)); i++)
        offer(c, nt__arena_sprintf(c->arena, "%s%s", flag, name));
}

/* Names of loggers, also after a comma. */
static void offer_loggers(completion *c) {
    static const char flag[] = "--log=";
    const nt_logger *logger;
    if (strncmp(c->typed, flag, sizeof flag - 1) != 0) return;
    const char *comma = strrchr(c->typed, ',');
    int length = (int)(comma ? comma + 1 - c->typed : (ptrdiff_t)sizeof flag - 1);
    for (size_t i = 0; (logger = nt__logger_at(i)); i++)
        offer(c, nt__arena_sprintf(c->arena, "%.*s%s", length, c->typed, logger->name));
}

static void offer_flags(completion *c) {
    const nt_experiment *experiment;
    offer_keywords(c, &nt__takes_new);
    if (nt__shell_choose(c->shell, c->shell->options.experiment, &experiment) != NT_OK) return;
    for (size_t i = 0; i < experiment->field_count; i++)
        if (!nt__keyword_find(experiment->fields[i].name)) offer_flag(c, experiment->fields[i].name);
    offer_presets(c, experiment);
    offer_loggers(c);
}

static void offer_prediction_flags(completion *c) {
    offer_keywords(c, &nt__takes_predict);
}

static void offer_field_names(completion *c) {
    const nt__shell_run *run = c->shell->current;
    for (size_t i = 0; run && i < run->experiment->field_count; i++) offer(c, run->experiment->fields[i].name);
}

/* Which arrays a set has, only the run knows. */
static void offer_fields_to_set(completion *c) {
    const nt__shell_run *run = c->shell->current;
    for (size_t i = 0; run && i < run->experiment->field_count; i++) {
        const nt_field_info *field = &run->experiment->fields[i];
        bool can_be_set = field->marker == NT_DEVICE && field->type != NT_FIELD_ARRAYS;
        if (can_be_set) offer(c, nt__arena_sprintf(c->arena, "%s=", field->name));
    }
}

static void offer_words(completion *c, const char *command_name, size_t length) {
    static void (*const offers[])(completion *) = {
        [NT__RUN_NAMES] = offer_runs,
        [NT__SPLIT_NAMES] = offer_splits,
        [NT__FLAG_NAMES] = offer_flags,
        [NT__FIELD_NAMES] = offer_field_names,
        [NT__FIELDS_TO_SET] = offer_fields_to_set,
        [NT__PREDICTION_FLAGS] = offer_prediction_flags,
        [NT__UNITS] = offer_units,
    };
    const nt__shell_verb *command;
    for (size_t i = 0; (command = nt__shell_verb_at(i)); i++)
        if (strlen(command->name) == length && strncmp(command->name, command_name, length) == 0 &&
            command->completes != NT__NO_WORDS)
            offers[command->completes](c);
}

void nt__shell_complete(const char *line, nt__arena *arena, nt__words *words, void *shell) {
    const char *start = line + strspn(line, " "), *space = strrchr(start, ' ');
    completion c = {shell, arena, words, space ? space + 1 : start};
    if (space)
        offer_words(&c, start, strcspn(start, " "));
    else
        offer_commands(&c);
}
