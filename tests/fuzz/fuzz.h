/* Fuzzing of the readers of files: valid samples, changed at random, must give an array or an error with a message.
 * A reader is one row of the table in readers.c.
 */
#ifndef NT_TESTS_FUZZ_FUZZ_H
#define NT_TESTS_FUZZ_FUZZ_H

#include "base/base.h"
#include "base/random.h"

/* ---- inputs ----------------------------------------------------------------------------------------------------- */

/* What gzip unpacks from this is at most 1,032 times as much: 16 MiB. */
enum { FUZZ_MOST_BYTES = 16 * 1024 };

/* The content of a file. */
typedef struct fuzz_input {
    size_t length;
    char bytes[FUZZ_MOST_BYTES];
} fuzz_input;

/* Adds as much as fits. */
void fuzz_add(fuzz_input *input, const void *bytes, size_t length);
void fuzz_add_text(fuzz_input *input, const char *format, ...) NT__PRINTF(2, 3);

/* ---- random numbers: the same for the same seed ----------------------------------------------------------------- */

typedef struct fuzz_random {
    nt__key key;
    uint64_t next;
} fuzz_random;

/* Uniform in 0..count-1; 0 for a count of 0. */
size_t fuzz_below(fuzz_random *random, size_t count);
/* True once in `n` times. */
bool fuzz_one_in(fuzz_random *random, size_t n);

/* ---- changes ---------------------------------------------------------------------------------------------------- */

/* Changes one to four places of the input. `other` is what may be spliced in. */
void fuzz_mutate(fuzz_random *random, fuzz_input *input, const fuzz_input *other);

/* ---- readers ---------------------------------------------------------------------------------------------------- */

enum { FUZZ_MOST_SAMPLES = 16 };
typedef struct fuzz_samples {
    size_t count;
    fuzz_input items[FUZZ_MOST_SAMPLES];
} fuzz_samples;
/* A new empty sample. */
fuzz_input *fuzz_sample(fuzz_samples *list);

typedef struct fuzz_reader {
    const char *name;
    /* Reads the file, looks at all that it gave, and frees it. */
    nt_status (*read)(const char *path);
    /* Files that the reader takes. */
    void (*add_samples)(fuzz_samples *samples);
    /* A file that has the format's structure and wrong values here and there. NULL: there is no such thing. */
    void (*generate)(fuzz_random *random, fuzz_input *out);
    /* It reads a text that a person typed: a message need not name the file. */
    bool is_text;
} fuzz_reader;

/* texts.c: what follows the table of readers.c */
enum { FUZZ_MORE_READERS = 11 };
extern const fuzz_reader fuzz_more_readers[];

/* NULL beyond the last. */
const fuzz_reader *fuzz_reader_at(size_t index);
size_t fuzz_reader_count(void);
const fuzz_samples *fuzz_samples_of(size_t index);

/* A new input for a reader: a sample that was changed, or a generated file, changed or not. */
void fuzz_make(fuzz_random *random, size_t reader, fuzz_input *out);

/* ---- checks ----------------------------------------------------------------------------------------------------- */

/* Makes the file that inputs are written to, which processes forked later share, the samples, and the limit of memory.
 * False with a message. */
bool fuzz_open(void);
/* Copies the file with the newest input. */
bool fuzz_save(const char *to);

typedef enum fuzz_verdict { FUZZ_READ, FUZZ_REFUSED, FUZZ_FOUND } fuzz_verdict;
/* Reads the input. FUZZ_FOUND: the reader broke a promise, and the thread's message says which. */
fuzz_verdict fuzz_check(size_t reader, const void *bytes, size_t length);

#endif
