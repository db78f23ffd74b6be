/* What makes a program another one: a table, a row each. Every "no" is the same text and no
 * miss, every "yes" another text and one miss a program. A program depends on what its own text holds, so a row
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
    FIELD(int, metrics_kind, 0, "0: val_loss; 1: a hook on host arrays; 2: traced hooks")
NT_EXPERIMENT(Moves, MOVES)

/* What stands for an edited source file. */
static struct {
    bool forward, loss, metrics, train_metrics, reads_more;
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

static void device_metrics(const Moves_view *e, nt_device_metrics *out, nt_tensor logits, nt_batch *batch) {
    (void)e;
    (void)batch;
    nt_device_max(out, "largest", nt_reduce_max(edit.metrics ? nt_neg(logits) : logits));
}

static void train_metrics(const Moves_view *e, nt_device_metrics *out, nt_tensor logits, nt_batch *batch) {
    (void)e;
    (void)batch;
    nt_device_value(out, "mean", nt_mean(edit.train_metrics ? nt_square(logits) : logits));
}

static nt_rule optimizer(const Moves *e, const char *group) {
    (void)group;
    (void)e;
    return edit.rule;
}

static const char *param_group(const Moves *e, const char *path) {
    return e->grouped && strncmp(path, "logits.", 7) != 0 ? "first" : NULL;
}

NT_DEFINE(Moves, MOVES, .build_data = build_data, .forward = forward, .loss = loss, .metrics = metrics,
          .device_metrics = device_metrics, .train_metrics = train_metrics, .optimizer = optimizer,
          .param_group = param_group);

/* ---- the table -------------------------------------------------------------------------------------------------- */

/* Which hooks there are for metrics. */
enum { VAL_LOSS, ON_HOST, TRACED };

enum { NOTHING = 0, GRADIENT = 1, OPTIMIZER = 2, FORWARD = 4, EVALUATION = 8, AVERAGE = 16 };

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
static void clip_of_0(variant *v) {
    v->options.gradient_clip_norm = (nt_maybe_double){true, 0};
}
/* Evaluations then have a program more, which training does not. */
static void average(variant *v) {
    v->options.ema_decay = (nt_maybe_double){true, 0.9};
}
static void average_of_0(variant *v) {
    v->options.ema_decay = (nt_maybe_double){true, 0};
}
/* Outputs are f32 whatever layers compute in, so metrics stay. */
static void compute_dtype(variant *v) {
    v->options.compute_dtype = "bf16";
}
static void compute_dtype_of_f32(variant *v) {
    v->options.compute_dtype = "f32";
}
static void gradient_norm(variant *v) {
    v->options.gradient_norm = true;
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
static void edited_train_metrics(variant *v) {
    (void)v;
    edit.train_metrics = true;
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
    int metrics_kind; /* of both sides */
} rows[] = {
    {"nothing", nothing, NOTHING, VAL_LOSS},
    {"Device value", device_value, NOTHING, VAL_LOSS},
    {"Host value", host_value, NOTHING, VAL_LOSS},
    {"seed", seed, NOTHING, VAL_LOSS},
    {"run_dir", run_dir, NOTHING, VAL_LOSS},
    {"max_epochs", max_epochs, NOTHING, VAL_LOSS},
    {"max_steps", max_steps, NOTHING, VAL_LOSS},
    {"learning rate", rate, NOTHING, VAL_LOSS},
    {"constants for a field and the rate", constants, NOTHING, VAL_LOSS},
    {"schedules for a field and the rate", schedules, NOTHING, VAL_LOSS},
    {"GraphConst value of all but the outputs", graph_const, GRADIENT | OPTIMIZER | FORWARD | EVALUATION, VAL_LOSS},
    {"GraphConst value of forward", graph_const_of_forward, GRADIENT | FORWARD | EVALUATION, VAL_LOSS},
    {"GraphConst value of loss", graph_const_of_loss, GRADIENT | EVALUATION, VAL_LOSS},
    {"accum", accum, GRADIENT, VAL_LOSS},
    {"clip threshold", clip, OPTIMIZER, VAL_LOSS},
    {"clip threshold 0", clip_of_0, NOTHING, VAL_LOSS},
    {"moving average", average, OPTIMIZER | AVERAGE, VAL_LOSS},
    {"moving average of 0", average_of_0, NOTHING, VAL_LOSS},
    {"gradient norm", gradient_norm, OPTIMIZER, VAL_LOSS},
    {"what layers compute in", compute_dtype, GRADIENT | FORWARD | EVALUATION, VAL_LOSS},
    {"that, given as f32", compute_dtype_of_f32, NOTHING, VAL_LOSS},
    {"forward", edited_forward, GRADIENT | FORWARD | EVALUATION, VAL_LOSS},
    {"loss", edited_loss, GRADIENT | EVALUATION, VAL_LOSS},
    {"metrics on the host", edited_metrics, NOTHING, ON_HOST},
    {"metrics on the device", edited_metrics, EVALUATION, TRACED},
    {"train_metrics on the device", edited_train_metrics, GRADIENT, TRACED},
    {"another rule", other_rule, OPTIMIZER, VAL_LOSS},
    {"a rule's constant", other_constant, OPTIMIZER, VAL_LOSS},
    {"batch width", batch_width, GRADIENT | FORWARD | EVALUATION, VAL_LOSS},
    {"element type of a field that loss reads", label_type, GRADIENT | EVALUATION, VAL_LOSS},
    {"list of the fields that loss reads", field_list, GRADIENT | EVALUATION, VAL_LOSS},
    {"path of a leaf", leaf_path, NOTHING, VAL_LOSS},
    {"grouping", grouping, GRADIENT | OPTIMIZER | FORWARD | EVALUATION, VAL_LOSS},
};

/* ---- comparing -------------------------------------------------------------------------------------------------- */

static variant base(int metrics_kind) {
    memset(&edit, 0, sizeof edit);
    edit.first = "hidden";
    variant v = {.e = Moves_defaults(), .options = quiet_options(NULL)};
    v.e.metrics_kind = metrics_kind;
    return v;
}

static nt_run *make(const variant *v) {
    static nt_experiment experiment;
    nt_run *run;
    experiment = *Moves_experiment();
    if (v->e.metrics_kind != ON_HOST) experiment.hooks.metrics = NULL;
    if (v->e.metrics_kind != TRACED) {
        experiment.hooks.device_metrics = NULL;
        experiment.hooks.train_metrics = NULL;
    }
    assert_ok(nt_run_new(&experiment, &v->e, &v->options, &run));
    return run;
}

static bool same_text(const nt__program *a, const nt__program *b) {
    return strcmp(nt__program_text(a), nt__program_text(b)) == 0;
}

/* One program for full batches and one for the short last one. */
static bool same_evaluations(const nt_run *a, const nt_run *b) {
    bool same = a->traced.programs.evaluation_count == b->traced.programs.evaluation_count;
    for (size_t i = 0; same && i < a->traced.programs.evaluation_count; i++)
        same = same_text(a->traced.programs.evaluations[i].program, b->traced.programs.evaluations[i].program);
    return same;
}

static unsigned moved(const nt_run *a, const nt_run *b) {
    return (same_text(a->traced.programs.gradient, b->traced.programs.gradient) ? 0 : GRADIENT) |
           (same_text(a->traced.programs.optimizer, b->traced.programs.optimizer) ? 0 : OPTIMIZER) |
           (same_text(a->traced.programs.forward, b->traced.programs.forward) ? 0 : FORWARD) |
           (same_evaluations(a, b) ? 0 : EVALUATION) |
           (!a->traced.programs.average == !b->traced.programs.average ? 0 : AVERAGE);
}

static uint64_t misses_of(nt_run *run) {
    uint64_t before = nt_cache_stats().misses;
    assert_ok(nt_train(run)); /* with a validation */
    return nt_cache_stats().misses - before;
}

/* Programs of the moved kinds that a run compiles: forward is for predictions; evaluations are those of the batches of
 * `val`, full and last. */
static uint64_t programs(const nt_run *run, unsigned moves) {
    uint64_t count = 0;
    for (unsigned bit = GRADIENT; bit <= OPTIMIZER; bit <<= 1) count += (moves & bit) != 0;
    count += (moves & AVERAGE) != 0;
    return count + (moves & EVALUATION ? run->traced.programs.evaluation_count : 0);
}

static void check_row(size_t index) {
    variant v = base(rows[index].metrics_kind);
    nt_cache_reset();
    nt_run *before = make(&v);
    assert_int_equal(before->traced.programs.evaluation_count, 2);
    assert_int_equal(misses_of(before), 2 + before->traced.programs.evaluation_count);
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
