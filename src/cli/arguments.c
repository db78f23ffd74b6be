/* The command line: words sorted into files and flags, and flags given to options and fields.
 *
 * Which flags take a value is known for the keywords only until the experiment is compiled. A flag that is no keyword
 * therefore takes the next word as its value unless that is a flag too, and files stand before the flags.
 *
 * Not here: what the commands do.
 */
#include "cli/arguments.h"
#include "base/files.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/closest.h"
#include "experiment/experiment.h"

/* ---- sorting words ---------------------------------------------------------------------------------------------- */

char *nt__flag_name(nt__arena *arena, const char *name) {
    char *copy = nt__arena_strdup(arena, name);
    for (char *at = copy; at && *at; at++)
        if (*at == '_') *at = '-';
    return copy;
}

/* What stands after "no-", NULL when the name has another beginning. */
static const char *without_no(const char *name) {
    bool is_negated = name[0] == 'n' && name[1] == 'o' && (name[2] == '-' || name[2] == '_') && name[3];
    return is_negated ? name + 3 : NULL;
}

/* Whether a list of words, divided by spaces, has it. */
static bool has_word(const char *words, const char *word) {
    size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += length) {
        bool begins = at == words || at[-1] == ' ';
        if (begins && (at[length] == ' ' || !at[length])) return true;
    }
    return false;
}

bool nt__uses(const nt__takes *command, const nt__keyword *keyword) {
    return has_word(command->flags, keyword->set);
}

static bool takes(const nt__takes *command, const nt__keyword *keyword) {
    return nt__uses(command, keyword) || has_word(command->idle, keyword->set);
}

static const nt__keyword *find_keyword(const nt__takes *command, const char *name) {
    const nt__keyword *keyword = nt__keyword_find(name);
    return keyword && takes(command, keyword) ? keyword : NULL;
}

const nt__keyword *nt__keyword_of(const nt__takes *command, const char *name) {
    const nt__keyword *keyword = find_keyword(command, name);
    if (keyword || !without_no(name)) return keyword;
    keyword = find_keyword(command, without_no(name));
    return keyword && keyword->field.type == NT_FIELD_BOOL ? keyword : NULL;
}

static bool is_flag(const char *word) {
    return strcmp(word, "-h") == 0 || (strncmp(word, "--", 2) == 0 && word[2] && word[2] != '=');
}

/* "-3" may be a value, "--depth" may not. */
static bool can_be_value(const char *word) {
    return word && !is_flag(word);
}

/* Sorts one flag; *taken is true when `next` is its value. */
static nt_status read_flag(nt__arguments *arguments, const char *word, const char *next, bool *taken) {
    const char *text = strcmp(word, "-h") == 0 ? "help" : word + 2;
    size_t length = strcspn(text, "=");
    nt__flag flag = {.name = nt__arena_sprintf(&arguments->arena, "%.*s", (int)length, text)};
    if (!flag.name || !NT__GROW(arguments->flags, arguments->flag_count, arguments->flag_capacity))
        return NT_OUT_OF_MEMORY;
    const nt__keyword *keyword = nt__keyword_of(arguments->command, flag.name);
    bool stands_alone = keyword && (keyword->field.type == NT_FIELD_BOOL || keyword->alone);
    if (text[length] == '=')
        flag.value = text + length + 1;
    else if (!stands_alone && can_be_value(next)) {
        flag.value = next;
        flag.is_next_word = true;
    }
    *taken = flag.is_next_word;
    arguments->flags[arguments->flag_count++] = flag;
    return NT_OK;
}

nt_status nt__arguments_read(const nt__takes *command, int count, char *const *words, nt__arguments *out) {
    *out = (nt__arguments){.command = command};
    for (int i = 0; i < count; i++) {
        bool taken = false;
        nt_status status = NT_OK;
        if (is_flag(words[i]))
            status = read_flag(out, words[i], i + 1 < count ? words[i + 1] : NULL, &taken);
        else if (words[i][0] == '-')
            status = nt__fail(NT_INVALID, "'%s' is no flag: flags are written --name=value", words[i]);
        else
            nt__words_add(&out->files, words[i]);
        if (status != NT_OK) return status;
        i += taken;
    }
    return out->files.failed ? NT_OUT_OF_MEMORY : NT_OK;
}

nt_status nt__arguments_inherit(nt__arguments *to, const nt__arguments *from) {
    nt__flag *flags = nt__alloc(from->flag_count + to->flag_count + 1, sizeof *flags);
    if (!flags) return NT_OUT_OF_MEMORY;
    size_t count = 0;
    for (size_t i = 0; i < from->flag_count; i++) {
        const char *name = from->flags[i].name;
        if (!nt__keyword_of(from->command, name) || nt__keyword_of(to->command, name)) flags[count++] = from->flags[i];
    }
    for (size_t i = 0; i < to->flag_count; i++) flags[count++] = to->flags[i];
    nt__free(to->flags);
    to->flags = flags;
    to->flag_count = to->flag_capacity = count;
    return NT_OK;
}

void nt__arguments_free(nt__arguments *arguments) {
    nt__words_free(&arguments->files);
    nt__free(arguments->flags);
    nt__arena_free(&arguments->arena);
    *arguments = (nt__arguments){0};
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

static bool is_source_name(const char *name) {
    return nt__ends_in(name, ".c");
}

/* A file after a flag that takes no value was sorted as its value. */
static nt_status fail_without_files(const nt__arguments *arguments, const char *command) {
    for (size_t i = 0; i < arguments->flag_count; i++) {
        const nt__flag *flag = &arguments->flags[i];
        if (flag->is_next_word && is_source_name(flag->value))
            return nt__fail(
                NT_INVALID,
                "no file was given: '%s' was taken as the value of --%s. Files stand before the flags: nitro "
                "%s %s --%s",
                flag->value, flag->name, command, flag->value, flag->name);
    }
    return nt__fail(NT_INVALID, "no file was given: write nitro %s FILE.c, where FILE.c has the experiment", command);
}

/* Adds the C source files of a folder to the names. */
static void add_source_names(nt__arena *arena, const char *path, nt__words *names) {
    DIR *folder = opendir(path);
    struct dirent *entry;
    while (folder && (entry = readdir(folder)))
        if (is_source_name(entry->d_name)) nt__words_add(names, nt__arena_strdup(arena, entry->d_name));
    if (folder) closedir(folder);
}

static bool is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* A file that is there under another name is proposed. */
static nt_status fail_absent(const char *file) {
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    nt__arena arena = {0};
    nt__words names = {0};
    nt__text message = {0};
    char *folder = nt__arena_sprintf(&arena, "%.*s", (int)(name - file), file);
    nt__text_add(&message, "there is no file '%s'", file);
    if (folder) add_source_names(&arena, *folder ? folder : ".", &names);
    if (folder && !names.failed) nt__add_closest(&message, name, names.items, names.count, folder);
    bool complete = folder && !names.failed && !message.failed;
    nt_status status = complete
                           ? nt__fail(NT_INVALID, "%s; give the path of the file that has the experiment", message.data)
                           : NT_OUT_OF_MEMORY;
    nt__text_free(&message);
    nt__words_free(&names);
    nt__arena_free(&arena);
    return status;
}

nt_status nt__arguments_check_files(const nt__arguments *arguments, const char *command) {
    if (arguments->files.count == 0) return fail_without_files(arguments, command);
    for (size_t i = 0; i < arguments->files.count; i++) {
        const char *file = arguments->files.items[i];
        if (!is_source_name(file))
            return nt__fail(NT_INVALID,
                            "'%s' is no C source file: its name does not end in .c; name the file that has the "
                            "experiment",
                            file);
        if (access(file, F_OK) != 0) return fail_absent(file);
        if (is_folder(file))
            return nt__fail(NT_INVALID, "'%s' is a folder; name the C source file that has the experiment", file);
        if (nt__is_special(file))
            return nt__fail(NT_INVALID, "'%s' is a pipe or a device; name the C source file that has the experiment",
                            file);
    }
    return NT_OK;
}

/* ---- giving flags to options and fields ------------------------------------------------------------------------- */

static nt_status fail_without_value(const nt_field_info *field, const nt__flag *flag) {
    return nt__fail(NT_INVALID, "--%s needs a value (%s): write --%s=VALUE", flag->name, nt__field_type_text(field),
                    flag->name);
}

/* A bool that is followed by a file was not meant to have a value. */
static nt_status set_from_text(const nt_field_info *field, const nt__flag *flag, void *to) {
    nt_status status = nt__field_parse(field, flag->value, to);
    if (status != NT_INVALID || !flag->is_next_word || !is_source_name(flag->value)) return status;
    return nt__fail(status, "%s. Files stand before the flags", nt_error_message());
}

static nt_status set(const nt_field_info *field, const nt__flag *flag, void *to) {
    if (!nt__field_has_flag(field))
        return nt__fail(NT_INVALID,
                        "--%s: field %s (%s) has no text form and no flag; set it in C, in a preset or in derive",
                        flag->name, field->name, nt__field_type_text(field));
    if (flag->value) return set_from_text(field, flag, to);
    if (field->type != NT_FIELD_BOOL) return fail_without_value(field, flag);
    return nt__field_parse(field, "true", to);
}

static nt_status unset(const nt_field_info *field, const nt__flag *flag, void *to) {
    if (flag->value)
        return nt__fail(NT_INVALID, "--%s takes no value, and '%s' was given: write --%s or --%s=%s", flag->name,
                        flag->value, flag->name, without_no(flag->name), flag->value);
    return nt__field_parse(field, "false", to);
}

static nt_status add_to_list(const nt__keyword *keyword, const nt__flag *flag, nt__words *list) {
    if (!flag->value) return fail_without_value(&keyword->field, flag);
    nt__words_add(list, flag->value);
    return list->failed ? NT_OUT_OF_MEMORY : NT_OK;
}

static nt_status set_keyword(const nt__keyword *keyword, const nt__flag *flag, nt__command_options *out) {
    if (keyword->is_list) return add_to_list(keyword, flag, (nt__words *)(void *)((char *)out + keyword->field.offset));
    if (keyword->given != NT__NOT_NOTED) *(bool *)((char *)out + keyword->given) = true;
    bool is_negated = !nt__keyword_find(flag->name);
    if (!flag->value && keyword->alone) return nt__field_parse(&keyword->field, keyword->alone, out);
    return is_negated ? unset(&keyword->field, flag, out) : set(&keyword->field, flag, out);
}

/* Flags replace the whole table of the schedules hook, as the option of a run does. */
static nt_status parse_schedules(nt__command_options *options) {
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < options->schedules.count; i++)
        status = nt__schedule_parse(options->schedules.items[i], &options->parsed);
    if (status == NT_OK) status = options->parsed.status;
    if (options->parsed.count > 0) options->run.schedules = options->parsed.items;
    return status;
}

nt_status nt__arguments_options(const nt__arguments *arguments, nt__command_options *out) {
    *out = (nt__command_options){0};
    nt_status status = NT_OK;
    for (size_t i = 0; i < arguments->flag_count && status == NT_OK; i++) {
        const nt__keyword *keyword = nt__keyword_of(arguments->command, arguments->flags[i].name);
        if (keyword) status = set_keyword(keyword, &arguments->flags[i], out);
    }
    out->run.compile_options = out->compile_options.items;
    out->run.compile_option_count = out->compile_options.count;
    bool loads = has_word(arguments->command->flags, "weights");
    out->run.weights = loads ? out->weights : NULL;
    out->run.trained_weights = loads && !has_word(arguments->command->flags, "training");
    out->run.weight_maps = out->maps.items;
    out->run.weight_map_count = loads ? out->maps.count : 0;
    if (status == NT_OK) status = parse_schedules(out);
    return status == NT_OK ? nt__options_check_together(arguments->command, out) : status;
}

void nt__command_options_free(nt__command_options *options) {
    nt__schedules_free(&options->parsed);
    nt__words_free(&options->inputs);
    nt__words_free(&options->metrics);
    nt__words_free(&options->schedules);
    nt__words_free(&options->compile_options);
    nt__words_free(&options->maps);
}

/* ---- fields ----------------------------------------------------------------------------------------------------- */

/* Every name that would have been right, with dashes. */
static void add_known_names(nt__arena *arena, const nt__takes *command, const nt_experiment *experiment,
                            nt__words *names) {
    const nt__keyword *keyword;
    for (size_t i = 0; (keyword = nt__keyword_at(i)); i++)
        if (takes(command, keyword)) nt__words_add(names, nt__flag_name(arena, keyword->field.name));
    for (size_t i = 0; experiment && i < experiment->field_count; i++) {
        const char *field = experiment->fields[i].name;
        if (nt__field_has_flag(&experiment->fields[i]) && !find_keyword(command, field))
            nt__words_add(names, nt__flag_name(arena, field));
    }
}

/* A run that lives may have had other fields. */
static void add_fields(const nt_experiment *experiment, nt__arena *arena, nt__text *message) {
    const char *separator = "";
    nt__text_add(message, "; the fields of %s, as the files define it now: ", experiment->name);
    for (size_t i = 0; i < experiment->field_count; i++) {
        if (!nt__field_has_flag(&experiment->fields[i])) continue;
        const char *name = nt__flag_name(arena, experiment->fields[i].name);
        message->failed |= !name;
        nt__text_add(message, "%s--%s", separator, name ? name : "");
        separator = ", ";
    }
}

static void describe_unknown(const nt__arguments *arguments, const nt_experiment *experiment, const char *name,
                             const nt__words *known, nt__arena *arena, nt__text *message) {
    nt__text_add(message, "there is no flag --%s", name);
    nt__add_closest(message, name, known->items, known->count, "--");
    bool is_live = strcmp(arguments->command->command, "new") == 0;
    if (experiment && is_live) add_fields(experiment, arena, message);
    if (experiment && !is_live) nt__text_add(message, "; nitro help %s lists the flags", arguments->files.items[0]);
}

static nt_status fail_misplaced(const nt__keyword *keyword, const char *name) {
    size_t i = 0;
    while (nt__takes_at(i + 1) && !takes(nt__takes_at(i), keyword)) i++;
    return nt__fail(NT_INVALID, "--%s is a flag of nitro %s and not of this command: leave it out", name,
                    nt__takes_at(i)->command);
}

static nt_status fail_unknown(const nt__arguments *arguments, const nt_experiment *experiment, const char *typed) {
    const char *positive = without_no(typed);
    const nt__keyword *keyword = nt__keyword_find(typed);
    if (!keyword && positive) keyword = nt__keyword_find(positive);
    if (keyword && (!positive || keyword->field.type == NT_FIELD_BOOL)) return fail_misplaced(keyword, typed);
    nt__arena names = {0};
    nt__words known = {0};
    nt__text message = {0};
    add_known_names(&names, arguments->command, experiment, &known);
    const char *name = nt__flag_name(&names, typed);
    if (name && !known.failed) describe_unknown(arguments, experiment, name, &known, &names, &message);
    bool complete = message.data && !message.failed;
    nt_status status = complete ? nt__fail(NT_INVALID, "%s", message.data) : NT_OUT_OF_MEMORY;
    nt__text_free(&message);
    nt__words_free(&known);
    nt__arena_free(&names);
    return status;
}

/* The field that a name with dashes or underscores means. */
static const nt_field_info *find_field(const nt_experiment *experiment, const char *name) {
    char plain[256];
    size_t length = strlen(name);
    if (!experiment || length >= sizeof plain) return NULL;
    for (size_t i = 0; i <= length; i++) plain[i] = name[i];
    for (size_t i = 0; i < length; i++)
        if (plain[i] == '-') plain[i] = '_';
    return nt__field_find(experiment, plain);
}

/* The field of a flag, also of one that "no-" turns off. */
static const nt_field_info *field_of(const nt_experiment *experiment, const char *name) {
    const nt_field_info *field = find_field(experiment, name);
    return field || !without_no(name) ? field : find_field(experiment, without_no(name));
}

nt_status nt__arguments_given(const nt__arguments *arguments, const nt_experiment *experiment, nt__words *out) {
    for (size_t i = 0; i < arguments->flag_count; i++) {
        const char *name = arguments->flags[i].name;
        const nt_field_info *field = nt__keyword_of(arguments->command, name) ? NULL : field_of(experiment, name);
        if (field) nt__words_add(out, field->name);
    }
    return out->failed ? NT_OUT_OF_MEMORY : NT_OK;
}

static nt_status set_field(const nt__arguments *arguments, const nt_experiment *experiment, const nt__flag *flag,
                           void *fields) {
    const nt_field_info *field = find_field(experiment, flag->name);
    if (field) return set(field, flag, fields);
    const char *positive = without_no(flag->name);
    field = positive ? find_field(experiment, positive) : NULL;
    if (field && field->type == NT_FIELD_BOOL) return unset(field, flag, fields);
    return fail_unknown(arguments, experiment, flag->name);
}

nt_status nt__arguments_fields(const nt__arguments *arguments, const nt_experiment *experiment, void *fields) {
    nt_status status = NT_OK;
    for (size_t i = 0; i < arguments->flag_count && status == NT_OK; i++) {
        const nt__flag *flag = &arguments->flags[i];
        if (!nt__keyword_of(arguments->command, flag->name)) status = set_field(arguments, experiment, flag, fields);
    }
    return status;
}
