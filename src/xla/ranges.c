/* Ranges of the engine's own whole-number options, wherever they are given. The engine ends the process for some values
 * outside, or takes all of the machine's memory, and says nothing that could be caught.
 * Not here: options that the engine refuses itself.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "xla/xla_internal.h"
#include "base/files.h"

static const struct {
    const char *name;
    long long from, to;
} ranges[] = {
    {"xla_backend_optimization_level", 0, 3},
    {"xla_cpu_parallel_codegen_split_count", 1, 1024},
    {"xla_cpu_prefer_vector_width", 0, 4096},
};

static bool is_within(const char *value, long long from, long long to) {
    char *end;
    bool is_quoted = *value == '"';
    errno = 0;
    long long number = strtoll(value + is_quoted, &end, 10);
    bool is_number = end != value + is_quoted && errno == 0 && strcmp(end, is_quoted ? "\"" : "") == 0;
    return is_number && number >= from && number <= to;
}

nt_status nt__option_check_range(const char *kind, const char *name, const char *value) {
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        long long from = ranges[i].from, to = ranges[i].to;
        if (strcmp(name, ranges[i].name) != 0 || is_within(value, from, to)) continue;
        return nt__fail(NT_INVALID, "%s '%s' is %s, and must be a whole number from %lld to %lld", kind, name, value,
                        from, to);
    }
    return NT_OK;
}

/* "--name=value" words. */
static nt_status check_words(char *text) {
    static const char blanks[] = " \t\r\n\v\f";
    nt_status status = NT_OK;
    char *rest = NULL;
    for (char *word = strtok_r(text, blanks, &rest); word && status == NT_OK; word = strtok_r(NULL, blanks, &rest)) {
        char *equals = strchr(word, '='), *name = word + strspn(word, "-");
        if (!equals) continue;
        *equals = 0;
        status = nt__option_check_range("the option of XLA_FLAGS", name, equals + 1);
    }
    return status;
}

nt_status nt__flags_check_ranges(const char *flags) {
    char *text = NULL;
    size_t length;
    /* What does not begin like an option is the name of a file with them. The engine says what is wrong with the file.
     */
    bool is_file = flags[strspn(flags, " \t\r\n\v\f")] != '-';
    nt_status status = NT_OK;
    if (is_file)
        status = nt__read_file(flags, &text, &length);
    else if (!(text = nt__strdup(flags)))
        status = NT_OUT_OF_MEMORY;
    if (status != NT_OK && status != NT_OUT_OF_MEMORY) {
        nt__fail_nothing();
        return NT_OK;
    }
    if (status == NT_OK) status = check_words(text);
    nt__free(text);
    return status;
}
