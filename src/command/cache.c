/* nitro cache: the compiled programs on disk, listed, added up, removed.
 * Not here: how they are kept.
 */
#include "command/command.h"

#include <string.h>

#include "build/build.h"
#include "show/show.h"
#include "disk/disk.h"
#include "xla/xla.h"

/* ---- cells ------------------------------------------------------------------------------------------------------ */

enum { CELL = 64 };

/* "91.9 KiB". */
static const char *size_text(uint64_t bytes, char out[CELL]) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes;
    size_t unit = 0;
    for (; size >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++) size /= 1024;
    nt__format(out, CELL, "%.*f %s", unit && size < 100 ? 1 : 0, size, units[unit]);
    return out;
}

/* ---- list ------------------------------------------------------------------------------------------------------- */

enum { LIST_COLUMNS = 7 };

static nt_status add_program(const nt__disk *disk, const nt__disk_file *file, nt__table *table) {
    char size[CELL], seconds[CELL], made[NT__TIME], used[NT__TIME];
    nt__disk_program found;
    nt_status status = nt__disk_look(disk, file->name, &found);
    if (status != NT_OK) return status;
    bool whole = found.data != NULL;
    nt__format(seconds, sizeof seconds, "%.2f s", found.seconds);
    const char *const cells[LIST_COLUMNS] = {whole ? found.program : "(damaged)",
                                             whole ? found.experiment : "",
                                             whole ? found.plugin : "",
                                             size_text(file->bytes, size),
                                             whole ? seconds : "",
                                             whole ? nt__time_text(found.made, made) : "",
                                             nt__time_text(file->used, used)};
    for (size_t i = 0; i < LIST_COLUMNS; i++) nt__table_add(table, cells[i]);
    nt__free(found.data);
    return NT_OK;
}

static nt_status list(const nt__disk *disk, bool all) {
    (void)all;
    static const char *const header[LIST_COLUMNS] = {"program",     "experiment", "plugin",   "size",
                                                     "compiled in", "made",       "last used"};
    nt__disk_file *files;
    size_t count;
    nt__table table = {0};
    nt_status status = nt__disk_files(disk, nt__disk_program_ending, &files, &count);
    for (size_t i = 0; i < LIST_COLUMNS && count; i++) nt__table_add(&table, header[i]);
    for (size_t i = 0; status == NT_OK && i < count; i++) status = add_program(disk, &files[i], &table);
    nt__free(files);
    if (status == NT_OK && count == 0) nt__say_line(stdout, "no programs in %s", disk->folder);
    bool printed = nt__table_print(&table, LIST_COLUMNS, stdout);
    return status == NT_OK && !printed ? NT_OUT_OF_MEMORY : status;
}

/* ---- stats ------------------------------------------------------------------------------------------------------ */

static void add_row(nt__table *table, const char *name, const char *value) {
    nt__table_add(table, name);
    nt__table_add(table, value);
}

/* The engine is asked too, because not every plugin can save programs. */
static void add_engine(nt__table *table) {
    nt__engine *engine;
    const char *cannot = nt__engine_open(1, &engine) == NT_OK ? nt__engine_cannot_save(engine) : nt_error_message();
    add_row(table, "engine", cannot ? cannot : "its programs can be kept");
    (void)nt__engine_close();
}

static nt_status stats(const nt__disk *disk, bool all) {
    (void)all;
    char number[CELL], size[CELL], limit[CELL];
    nt__disk_file *files;
    size_t count;
    uint64_t bytes = 0;
    nt__table table = {0};
    nt_status status = nt__disk_files(disk, nt__disk_program_ending, &files, &count);
    if (status != NT_OK) return status;
    for (size_t i = 0; i < count; i++) bytes += files[i].bytes;
    nt__free(files);
    snprintf(number, sizeof number, "%zu", count);
    add_row(&table, "folder", disk->folder);
    add_row(&table, "programs", number);
    add_row(&table, "size", size_text(bytes, size));
    add_row(&table, "limit", size_text(disk->limit, limit));
    add_row(&table, "in use", *disk->why ? disk->why : "yes");
    add_engine(&table);
    return nt__table_print(&table, 2, stdout) ? NT_OK : NT_OUT_OF_MEMORY;
}

/* ---- clear ------------------------------------------------------------------------------------------------------ */

/* The small files beside the programs go too and are not counted. */
static nt_status clear_programs(const nt__disk *disk) {
    char size[CELL];
    nt__disk_file *files;
    size_t count, programs = 0, failed = 0;
    uint64_t bytes = 0;
    nt_status status = nt__disk_files(disk, NULL, &files, &count);
    if (status != NT_OK) return status;
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(files[i].name), tail = sizeof nt__disk_program_ending - 1;
        bool is_program = length > tail && strcmp(files[i].name + length - tail, nt__disk_program_ending) == 0;
        if (!nt__disk_remove(disk, files[i].name))
            failed++;
        else if (is_program) {
            programs++;
            bytes += files[i].bytes;
        }
    }
    nt__free(files);
    nt__say_line(stdout, "removed %zu program%s (%s) from %s", programs, programs == 1 ? "" : "s",
                 size_text(bytes, size), disk->folder);
    if (!failed) return NT_OK;
    return nt__fail(NT_IO, "%zu file%s in '%s' could not be removed: is the folder writable?", failed,
                    failed == 1 ? "" : "s", disk->folder);
}

static void remove_objects(nt__objects *objects) {
    size_t count = nt__objects_clear(objects);
    nt__say_line(stdout, "removed %zu file%s of compiled experiments from %s", count, count == 1 ? "" : "s",
                 objects->folder);
}

static nt_status clear_experiments(void) {
    nt__objects objects;
    nt_status status = nt__objects_open(&objects);
    if (status != NT_OK) return status;
    if (objects.why)
        status = nt__fail(NT_INVALID, "compiled experiments are not kept, and none was removed: %s", objects.why);
    else if (!objects.temporary)
        remove_objects(&objects);
    nt__objects_close(&objects);
    return status;
}

static nt_status clear(const nt__disk *disk, bool all) {
    nt_status status = clear_programs(disk);
    return status == NT_OK && all ? clear_experiments() : status;
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    nt_status (*run)(const nt__disk *disk, bool all);
} actions[] = {{"list", list}, {"stats", stats}, {"clear", clear}};

static nt__exit_code act(size_t action, bool all) {
    nt__disk disk;
    nt_status status = nt__disk_open(false, &disk);
    if (status == NT_OK && !disk.folder) status = nt__fail(NT_INVALID, "there is no cache on disk: %s", disk.why);
    if (status == NT_OK) status = actions[action].run(&disk, all);
    nt__disk_close(&disk);
    return status == NT_OK ? NT__EXIT_DONE : nt__report_failure(status);
}

static nt__exit_code run_cache(const nt__arguments *arguments) {
    static const char usage[] = "write nitro cache list, nitro cache stats or nitro cache clear";
    nt__command_options options;
    nt_status status = nt__arguments_options(arguments, &options);
    if (status == NT_OK) status = nt__arguments_fields(arguments, NULL, NULL);
    const nt__words *words = &arguments->files;
    if (status == NT_OK && words->count != 1)
        status = nt__fail(NT_INVALID, "%zu words were given, and it is one: %s", words->count, usage);
    if (status == NT_OK && options.all && strcmp(words->items[0], "clear") != 0)
        status = nt__fail(NT_INVALID, "--all goes with nitro cache clear: leave it out");
    if (status != NT_OK) return nt__report_wrong_use(status);
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (strcmp(words->items[0], actions[i].name) == 0) return act(i, options.all);
    return nt__report_wrong_use(nt__fail(NT_INVALID, "there is no 'nitro cache %s': %s", words->items[0], usage));
}

static const char manual[] =
    "list: every program, the one used last first. stats: how many there are, and where. clear: removes all of\n"
    "them, and with --all the compiled experiments too; nothing is lost, what is needed is compiled again.";

const nt__command nt__cache_command = {
    .name = "cache",
    .does = NT__OPENS_ENGINE | NT__KEEPS_PROGRAMS,
    .operands = "list | stats | clear [--all]",
    .summary = "the compiled programs on disk",
    .manual = manual,
    .run = run_cache,
};
