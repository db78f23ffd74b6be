/* Content hashes: 128 bits of XXH3. They tell contents apart; they do not resist somebody who forges one.
 */
#include "base/base.h"

#include <inttypes.h>
#include <stdio.h>
#include <xxhash.h>

nt__hash nt__hash_bytes(const void *data, size_t length) {
    XXH128_hash_t hash = XXH3_128bits(data, length);
    return (nt__hash){.low = hash.low64, .high = hash.high64};
}

bool nt__hash_equal(nt__hash a, nt__hash b) {
    return a.low == b.low && a.high == b.high;
}

void nt__hash_hex(nt__hash hash, char out[33]) {
    snprintf(out, 33, "%016" PRIx64 "%016" PRIx64, hash.high, hash.low);
}
