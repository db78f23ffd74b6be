/* The registry: which experiments this process has loaded, by name.
 * Not here: whether a definition is right (check.c).
 */
#include "experiment/experiment.h"

#include <pthread.h>
#include <string.h>

/* Constructors fill it before main runs, so nothing here needs to be initialised first. It is kept until the process
 * ends. */
static struct {
    pthread_mutex_t lock;
    const nt_experiment **items;
    size_t count, capacity;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Place of the experiment of that name, or the number of experiments. Call with the lock held. */
static size_t place_of(const char *name) {
    size_t place = 0;
    while (place < registry.count && strcmp(registry.items[place]->name, name) != 0) place++;
    return place;
}

/* A newer definition takes the place of the older one. False when there is no memory for another place. */
static bool put(const nt_experiment *experiment) {
    size_t place = place_of(experiment->name);
    if (place == registry.count) {
        if (!NT__GROW(registry.items, registry.count, registry.capacity)) return false;
        registry.count++;
    }
    registry.items[place] = experiment;
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
    const nt_experiment *experiment = index < registry.count ? registry.items[index] : NULL;
    pthread_mutex_unlock(&registry.lock);
    return experiment;
}

const nt_experiment *nt_experiment_find(const char *name) {
    if (!nt__given(name, "nt_experiment_find", "name")) return NULL;
    pthread_mutex_lock(&registry.lock);
    size_t place = place_of(name);
    const nt_experiment *experiment = place < registry.count ? registry.items[place] : NULL;
    pthread_mutex_unlock(&registry.lock);
    return experiment;
}
