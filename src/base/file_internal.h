/* What the files of this folder that open files share. */
#ifndef NT_BASE_FILE_INTERNAL_H
#define NT_BASE_FILE_INTERNAL_H

#include "base/files.h"

#include <sys/types.h>

/* "cannot <action> '<path>': <what the system says>", from errno. */
nt_status nt__fail_from_errno(const char *action, const char *path);
/* NT_IO: the file is of another kind, which the message names. */
nt_status nt__fail_not_regular(const char *path, mode_t mode);
/* Reads a regular file that is open, at most `most` bytes, and closes it. */
nt_status nt__read_open(int file, const char *path, size_t most, char **data, size_t *length);
/* A new file that is opened for writing; nothing of that name is there. -1 with errno. Counts as a change. */
int nt__create_file(const char *path, mode_t mode);
/* Counts a change of a file; true, with errno, when it is the one that has to fail. */
bool nt__file_change_fails(void);
/* Syncs an open file or folder. */
bool nt__sync_file(int file);
/* "<path><part>.<process>-<counter>-<time>.tmp": unique, also between machines that share the folder. */
char *nt__name_beside(const char *path, const char *part);
/* Asks the process to write to what may hold it up, until somebody asks it to stop. */
nt_status nt__write_into(const char *path, const nt__piece *pieces, size_t count);

#endif
