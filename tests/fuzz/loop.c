/* Fuzzes the readers of files with inputs that follow from a seed, so that what is found is found again.
 *
 *   fuzz-readers [--count=N | --seconds=N] [--seed=N]     the seed is 1 when none is given
 *   fuzz-readers --samples=FOLDER                         writes the valid samples there, for libFuzzer
 *
 * The last line says how many inputs were read and refused. The input with which something was found
 * is left in the file fuzz-found of this folder.
 * Not here: the checks (readers.c).
 */
#include "fuzz.h"
#include "base/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct options {
    uint64_t count, seed;
    double seconds;
    const char *samples;
} options;

/* The text after "--name=" in a word; NULL when it is another flag. */
static const char *value_of(const char *word, const char *name) {
    size_t length = strlen(name);
    return strncmp(word, name, length) == 0 ? word + length : NULL;
}

static bool read_options(int count, char **words, options *out) {
    const char *value;
    *out = (options){.count = UINT64_MAX, .seed = 1, .seconds = 1e9};
    for (int i = 1; i < count; i++) {
        if ((value = value_of(words[i], "--count=")))
            out->count = strtoull(value, NULL, 10);
        else if ((value = value_of(words[i], "--seconds=")))
            out->seconds = strtod(value, NULL);
        else if ((value = value_of(words[i], "--seed=")))
            out->seed = strtoull(value, NULL, 10);
        else if ((value = value_of(words[i], "--samples=")))
            out->samples = value;
        else
            return false;
    }
    return count > 1;
}

/* libFuzzer's inputs start with a byte that says which reader is meant. */
static bool write_sample(const char *folder, size_t reader, size_t index, const fuzz_input *sample) {
    static fuzz_input content;
    content.length = 0;
    fuzz_add(&content, &(char){(char)reader}, 1);
    fuzz_add(&content, sample->bytes, sample->length);
    char *path = nt__sprintf("%s/%s-%zu", folder, fuzz_reader_at(reader)->name, index);
    bool good = path && nt__write_file(path, content.bytes, content.length) == NT_OK;
    nt__free(path);
    return good;
}

static bool write_samples(const char *folder) {
    bool good = nt__make_folder(folder) == NT_OK;
    for (size_t reader = 0; reader < fuzz_reader_count(); reader++) {
        const fuzz_samples *samples = fuzz_samples_of(reader);
        for (size_t i = 0; good && i < samples->count; i++) good = write_sample(folder, reader, i, &samples->items[i]);
    }
    return good;
}

/* The samples themselves are read: else all that follows would be refused at the door. */
static bool check_samples(void) {
    for (size_t reader = 0; reader < fuzz_reader_count(); reader++) {
        const fuzz_samples *samples = fuzz_samples_of(reader);
        for (size_t i = 0; i < samples->count; i++) {
            fuzz_verdict verdict = fuzz_check(reader, samples->items[i].bytes, samples->items[i].length);
            if (verdict == FUZZ_READ) continue;
            nt__fail_in(NT_INVALID, "sample %zu of %s", i, fuzz_reader_at(reader)->name);
            return false;
        }
    }
    return true;
}

/* Reads inputs up to the limits; the readers take turns. False when something was found. */
static bool run(const options *chosen) {
    static fuzz_input input;
    uint64_t verdicts[2] = {0};
    double end = nt__seconds() + chosen->seconds;
    for (uint64_t i = 0; i < chosen->count && (i % 64 || nt__seconds() < end); i++) {
        fuzz_random random = {.key = nt__key_fold(nt__key_of_seed(chosen->seed), (uint32_t)i)};
        size_t reader = i % fuzz_reader_count();
        fuzz_make(&random, reader, &input);
        fuzz_verdict verdict = fuzz_check(reader, input.bytes, input.length);
        if (verdict == FUZZ_FOUND) {
            nt__fail_in(NT_INVALID, "input %llu of seed %llu", (unsigned long long)i, (unsigned long long)chosen->seed);
            return false;
        }
        verdicts[verdict]++;
    }
    printf("fuzz: %llu inputs were read, %llu refused\n", (unsigned long long)verdicts[FUZZ_READ],
           (unsigned long long)verdicts[FUZZ_REFUSED]);
    if (verdicts[FUZZ_READ] && verdicts[FUZZ_REFUSED]) return true;
    nt__fail(NT_INVALID, "the inputs are all of one kind");
    return false;
}

static bool work(const options *chosen) {
    if (chosen->samples) return write_samples(chosen->samples);
    return check_samples() && run(chosen);
}

/* In the child. */
static void work_and_exit(const options *chosen) {
    bool good = work(chosen);
    if (!good) fprintf(stderr, "fuzz: %s\n", nt_error_message());
    exit(good ? 0 : 1);
}

/* A reader that crashes ends the child; the parent still has the input. */
static bool work_in_child(const options *chosen) {
    static const char found[] = "fuzz-found";
    int how = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) work_and_exit(chosen);
    if (child > 0 && waitpid(child, &how, 0) == child && how == 0) return true;
    if (WIFSIGNALED(how)) fprintf(stderr, "fuzz: ended by signal %d\n", WTERMSIG(how));
    fprintf(stderr, "fuzz: the newest input is %s\n", fuzz_save(found) ? found : "lost");
    return false;
}

int main(int count, char **words) {
    options chosen;
    if (!read_options(count, words, &chosen)) {
        fprintf(stderr, "usage: %s [--count=N | --seconds=N] [--seed=N] | --samples=FOLDER\n", words[0]);
        return 2;
    }
    if (fuzz_open()) return work_in_child(&chosen) ? 0 : 1;
    fprintf(stderr, "fuzz: %s\n", nt_error_message());
    return 1;
}
