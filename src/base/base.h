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

#endif
