/* threefry2x32-20 and what is drawn from it. The constants are those of the paper. */
#include "base/random.h"

#include <string.h>

#include "base/base.h"

static uint32_t rotate(uint32_t x, int by) {
    return x << by | x >> (32 - by);
}

nt__key nt__threefry(nt__key key, uint32_t counter_high, uint32_t counter_low) {
    static const int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const uint32_t schedule[3] = {key.high, key.low, key.high ^ key.low ^ 0x1BD11BDA};
    uint32_t x0 = counter_high + schedule[0], x1 = counter_low + schedule[1];
    for (uint32_t group = 0; group < 5; group++) {
        for (int round = 0; round < 4; round++) {
            x0 += x1;
            x1 = rotate(x1, rotations[group % 2][round]) ^ x0;
        }
        x0 += schedule[(group + 1) % 3];
        x1 += schedule[(group + 2) % 3] + group + 1;
    }
    return (nt__key){x0, x1};
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
