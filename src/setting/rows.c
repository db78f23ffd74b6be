/* The settings as a table, and the value of one.
 * Not here: where a value comes from (resolve.c), which values are right (check.c).
 */
#include <stddef.h>
#include <string.h>

#include "setting/checks.h"

#define INITIAL_INT64(value) \
    { .whole = value }
#define INITIAL_DOUBLE(value) \
    { .real = value }
#define INITIAL_BOOL(value) \
    { .truth = value }
#define INITIAL_STRING(value) \
    { .text = value }

#define SETTING(E, TYPE, name_, scope_, initial_, shown, check_, told_, doc) \
    {.name = #name_,                                                         \
     .type = NT_FIELD_##TYPE,                                                \
     .scope = NT__SCOPE_##scope_,                                            \
     .told = told_,                                                          \
     .initial = INITIAL_##TYPE(initial_),                                    \
     .check = nt__check_##check_,                                            \
     .option = offsetof(nt_run_options, name_),                              \
     .hook = offsetof(nt_hooks, name_),                                      \
     .value = offsetof(nt__settings, name_),                                 \
     .from = offsetof(nt__settings, from.name_)},

static const nt__setting settings[] = {NT_SETTINGS_(SETTING, )};

const nt__setting *nt__setting_at(size_t index) {
    return index < sizeof settings / sizeof *settings ? &settings[index] : NULL;
}

const nt__setting *nt__setting_find(const char *name) {
    for (size_t i = 0; nt__setting_at(i); i++)
        if (strcmp(settings[i].name, name) == 0) return &settings[i];
    return NULL;
}

bool nt__setting_is_for_training(const nt__setting *setting) {
    return setting->scope == NT__SCOPE_TRAINING || setting->scope == NT__SCOPE_BEST;
}

const char *nt__source_name(nt__source source) {
    static const char *const names[] = {[NT__FROM_DEFAULT] = "default",
                                        [NT__FROM_FIELD] = "field",
                                        [NT__FROM_HOOK] = "hook",
                                        [NT__FROM_OPTION] = "option"};
    return names[source];
}

/* ---- one value -------------------------------------------------------------------------------------------------- */

nt__setting_value nt__setting_of(const nt__setting *setting, const nt__settings *s) {
    const char *at = (const char *)s + setting->value;
    nt__setting_value value = {0};
    if (setting->type == NT_FIELD_INT64) memcpy(&value.whole, at, sizeof value.whole);
    if (setting->type == NT_FIELD_DOUBLE) memcpy(&value.real, at, sizeof value.real);
    if (setting->type == NT_FIELD_BOOL) memcpy(&value.truth, at, sizeof value.truth);
    if (setting->type == NT_FIELD_STRING) memcpy(&value.text, at, sizeof value.text);
    return value;
}

nt__source nt__setting_source(const nt__setting *setting, const nt__settings *s) {
    return *(const nt__source *)(const void *)((const char *)s + setting->from);
}

void nt__setting_print(const nt__setting *setting, const nt__settings *s, nt__text *out) {
    nt__setting_value value = nt__setting_of(setting, s);
    if (setting->type == NT_FIELD_INT64) nt__text_add(out, "%lld", (long long)value.whole);
    if (setting->type == NT_FIELD_DOUBLE) nt__text_add_real(out, value.real);
    if (setting->type == NT_FIELD_BOOL) nt__text_add(out, "%s", value.truth ? "true" : "false");
    if (setting->type == NT_FIELD_STRING) nt__text_add(out, "%s", value.text ? value.text : "none");
}
