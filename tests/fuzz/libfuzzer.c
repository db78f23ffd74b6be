/* The readers under libFuzzer, which looks for inputs that reach new code. The first byte of an input says which reader
 * is meant. `make fuzz` builds and runs it.
 * Not here: the checks (readers.c).
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What libFuzzer calls, and what it offers. */
int LLVMFuzzerInitialize(int *count, char ***words);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

int LLVMFuzzerInitialize(int *count, char ***words) {
    (void)count;
    (void)words;
    if (!fuzz_open()) abort();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0 || size > FUZZ_MOST_BYTES) return 0;
    if (fuzz_check(data[0] % fuzz_reader_count(), data + 1, size - 1) != FUZZ_FOUND) return 0;
    fprintf(stderr, "fuzz: %s\n", nt_error_message());
    abort();
}

/* A changed input, or now and then a new one, in place of `data`. */
static size_t change(fuzz_random *random, uint8_t *data, size_t size, size_t most) {
    static fuzz_input input;
    size_t reader = data[0] % fuzz_reader_count();
    const fuzz_samples *samples = fuzz_samples_of(reader);
    if (fuzz_one_in(random, 8)) {
        fuzz_make(random, reader, &input);
    } else {
        input.length = 0;
        fuzz_add(&input, data + 1, size - 1);
        fuzz_mutate(random, &input, &samples->items[fuzz_below(random, samples->count)]);
    }
    if (input.length > most - 1) input.length = most - 1;
    memcpy(data + 1, input.bytes, input.length);
    return input.length + 1;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    fuzz_random random = {.key = nt__key_of_seed(seed)};
    if (size == 0 || most < 2 || fuzz_one_in(&random, 2)) return LLVMFuzzerMutate(data, size, most);
    return change(&random, data, size, most);
}
