/* A run that goes on knows the data, the fields and the settings of its record: within an epoch other rows are refused,
 * else one warning lists what has become another, which quiet does not hide.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "notices.h"
#include "resume.h"

/* ---- data that a test can change in every way ------------------------------------------------------------------- */

#define ORDERED(FIELD, DEVICE, GRAPH_CONST)                 \
    DEVICE(float, scale, 1, "of the points")                \
    FIELD(int, whole, 24, "rows of the array")              \
    FIELD(int, rows, 16, "of them in train; val: the rest") \
    FIELD(int, first, 0, "row of train")                    \
    FIELD(int, batch, 4, "samples in a micro-batch")        \
    FIELD(bool, shuffle, true, "another order each epoch")  \
    FIELD(bool, drop, true, "drop the last batch")          \
    FIELD(bool, sourced, false, "from a source")            \
    FIELD(bool, wide, false, "the points are f64")          \
    FIELD(double, offset, 0, "of the points of train")      \
    FIELD(const char *, note, "a", "a text")                \
    FIELD(int, accum, 1, "a setting")
NT_EXPERIMENT(Ordered, ORDERED)

static nt_status read_rows(void *context, nt_request *request) {
    (void)context;
    for (int64_t i = 0; i < request->count; i++) nt_array_set(request->fields[0], i, (double)request->rows[i]);
    return NT_OK;
}

static nt_status add_source(const Ordered *e, nt_data *data) {
    const nt_source_field field = {.name = "x", .dtype = NT_F32, .sample = {.rank = 1, .dims = {1}}};
    nt_split(data, "train", .batch = e->batch, .shuffle = e->shuffle, .drop_last = e->drop);
    return nt_split_source(
        data, "train",
        (nt_source){.name = "disk", .rows = e->rows, .fields = &field, .field_count = 1, .read = read_rows});
}

static nt_status build_data(const Ordered *e, nt_data *data) {
    if (e->sourced) return add_source(e, data);
    nt_array *x = nt_array_new(e->wide ? NT_F64 : NT_F32, nt_dims(e->whole, 1));
    for (int i = 0; x && i < e->whole; i++) nt_array_set(x, i, i + e->offset);
    int end = e->first + e->rows;
    nt_split(data, "train", .batch = e->batch, .shuffle = e->shuffle, .drop_last = e->drop, .first = e->first,
             .limit = end);
    if (end < e->whole) {
        nt_split(data, "val", .batch = e->batch, .first = end);
        nt_split_field(data, "val", "x", nt_array_retain(x));
    }
    return nt_split_field(data, "train", "x", x);
}

static nt_tensor forward(const Ordered_view *e, nt_model *m, nt_batch *batch) {
    return nt_dense(m, "out", nt_mul(nt_convert(nt_field(batch, "x"), NT_F32), e->scale), 1);
}

static nt_tensor loss(const Ordered_view *e, nt_tensor out, nt_batch *batch) {
    (void)e;
    (void)batch;
    return nt_mean(nt_square(nt_mul(out, 1e-3)));
}

NT_DEFINE(Ordered, ORDERED, .build_data = build_data, .forward = forward, .loss = loss);

/* ---- a run and what it is resumed with -------------------------------------------------------------------------- */

static Ordered fields;

static course make_course(void) {
    course c = {.experiment = *Ordered_experiment(), .fields = &fields};
    fields = Ordered_defaults();
    c.options.max_epochs = (nt_maybe_int){true, 2};
    scratch_remove_path(course_folder());
    nt__text_free(&notices);
    return c;
}

/* Quiet, so that what is kept are warnings. */
static nt_status go_on(const course *c, nt_run **run) {
    nt_run_options options = c->options;
    options.run_dir = course_folder();
    options.resume = "auto";
    options.quiet = true;
    nt__text_free(&notices);
    return nt_run_new(&c->experiment, c->fields, &options, run);
}

static void assert_refused(const course *c, const char *name, const char *const *parts) {
    nt_run *run;
    nt_status status = go_on(c, &run);
    nt_run_free(run);
    if (status != NT_INVALID) fail_msg("%s: it is resumed", name);
    for (size_t i = 0; parts[i]; i++)
        if (!strstr(nt_error_message(), parts[i])) fail_msg("%s: no '%s' in: %s", name, parts[i], nt_error_message());
}

/* One warning with these lines, or none at all. */
static void assert_goes_on(const course *c, const char *name, const char *const *parts) {
    nt_run *run;
    nt_status status = go_on(c, &run);
    nt_run_free(run);
    if (status != NT_OK) fail_msg("%s: %s", name, nt_error_message());
    if (count_told("not as in the checkpoint") != (parts[0] != NULL))
        fail_msg("%s: %s", name, notices.data ? notices.data : "no warning");
    for (size_t i = 0; parts[i]; i++) assert_told(parts[i]);
}

enum { MOST_PARTS = 6 };

/* ---- rows ------------------------------------------------------------------------------------------------------- */

/* Fields of a run that goes on, and what is said of them. */
typedef struct changed {
    const char *name;
    const char *fields;              /* "rows=32,batch=8" */
    const char *refused[MOST_PARTS]; /* within an epoch; none: it goes on */
    const char *told[MOST_PARTS];    /* between epochs */
} changed;

static const changed all_changed[] = {
    {"nothing", "", {0}, {0}},
    {"shuffle",
     "shuffle=false",
     {"the checkpoint is of batch 2 of 4 of an epoch, and split 'train' has 4 batches now, of other rows, so there is "
      "no such place in it: resume from the end of an epoch, or give it the data and the batch size that it had",
      "\n  train.shuffle: true -> false"},
     {"\n  shuffle: true -> false", "\n  train.shuffle: true -> false"}},
    {"a row more, which is dropped",
     "rows=17",
     {", of other rows", "\n  train.rows: 16 -> 17"},
     {"\n  train.rows: 16 -> 17", "\n  val.first: 16 -> 17", "\n  val.rows: 8 -> 7",
      "\n  rows 16..16 of the arrays: of split 'val', not trained on -> trained on"}},
    {"as many batches of others",
     "whole=40,rows=32,batch=8",
     {", of other rows", "\n  train.rows: 16 -> 32", "\n  train.batch: 4 -> 8"},
     {"\n  train.rows: 16 -> 32", "\n  train.batch: 4 -> 8", "\n  batch: 4 -> 8", "\n  val.batch: 4 -> 8",
      "\n  rows 16..23 of the arrays"}},
    {"more batches",
     "rows=20",
     {"and split 'train' has 5 batches now, so there is no such place in it", "\n  train.rows: 16 -> 20"},
     {"\n  train.rows: 16 -> 20"}},
    {"rows from elsewhere",
     "first=2",
     {", of other rows", "\n  train.first: 0 -> 2"},
     {"\n  train.first: 0 -> 2", "\n  rows 16..17 of the arrays"}},
    {"a source",
     "sourced=true",
     {", of other rows", "\n  train.kind: arrays -> a source", "\n  train.source: absent -> disk"},
     {"\n  train.kind: arrays -> a source", "\n  val.rows: 8 -> absent"}},
    {"another type",
     "wide=true",
     {", of other rows", "\n  train.fields: x f32[1] -> x f64[1]"},
     {"\n  train.fields: x f32[1] -> x f64[1]"}},
    {"other values", "offset=1", {0}, {"\n  train.content: ", "\n  val.content: ", "\n  offset: 0 -> 1"}},
    {"an array with more behind", "whole=26", {0}, {"\n  train.whole: 24 -> 26", "\n  val.rows: 8 -> 10"}},
    {"a text", "note=b", {0}, {"1 thing is not as in the checkpoint", "\n  note: \"a\" -> \"b\""}},
    {"a Device field", "scale=2", {0}, {"1 thing is not as in the checkpoint", "\n  scale: 1 -> 2"}},
    {"no split val", "whole=16", {0}, {"\n  val.rows: 8 -> absent"}},
};

static void set_fields(const changed *change) {
    static char text[128]; /* texts of fields are borrowed */
    char *save = NULL;
    snprintf(text, sizeof text, "%s", change->fields);
    fields = Ordered_defaults();
    for (char *name = strtok_r(text, "=", &save); name; name = strtok_r(NULL, "=", &save)) {
        const nt_field_info *field = nt__field_find(Ordered_experiment(), name);
        assert_non_null(field);
        assert_ok(nt__field_parse(field, strtok_r(NULL, ",", &save), &fields));
    }
}

static void within_an_epoch_other_rows_are_refused(void **state) {
    (void)state;
    course c = make_course();
    train_stretch(&c, (stretch){.max_steps = 2});
    for (size_t i = 0; i < sizeof all_changed / sizeof *all_changed; i++) {
        const changed *change = &all_changed[i];
        set_fields(change);
        if (change->refused[0])
            assert_refused(&c, change->name, change->refused);
        else
            assert_goes_on(&c, change->name, change->told);
    }
}

static void between_epochs_all_that_differs_is_told_once(void **state) {
    (void)state;
    course c = make_course();
    c.options.max_epochs = (nt_maybe_int){true, 1};
    train_stretch(&c, (stretch){0});
    c.options.max_epochs = (nt_maybe_int){true, 2};
    for (size_t i = 0; i < sizeof all_changed / sizeof *all_changed; i++) {
        set_fields(&all_changed[i]);
        assert_goes_on(&c, all_changed[i].name, all_changed[i].told);
    }
}

/* Whatever asked for the record, and in a step under way too. */
static void every_record_within_an_epoch_knows_its_rows(void **state) {
    (void)state;
    static const char *const refused[] = {"of other rows", NULL};
    const stretch ends[] = {{.stop_at = 2}, {.max_steps = 1}};
    for (size_t i = 0; i < 2; i++) {
        course c = make_course();
        c.options.accum = (nt_maybe_int){true, i + 1};
        c.options.checkpoint_every_steps = (nt_maybe_int){true, 1};
        train_stretch(&c, ends[i]);
        fields.shuffle = false;
        assert_refused(&c, "a stop", refused);
        fields.shuffle = true;
        assert_goes_on(&c, "a stop", (const char *[]){NULL});
        fields.sourced = true;
        assert_refused(&c, "a source", refused);
    }
}

/* As of another nitro, that would shuffle otherwise: it shows when the order is there. */
static void another_order_is_refused(void **state) {
    (void)state;
    course c = make_course();
    nt_run *run;
    train_stretch(&c, (stretch){.max_steps = 2});
    assert_ok(go_on(&c, &run));
    assert_true(run->resident.resumed.is_ordered);
    run->resident.resumed.order.low ^= 1;
    assert_fails(nt_train(run), NT_INVALID, "come in another order now (checksum ");
    assert_int_equal(nt_run_step(run), 2);
    nt_run_free(run);
}

static void sources_know_their_rows(void **state) {
    (void)state;
    course c = make_course();
    fields.sourced = true;
    train_stretch(&c, (stretch){.max_steps = 2});
    assert_goes_on(&c, "the same source", (const char *[]){NULL});
    fields.rows = 17;
    assert_refused(&c, "a row more", (const char *[]){"of other rows", "train.rows: 16 -> 17", NULL});
    fields.rows = 16;
    fields.shuffle = false;
    assert_refused(&c, "in order", (const char *[]){"of other rows", "train.shuffle: true -> false", NULL});
}

/* ---- settings --------------------------------------------------------------------------------------------------- */

static const char *ordered_group(const void *e, const char *path) {
    (void)e;
    return strstr(path, "bias") ? "biases" : NULL;
}

static double half_for_biases(const void *e, const char *group) {
    (void)e;
    return strcmp(group, "biases") == 0 ? 0.5 : 1;
}

static nt_rule another_adam(const void *e, const char *group) {
    (void)e;
    (void)group;
    return nt_radam(.beta1 = 0.5);
}

static void settings_that_differ_are_told(void **state) {
    (void)state;
    course c = make_course();
    c.experiment.hooks.param_group = ordered_group;
    train_stretch(&c, (stretch){.max_steps = 4});
    c.options.learning_rate = (nt_maybe_double){true, 0.5};
    c.options.accum = (nt_maybe_int){true, 2};
    c.options.gradient_clip_norm = (nt_maybe_double){true, 0.1};
    c.options.check_divergence = (nt_maybe_bool){true, false};
    c.options.compute_dtype = "bf16";
    c.options.log = "csv";
    c.options.checkpoint_metric = "val_loss";
    c.options.checkpoint_mode = "max";
    c.options.schedules = (const nt_named_schedule[]){{"scale", nt_schedule_constant(1)}, {0}};
    c.experiment.hooks.rate_ratio = half_for_biases;
    c.experiment.hooks.optimizer = another_adam;
    assert_goes_on(&c, "settings",
                   (const char *[]){"10 things are not as in the checkpoint", "\n  learning_rate: 0.001 -> 0.5",
                                    "\n  accum: 1 -> 2", "\n  gradient_clip_norm: 0 -> 0.1",
                                    "\n  check_divergence: true -> false", "\n  compute_dtype: f32 -> bf16",
                                    "\n  log: jsonl -> csv", "\n  checkpoint_mode: min -> max",
                                    "\n  ratios of rates: none -> biases 0.5", "\n  optimizer: ", "(beta1 0.5, ",
                                    "\n  schedules: none -> scale ", NULL});
}

/* What is only a limit, or a field that gives a setting, is no difference of its own. */
static void more_epochs_are_no_difference(void **state) {
    (void)state;
    course c = make_course();
    train_stretch(&c, (stretch){0});
    c.options.max_epochs = (nt_maybe_int){true, 5};
    c.options.max_steps = (nt_maybe_int){true, 12};
    c.options.checkpoint_every_steps = (nt_maybe_int){true, 7};
    assert_goes_on(&c, "more epochs", (const char *[]){NULL});
    fields.accum = 2;
    assert_goes_on(&c, "accum", (const char *[]){"1 thing is not", "\n  accum: 1 -> 2", NULL});
}

/* A schedule that spreads over the run jumps where the run becomes longer; one with steps of its own does not. */
static void schedules_that_jump_are_told(void **state) {
    (void)state;
    const nt_named_schedule schedules[] = {
        {"learning_rate", nt_schedule_linear(0.5, 0.25)}, {"scale", nt_schedule_linear(1, 2, .steps = 10)}, {0}};
    course c = make_course();
    c.options.schedules = schedules;
    train_stretch(&c, (stretch){.max_steps = 6});
    assert_goes_on(&c, "the same", (const char *[]){NULL});
    c.options.max_epochs = (nt_maybe_int){true, 4};
    assert_goes_on(
        &c, "more epochs",
        (const char *[]){"1 thing is not", "\n  schedule learning_rate at step 7: ", "of 8 steps -> ", " of 16", NULL});
}

/* A program that takes warnings for errors gets none of it. */
static nt_status refuse(const char *line, void *context) {
    (void)line;
    (void)context;
    return NT_INVALID;
}

static void a_warning_can_be_an_error(void **state) {
    (void)state;
    course c = make_course();
    nt_run *run;
    train_stretch(&c, (stretch){0});
    fields.note = "b";
    nt_set_warning(refuse, NULL);
    c.options.max_epochs = (nt_maybe_int){true, 3};
    assert_fails(go_on(&c, &run), NT_INVALID, "\n  note: \"a\" -> \"b\"");
    nt_set_warning(NULL, NULL);
    assert_null(run);
}

static int begin(void **state) {
    nt_set_notice(keep_notice, NULL);
    return course_make(state);
}

static int end(void **state) {
    nt_set_notice(NULL, NULL);
    nt__text_free(&notices);
    return shut_down_and_remove(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(within_an_epoch_other_rows_are_refused),
        cmocka_unit_test(between_epochs_all_that_differs_is_told_once),
        cmocka_unit_test(every_record_within_an_epoch_knows_its_rows),
        cmocka_unit_test(another_order_is_refused),
        cmocka_unit_test(sources_know_their_rows),
        cmocka_unit_test(settings_that_differ_are_told),
        cmocka_unit_test(more_epochs_are_no_difference),
        cmocka_unit_test(schedules_that_jump_are_told),
        cmocka_unit_test(a_warning_can_be_an_error),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
