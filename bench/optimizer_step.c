/* The optimizer program of a run alone: parameters, gradients and states of so many arrays, and a step of the rule
 * whenever it is asked for. The other side of bench/compare/optimizer; not here: gradients, data, the training loop.
 *
 *     optimizer_step RULE ARRAYS ELEMENTS CLIP_NORM
 *
 * Prints "ready SECONDS", what the compile took. Then for each line "N" of standard input N steps are taken, each
 * waited for by reading a scalar of its results, and "SECONDS" of all N is printed.
 */
#include "bench.h"
#include "base/files.h"
#include "nitro.h"
#include "run/run_internal.h"

#define ARRAYS(FIELD, DEVICE, GRAPH_CONST)                            \
    GRAPH_CONST(int, arrays, 10, "arrays of equal size")              \
    GRAPH_CONST(int64_t, elements, 1000000, "elements in all arrays") \
    FIELD(int, rule, 0, "place in the table of rules")
NT_EXPERIMENT(Arrays, ARRAYS)

/* ---- the rules, under the names that optax_side.py has too ------------------------------------------------------ */

static nt_rule adam(void) {
    return nt_adam();
}

static nt_rule adamw(void) {
    return nt_adamw(.weight_decay = 0.01);
}

static nt_rule lamb(void) {
    return nt_lamb(.weight_decay = 0.01);
}

static const struct {
    const char *name;
    nt_rule (*make)(void);
} rules[] = {{"adam", adam}, {"adamw", adamw}, {"lamb", lamb}};
enum { RULES = sizeof rules / sizeof *rules };

/* ---- the experiment: arrays that a loss depends on somehow ------------------------------------------------------ */

enum { WIDTH = 50 };

static nt_status build_data(const Arrays *e, nt_data *data) {
    (void)e;
    nt_split(data, "train", .batch = 1);
    nt_split_field(data, "train", "x", nt_array_new(NT_F32, nt_dims(1, WIDTH)));
    return nt_data_status(data);
}

static nt_tensor forward(const Arrays_view *e, nt_model *m, nt_batch *batch) {
    nt_tensor x = nt_field(batch, "x");
    for (int i = 0; i < e->arrays; i++) NT_SCOPE(m, "layer%d", i)
    x = nt_add(x, nt_mean(nt_parameter(m, "weight", nt_dims(e->elements / e->arrays / WIDTH, WIDTH)), 0));
    return x;
}

static nt_tensor loss(const Arrays_view *e, nt_tensor outputs, nt_batch *batch) {
    (void)e;
    (void)batch;
    return nt_mean(nt_square(outputs));
}

static nt_rule optimizer(const Arrays *e, const char *group) {
    (void)group;
    return rules[e->rule].make();
}

NT_DEFINE(Arrays, ARRAYS, .build_data = build_data, .forward = forward, .loss = loss, .optimizer = optimizer);

/* ---- steps ------------------------------------------------------------------------------------------------------ */

static int rule_named(const char *name) {
    for (int i = 0; i < RULES; i++)
        if (strcmp(rules[i].name, name) == 0) return i;
    must(nt__fail(NT_INVALID, "no rule '%s' in the table", name));
    return 0;
}

/* The slots of the program's results, as the training loop has them; the last is read to wait for the end. */
static nt__buffer **results_of(nt_run *run) {
    nt__buffer **results = room(1 + run->traced.state_count, sizeof *results);
    results[0] = &run->resident.device.parameters[0];
    for (size_t s = 0; s < run->traced.state_count; s++) results[1 + s] = &run->resident.device.states[s];
    return results;
}

static nt__buffer *scalar_state(nt_run *run) {
    for (size_t s = 0; s < run->traced.state_count; s++)
        if (run->resident.device.states[s].type.shape.rank == 0) return &run->resident.device.states[s];
    must(nt__fail(NT_INVALID, "the rule has no scalar state to wait for"));
    return NULL;
}

static double steps(nt_run *run, nt__buffer **results, nt__buffer *scalar, long count) {
    char element[8];
    double start = nt__seconds();
    for (long i = 0; i < count; i++) {
        must(nt__launch(&run->resident, run->traced.programs.optimizer, NULL, NULL, false, results));
        must(nt__buffer_read(run->traced.engine, scalar, element));
    }
    return nt__seconds() - start;
}

int main(int argument_count, char **arguments) {
    if (argument_count != 5) must(nt__fail(NT_INVALID, "optimizer_step RULE ARRAYS ELEMENTS CLIP_NORM"));
    Arrays fields = Arrays_defaults();
    fields.rule = rule_named(arguments[1]);
    fields.arrays = (int)strtol(arguments[2], NULL, 10);
    fields.elements = strtoll(arguments[3], NULL, 10);
    nt_run_options options = {
        .no_log = true, .quiet = true, .no_disk_cache = true, .gradient_clip_norm = {true, strtod(arguments[4], NULL)}};
    nt_run *run;
    must(nt_run_new(Arrays_experiment(), &fields, &options, &run));
    nt__buffer *gradient = &run->resident.device.accumulators[0];
    nt__type type = gradient->type;
    nt__buffer_free(gradient);
    upload_drawn(run->traced.engine, "accumulator", type, 1, gradient);
    must(nt__program_ready(run->traced.programs.forward)); /* a process's first compile costs more */
    double start = nt__seconds();
    must(nt__program_ready(run->traced.programs.optimizer));
    printf("ready %.6f\n", nt__seconds() - start);
    nt__buffer **results = results_of(run), *scalar = scalar_state(run);
    char line[32];
    for (fflush(stdout); fgets(line, sizeof line, stdin); fflush(stdout))
        printf("%.9f\n", steps(run, results, scalar, strtol(line, NULL, 10)));
    nt__free(results);
    nt_run_free(run);
    must(nt_shutdown());
    return 0;
}
