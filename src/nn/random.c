/* Random numbers of a model: names, and the keys they draw with.
 * Not here: the generator and what is drawn (graph/random.c).
 */
#include "nn/model.h"
#include "nitro/random.h"

/* ---- names ------------------------------------------------------------------------------------------------------ */

static size_t find_draw(const nt_model *m, const char *path) {
    uint32_t number = nt__map_find(&m->draws.by_path, nt__path_hash(path));
    return number ? number - 1 : m->draws.count;
}

/* NULL after keeping the error that memory is short. */
static nt__draw *find_or_add_draw(nt_model *m, const char *path) {
    size_t i = find_draw(m, path);
    if (i < m->draws.count) return &m->draws.items[i];
    const char *kept = nt__arena_strdup(&m->arena, path);
    if (!kept || !NT__GROW(m->draws.items, m->draws.count, m->draws.capacity) ||
        !nt__map_put(&m->draws.by_path, nt__path_hash(path), (uint32_t)m->draws.count + 1)) {
        nt__trace_out_of_memory();
        return NULL;
    }
    m->draws.items[m->draws.count] = (nt__draw){.path = kept};
    return &m->draws.items[m->draws.count++];
}

static bool draws_once(nt_model *m, const char *what, nt_site site) {
    nt__draw *draw = find_or_add_draw(m, m->path);
    if (!draw) return false;
    if (draw->drawn && !m->reuses) {
        nt__trace_fail(site, what,
                       "'%s' draws random numbers at %s:%d already, and these would be the same: give one of the two "
                       "another name or scope, or call the layer again inside NT_REUSE",
                       draw->path, draw->site.file, draw->site.line);
        return false;
    }
    draw->drawn++;
    draw->site = site;
    return true;
}

bool nt__draw_name(nt_model *m, const char *what, const char *name, nt_site site) {
    size_t scopes;
    if (!nt__trace_given(m, site, what, "m") || !nt__trace_given(name, site, what, "name")) return false;
    if (!nt__path_extend(m, site, what, name, &scopes)) return false;
    bool once = nt__model_open(m, m->path, what, site) && draws_once(m, what, site);
    nt__path_restore(m, scopes);
    return once;
}

/* ---- keys ------------------------------------------------------------------------------------------------------- */

nt__key nt__model_seed(uint64_t seed) {
    return nt__key_fold_text(nt__key_of_seed(seed), "random operations");
}

bool nt__model_is_seeded(const nt_model *model) {
    return model->seeded;
}

/* The number of the micro-batch; the next one has the next number. */
static nt_tensor micro_batch(nt_model *m, nt_site site) {
    const nt__leaf leaf = {NT__DRAWS_PATH, {NT_U32, {0}}, nt_zeros(), site};
    nt_tensor number = nt__declare(m, &m->states, &leaf, m->roles.state, "random_key");
    if (nt__tensor_failed(number)) return number;
    m->states.uses[nt__leaves_find(&m->states, leaf.path)].next = nt_add_at(number, nt_tensor_number(1), site);
    return number;
}

/* The keys of all names that earlier traces had. */
static nt_tensor known_keys(const nt_model *m, nt_site site) {
    nt__arena scratch = {0};
    uint64_t *numbers = nt__arena_alloc(&scratch, m->known, sizeof *numbers);
    for (size_t i = 0; numbers && i < m->known; i++) numbers[i] = nt__path_hash(m->draws.items[i].path).low;
    nt_tensor keys = numbers ? nt__random_fold_each(m->root, numbers, m->known, site) : nt__trace_out_of_memory();
    nt__arena_free(&scratch);
    return keys;
}

/* What all keys of a trace are made of, those in bodies of control flow and those outside. */
static void begin_keys(nt_model *m, nt_site site) {
    if (m->root.trace) return;
    nt__trace_place place = nt__trace_leave_bodies();
    m->seeded = true;
    m->root = nt__input(m->roles.seed, 0, "seed", (nt__type){NT_U32, nt_dims(2)});
    if (m->training) m->root = nt_random_fold_at(m->root, micro_batch(m, site), site);
    if (m->known) m->keys = known_keys(m, site);
    nt__trace_go_back(place);
}

/* Each iteration of the loops around has a key of its own. */
static nt_tensor fold_iterations(nt_tensor key, nt_site site) {
    size_t loops = nt__trace_loops();
    for (size_t i = 0; i < loops; i++)
        key = nt_random_fold_at(key, nt_convert_at(nt__trace_iteration(i), NT_U32, site), site);
    return key;
}

/* The one place where keys of a model are made: whatever else tells a draw from another one of its name is folded in
 * here. */
static nt_tensor key_of_path(nt_model *m, const char *path, nt_site site) {
    begin_keys(m, site);
    int64_t place = (int64_t)find_draw(m, path);
    nt_tensor key =
        place >= (int64_t)m->known
            ? nt__random_fold_wide(m->root, nt__path_hash(path).low, site)
            : nt_reshape_at(nt_slice_at(m->keys, nt_dims(place, 0), nt_dims(place + 1, 2), site), nt_dims(2), site);
    uint32_t again = m->draws.items[place].drawn;
    if (again > 1) key = nt_random_fold_at(key, nt_tensor_number(again - 1), site);
    return fold_iterations(key, site);
}

nt_tensor nt__draw_key(nt_model *m, const char *name, nt_site site) {
    size_t scopes;
    if (!nt__path_extend(m, site, "random_key", name, &scopes)) return nt__failed();
    nt_tensor key = key_of_path(m, m->path, site);
    nt__path_restore(m, scopes);
    return key;
}

nt_tensor nt_random_key_at(nt_model *m, const char *name, nt_site site) {
    return nt__draw_name(m, "random_key", name, site) ? nt__draw_key(m, name, site) : nt__failed();
}
