/* Numbers by content hash: a table with open addressing. Contents count as equal when their hashes are.
 */
#include "base/base.h"

/* Where the hash is, or the free place where it would go. The capacity is a power of two, and some places are free. */
static struct nt__map_entry *place_of(struct nt__map_entry *entries, size_t capacity, nt__hash hash) {
    size_t at = hash.low & (capacity - 1);
    while (entries[at].number && !nt__hash_equal(entries[at].hash, hash)) at = (at + 1) & (capacity - 1);
    return &entries[at];
}

/* At most half of the places are taken. */
static bool make_room(nt__map *map) {
    if (2 * map->count < map->capacity) return true;
    size_t capacity = map->capacity ? 2 * map->capacity : 64;
    struct nt__map_entry *entries = nt__alloc(capacity, sizeof *entries);
    if (!entries) return false;
    for (size_t i = 0; i < map->capacity; i++)
        if (map->entries[i].number) *place_of(entries, capacity, map->entries[i].hash) = map->entries[i];
    nt__free(map->entries);
    map->entries = entries;
    map->capacity = capacity;
    return true;
}

uint32_t nt__map_find(const nt__map *map, nt__hash hash) {
    return map->capacity ? place_of(map->entries, map->capacity, hash)->number : 0;
}

bool nt__map_put(nt__map *map, nt__hash hash, uint32_t number) {
    if (!make_room(map)) return false;
    struct nt__map_entry *entry = place_of(map->entries, map->capacity, hash);
    map->count += !entry->number;
    *entry = (struct nt__map_entry){hash, number};
    return true;
}

void nt__map_free(nt__map *map) {
    nt__free(map->entries);
    *map = (nt__map){0};
}
