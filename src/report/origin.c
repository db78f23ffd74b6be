/* What made a run: versions, the engine, the environment that matters, and the text of the experiment's source files,
 * as lines of the log.
 * Not here: fields and settings (log.c).
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "report/report.h"
#include "base/files.h"

/* A log is to stay readable: a file with more, and files beyond those in all, are named without their text. */
enum { MOST_OF_A_FILE = 256 << 10, MOST_IN_ALL = 1 << 20 };

/* ---- source files ----------------------------------------------------------------------------------------------- */

static bool is_small(const char *path, size_t room, const char **why) {
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) {
        *why = "it could not be read";
        return false;
    }
    *why = "it is too large for the log";
    return info.st_size <= MOST_OF_A_FILE && (size_t)info.st_size <= room;
}

/* What cannot be kept is no failure of the run. */
static nt_status read_source(nt__task *task, const char *path, size_t *room, nt__source_text *out) {
    char *data;
    size_t length;
    *out = (nt__source_text){.path = nt__arena_strdup(&task->arena, path)};
    if (!out->path) return NT_OUT_OF_MEMORY;
    if (!is_small(path, *room, &out->why)) return NT_OK;
    out->why = "it could not be read";
    nt_status status = nt__read_file(path, &data, &length);
    if (status != NT_OK) {
        nt__fail_nothing();
        return status == NT_OUT_OF_MEMORY ? nt__fail(status, "no memory for the text of '%s'", path) : NT_OK;
    }
    bool is_text = strlen(data) == length && nt__is_utf8(data, length);
    out->why = is_text ? NULL : "it is no UTF-8 text";
    out->text = is_text ? nt__arena_strdup(&task->arena, data) : NULL;
    nt__free(data);
    *room -= length;
    return is_text && !out->text ? NT_OUT_OF_MEMORY : NT_OK;
}

static bool is_kept(const nt__task *task) {
    return !task->is_plan && !task->settings.no_log && !task->settings.evaluate_only;
}

nt_status nt__origin_take(nt__reporting *reporting, const nt_run_options *options) {
    const char *const own[] = {reporting->task->experiment->file};
    const char *const *paths = options->sources ? options->sources : own;
    size_t count = options->sources ? options->source_count : 1, room = MOST_IN_ALL;
    if (!is_kept(reporting->task)) return NT_OK;
    reporting->source_texts = nt__arena_alloc(&reporting->task->arena, count + 1, sizeof *reporting->source_texts);
    if (!reporting->source_texts) return NT_OUT_OF_MEMORY;
    nt_status status = NT_OK;
    for (size_t i = 0; status == NT_OK && i < count; i++)
        status =
            read_source(reporting->task, paths[i], &room, &reporting->source_texts[reporting->source_text_count++]);
    return status;
}

static nt_status log_source(nt__reporting *reporting, const nt__source_text *source) {
    const nt_log_value values[] = {{"path", source->path, 0},
                                   {source->text ? "text" : "left_out", source->text ? source->text : source->why, 0}};
    nt_status status =
        nt__log_put(reporting, &(nt_log_line){.type = "source", .values = values, .count = 2, .once = true});
    if (status != NT_INVALID) return status;
    nt__fail_nothing(); /* a path that is no UTF-8 */
    return NT_OK;
}

/* ---- the environment -------------------------------------------------------------------------------------------- */

enum { CELL = 64, MOST_VALUES = 16 };

typedef struct origin {
    nt_log_value values[MOST_VALUES];
    size_t count;
} origin;

/* A text that the log cannot hold is left out. */
static void add(origin *o, const char *name, const char *text) {
    if (text && *text && nt__is_utf8(text, strlen(text))) o->values[o->count++] = (nt_log_value){name, text, 0};
}

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void add_variables(origin *o) {
    static const char *const names[] = {"XLA_FLAGS", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) add(o, names[i], getenv(names[i]));
}

static nt_status log_environment(nt__reporting *reporting) {
    origin o = {0};
    char host[CELL * 4] = "", started[CELL] = "", api[CELL];
    time_t now = time(NULL);
    struct tm parts;
    const nt__engine_facts *engine = nt__engine_facts_of(reporting->traced->engine);
    snprintf(api, sizeof api, "%d.%d", engine->api_major, engine->api_minor);
    if (gmtime_r(&now, &parts)) strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", &parts);
    if (gethostname(host, sizeof host - 1) != 0) host[0] = 0;
    add(&o, "experiment", reporting->task->experiment->name);
    add(&o, "started", started);
    if (reporting->spent > 0) o.values[o.count++] = (nt_log_value){"seconds_before", NULL, reporting->spent};
    add(&o, "nitro", NT__VERSION);
    add(&o, "compiler", reporting->task->experiment->compiler);
    add(&o, "plugin", file_name(engine->plugin_path));
    add(&o, "plugin_api", api);
    add(&o, "platform", engine->platform);
    add(&o, "platform_version", engine->platform_version);
    add(&o, "compile_options",
        reporting->traced->compile_options ? nt__options_text(reporting->traced->compile_options) : NULL);
    add(&o, "host", host);
    add_variables(&o);
    return nt__log_put(reporting,
                       &(nt_log_line){.type = "environment", .values = o.values, .count = o.count, .once = true});
}

nt_status nt__origin_log(nt__reporting *reporting) {
    nt_status status = log_environment(reporting);
    for (size_t i = 0; status == NT_OK && i < reporting->source_text_count; i++)
        status = log_source(reporting, &reporting->source_texts[i]);
    return status;
}
