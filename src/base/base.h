/* What every folder stands on: failures and their messages, counted memory, arenas, text, content hashes.
 * Not here: anything that knows of arrays, tensors or devices.
 */
#ifndef NT_BASE_BASE_H
#define NT_BASE_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nitro/status.h"

#define NT__PRINTF(text, first) __attribute__((format(printf, text, first)))

/* ---- failures --------------------------------------------------------------------------------------------------- */

/* Sets the thread's message and returns `status`. */
nt_status nt__fail(nt_status status, const char *format, ...) NT__PRINTF(2, 3);
/* Forgets the message and its status: before calling code that may fail without saying why. */
void nt__fail_nothing(void);
/* Puts "text: " in front of the thread's message and returns `status`: for a caller that knows more about where. */
nt_status nt__fail_in(nt_status status, const char *format, ...) NT__PRINTF(2, 3);
/* Whether an argument of a public call is there; when it is NULL, the message names the call and the argument, and the
 * status is NT_INVALID. */
bool nt__given(const void *argument, const char *call, const char *name);
/* Sends a line to the notice function. */
void nt__notice(const char *format, ...) NT__PRINTF(1, 2);
/* Sends a line about what changes a result to the warning function. Not NT_OK: the function makes an error of it, and
 * the line is the thread's message. */
nt_status nt__warn(const char *format, ...) NT__PRINTF(1, 2) __attribute__((warn_unused_result));

enum { NT__MESSAGE = 4096 };

/* A failure that is kept, to be raised after other calls or on another thread. All zeros: none yet. The text has a
 * place of its own, so that keeping it cannot fail. */
typedef struct nt__kept_error {
    nt_status status;
    char message[NT__MESSAGE];
} nt__kept_error;
/* Keeps `status` with the thread's message, unless it is NT_OK or an error is kept already. Returns `status`. */
nt_status nt__error_keep(nt__kept_error *kept, nt_status status);
/* Makes the kept error the thread's; NT_OK when none is kept. */
nt_status nt__error_raise(const nt__kept_error *kept);

/* Calls that return no status, as an operation or nt_array_get: what one of them has to fail with is kept for whoever
 * called the hook that it stands in. The first failure on this thread since the watch began becomes the thread's. */
void nt__calls_watch(void);
void nt__calls_keep(nt_status status); /* with the thread's message */
nt_status nt__calls_status(void);

/* ---- code of the user's (hook.c) -------------------------------------------------------------------------------- */

/* Around each call of a hook, source, logger or listener; the texts live until it has returned. They nest. */
void nt__hook_enter(const char *hook, const char *of);
void nt__hook_leave(void);
/* Where the newest call with a place stands; `file` NULL: it has none. */
void nt__hook_at(const char *file, int line);
int nt__hook_depth(void);

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* Every allocation of the library comes from here; each can fail, sets the message itself and returns NULL. Memory is
 * zeroed. Sizes are multiplied with an overflow check. */
void *nt__alloc(size_t count, size_t size);
/* Grows `pointer` to count * size bytes; the new part is not zeroed; the old block survives a failure. */
void *nt__realloc(void *pointer, size_t count, size_t size);
/* 64-byte aligned, zeroed, for memory that is lent to the engine. Free with nt__free. */
void *nt__alloc_aligned(size_t bytes);
/* The same, not zeroed. */
void *nt__alloc_aligned_unset(size_t bytes);
char *nt__strdup(const char *text);
char *nt__sprintf(const char *format, ...) NT__PRINTF(1, 2);
void nt__free(void *pointer);

/* A vector by hand: makes room for one more element of *items (capacity in *capacity). False on failure. */
#define NT__GROW(items, count, capacity) nt__grow((void **)&(items), (count), &(capacity), sizeof *(items))
bool nt__grow(void **items, size_t count, size_t *capacity, size_t size);

typedef struct nt__memory_stats {
    size_t live;  /* blocks */
    size_t total; /* allocations since the start, failed ones included */
} nt__memory_stats;
nt__memory_stats nt__memory(void);
/* Test hook: the n-th allocation from now fails (1 = the next), once. 0 turns it off. */
void nt__memory_fail_at(size_t n);

/* ---- arenas: memory freed all at once --------------------------------------------------------------------------- */

typedef struct nt__arena {
    struct nt__arena_block *blocks;
} nt__arena;
/* Zeroed memory, 16-byte aligned; NULL on failure. */
void *nt__arena_alloc(nt__arena *arena, size_t count, size_t size);
char *nt__arena_strdup(nt__arena *arena, const char *text);
char *nt__arena_sprintf(nt__arena *arena, const char *format, ...) NT__PRINTF(2, 3);
/* Bytes handed out so far. */
size_t nt__arena_bytes(const nt__arena *arena);
void nt__arena_free(nt__arena *arena);

/* ---- text under construction ------------------------------------------------------------------------------------ */

/* Always NUL-terminated once something was added. After a failed allocation `failed` stays set and further calls do
 * nothing. */
typedef struct nt__text {
    char *data;
    size_t length, capacity;
    bool failed;
} nt__text;
void nt__text_add(nt__text *text, const char *format, ...) NT__PRINTF(2, 3);
void nt__text_addv(nt__text *text, const char *format, va_list arguments) NT__PRINTF(2, 0);
void nt__text_put(nt__text *text, const char *bytes, size_t length);
void nt__text_say(nt__text *text, const char *words);
void nt__text_integer(nt__text *text, int64_t number); /* decimal */
/* A number, exact, and short where that is exact. */
void nt__text_add_real(nt__text *text, double value);
void nt__text_free(nt__text *text);

/* Whether a name has this ending, and something before it. */
bool nt__ends_in(const char *name, const char *ending);
/* Whether the bytes are well-formed UTF-8. */
bool nt__is_utf8(const char *bytes, size_t length);
/* Texts of others as a terminal may be given them: what it would obey or hide (control and format characters, as those
 * that turn the direction of text) and bytes that are not UTF-8 become escapes: \n, \x1b, \u202e. Characters among
 * `kept`, as in "\n\t", stay. */
void nt__text_show(nt__text *out, const char *text, const char *kept);
/* The same to out[size], without half a character at its end. Returns the bytes that it takes in all. */
size_t nt__show(const char *text, const char *kept, char *out, size_t size);
/* Columns that a text takes which was shown so, and the bytes of its beginning that fit into so many; *width is what
 * those take. */
size_t nt__shown_width(const char *text);
size_t nt__fitting(const char *text, size_t columns, size_t *width);

/* Why a text cannot name a value in a log, to stand after the name: "is not valid UTF-8". NULL: it can. */
const char *nt__name_problem(const char *name);
/* The same of a name beside the keys that each line of a log has by itself: type, context, epoch and step. */
const char *nt__value_name_problem(const char *name);

/* The number for a message: a nan without its sign, which printf would show as "-nan" and which means nothing. */
double nt__plain_nan(double number);

/* ---- numbers as text -------------------------------------------------------------------------------------------- */

/* snprintf, strtod and strtof that no locale changes: a decimal point is a point. For every text with a number of a
 * floating type. */
int nt__format(char *out, size_t size, const char *format, ...) NT__PRINTF(3, 4);
int nt__vformat(char *out, size_t size, const char *format, va_list arguments) NT__PRINTF(3, 0);
double nt__read_double(const char *text, char **end);
float nt__read_float(const char *text, char **end);

/* ---- content hashes --------------------------------------------------------------------------------------------- */

/* 128 bits of XXH3. */
typedef struct nt__hash {
    uint64_t low, high;
} nt__hash;
nt__hash nt__hash_bytes(const void *data, size_t length);
/* The same of content that comes in parts, one after the other. NULL when memory is short. */
typedef struct nt__hasher nt__hasher;
nt__hasher *nt__hasher_new(void);
void nt__hasher_add(nt__hasher *hasher, const void *data, size_t length);
/* Of all parts; frees the hasher. */
nt__hash nt__hasher_end(nt__hasher *hasher);
bool nt__hash_equal(nt__hash a, nt__hash b);
/* 32 lower-case hexadecimal digits and a NUL. */
void nt__hash_hex(nt__hash hash, char out[33]);
/* False: the text is not 32 such digits. */
bool nt__hash_from_hex(const char *text, nt__hash *out);

/* Numbers from 1 by hash. All zeros: empty. */
typedef struct nt__map {
    struct nt__map_entry {
        nt__hash hash;
        uint32_t number; /* 0: the place is free */
    } * entries;
    size_t count, capacity;
} nt__map;
/* 0 when there is none. */
uint32_t nt__map_find(const nt__map *map, nt__hash hash);
/* Takes the place of an older number. False on failure. */
bool nt__map_put(nt__map *map, nt__hash hash, uint32_t number);
void nt__map_free(nt__map *map);

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
