/* The library's only allocator, which counts and can be told to fail, and arenas on top of it.
 * Not here: device memory.
 */
#include "base/base.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- counting and injected failures ----------------------------------------------------------------------------- */

static atomic_size_t live_blocks;
static atomic_size_t total_allocations;
static atomic_size_t allocations_until_failure; /* 0: none is injected */

nt__memory_stats nt__memory(void) {
    return (nt__memory_stats){.live = atomic_load(&live_blocks), .total = atomic_load(&total_allocations)};
}

void nt__memory_fail_at(size_t n) {
    atomic_store(&allocations_until_failure, n);
}

/* Counts one allocation; true when it is the one that has to fail. */
static bool count_allocation(void) {
    atomic_fetch_add(&total_allocations, 1);
    size_t left = atomic_load(&allocations_until_failure);
    while (left > 0) {
        if (atomic_compare_exchange_weak(&allocations_until_failure, &left, left - 1)) return left == 1;
    }
    return false;
}

/* ---- blocks ----------------------------------------------------------------------------------------------------- */

enum { LENT_ALIGNMENT = 64 };

/* False with a message when the product is more than the size an object can have. */
static bool multiply_sizes(size_t count, size_t size, size_t *bytes) {
    if (!__builtin_mul_overflow(count, size, bytes) && *bytes <= PTRDIFF_MAX) return true;
    nt__fail(NT_OUT_OF_MEMORY, "out of host memory: %zu elements of %zu bytes are more than memory can hold", count,
             size);
    return false;
}

static void *report_no_memory(size_t bytes) {
    nt__fail(NT_OUT_OF_MEMORY, "out of host memory: the system refused %zu bytes", bytes);
    return NULL;
}

/* A block of no bytes is still a block: NULL always means failure. */
static size_t at_least_one(size_t bytes) {
    return bytes ? bytes : 1;
}

void *nt__alloc(size_t count, size_t size) {
    size_t bytes;
    bool refused = count_allocation();
    if (!multiply_sizes(count, size, &bytes)) return NULL;
    void *pointer = refused ? NULL : calloc(1, at_least_one(bytes));
    if (!pointer) return report_no_memory(bytes);
    atomic_fetch_add(&live_blocks, 1);
    return pointer;
}

void *nt__realloc(void *pointer, size_t count, size_t size) {
    size_t bytes;
    bool refused = count_allocation();
    if (!multiply_sizes(count, size, &bytes)) return NULL;
    void *grown = refused ? NULL : realloc(pointer, at_least_one(bytes));
    if (!grown) return report_no_memory(bytes);
    if (!pointer) atomic_fetch_add(&live_blocks, 1);
    return grown;
}

void *nt__alloc_aligned_unset(size_t bytes) {
    size_t size;
    bool refused = count_allocation();
    if (!multiply_sizes(bytes, 1, &size)) return NULL;
    size = (at_least_one(size) + LENT_ALIGNMENT - 1) / LENT_ALIGNMENT * LENT_ALIGNMENT;
    void *pointer = refused ? NULL : aligned_alloc(LENT_ALIGNMENT, size);
    if (!pointer) return report_no_memory(bytes);
    atomic_fetch_add(&live_blocks, 1);
    return pointer;
}

void *nt__alloc_aligned(size_t bytes) {
    void *pointer = nt__alloc_aligned_unset(bytes);
    return pointer ? memset(pointer, 0, at_least_one(bytes)) : NULL;
}

void nt__free(void *pointer) {
    if (!pointer) return;
    atomic_fetch_sub(&live_blocks, 1);
    free(pointer);
}

bool nt__grow(void **items, size_t count, size_t *capacity, size_t size) {
    if (count < *capacity) return true;
    size_t wanted = *capacity < 8 ? 8 : *capacity * 2;
    void *grown = nt__realloc(*items, wanted, size);
    if (!grown) return false;
    *items = grown;
    *capacity = wanted;
    return true;
}

/* ---- arenas ----------------------------------------------------------------------------------------------------- */

enum { ARENA_ALIGNMENT = 16, ARENA_BLOCK_SIZE = 16 * 1024 };

/* The newest block is the first of the list; only it is filled further. */
struct nt__arena_block {
    struct nt__arena_block *next;
    size_t used, size;
    _Alignas(ARENA_ALIGNMENT) char bytes[];
};

static struct nt__arena_block *add_arena_block(nt__arena *arena, size_t bytes) {
    size_t size = bytes > ARENA_BLOCK_SIZE ? bytes : ARENA_BLOCK_SIZE;
    struct nt__arena_block *block = nt__alloc(1, sizeof *block + size);
    if (!block) return NULL;
    block->next = arena->blocks;
    block->size = size;
    arena->blocks = block;
    return block;
}

/* Bytes that fit in memory also fit with an alignment or a block's head added: SIZE_MAX is twice as far. */
void *nt__arena_alloc(nt__arena *arena, size_t count, size_t size) {
    size_t bytes;
    if (!multiply_sizes(count, size, &bytes)) return NULL;
    bytes = (at_least_one(bytes) + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    struct nt__arena_block *block = arena->blocks;
    if (!block || block->size - block->used < bytes) block = add_arena_block(arena, bytes);
    if (!block) return NULL;
    void *pointer = block->bytes + block->used;
    block->used += bytes;
    return pointer;
}

size_t nt__arena_bytes(const nt__arena *arena) {
    size_t bytes = 0;
    for (const struct nt__arena_block *block = arena->blocks; block; block = block->next) bytes += block->used;
    return bytes;
}

void nt__arena_free(nt__arena *arena) {
    while (arena->blocks) {
        struct nt__arena_block *next = arena->blocks->next;
        nt__free(arena->blocks);
        arena->blocks = next;
    }
}
