/* Content hashes: 128 bits of XXH3. They tell contents apart; they do not resist somebody who forges one.
 */
#include "base/base.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* for the size of a state, which so comes from nt__alloc */
#include <xxhash.h>

static nt__hash hash_of(XXH128_hash_t hash) {
    return (nt__hash){.low = hash.low64, .high = hash.high64};
}

nt__hash nt__hash_bytes(const void *data, size_t length) {
    return hash_of(XXH3_128bits(data, length));
}

struct nt__hasher {
    XXH3_state_t state;
};

nt__hasher *nt__hasher_new(void) {
    nt__hasher *hasher = nt__alloc_aligned(sizeof *hasher);
    if (hasher) XXH3_128bits_reset(&hasher->state);
    return hasher;
}

void nt__hasher_add(nt__hasher *hasher, const void *data, size_t length) {
    XXH3_128bits_update(&hasher->state, data, length);
}

nt__hash nt__hasher_end(nt__hasher *hasher) {
    nt__hash hash = hash_of(XXH3_128bits_digest(&hasher->state));
    nt__free(hasher);
    return hash;
}

bool nt__hash_equal(nt__hash a, nt__hash b) {
    return a.low == b.low && a.high == b.high;
}

void nt__hash_hex(nt__hash hash, char out[33]) {
    snprintf(out, 33, "%016" PRIx64 "%016" PRIx64, hash.high, hash.low);
}

bool nt__hash_from_hex(const char *text, nt__hash *out) {
    if (strlen(text) != 32 || strspn(text, "0123456789abcdef") != 32) return false;
    return sscanf(text, "%16" SCNx64 "%16" SCNx64, &out->high, &out->low) == 2;
}
