/* Memory of batches, used again. Threads that allocate and a consumer that frees, in turn and in large pieces, would
 * make an ordinary allocator keep many times what is in use; and fresh memory costs a page fault for every page. Not
 * here: what is in the memory (batch.c).
 */
#include "data/data_internal.h"

#include <pthread.h>
#include <string.h>

/* What a piece that nobody uses begins with. */
typedef struct piece {
    struct piece *next;
} piece;

/* The lists of all fields have one lock: it is held for a moment. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static piece *pop(void **list) {
    if (!list) return NULL;
    pthread_mutex_lock(&lock);
    piece *first = *list;
    if (first) *list = first->next;
    pthread_mutex_unlock(&lock);
    return first;
}

/* A piece of the allocator is 64 bytes at least, also for a batch of less. */
void *nt__spare_take(const nt__split *split, const nt__split_field *field) {
    size_t bytes = (size_t)split->options.batch * nt__field_row_bytes(field);
    piece *spare = pop(field->spare);
    if (!spare) return nt__alloc_aligned(bytes);
    memset(spare, 0, bytes < sizeof *spare ? sizeof *spare : bytes);
    return spare;
}

void nt__spare_give(const nt__split_field *field, void *memory) {
    piece *spare = memory;
    if (!spare || !field->spare) {
        nt__free(spare);
        return;
    }
    pthread_mutex_lock(&lock);
    spare->next = *field->spare;
    *field->spare = spare;
    pthread_mutex_unlock(&lock);
}

void nt__spare_free(const nt__split *split) {
    for (size_t i = 0; i < split->field_count; i++)
        for (void *memory; (memory = pop(split->fields[i].spare));) nt__free(memory);
}
