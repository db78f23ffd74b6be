/* The counters of the process as one JSON object. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"
#include "base/files.h"

static json_t *cache_object(void) {
    nt_cache_stats_t stats = nt_cache_stats();
    json_t *reports = json_array();
    const nt_cache_report_t *report;
    for (size_t i = 0; (report = nt_cache_report(i)); i++)
        json_array_append_new(reports,
                              json_pack("{s:s, s:s, s:s, s:s, s:f, s:b}", "program", report->program, "experiment",
                                        report->experiment, "moved", report->moved, "disk", report->disk, "seconds",
                                        report->seconds, "dropped", (int)report->dropped));
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:o}", "hits", (json_int_t)stats.hits, "misses",
                     (json_int_t)stats.misses, "disk_hits", (json_int_t)stats.disk_hits, "disk_refused",
                     (json_int_t)stats.disk_refused, "dropped", (json_int_t)stats.dropped, "entries",
                     (json_int_t)stats.entries, "compile_seconds", stats.compile_seconds, "load_seconds",
                     stats.load_seconds, "reports", reports);
}

/* "optimizer state" becomes optimizer_state. Takes the value over. */
static void put_purpose(json_t *object, int purpose, json_t *value) {
    char key[32];
    snprintf(key, sizeof key, "%s", nt__purpose_name((nt__purpose)purpose));
    for (char *c = key; *c; c++)
        if (*c == ' ') *c = '_';
    json_object_set_new(object, key, value);
}

static json_t *transfer_object(nt__transfer transfer) {
    return json_pack("{s:I, s:I}", "count", (json_int_t)transfer.count, "bytes", (json_int_t)transfer.bytes);
}

/* Count and bytes in all, and by purpose. */
static json_t *transfers_object(const nt__transfer *transfers) {
    json_t *by_purpose = json_object();
    nt__transfer sum = {0};
    for (int i = 0; i < NT__PURPOSE_COUNT; i++) {
        sum.count += transfers[i].count;
        sum.bytes += transfers[i].bytes;
        put_purpose(by_purpose, i, transfer_object(transfers[i]));
    }
    json_t *object = transfer_object(sum);
    json_object_set_new(object, "by_purpose", by_purpose);
    return object;
}

static json_t *count_object(const nt__count *count) {
    return json_pack("{s:I, s:I, s:I, s:I}", "live_count", (json_int_t)count->live_count, "live_bytes",
                     (json_int_t)count->live_bytes, "peak_count", (json_int_t)count->peak_count, "peak_bytes",
                     (json_int_t)count->peak_bytes);
}

static json_t *buffers_object(const nt__engine_counts *counts) {
    json_t *object = json_object();
    for (int i = 0; i < NT__PURPOSE_COUNT; i++) put_purpose(object, i, count_object(&counts->buffers[i]));
    json_object_set_new(object, "all", count_object(&counts->all_buffers));
    return object;
}

nt_status nt_stats_write(const char *path) {
    if (!nt__given(path, "nt_stats_write", "path")) return NT_INVALID;
    nt__engine_counts counts = nt__engine_counts_now();
    json_t *root = json_pack("{s:o, s:{s:o, s:o}, s:o, s:o, s:I, s:I}", "cache", cache_object(), "transfers", "upload",
                             transfers_object(counts.uploads), "download", transfers_object(counts.downloads),
                             "buffers", buffers_object(&counts), "executables", count_object(&counts.executables),
                             "compiles", (json_int_t)counts.compiles, "runs", (json_int_t)counts.runs);
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    if (!text) return nt__fail(NT_OUT_OF_MEMORY, "%s: no memory for the counters", path);
    nt_status status = nt__write_file(path, text, strlen(text));
    free(text);
    return status;
}
