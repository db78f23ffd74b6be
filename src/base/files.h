/* Time, files and folders, and who could have written them.
 */
#ifndef NT_BASE_FILES_H
#define NT_BASE_FILES_H

#include "base/base.h"

/* ---- time, files ------------------------------------------------------------------------------------------------ */

double nt__seconds(void); /* monotonic */
/* Whole regular file into memory, NUL-terminated (the NUL is not counted). NT_IO for a pipe or a device, which could
 * hold the caller up for ever. */
nt_status nt__read_file(const char *path, char **data, size_t *length);
/* Opens a regular file for reading, in parts; NT_IO for any other. */
nt_status nt__open_regular(const char *path, int *file, size_t *size);
/* Up to `most` bytes more of an open file; fewer only at its end. `path` is for the message. */
nt_status nt__read_some(int file, const char *path, void *to, size_t most, size_t *length);
/* The same for a folder of nitro's own, where a link is refused too, and a file of more than `most` bytes. */
nt_status nt__read_kept(const char *path, size_t most, char **data, size_t *length);
/* Writes beside the target, syncs, renames: a reader sees the old file or the new one, whole. A target that is a device
 * or a pipe is written into; a pipe without a reader waits for one until nt__stop_set, and is NT_INTERRUPTED then. */
nt_status nt__write_file(const char *path, const void *data, size_t length);
/* The same for content that lies in several places. */
typedef struct nt__piece {
    const void *data;
    size_t length;
} nt__piece;
nt_status nt__write_file_pieces(const char *path, const nt__piece *pieces, size_t count);
/* A file under construction, beside the name that it will have; that is free or another file's until it is finished. */
typedef struct nt__new_file {
    int file;
    size_t length; /* written so far */
    char *path, *folder, *beside;
} nt__new_file;
/* `locked`: the caller holds the folder's lock, so that nt__remove_leftovers may remove what a kill leaves. */
nt_status nt__new_file_open(const char *path, bool locked, nt__new_file *out);
nt_status nt__new_file_put(nt__new_file *fresh, const void *bytes, size_t length);
/* Over bytes that were put before. */
nt_status nt__new_file_put_at(nt__new_file *fresh, size_t offset, const void *bytes, size_t length);
/* Syncs it, gives it its name and syncs the folder. It is closed, and after a failure removed. */
nt_status nt__new_file_finish(nt__new_file *fresh);
/* Closes and removes it. */
void nt__new_file_drop(nt__new_file *fresh);
/* No file of that name is no failure. */
nt_status nt__remove_file(const char *path);
/* Opens a new file for writing, in the place of what has its name: a link is not followed, a pipe not opened, and a
 * file that has another name too keeps its content. */
nt_status nt__make_afresh(const char *path, int *file);
/* Opens a file of this user's for writing, to change what is in it: no link, and no file with a second name. */
nt_status nt__open_own(const char *path, int *file);
/* Somebody asked the process to stop: a signal handler may call it. */
void nt__stop_set(bool asked);
bool nt__stop_is_set(void);
/* Changes of files since the start: each file made, write, sync, rename and removal, failed ones included. */
size_t nt__file_changes(void);
/* Test hook: the n-th change of a file from now (1 = the next) fails with this error, once. 0 turns it off. */
void nt__files_fail_at(size_t n, int error);
/* nt__write_file_pieces for a folder of nitro's own: the file takes the place of whatever has its name. A folder is
 * moved away, to a name that ends in ".tmp". */
nt_status nt__write_kept(const char *path, const nt__piece *pieces, size_t count);
/* Writes all of it to an open file, where the system takes it in parts too. False with errno: some is not there. */
bool nt__write_all(int file, const void *bytes, size_t length);
bool nt__is_folder(const char *path);
/* A device or a pipe: another file must not take its name. */
bool nt__is_special(const char *path);
/* The folder a path lies in: "." for a bare name. NULL when memory is short; the caller frees it. */
char *nt__folder_of(const char *path);
/* What a person can do about an error of the system when a file was to be written, "; free space ..."; "" when there is
 * nothing to say. */
const char *nt__write_advice(int error);
/* Whether nt__write_file has a place to write to: before work whose result would be lost. */
nt_status nt__check_can_write(const char *path);
/* Locks a folder for as long as the descriptor is open, against other processes and other calls. NT_INVALID: it is
 * locked. Where the file system has no locks, nothing is locked and that is no failure. */
nt_status nt__lock_folder(const char *path, int *descriptor);
void nt__unlock_folder(int descriptor);
/* Removes what processes that were killed left of writing "<name>.new" files. Hold the folder's lock: such files are
 * written under it. What cannot be removed stays. */
void nt__remove_leftovers(const char *folder);
/* Gives the file "path" the second name "path.previous", in place of an older one: before another file is renamed to
 * "path", which so exists at every moment. Where files cannot have two names it is renamed. No file is no failure. */
nt_status nt__keep_previous(const char *path);
/* nt__read_file, and `look` sees each part as soon as it was read, while the processor has it at hand; it may change
 * its bytes. Parts come in their order, all but the last of NT__READ_PART bytes. */
enum { NT__READ_PART = 1 << 20 };
typedef void (*nt__look_function)(void *context, char *part, size_t length);
nt_status nt__read_looking(const char *path, nt__look_function look, void *context, char **data, size_t *length);
/* The first bytes of a regular file, at most `most`, and how many the file has. */
nt_status nt__read_beginning(const char *path, size_t most, char **data, size_t *length, size_t *size);
/* Whether the newest error of the system that a call for files met on this thread is one that may pass by itself, as on
 * a file system of another machine; a full disk is not. */
bool nt__file_error_may_pass(void);
/* Makes a folder and its parents. */
nt_status nt__make_folder(const char *path);
/* The same for a folder that only this user may enter, and none of whose parents others may write into. One that is
 * there already must be so. */
nt_status nt__make_private_folder(const char *path);

/* ---- what only this user and root could have written (trust.c) -------------------------------------------------- */

/* A file is trusted that belongs to this user or to root, that neither group nor others may write to, and that lies in
 * a folder of which the same is true, up to the root; others may write into a sticky folder, as /tmp is. Links on
 * the way to the file must belong to this user or to root. NT_INVALID: it is not trusted, and the message says which
 * part of the path it is and what to do. NT_IO: the file is a link, or no regular file. */
nt_status nt__open_trusted(const char *path, int *file); /* a regular file, for reading */
/* Reads it whole. NT_IO when it has more than `most` bytes. */
nt_status nt__read_trusted(const char *path, size_t most, char **data, size_t *length);
nt_status nt__check_trusted_folder(const char *path);
/* NT_INVALID unless this user owns the folder, nobody else may write into it, and the path to it is trusted. */
nt_status nt__check_private_folder(const char *path);
/* Whether dlopen can map the file: a trusted, whole ELF shared object for this machine. NT_INVALID when not. */
nt_status nt__check_shared_object(const char *path);
/* Whether the file or folder lies on a file system that is mounted noexec, from which nothing can be loaded. */
bool nt__is_noexec(const char *path);
/* Test hook: paths that begin so lie on such a file system. NULL turns it off. */
void nt__pretend_noexec(const char *beginning);

#endif
