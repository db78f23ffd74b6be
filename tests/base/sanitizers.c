/* Breaks a rule on purpose, as its word says: a sanitized build has to end with a failure each time, or its tests would
 * prove nothing.
 *
 *   sanitizers none | undefined | bounds | leak | race
 */
#include <limits.h>
#include <pthread.h>
#include <string.h>

#include "base/base.h"

/* Volatile, so that no compiler knows what they hold. */
static volatile int largest = INT_MAX;
static volatile size_t beyond = 8;
static char *volatile kept;

static int overflow(void) {
    return largest + 1 == 0;
}

static int read_beyond(void) {
    char *block = nt__alloc(8, 1);
    if (!block) return 1;
    int byte = (unsigned char)block[beyond];
    nt__free(block);
    return byte == 1;
}

static int leak(void) {
    for (int i = 0; i < 64; i++) kept = nt__alloc(100, 1);
    kept = NULL;
    return 0;
}

static int shared;

static void *add_one(void *argument) {
    shared++;
    return argument;
}

static int race(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, add_one, NULL) != 0) return 0;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return shared == 0;
}

int main(int count, char **words) {
    const char *word = count > 1 ? words[1] : "";
    if (strcmp(word, "undefined") == 0) return overflow();
    if (strcmp(word, "bounds") == 0) return read_beyond();
    if (strcmp(word, "leak") == 0) return leak();
    if (strcmp(word, "race") == 0) return race();
    return strcmp(word, "none") != 0;
}
