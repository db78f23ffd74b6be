/* Random changes of a file's content: flipped bits, extreme numbers, cuts, what is repeated, moved, or of another file.
 * Not here: what a format looks like.
 */
#include "fuzz.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- random numbers --------------------------------------------------------------------------------------------- */

/* Counts are far below 2^32: the small preference of the remainder does not matter. */
size_t fuzz_below(fuzz_random *random, size_t count) {
    return count ? nt__random_bits(random->key, random->next++) % count : 0;
}

bool fuzz_one_in(fuzz_random *random, size_t n) {
    return fuzz_below(random, n) == 0;
}

/* ---- content ---------------------------------------------------------------------------------------------------- */

void fuzz_add(fuzz_input *input, const void *bytes, size_t length) {
    size_t room = FUZZ_MOST_BYTES - input->length;
    if (length > room) length = room;
    memcpy(input->bytes + input->length, bytes, length);
    input->length += length;
}

void fuzz_add_text(fuzz_input *input, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fuzz_add(input, text, strlen(text));
}

/* Replaces `removed` bytes at `at` by others. */
static void replace(fuzz_input *input, size_t at, size_t removed, const void *bytes, size_t length) {
    static fuzz_input before;
    before.length = input->length;
    memcpy(before.bytes, input->bytes, input->length);
    input->length = at;
    fuzz_add(input, bytes, length);
    fuzz_add(input, before.bytes + at + removed, before.length - at - removed);
}

/* ---- places ----------------------------------------------------------------------------------------------------- */

/* Half of the time in the first bytes, where formats keep their lengths. */
static size_t any_place(fuzz_random *random, const fuzz_input *input) {
    enum { HEAD = 16 };
    size_t end = input->length > HEAD && fuzz_one_in(random, 2) ? HEAD : input->length;
    return fuzz_below(random, end);
}

typedef struct range {
    size_t at, length;
} range;

static range any_range(fuzz_random *random, const fuzz_input *input) {
    enum { LONGEST = 64 };
    size_t at = fuzz_below(random, input->length), left = input->length - at;
    return (range){at, fuzz_below(random, (left < LONGEST ? left : LONGEST) + 1)};
}

/* The word of a text, a number or a name, around or after a random place; empty when there is none. */
static range any_word(fuzz_random *random, const fuzz_input *input) {
    size_t at = fuzz_below(random, input->length), end;
    while (at < input->length && !isalnum((unsigned char)input->bytes[at])) at++;
    while (at > 0 && isalnum((unsigned char)input->bytes[at - 1])) at--;
    for (end = at; end < input->length && isalnum((unsigned char)input->bytes[end]);) end++;
    return (range){at, end - at};
}

/* ---- changes ---------------------------------------------------------------------------------------------------- */

static void flip_bit(fuzz_random *random, fuzz_input *input, const fuzz_input *other) {
    (void)other;
    if (input->length) input->bytes[any_place(random, input)] ^= (char)(1u << fuzz_below(random, 8));
}

static void set_byte(fuzz_random *random, fuzz_input *input, const fuzz_input *other) {
    (void)other;
    if (input->length) input->bytes[any_place(random, input)] = (char)fuzz_below(random, 256);
}

/* A number of 1 to 8 bytes, in either byte order. */
static void set_extreme_number(fuzz_random *random, fuzz_input *input, const fuzz_input *other) {
    static const uint64_t values[] = {0,
                                      1,
                                      0x7F,
                                      0x80,
                                      0xFF,
                                      0x7FFF,
                                      0x8000,
                                      0xFFFF,
                                      0x7FFFFFFF,
                                      0x80000000,
                                      0xFFFFFFFF,
                                      UINT64_C(1) << 32,
                                      INT64_MAX,
                                      UINT64_MAX,
                                      UINT64_C(1) << 63,
                                      UINT64_C(1) << 62,
                                      UINT64_MAX - 7,
                                      100000000};
    (void)other;
    uint64_t value = values[fuzz_below(random, sizeof values / sizeof *values)];
    size_t size = (size_t)1 << fuzz_below(random, 4), at = any_place(random, input);
    bool big_endian = fuzz_one_in(random, 2);
    for (size_t i = 0; i < size && at + i < input->length; i++)
        input->bytes[at + i] = (char)(value >> 8 * (big_endian ? size - 1 - i : i));
}

static void cut(fuzz_random *random, fuzz_input *input, const fuzz_input *other) {
    (void)other;
    input->length = fuzz_below(random, input->length + 1);
}

static void extend(fuzz_random *random, fuzz_input *input, const fuzz_input *other) {
    (void)other;
    for (size_t count = 1 + fuzz_below(random, 40); count; count--)
        fuzz_add(input, &(char){(char)fuzz_below(random, 256)}, 1);
}

static void remove_range(fuzz_random *random, fuzz_input *input, const fuzz_input *other) {
    (void)other;
    range taken = any_range(random, input);
    replace(input, taken.at, taken.length, "", 0);
}

static void repeat_range(fuzz_random *random, fuzz_input *input, const fuzz_input *other) {
    (void)other;
    range taken = any_range(random, input);
    char bytes[64];
    memcpy(bytes, input->bytes + taken.at, taken.length);
    replace(input, fuzz_below(random, input->length + 1), 0, bytes, taken.length);
}

/* A piece of the other file, over or between what is there. */
static void splice(fuzz_random *random, fuzz_input *input, const fuzz_input *other) {
    range taken = any_range(random, other), given = any_range(random, input);
    if (fuzz_one_in(random, 2)) given.length = 0;
    replace(input, given.at, given.length, other->bytes + taken.at, taken.length);
}

/* The start of this file and the end of the other. */
static void cross_over(fuzz_random *random, fuzz_input *input, const fuzz_input *other) {
    size_t from = fuzz_below(random, other->length);
    cut(random, input, other);
    fuzz_add(input, other->bytes + from, other->length - from);
}

static void replace_word(fuzz_random *random, fuzz_input *input, const fuzz_input *other) {
    static const char *const words[] = {"",
                                        "0",
                                        "-1",
                                        "1e9",
                                        "4294967296",
                                        "9223372036854775807",
                                        "9223372036854775808",
                                        "18446744073709551616",
                                        "null",
                                        "true",
                                        "{}",
                                        "[[[]]]",
                                        "\"\"",
                                        "()",
                                        "\\u0000"};
    (void)other;
    const char *word = words[fuzz_below(random, sizeof words / sizeof *words)];
    range old = any_word(random, input);
    replace(input, old.at, old.length, word, strlen(word));
}

static void replace_punctuation(fuzz_random *random, fuzz_input *input, const fuzz_input *other) {
    static const char marks[] = "{}[](),:\"' \\\n";
    (void)other;
    size_t at = fuzz_below(random, input->length);
    while (at < input->length && !ispunct((unsigned char)input->bytes[at])) at++;
    if (at < input->length) input->bytes[at] = marks[fuzz_below(random, sizeof marks - 1)];
}

void fuzz_mutate(fuzz_random *random, fuzz_input *input, const fuzz_input *other) {
    static void (*const changes[])(fuzz_random * random, fuzz_input * input, const fuzz_input *other) = {
        flip_bit,   set_byte,     set_extreme_number, cut, extend, remove_range, repeat_range, splice,
        cross_over, replace_word, replace_punctuation};
    for (size_t count = 1 + fuzz_below(random, 4); count; count--)
        changes[fuzz_below(random, sizeof changes / sizeof *changes)](random, input, other);
}
