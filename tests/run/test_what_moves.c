/* What makes a program another one: table 5.3 of setup-and-cache.md, a row each. Every "no" is the same text and no
 * miss, every "yes" another text and one miss a program. A program depends on what its own text holds (K-25), so a row
 * may say "no" where the reference's shared keys say "yes".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/run_internal.h"
#include "toy.h"

/* ---- an experiment that uses each of its constants in one place ------------------------------------------------- */

#define MOVES(FIELD, DEVICE, GRAPH_CONST)                       \
    GRAPH_CONST(int, hidden, 8, "hidden units")                 \
    GRAPH_CONST(bool, relu, false, "of forward only")           \
    GRAPH_CONST(double, scale, 1.0, "of loss only")             \
    DEVICE(float, smoothing, 0.0f, "label smoothing")           \
    FIELD(int, width, 16, "samples in a micro-batch")           \
    FIELD(int, spare, 1, "that nothing reads")                  \
    FIELD(bool, wide_labels, false, "labels of i32 and not u8") \
    FIELD(bool, grouped, false, "the first layer is a group")   \
    FIELD(bool, with_metrics, false, "metrics instead of val_loss")
NT_EXPERIMENT(Moves, MOVES)

/* What stands for an edited source file. */
static struct {
    bool forward, loss, metrics, reads_more;
    const char *first;
    nt_rule rule;
} edit;

static nt_array *labels(const Moves *e, int rows) {
    nt_array *narrow = toy_labels(rows, 0), *wide = nt_array_new(NT_I32, nt_dims(rows));
    for (int i = 0; i < rows; i++) nt_array_set(wide, i, nt_array_get(narrow, i));
    nt_array_free(e->wide_labels ? narrow : wide);
    return e->wide_labels ? wide : narrow;
}

static nt_status build_data(const Moves *e, nt_data *data) {
    static const struct {
        const char *name;
        int rows;
    } splits[] = {{"train", 96}, {"val", 40}};
    for (int i = 0; i < 2; i++) {
        nt_split(data, splits[i].name, .batch = e->width);
        nt_split_field(data, splits[i].name, "x", toy_points(splits[i].rows, false));
        nt_split_field(data, splits[i].name, "label", labels(e, splits[i].rows));
        nt_split_field(data, splits[i].name, "more", toy_points(splits[i].rows, false));
    }
    return nt_data_status(data);
}

static nt_tensor forward(const Moves_view *e, nt_model *m, nt_batch *batch) {
    nt_tensor x = nt_dense(m, edit.first, nt_field(batch, "x"), e->hidden);
    x = e->relu ? nt_relu(x) : nt_tanh(x);
    if (edit.forward) x = nt_mul(x, 0.5);
    return nt_dense(m, "logits", x, 2);
}

static nt_tensor loss(const Moves_view *e, nt_tensor logits, nt_batch *batch) {
    nt_tensor loss = nt_cross_entropy(logits, nt_field(batch, "label"), .label_smoothing = e->smoothing);
    if (edit.loss) loss = nt_square(loss);
    if (edit.reads_more) loss = nt_add(loss, nt_mean(nt_field(batch, "more")));
    return nt_mul(loss, e->scale);
}

static void metrics(const Moves *e, nt_metrics *out, const nt_array *logits, const nt_host_batch *batch) {
    (void)e;
    nt_metric_accuracy(out, edit.metrics ? "right" : "accuracy", logits, nt_host_field(batch, "label"));
}

static nt_rule optimizer(const Moves *e) {
    (void)e;
    return edit.rule;
}

static const char *param_group(const Moves *e, const char *path) {
    return e->grouped && strncmp(path, "logits.", 7) != 0 ? "first" : NULL;
}

NT_DEFINE(Moves, MOVES, .build_data = build_data, .forward = forward, .loss = loss, .metrics = metrics,
          .optimizer = optimizer, .param_group = param_group);

/* ---- the table -------------------------------------------------------------------------------------------------- */

enum { NOTHING = 0, GRADIENT = 1, OPTIMIZER = 2, FORWARD = 4, METRICS = 8 };

typedef struct variant {
    Moves e;
    nt_run_options options;
} variant;

static void nothing(variant *v) {
    (void)v;
}
static void device_value(variant *v) {
    v->e.smoothing = 0.3f;
}
static void host_value(variant *v) {
    v->e.spare = 7;
}
static void seed(variant *v) {
    v->options.seed = (nt_maybe_int){true, 7};
}
static void run_dir(variant *v) {
    v->options.run_dir = "elsewhere";
}
static void max_epochs(variant *v) {
    v->options.max_epochs = (nt_maybe_int){true, 2};
}
static void max_steps(variant *v) {
    v->options.max_steps = (nt_maybe_int){true, 3};
}
static void rate(variant *v) {
    v->options.learning_rate = (nt_maybe_double){true, 0.25};
}

static const nt_named_schedule *list_of(nt_schedule smoothing, nt_schedule learning_rate) {
    static nt_named_schedule list[3];
    list[0] = (nt_named_schedule){"smoothing", smoothing};
    list[1] = (nt_named_schedule){"learning_rate", learning_rate};
    return list;
}
static void constants(variant *v) {
    v->options.schedules = list_of(nt_schedule_constant(0.1), nt_schedule_constant(1e-2));
}
static void schedules(variant *v) {
    v->options.schedules = list_of(nt_schedule_linear(0.1, 0), nt_schedule_cosine(1e-2, 0));
}

static void graph_const(variant *v) {
    v->e.hidden = 12;
}
static void graph_const_of_forward(variant *v) {
    v->e.relu = true;
}
static void graph_const_of_loss(variant *v) {
    v->e.scale = 2;
}
static void accum(variant *v) {
    v->options.accum = (nt_maybe_int){true, 2};
}
static void clip(variant *v) {
    v->options.gradient_clip_norm = (nt_maybe_double){true, 0.5};
}
/* P-22. */
static void clip_of_0(variant *v) {
    v->options.gradient_clip_norm = (nt_maybe_double){true, 0};
}
static void edited_forward(variant *v) {
    (void)v;
    edit.forward = true;
}
static void edited_loss(variant *v) {
    (void)v;
    edit.loss = true;
}
static void edited_metrics(variant *v) {
    (void)v;
    edit.metrics = true;
}
static void other_rule(variant *v) {
    (void)v;
    edit.rule = nt_adam();
}
static void other_constant(variant *v) {
    (void)v;
    edit.rule = nt_radam(.beta2 = 0.99);
}
static void batch_width(variant *v) {
    v->e.width = 8;
}
static void label_type(variant *v) {
    v->e.wide_labels = true;
}
static void field_list(variant *v) {
    (void)v;
    edit.reads_more = true;
}
static void leaf_path(variant *v) {
    (void)v;
    edit.first = "input";
}
static void grouping(variant *v) {
    v->e.grouped = true;
}

static const struct {
    const char *name;
    void (*change)(variant *v);
    unsigned moves;
    bool with_metrics;
} rows[] = {
    {"nothing", nothing, NOTHING, false},
    {"Device value", device_value, NOTHING, false},
    {"Host value", host_value, NOTHING, false},
    {"seed", seed, NOTHING, false},
    {"run_dir", run_dir, NOTHING, false},
    {"max_epochs", max_epochs, NOTHING, false},
    {"max_steps", max_steps, NOTHING, false},
    {"learning rate", rate, NOTHING, false},
    {"constants for a field and the rate", constants, NOTHING, false},
    {"schedules for a field and the rate", schedules, NOTHING, false},
    {"GraphConst value of all but the outputs", graph_const, GRADIENT | OPTIMIZER | FORWARD, false},
    {"GraphConst value of forward", graph_const_of_forward, GRADIENT | FORWARD, false},
    {"GraphConst value of loss", graph_const_of_loss, GRADIENT | METRICS, false},
    {"accum", accum, GRADIENT, false},
    {"clip threshold", clip, OPTIMIZER, false},
    {"clip threshold 0", clip_of_0, NOTHING, false},
    {"forward", edited_forward, GRADIENT | FORWARD, false},
    {"loss", edited_loss, GRADIENT | METRICS, false},
    {"metrics on the host", edited_metrics, NOTHING, true},
    {"another rule", other_rule, OPTIMIZER, false},
    {"a rule's constant", other_constant, OPTIMIZER, false},
    {"batch width", batch_width, GRADIENT | FORWARD | METRICS, false},
    {"element type of a field that loss reads", label_type, GRADIENT | METRICS, false},
    {"list of the fields that loss reads", field_list, GRADIENT | METRICS, false},
    {"path of a leaf", leaf_path, NOTHING, false},
    {"grouping", grouping, GRADIENT | OPTIMIZER | FORWARD, false},
};

/* ---- comparing -------------------------------------------------------------------------------------------------- */

static variant base(bool with_metrics) {
    memset(&edit, 0, sizeof edit);
    edit.first = "hidden";
    variant v = {.e = Moves_defaults(), .options = quiet_options(NULL)};
    v.e.with_metrics = with_metrics;
    return v;
}

static nt_run *make(const variant *v) {
    static nt_experiment experiment;
    nt_run *run;
    experiment = *Moves_experiment();
    if (!v->e.with_metrics) experiment.hooks.metrics = NULL;
    assert_ok(nt_run_new(&experiment, &v->e, &v->options, &run));
    return run;
}

static bool same_text(const nt__program *a, const nt__program *b) {
    return strcmp(nt__program_text(a), nt__program_text(b)) == 0;
}

/* One program for full batches and one for the short last one. */
static bool same_metrics(const nt_run *a, const nt_run *b) {
    bool same = a->metrics_count == b->metrics_count;
    for (size_t i = 0; same && i < a->metrics_count; i++)
        same = same_text(a->metrics[i].program, b->metrics[i].program);
    return same;
}

static unsigned moved(const nt_run *a, const nt_run *b) {
    return (same_text(a->gradient, b->gradient) ? 0 : GRADIENT) |
           (same_text(a->optimizer, b->optimizer) ? 0 : OPTIMIZER) | (same_text(a->forward, b->forward) ? 0 : FORWARD) |
           (same_metrics(a, b) ? 0 : METRICS);
}

static uint64_t misses_of(nt_run *run) {
    uint64_t before = nt_cache_stats().misses;
    assert_ok(nt_train(run)); /* with a validation */
    return nt_cache_stats().misses - before;
}

/* Programs that a run of the moved kinds has; those of val_loss for the batches of `val`, full and last. */
static uint64_t programs(const nt_run *run, unsigned moves) {
    uint64_t count = 0;
    for (unsigned bit = GRADIENT; bit <= FORWARD; bit <<= 1) count += (moves & bit) != 0;
    return count + (moves & METRICS ? run->metrics_count : 0);
}

static void check_row(size_t index) {
    variant v = base(rows[index].with_metrics);
    nt_cache_reset();
    nt_run *before = make(&v);
    assert_int_equal(before->metrics_count, rows[index].with_metrics ? 0 : 2);
    assert_int_equal(misses_of(before), 3 + before->metrics_count);
    rows[index].change(&v);
    nt_run *after = make(&v);
    unsigned moves = moved(before, after);
    uint64_t misses = misses_of(after), wanted = programs(after, rows[index].moves);
    if (moves != rows[index].moves || misses != wanted)
        fail_msg("%s: programs %u moved, wanted %u; %llu misses, wanted %llu", rows[index].name, moves,
                 rows[index].moves, (unsigned long long)misses, (unsigned long long)wanted);
    nt_run_free(before);
    nt_run_free(after);
}

static void every_row_of_the_table(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) check_row(i);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_row_of_the_table)};
    return cmocka_run_group_tests_name("what moves", tests, NULL, shut_down);
}
