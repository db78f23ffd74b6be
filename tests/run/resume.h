/* A run that is stopped and one that goes on from its record, compared bit by bit with one that nothing stopped: what
 * the tests of resuming share. Include after cmocka.
 */
#ifndef NT_TESTS_RUN_RESUME_H
#define NT_TESTS_RUN_RESUME_H

#include "checkpoint/records.h"
#include "base/files.h"
#include "run/run_internal.h"
#include "toy.h"

/* ---- a model with everything that is carried from step to step -------------------------------------------------- */

#define COURSE(FIELD, DEVICE, GRAPH_CONST)                   \
    GRAPH_CONST(int, hidden, 6, "units")                     \
    GRAPH_CONST(bool, draws, false, "dropout")               \
    GRAPH_CONST(bool, normed, false, "batch normalization")  \
    GRAPH_CONST(bool, weighted, false, "a sum over a count") \
    DEVICE(float, smoothing, 0.05f, "label smoothing")       \
    DEVICE(nt_array *, shift, NULL, "of the points")         \
    FIELD(int, batches, 4, "in train")                       \
    FIELD(bool, val, true, "there is a split val")
NT_EXPERIMENT(Course, COURSE)

enum { COURSE_BATCH = 8 };

static inline nt_status course_split(nt_data *data, const char *name, int rows, bool training) {
    nt_split(data, name, .batch = COURSE_BATCH, .shuffle = training, .drop_last = training);
    nt_split_field(data, name, "x", toy_points(rows, false));
    nt_split_field(data, name, "label", toy_labels(rows, 0));
    return nt_data_status(data);
}

static nt_status course_data(const Course *e, nt_data *data) {
    course_split(data, "train", e->batches * COURSE_BATCH, true);
    if (e->val) course_split(data, "val", 12, false);
    return nt_data_status(data);
}

static nt_tensor course_forward(const Course_view *e, nt_model *m, nt_batch *batch) {
    nt_tensor x = nt_dense(m, "hidden", nt_add(nt_field(batch, "x"), e->shift), e->hidden);
    if (e->normed) x = nt_batch_norm(m, "norm", x);
    x = nt_tanh(x);
    if (e->draws) x = nt_dropout(m, "drop", x, 0.3);
    return nt_dense(m, "logits", x, 2);
}

static nt_tensor course_loss(const Course_view *e, nt_tensor logits, nt_batch *batch) {
    nt_tensor label = nt_field(batch, "label");
    if (!e->weighted) return nt_cross_entropy(logits, label, .label_smoothing = e->smoothing);
    nt_tensor weight = nt_add(nt_convert(label, NT_F32), 0.5);
    nt_tensor sum = nt_sum(nt_mul(nt_reshape(weight, -1, 1), nt_square(logits)));
    return nt_weighted_loss(sum, nt_sum(weight));
}

static inline nt_array *course_shift(void) {
    nt_array *shift = nt_array_new(NT_F32, nt_dims(4));
    for (int i = 0; shift && i < 4; i++) ((float *)shift->data)[i] = 0.1f * (float)i;
    return shift;
}

NT_DEFINE(Course, COURSE, .build_data = course_data, .forward = course_forward, .loss = course_loss);

/* ---- a course of training ---------------------------------------------------------------------------------------
 */

/* What is trained, and how. */
typedef struct course {
    nt_experiment experiment;
    const void *fields;
    nt_run_options options;
    void (*at_step)(nt_run *run, int64_t step); /* called by the listener; NULL: nothing */
} course;

/* How far one call of nt_train gets. */
typedef struct stretch {
    int64_t stop_at;   /* a stop is requested at this step; 0: none */
    int64_t max_steps; /* 0: no limit */
    bool resume;
} stretch;

static nt_run *in_training;

static inline void course_listen(const nt_event *event, void *context) {
    const stretch *s = ((void **)context)[0];
    const course *c = ((void **)context)[1];
    if (event->kind != NT_EVENT_STEP) return;
    if (s->stop_at && event->step == s->stop_at) nt_stop_request();
    if (c->at_step && in_training) c->at_step(in_training, event->step);
}

static inline const char *course_folder(void) {
    return scratch("run");
}

static inline void train_stretch(const course *c, stretch s) {
    void *context[] = {&s, (void *)c};
    nt_run_options options = c->options;
    char folder[SCRATCH_PATH];
    snprintf(folder, sizeof folder, "%s", course_folder());
    options.run_dir = folder;
    options.quiet = true;
    options.on_event = course_listen;
    options.event_context = context;
    options.resume = s.resume ? "auto" : NULL;
    if (s.max_steps) options.max_steps = (nt_maybe_int){true, s.max_steps};
    in_training = NULL;
    assert_ok(nt_run_new(&c->experiment, c->fields, &options, &in_training));
    nt_status status = nt_train(in_training);
    if (s.stop_at)
        assert_int_equal(status, NT_INTERRUPTED);
    else
        assert_ok(status);
    nt_stop_clear();
    nt_run_free(in_training);
    in_training = NULL;
}

/* ---- what is left of one ---------------------------------------------------------------------------------------- */

/* The newest record, and the lines of the log that say what was trained. */
typedef struct trained {
    nt__record record;
    char *log;
} trained;

/* Lines about time are another each time, and those about the run itself differ where its limits did. */
static inline bool is_compared(const char *line) {
    return strstr(line, "\"type\":\"metrics\"") && !strstr(line, "\"context\":\"data\"");
}

static inline char *log_lines(const char *path) {
    char *text, *save = NULL;
    size_t length;
    nt__text kept = {0};
    assert_ok(nt__read_file(path, &text, &length));
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        if (is_compared(line)) nt__text_add(&kept, "%s\n", line);
    nt__free(text);
    assert_false(kept.failed);
    return kept.data;
}

static inline void trained_read(trained *out) {
    nt__record_source source;
    char path[SCRATCH_PATH + 32];
    *out = (trained){0};
    assert_ok(nt__record_source_auto(course_folder(), &source));
    assert_non_null(source.path);
    assert_ok(nt__record_load(source.path, &out->record));
    nt__record_source_free(&source);
    snprintf(path, sizeof path, "%s/metrics.jsonl", course_folder());
    out->log = log_lines(path);
}

static inline void trained_free(trained *t) {
    nt__record_free(&t->record);
    nt__free(t->log);
}

static inline void assert_same_arrays(const nt__record *a, const nt__record *b, const char *what) {
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        const nt__named_array *left = &a->arrays[i], *right = nt__record_find(b, left->name);
        size_t bytes = 0;
        if (!right) fail_msg("%s: no array '%s'", what, left->name);
        assert_true(right && nt__type_equal(left->type, right->type) && nt__type_bytes(left->type, &bytes));
        if (!right || memcmp(left->data, right->data, bytes) != 0) fail_msg("%s: '%s' differs", what, left->name);
    }
}

static inline void assert_same_facts(const nt__record *a, const nt__record *b, const char *what) {
    static const char *const names[] = {"step", "epoch",   "batch",  "micro_batch", "sums",          "schedules",
                                        "seed", "metrics", "layout", "groups",      "anchor_hashes", "device_starts"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!json_equal(json_object_get(a->facts, names[i]), json_object_get(b->facts, names[i])))
            fail_msg("%s: the fact '%s' differs", what, names[i]);
}

static inline void assert_same(const trained *a, const trained *b, const char *what) {
    assert_same_arrays(&a->record, &b->record, what);
    assert_same_facts(&a->record, &b->record, what);
    if (strcmp(a->log, b->log) != 0) fail_msg("%s: the logs are\n%s\nand\n%s", what, a->log, b->log);
}

/* Trains without a stop, then stopped after each step: where a listener asks for it, which is one micro-batch further
 * on, and where max_steps ends it; and goes on from there. */
static inline void assert_resumes(const course *c, const char *name) {
    trained whole, resumed;
    char what[256];
    train_stretch(c, (stretch){0});
    trained_read(&whole);
    scratch_remove_path(course_folder());
    int64_t steps;
    assert_ok(nt__record_integer(&whole.record, "step", &steps));
    for (int64_t step = 1; step < steps; step++)
        for (int limited = 0; limited < 2; limited++) {
            snprintf(what, sizeof what, "%s, %s %lld", name, limited ? "max_steps" : "stop at", (long long)step);
            train_stretch(c, (stretch){.stop_at = limited ? 0 : step, .max_steps = limited ? step : 0});
            train_stretch(c, (stretch){.resume = true});
            trained_read(&resumed);
            assert_same(&whole, &resumed, what);
            trained_free(&resumed);
            scratch_remove_path(course_folder());
        }
    trained_free(&whole);
}

/* Every record is synced to the disk, of which there are hundreds here: a folder in memory where there is one. */
static inline int course_make(void **state) {
    if (nt__is_folder("/dev/shm")) setenv("TMPDIR", "/dev/shm", 1);
    return scratch_make(state);
}

static inline int shut_down_and_remove(void **state) {
    scratch_remove(state);
    return shut_down(state);
}

#endif
