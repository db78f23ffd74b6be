/* nitro devices: which engine a run would use, on what, with which allocator.
 * Not here: choosing the plugin.
 */
#include "command/command.h"

#include <dlfcn.h>

#include "show/show.h"
#include "disk/disk.h"
#include "xla/xla.h"

/* The command is linked with tcmalloc where it can be, and the plugin calls the allocator of its process. */
static const char *allocator_name(void) {
    return dlsym(RTLD_DEFAULT, "tc_version") ? "tcmalloc" : "the C library's";
}

static NT__PRINTF(3, 4) void add_row(nt__table *table, const char *name, const char *format, ...) {
    nt__text value = {0};
    va_list arguments;
    va_start(arguments, format);
    nt__text_addv(&value, format, arguments);
    va_end(arguments);
    nt__table_add(table, name);
    nt__table_add(table, value.data);
    nt__text_free(&value);
}

/* Whether compiled programs are kept on disk, and where. */
static void add_programs(nt__table *table, const nt__engine *engine) {
    nt__disk disk;
    const char *cannot = nt__engine_cannot_save(engine);
    if (nt__disk_open(false, &disk) != NT_OK) return;
    if (!cannot && *disk.why) cannot = disk.why;
    add_row(table, "programs", cannot ? "not kept on disk: %s" : "kept in %s", cannot ? cannot : disk.folder);
    nt__disk_close(&disk);
}

static bool print_engine(const nt__engine *engine) {
    const nt__engine_facts *facts = nt__engine_facts_of(engine);
    bool knows_stablehlo = facts->stablehlo_version && facts->stablehlo_version[0];
    nt__table table = {0};
    add_row(&table, "plugin", "%s", facts->plugin_path);
    add_row(&table, "PJRT API", "%d.%d", facts->api_major, facts->api_minor);
    add_row(&table, "platform", "%s (%s)", facts->platform, facts->platform_version);
    add_row(&table, "StableHLO", "%s", knows_stablehlo ? facts->stablehlo_version : "the plugin does not say");
    for (int i = 0; i < facts->device_count; i++) add_row(&table, i ? "" : "devices", "%s", nt__device_text(engine, i));
    add_row(&table, "allocator", "%s", allocator_name());
    add_programs(&table, engine);
    return nt__table_print(&table, 2, stdout);
}

static nt__exit_code show_devices(void) {
    nt__engine *engine;
    nt_status status = nt__engine_open(1, &engine);
    if (status != NT_OK) return nt__report_failure(status);
    nt__exit_code code = print_engine(engine) ? NT__EXIT_DONE : nt__report(NT__EXIT_FAILED);
    return nt__engine_close() == NT_OK ? code : nt__report(NT__EXIT_FAILED);
}

static nt__exit_code run_devices(const nt__arguments *arguments) {
    nt__command_options options;
    nt_status status = nt__arguments_options(arguments, &options);
    if (status == NT_OK) status = nt__arguments_fields(arguments, NULL, NULL);
    if (status == NT_OK && arguments->files.count == 0) return show_devices();
    if (status == NT_OK)
        status = nt__fail(NT_INVALID, "nitro devices takes no file, and '%s' was given", arguments->files.items[0]);
    return nt__report_wrong_use(status);
}

static const char manual[] = "Opens the engine as a run would and prints what it is.";

const nt__command nt__devices_command = {
    .name = "devices",
    .does = NT__OPENS_ENGINE,
    .operands = "",
    .summary = "the engine: plugin, versions, devices, allocator",
    .manual = manual,
    .run = run_devices,
};
