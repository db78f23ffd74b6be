/* The registry: which experiments this process has loaded, by name.
 * Not here: whether a definition is right (check.c).
 */
#include "experiment/experiment.h"

#include <pthread.h>
#include <string.h>

/* The newest definition of a name. */
typedef struct definition {
    const nt_experiment *experiment;
    uint64_t generation;
} definition;

/* Constructors fill it before main runs, so nothing here needs to be initialised first. It is kept until the process
 * ends. */
static struct {
    pthread_mutex_t lock;
    definition *items;
    size_t count, capacity;
    uint64_t generation; /* definitions registered so far */
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Place of the experiment of that name, or the number of experiments. Call with the lock held. */
static size_t place_of(const char *name) {
    size_t place = 0;
    while (place < registry.count && strcmp(registry.items[place].experiment->name, name) != 0) place++;
    return place;
}

/* A newer definition takes the place of the older one. False when there is no memory for another place. */
static bool put(const nt_experiment *experiment) {
    size_t place = place_of(experiment->name);
    if (place == registry.count) {
        if (!NT__GROW(registry.items, registry.count, registry.capacity)) return false;
        registry.count++;
    }
    registry.items[place] = (definition){experiment, ++registry.generation};
    return true;
}

void nt_experiment_register(const nt_experiment *experiment) {
    if (!nt__given(experiment, "nt_experiment_register", "experiment")) return;
    pthread_mutex_lock(&registry.lock);
    bool kept = put(experiment);
    pthread_mutex_unlock(&registry.lock);
    if (!kept) nt__notice("the experiment %s could not be registered: %s", experiment->name, nt_error_message());
}

const nt_experiment *nt_experiment_at(size_t index) {
    pthread_mutex_lock(&registry.lock);
    const nt_experiment *experiment = index < registry.count ? registry.items[index].experiment : NULL;
    pthread_mutex_unlock(&registry.lock);
    return experiment;
}

/* What is registered under a name; all zeros when nothing is. */
static definition find(const char *name) {
    pthread_mutex_lock(&registry.lock);
    size_t place = place_of(name);
    definition found = place < registry.count ? registry.items[place] : (definition){0};
    pthread_mutex_unlock(&registry.lock);
    return found;
}

const nt_experiment *nt_experiment_find(const char *name) {
    if (!nt__given(name, "nt_experiment_find", "name")) return NULL;
    return find(name).experiment;
}

uint64_t nt__experiment_generation_of(const char *name) {
    return find(name).generation;
}

uint64_t nt__experiment_generation(void) {
    pthread_mutex_lock(&registry.lock);
    uint64_t generation = registry.generation;
    pthread_mutex_unlock(&registry.lock);
    return generation;
}
