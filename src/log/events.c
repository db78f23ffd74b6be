/* Event files of TensorBoard: their names, their records, and what becomes of those of a former run.
 * Not here: what is in a record (tensorboard.c).
 */
#include "log/events.h"
#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- checksums -------------------------------------------------------------------------------------------------- */

static const uint32_t polynomial = 0x82f63b78; /* of Castagnoli, bits reversed */

uint32_t nt__crc32c(const void *data, size_t length) {
    const uint8_t *bytes = data;
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (crc & 1 ? polynomial : 0);
    }
    return ~crc;
}

/* So that the checksum of data which holds checksums is no constant. */
static uint32_t masked_crc(const void *data, size_t length) {
    uint32_t crc = nt__crc32c(data, length);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

static const char prefix[] = "events.out.tfevents.", kept_prefix[] = "previous.events.";
enum { HOST = 65 };

static bool begins_with(const char *name, const char *beginning) {
    return strncmp(name, beginning, strlen(beginning)) == 0;
}

/* Of the names that nitro gives; those of other programs are left alone. */
static bool read_name(const char *name, int64_t *seconds, int *number) {
    char *end;
    if (!begins_with(name, prefix)) return false;
    *seconds = strtoll(name + strlen(prefix), &end, 10);
    if (*end != '.') return false;
    const char *digits = end + 1;
    *number = (int)strtol(digits, &end, 10);
    return end == digits + 4 && begins_with(end, ".nitro.");
}

/* Calls `function` for each entry of a folder; the first failure ends it. */
typedef nt_status (*entry_function)(const char *folder, const char *name, void *context);
static nt_status for_each(const char *folder, entry_function function, void *context) {
    DIR *directory = opendir(folder);
    nt_status status = NT_OK;
    const struct dirent *entry;
    if (!directory) return nt__fail(NT_IO, "cannot read the folder '%s': %s", folder, strerror(errno));
    while (status == NT_OK && (entry = readdir(directory))) status = function(folder, entry->d_name, context);
    closedir(directory);
    return status;
}

static nt_status remove_file(const char *folder, const char *name) {
    char *path = nt__sprintf("%s/%s", folder, name);
    if (!path) return NT_OUT_OF_MEMORY;
    nt_status status = NT_OK;
    if (unlink(path) != 0) status = nt__fail(NT_IO, "cannot remove '%s': %s", path, strerror(errno));
    nt__free(path);
    return status;
}

/* ---- files of a former run -------------------------------------------------------------------------------------- */

static nt_status remove_kept(const char *folder, const char *name, void *context) {
    (void)context;
    return begins_with(name, kept_prefix) ? remove_file(folder, name) : NT_OK;
}

static nt_status keep(const char *folder, const char *name, void *context) {
    (void)context;
    int64_t seconds;
    int number;
    if (!read_name(name, &seconds, &number)) return NT_OK;
    char *from = nt__sprintf("%s/%s", folder, name);
    char *to = from ? nt__sprintf("%s/%s%s", folder, kept_prefix, name + strlen(prefix)) : NULL;
    nt_status status = to ? NT_OK : NT_OUT_OF_MEMORY;
    if (to && rename(from, to) != 0)
        status = nt__fail(NT_IO, "cannot keep the former file '%s' as '%s': %s", from, to, strerror(errno));
    nt__free(from);
    nt__free(to);
    return status;
}

nt_status nt__events_keep_previous(const char *folder) {
    nt_status status = for_each(folder, remove_kept, NULL);
    return status == NT_OK ? for_each(folder, keep, NULL) : status;
}

typedef struct cut {
    int number;
    int64_t length;
} cut;

static nt_status cut_file(const char *folder, const char *name, int64_t length) {
    char *path = nt__sprintf("%s/%s", folder, name);
    struct stat info;
    if (!path) return NT_OUT_OF_MEMORY;
    nt_status status = NT_OK;
    bool is_longer = lstat(path, &info) == 0 && (!S_ISREG(info.st_mode) || info.st_size > length);
    int file = -1;
    if (is_longer) status = nt__open_own(path, &file);
    if (file >= 0 && ftruncate(file, length) != 0) status = nt__fail(NT_IO, "'%s': %s", path, strerror(errno));
    if (file >= 0) close(file);
    if (status != NT_OK)
        nt__fail_in(status, "cannot cut an event file to the %lld bytes that the run goes on from", (long long)length);
    nt__free(path);
    return status;
}

static nt_status cut_entry(const char *folder, const char *name, void *context) {
    const cut *c = context;
    int64_t seconds;
    int number;
    if (!read_name(name, &seconds, &number) || number < c->number) return NT_OK;
    return number > c->number ? remove_file(folder, name) : cut_file(folder, name, c->length);
}

nt_status nt__events_cut(const char *folder, int number, int64_t length) {
    cut c = {number, length};
    return for_each(folder, cut_entry, &c);
}

/* ---- a file ----------------------------------------------------------------------------------------------------- */

/* After the newest file that is there, also when the clock was set back. */
typedef struct place {
    int64_t seconds;
    int number;
} place;

static nt_status look_behind(const char *folder, const char *name, void *context) {
    (void)folder;
    place *p = context;
    int64_t seconds;
    int number;
    if (!read_name(name, &seconds, &number)) return NT_OK;
    if (number >= p->number) p->number = number + 1;
    if (seconds > p->seconds) p->seconds = seconds;
    return NT_OK;
}

static nt_status fail_to_write(const nt__events *events) {
    int error = errno;
    return nt__fail(NT_IO, "%s: cannot write the log: %s%s", events->path, strerror(error), nt__write_advice(error));
}

static nt_status name_file(const char *folder, nt__events *out) {
    char host[HOST] = "";
    place p = {.seconds = (int64_t)time(NULL)};
    nt_status status = for_each(folder, look_behind, &p);
    if (status != NT_OK) return status;
    if (gethostname(host, sizeof host - 1) != 0) host[0] = 0;
    out->number = p.number;
    out->path = nt__sprintf("%s/%s%lld.%04d.nitro.%s", folder, prefix, (long long)p.seconds, p.number, host);
    return out->path ? NT_OK : NT_OUT_OF_MEMORY;
}

nt_status nt__events_open(const char *folder, nt__events *out) {
    *out = (nt__events){.file = -1};
    nt_status status = name_file(folder, out);
    if (status == NT_OK) {
        status = nt__make_afresh(out->path, &out->file);
        if (status != NT_OK && status != NT_OUT_OF_MEMORY)
            status = nt__fail_in(NT_IO, "%s: cannot write the log", out->path);
    }
    Nt__Board__Event version = NT__BOARD__EVENT__INIT;
    char text[] = "brain.Event:2";
    version.what_case = NT__BOARD__EVENT__WHAT_FILE_VERSION;
    version.file_version = text;
    if (status == NT_OK) status = nt__events_put(out, &version);
    if (status != NT_OK) nt__events_close(out);
    return status;
}

static void put_little(uint8_t *at, uint64_t number, int bytes) {
    for (int i = 0; i < bytes; i++) at[i] = (uint8_t)(number >> (8 * i));
}

enum { LENGTH = 8, CRC = 4 };

/* The length with its checksum, the event with its own. */
nt_status nt__events_put(nt__events *events, const Nt__Board__Event *event) {
    size_t length = protobuf_c_message_get_packed_size(&event->base), whole = LENGTH + CRC + length + CRC;
    uint8_t *record = nt__alloc(whole, 1);
    if (!record) return NT_OUT_OF_MEMORY;
    put_little(record, length, LENGTH);
    put_little(record + LENGTH, masked_crc(record, LENGTH), CRC);
    protobuf_c_message_pack(&event->base, record + LENGTH + CRC);
    put_little(record + LENGTH + CRC + length, masked_crc(record + LENGTH + CRC, length), CRC);
    nt_status status = NT_OK;
    if (nt__write_all(events->file, record, whole)) {
        events->length += (int64_t)whole;
    } else {
        status = fail_to_write(events);
        if (ftruncate(events->file, events->length) == 0) lseek(events->file, events->length, SEEK_SET);
    }
    nt__free(record);
    return status;
}

void nt__events_close(nt__events *events) {
    if (events->file >= 0) close(events->file);
    nt__free(events->path);
    *events = (nt__events){.file = -1};
}
