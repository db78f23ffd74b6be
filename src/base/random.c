/* threefry2x32-20 and what is drawn from it. The constants are those of the paper. */
#include "base/random.h"

#include <string.h>

#include "base/base.h"

static uint32_t rotate(uint32_t x, int by) {
    return x << by | x >> (32 - by);
}

static inline void mix(uint32_t x[2], int by) {
    x[0] += x[1];
    x[1] = rotate(x[1], by) ^ x[0];
}

static inline void even_rounds(uint32_t x[2]) {
    mix(x, 13);
    mix(x, 15);
    mix(x, 26);
    mix(x, 6);
}

static inline void odd_rounds(uint32_t x[2]) {
    mix(x, 17);
    mix(x, 29);
    mix(x, 16);
    mix(x, 24);
}

static inline void add_key(uint32_t x[2], uint32_t first, uint32_t second, uint32_t group) {
    x[0] += first;
    x[1] += second + group;
}

/* Written out: a loop over the rotations takes twice as long, and a large model draws millions. */
nt__key nt__threefry(nt__key key, uint32_t counter_high, uint32_t counter_low) {
    const uint32_t k0 = key.high, k1 = key.low, k2 = k0 ^ k1 ^ 0x1BD11BDA;
    uint32_t x[2] = {counter_high + k0, counter_low + k1};
    even_rounds(x);
    add_key(x, k1, k2, 1);
    odd_rounds(x);
    add_key(x, k2, k0, 2);
    even_rounds(x);
    add_key(x, k0, k1, 3);
    odd_rounds(x);
    add_key(x, k1, k2, 4);
    even_rounds(x);
    add_key(x, k2, k0, 5);
    return (nt__key){x[0], x[1]};
}

nt__key nt__key_of_seed(uint64_t seed) {
    return (nt__key){(uint32_t)(seed >> 32), (uint32_t)seed};
}

nt__key nt__key_fold(nt__key key, uint32_t data) {
    return nt__threefry(key, 0, data);
}

nt__key nt__key_fold_text(nt__key key, const char *text) {
    return nt__key_fold(key, (uint32_t)nt__hash_bytes(text, strlen(text)).low);
}

uint32_t nt__random_bits(nt__key key, uint64_t index) {
    nt__key block = nt__threefry(key, (uint32_t)(index >> 32), (uint32_t)index);
    return block.high ^ block.low;
}

float nt__uniform_of_bits(uint32_t bits) {
    uint32_t in_one_to_two = bits >> 9 | 0x3F800000;
    float value;
    memcpy(&value, &in_one_to_two, sizeof value);
    return value - 1;
}

/* Uniform in 0..limit-1 without bias: draws above the largest multiple of `limit` are thrown away. */
static uint32_t below(nt__key key, uint64_t *index, uint32_t limit) {
    uint32_t excess = (uint32_t)(-limit) % limit, bits;
    do bits = nt__random_bits(key, (*index)++);
    while (bits < excess);
    return bits % limit;
}

void nt__permutation(nt__key key, size_t count, uint32_t *out) {
    uint64_t index = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t j = below(key, &index, (uint32_t)i + 1);
        out[i] = out[j];
        out[j] = (uint32_t)i;
    }
}
