/* Event files: records with checksums, one after the other. */
#ifndef NT_LOG_EVENTS_H
#define NT_LOG_EVENTS_H

#include "tensorboard.pb-c.h"

#include "base/base.h"

/* CRC-32C (Castagnoli), bits reversed, as in RFC 3720, Appendix B.4. */
uint32_t nt__crc32c(const void *data, size_t length);

/* Files in the folder of a run are numbered, and readers take them in that order:
 * "events.out.tfevents.SECONDS.NUMBER.HOST". */
typedef struct nt__events {
    char *path;
    int file, number;
    int64_t length; /* of the whole records */
} nt__events;
/* Makes the next file, numbered after those that are there, and writes its first record. After a failure there is
 * nothing to close. */
nt_status nt__events_open(const char *folder, nt__events *out);
/* Appends a record, whole or not at all. */
nt_status nt__events_put(nt__events *events, const Nt__Board__Event *event);
void nt__events_close(nt__events *events);

/* Takes the event files of a former run out of the way: they become "previous.NAME" without what makes them event
 * files, and older such files are removed. */
nt_status nt__events_keep_previous(const char *folder);
/* Of the file with that number everything after `length` bytes goes, and all files after it. Files that are not there
 * are none to cut. */
nt_status nt__events_cut(const char *folder, int number, int64_t length);

#endif
