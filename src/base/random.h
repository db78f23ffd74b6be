/* Random numbers on the host: threefry2x32 with 20 rounds (Salmon et al. 2011), counter-based, the same bits as the
 * traced generator. A key is folded, never advanced: what draws under one key is independent of what draws under
 * another.
 */
#ifndef NT_BASE_RANDOM_H
#define NT_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

typedef struct nt__key {
    uint32_t high, low;
} nt__key;

/* One block: 64 random bits for a 64-bit counter. */
nt__key nt__threefry(nt__key key, uint32_t counter_high, uint32_t counter_low);
nt__key nt__key_of_seed(uint64_t seed);
/* The key of a part: threefry(key, (0, data)). */
nt__key nt__key_fold(nt__key key, uint32_t data);
/* The key of a named part. */
nt__key nt__key_fold_text(nt__key key, const char *text);
/* Word i of a stream of 32-bit words: x0 ^ x1 of threefry(key, (i >> 32, i)). */
uint32_t nt__random_bits(nt__key key, uint64_t index);
/* Uniform in [0, 1), 23 bits, from a random word. */
float nt__uniform_of_bits(uint32_t bits);
/* Puts 0..count-1 in random order (Fisher and Yates, unbiased). */
void nt__permutation(nt__key key, size_t count, uint32_t *out);

#endif
