/* What a run tells its loggers, seen by one of a program's own: which lines in which order, what made the run, and what
 * becomes of a logger that fails.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "toy.h"

/* ---- a logger that keeps its lines as text ---------------------------------------------------------------------- */

typedef struct kept {
    nt__text text;    /* "type context key=value ..." a line, long values cut */
    int64_t fails_at; /* the line with this number fails, from 1; 0: none */
    int64_t lines;
    int opened, closed;
    bool with_values;
} kept;

static nt_status open_kept(void *context, const nt_log_start *start, void **state) {
    kept *k = *state = context;
    k->opened++;
    assert_false(start->resumes);
    assert_true(nt__is_folder(start->run_dir));
    return NT_OK;
}

static nt_status keep_line(void *state, const nt_log_line *line) {
    kept *k = state;
    if (++k->lines == k->fails_at) return nt_fail(NT_IO, "no more lines");
    nt__text_add(&k->text, "%s", line->type);
    if (line->context)
        nt__text_add(&k->text, " %s %lld/%lld", line->context, (long long)line->step, (long long)line->epoch);
    if (line->key) {
        char text[NT__TYPE_TEXT];
        nt__text_add(&k->text, " %s %s", line->key,
                     nt__type_text((nt__type){line->array->dtype, line->array->shape}, text));
    }
    for (size_t i = 0; i < line->count && k->with_values; i++) {
        if (line->values[i].text)
            nt__text_add(&k->text, " %s=%.60s", line->values[i].name, line->values[i].text);
        else
            nt__text_add(&k->text, " %s=%.9g", line->values[i].name, line->values[i].number);
    }
    nt__text_add(&k->text, "\n");
    return NT_OK;
}

static void close_kept(void *state) {
    ((kept *)state)->closed++;
}

static nt_logger logger_of(kept *k) {
    return (nt_logger){.name = "kept", .open = open_kept, .line = keep_line, .close = close_kept, .context = k};
}

/* Two epochs of two steps. */
static nt_run *make(const nt_logger *logger, const char *folder, nt_run_options options) {
    Toy e = Toy_defaults();
    e.rows = 32;
    options.quiet = true;
    options.run_dir = scratch(folder);
    options.max_epochs = (nt_maybe_int){true, 2};
    options.loggers = logger;
    options.logger_count = !options.no_log;
    nt_run *run;
    assert_ok(nt_run_new(Toy_experiment(), &e, &options, &run));
    return run;
}

/* The lines that begin with `word`, in order. */
static void assert_lines(const kept *k, const char *word, const char *expected) {
    nt__text found = {0};
    for (const char *line = k->text.data; line && *line; line = strchr(line, '\n') + 1)
        if (strncmp(line, word, strlen(word)) == 0) nt__text_put(&found, line, strcspn(line, "\n") + 1);
    assert_string_equal(found.data ? found.data : "", expected);
    nt__text_free(&found);
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

/* The file of nitro's own logger is not there when it was not asked for. */
static void lines_come_in_the_order_of_the_run(void **state) {
    (void)state;
    kept k = {0};
    const nt_logger logger = logger_of(&k);
    nt_run *run = make(&logger, "order", (nt_run_options){.log = "none"});
    assert_int_equal(k.opened, 0);
    assert_ok(nt_train(run));
    assert_ok(nt_train(run));
    nt_run_free(run);
    assert_string_equal(k.text.data, "params\nother\nenvironment\nsource\n"
                                     "metrics train 1/1\nmetrics train 2/1\nmetrics data 2/1\nmetrics epoch 2/1\n"
                                     "metrics validate 2/1\n"
                                     "metrics train 3/2\nmetrics train 4/2\nmetrics data 4/2\nmetrics epoch 4/2\n"
                                     "metrics validate 4/2\n"
                                     "finish\nfinish\n");
    assert_int_equal(k.opened, 1);
    assert_int_equal(k.closed, 1);
    assert_int_equal(access(scratch("order/metrics.jsonl"), F_OK), -1);
    nt__text_free(&k.text);
}

static void note_loss(const nt_event *event, void *context) {
    nt__text *text = context;
    if (event->kind == NT_EVENT_EPOCH)
        nt__text_add(text, "metrics epoch %lld/%lld loss=%.9g\n", (long long)event->step, (long long)event->epoch,
                     event->loss);
}

/* The log has the mean over all micro-batches of the epoch, of which a step's line has the last one only. */
static void an_epoch_has_its_mean_loss(void **state) {
    (void)state;
    kept k = {.with_values = true};
    nt__text expected = {0};
    const nt_logger logger = logger_of(&k);
    nt_run *run =
        make(&logger, "mean", (nt_run_options){.accum = {true, 2}, .on_event = note_loss, .event_context = &expected});
    assert_ok(nt_train(run));
    nt_run_free(run);
    assert_lines(&k, "metrics epoch", expected.data);
    nt__text_free(&expected);
    nt__text_free(&k.text);
}

static void stop_at_three(const nt_event *event, void *context) {
    (void)context;
    if (event->kind == NT_EVENT_STEP && event->step == 3) nt_stop_request();
}

static void an_epoch_that_was_cut_short_has_none(void **state) {
    (void)state;
    kept k = {0};
    const nt_logger logger = logger_of(&k);
    nt_run *run = make(&logger, "cut", (nt_run_options){.on_event = stop_at_three});
    nt_status status = nt_train(run);
    nt_stop_clear();
    nt_run_free(run);
    assert_lines(&k, "metrics validate", "metrics validate 2/1\n");
    assert_int_equal(status, NT_INTERRUPTED);
    nt__text_free(&k.text);
}

/* ---- lines of a program's own ----------------------------------------------------------------------------------- */

typedef struct caller {
    nt_run *run;
    nt_array *pixels;
} caller;

static void log_at_epochs(const nt_event *event, void *context) {
    const caller *c = context;
    const nt_value values[] = {{"distance", 0.5}, {"angle", 2}};
    if (event->kind != NT_EVENT_EPOCH || event->epoch != 1) return;
    const nt_value twice[] = {{"angle", 2}, {"angle", 3}}, key = {"step", 1}, coloured = {"\x1b[31m", 1},
                   no_text = {"\xff", 1};
    assert_ok(nt_run_log_values(c->run, "mine", values, 2));
    assert_fails(nt_run_log_values(c->run, "mine", twice, 2), NT_INVALID, "value 2: the name 'angle' stands twice");
    assert_fails(nt_run_log_values(c->run, "mine", &key, 1), NT_INVALID, "'step' is a key that each line of the log");
    assert_fails(nt_run_log_values(c->run, "mine", &no_text, 1), NT_INVALID, "is not valid UTF-8");
    assert_ok(nt_run_log_values(c->run, "with \"quotes\",\na line break", &coloured, 1));
    assert_fails(nt_run_log_values(c->run, "", values, 2), NT_INVALID, "the context '' is empty");
    assert_ok(nt_run_log_text(c->run, "note", "*well*"));
    assert_ok(nt_run_log_histogram(c->run, "pixels", c->pixels));
    assert_ok(nt_run_log_image(c->run, "sample", c->pixels));
}

static void a_program_logs_lines_of_its_own(void **state) {
    (void)state;
    kept k = {.with_values = true};
    caller c = {.pixels = nt_array_new(NT_U8, nt_dims(4, 5, 3))};
    const nt_logger logger = logger_of(&k);
    c.run = make(&logger, "calls", (nt_run_options){.on_event = log_at_epochs, .event_context = &c});
    assert_fails(
        nt_run_log_text(c.run, "note", "early"), NT_INVALID,
        "nt_run_log_text: run 'Toy' has no log yet: training opens it, so log from a listener or after nt_train");
    assert_ok(nt_train(c.run));
    assert_ok(nt_run_log_text(c.run, "note", "late"));
    assert_lines(&k, "metrics mine", "metrics mine 2/1 distance=0.5 angle=2\n");
    assert_lines(&k, "other key=note", "other key=note value=*well*\nother key=note value=late\n");
    assert_lines(&k, "histogram", "histogram pixels u8[4,5,3]\n");
    assert_lines(&k, "image", "image sample u8[4,5,3]\n");
    nt_array *flat = nt_array_new(NT_U8, nt_dims(4, 5));
    assert_fails(nt_run_log_image(c.run, "flat", flat), NT_INVALID,
                 "nt_run_log_image: 'flat': the pixels are u8[4,5], and ");
    assert_fails(nt_run_log_image(c.run, "none", NULL), NT_INVALID, "nt_run_log_image: pixels is NULL");
    assert_fails(nt_run_log_histogram(NULL, "none", flat), NT_INVALID, "nt_run_log_histogram: run is NULL");
    assert_fails(nt_run_log_text(c.run, NULL, "x"), NT_INVALID, "nt_run_log_text: name is NULL");
    nt_array_free(flat);
    nt_array_free(c.pixels);
    nt_run_free(c.run);
    nt__text_free(&k.text);
}

static void a_run_without_a_log_says_so(void **state) {
    (void)state;
    kept k = {0};
    const nt_logger logger = logger_of(&k);
    nt_run *run = make(&logger, "nolog", (nt_run_options){.no_log = true});
    const nt_value value = {"a", 1};
    assert_ok(nt_train(run));
    assert_fails(nt_run_log_values(run, "mine", &value, 1), NT_INVALID,
                 "nt_run_log_values: run 'Toy' has no log, since it was made with no_log");
    nt_run_free(run);
    assert_int_equal(k.opened, 0);
}

/* ---- fields that have the names of other values ----------------------------------------------------------------- */

#define ODDLY(FIELD, DEVICE, GRAPH_CONST)           \
    FIELD(const char *, type, "vgg", "kind of net") \
    FIELD(const char *, context, "train", "a text") \
    FIELD(int, step, 7, "a stride") FIELD(const char *, rule, "mine", "a text") FIELD(int, seed, 5, "the setting")
NT_EXPERIMENT(Oddly, ODDLY)

static nt_status oddly_data(const Oddly *e, nt_data *data) {
    (void)e;
    nt_split(data, "train", .batch = 4);
    nt_split_field(data, "train", "x", nt_array_new(NT_F32, nt_dims(8, 1)));
    return nt_data_status(data);
}
static nt_tensor oddly_forward(const Oddly_view *e, nt_model *m, nt_batch *batch) {
    (void)e;
    return nt_dense(m, "out", nt_field(batch, "x"), 1);
}
static nt_tensor oddly_loss(const Oddly_view *e, nt_tensor y, nt_batch *batch) {
    (void)e, (void)batch;
    return nt_mean(nt_square(y));
}
NT_DEFINE(Oddly, ODDLY, .build_data = oddly_data, .forward = oddly_forward, .loss = oddly_loss);

static void fields_have_names_of_their_own(void **state) {
    (void)state;
    kept k = {.with_values = true};
    const nt_logger logger = logger_of(&k);
    nt_run_options options = {.run_dir = scratch("oddly"), .quiet = true, .loggers = &logger, .logger_count = 1};
    nt_run *run;
    assert_ok(nt_run_new(Oddly_experiment(), NULL, &options, &run));
    assert_ok(nt_train(run));
    nt_run_free(run);
    static const char start[] = "params field.type=vgg field.context=train field.step=7 field.rule=mine seed=5 ";
    if (strncmp(k.text.data, start, strlen(start)) != 0) fail_msg("%.200s", k.text.data);
    nt__text_free(&k.text);
}

static void each_epoch_has_the_histograms_that_are_asked_for(void **state) {
    (void)state;
    kept k = {0};
    const nt_logger logger = logger_of(&k);
    nt_run *run = make(&logger, "histograms", (nt_run_options){.histograms = true});
    assert_ok(nt_train(run));
    nt_run_free(run);
    static const char epoch[] = "histogram hidden.weight f32[4,8]\nhistogram hidden.bias f32[8]\n"
                                "histogram logits.weight f32[8,2]\nhistogram logits.bias f32[2]\n";
    char both[2 * sizeof epoch];
    snprintf(both, sizeof both, "%s%s", epoch, epoch);
    assert_lines(&k, "histogram", both);
    nt__text_free(&k.text);
}

/* ---- the built-in ones ------------------------------------------------------------------------------------------ */

static char *file_text(const char *name) {
    char *text;
    size_t length;
    assert_ok(nt__read_file(scratch(name), &text, &length));
    return text;
}

static size_t occurrences(const char *text, const char *word) {
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word)) count++;
    return count;
}

/* What checkpoints are ranked by is what a history calls the best. */
static void the_ranking_is_logged_where_it_was_given(void **state) {
    (void)state;
    kept k = {.with_values = true};
    const nt_logger logger = logger_of(&k);
    nt_run *run = make(&logger, "ranked", (nt_run_options){.checkpoint_metric = "accuracy", .checkpoint_mode = "max"});
    assert_ok(nt_train(run));
    nt_run_free(run);
    assert_non_null(strstr(k.text.data, " checkpoint_metric=accuracy checkpoint_mode=max "));
    nt__text_free(&k.text);
}

static void train_logged(const char *log, nt_event_function on_event, const char *resume, nt_status ends) {
    Toy e = Toy_defaults();
    e.rows = 32;
    const nt_run_options options = {.quiet = true,
                                    .run_dir = scratch("both"),
                                    .max_epochs = {true, 2},
                                    .log = log,
                                    .resume = resume,
                                    .on_event = on_event};
    nt_run *run;
    assert_ok(nt_run_new(Toy_experiment(), &e, &options, &run));
    assert_int_equal(nt_train(run), ends);
    nt_stop_clear();
    nt_run_free(run);
}

/* A run that was stopped in the middle of an epoch and goes on has each step once in every log. */
static void a_resumed_run_has_each_step_once_in_every_log(void **state) {
    (void)state;
    train_logged("jsonl,csv,tensorboard", stop_at_three, NULL, NT_INTERRUPTED);
    train_logged("jsonl,csv,tensorboard", NULL, "auto", NT_OK);
    char *lines = file_text("both/metrics.jsonl"), *rows = file_text("both/metrics.csv");
    for (int step = 1; step <= 4; step++) {
        char line[96], row[48];
        snprintf(line, sizeof line, "\"context\":\"train\",\"epoch\":%d,\"step\":%d}\n", (step + 1) / 2, step);
        snprintf(row, sizeof row, "\nmetrics,train,%d,%d,loss,", (step + 1) / 2, step);
        assert_int_equal(occurrences(lines, line), 1);
        assert_int_equal(occurrences(rows, row), 1);
    }
    assert_int_equal(occurrences(rows, "type,context,epoch,step,name,value\n"), 1);
    assert_int_equal(occurrences(rows, "\nparams,,,,hidden,8\n"), 1);
    nt__free(lines);
    nt__free(rows);
    static const char program[] =
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from tensorboard.backend.event_processing import event_accumulator\n"
        "a = event_accumulator.EventAccumulator(sys.argv[2])\n"
        "a.Reload()\n"
        "assert [e.step for e in a.Scalars('train/loss')] == [1, 2, 3, 4], a.Scalars('train/loss')\n"
        "assert [e.step for e in a.Scalars('validate/accuracy')] == [2, 4]\n";
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execlp("python3", "python3", "-c", program, getenv("NT_PYTHONPATH"), scratch("both"), (char *)NULL);
        _exit(98);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

/* ---- what made the run ------------------------------------------------------------------------------------------ */

static void the_environment_is_logged(void **state) {
    (void)state;
    kept k = {.with_values = true};
    const nt_logger logger = logger_of(&k);
    setenv("OMP_NUM_THREADS", "3", 1);
    nt_run *run = make(&logger, "environment", (nt_run_options){.max_steps = {true, 1}});
    assert_ok(nt_train(run));
    nt_run_free(run);
    unsetenv("OMP_NUM_THREADS");
    const char *line = strstr(k.text.data, "\nenvironment ");
    assert_non_null(line);
    static const char *const pieces[] = {
        " experiment=Toy started=20", " nitro=0.", " plugin=", " plugin_api=0.", " platform=", " host=",
        " OMP_NUM_THREADS=3\n",
#ifdef __clang__
        " compiler=clang 1",
#else
        " compiler=gcc 1",
#endif
    };
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        if (!strstr(line, pieces[i])) fail_msg("'%s' is not in '%s'", pieces[i], line);
    nt__text_free(&k.text);
}

static void source_files_are_logged_as_they_were(void **state) {
    (void)state;
    kept k = {.with_values = true};
    const nt_logger logger = logger_of(&k);
    char *large = nt__alloc(300 << 10, 1);
    memset(large, 'x', 300 << 10);
    scratch_put("large.h", large, 300 << 10);
    nt__free(large);
    scratch_put("small.c", "int x;", 6);
    scratch_put("latin.h", "// caf\xe9", 7);
    assert_int_equal(chdir(scratch("")), 0);
    static const char *const sources[] = {"small.c", "large.h", "latin.h", "gone.h"};
    nt_run *run = make(&logger, "sources", (nt_run_options){.sources = sources, .source_count = 4});
    scratch_put("small.c", "int y;", 6);
    assert_ok(nt_train(run));
    nt_run_free(run);
    assert_lines(&k, "source",
                 "source path=small.c text=int x;\n"
                 "source path=large.h left_out=it is too large for the log\n"
                 "source path=latin.h left_out=it is no UTF-8 text\n"
                 "source path=gone.h left_out=it could not be read\n");
    nt__text_free(&k.text);
}

/* ---- failures --------------------------------------------------------------------------------------------------- */

static void a_logger_that_fails_ends_the_run(void **state) {
    (void)state;
    kept k = {.fails_at = 6};
    const nt_logger logger = logger_of(&k);
    nt_run *run = make(&logger, "fails", (nt_run_options){0});
    assert_fails(nt_train(run), NT_IO, "logger 'kept': no more lines");
    nt_run_free(run);
    assert_lines(&k, "metrics train", "metrics train 1/1\n");
    assert_lines(&k, "finish", "finish\n");
    assert_int_equal(k.closed, 1);
    nt__text_free(&k.text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_in_the_order_of_the_run),
        cmocka_unit_test(an_epoch_has_its_mean_loss),
        cmocka_unit_test(an_epoch_that_was_cut_short_has_none),
        cmocka_unit_test(the_environment_is_logged),
        cmocka_unit_test(the_ranking_is_logged_where_it_was_given),
        cmocka_unit_test(a_resumed_run_has_each_step_once_in_every_log),
        cmocka_unit_test(a_program_logs_lines_of_its_own),
        cmocka_unit_test(a_run_without_a_log_says_so),
        cmocka_unit_test(fields_have_names_of_their_own),
        cmocka_unit_test(each_epoch_has_the_histograms_that_are_asked_for),
        cmocka_unit_test(source_files_are_logged_as_they_were),
        cmocka_unit_test(a_logger_that_fails_ends_the_run),
    };
    int failed = cmocka_run_group_tests(tests, scratch_make, scratch_remove);
    return failed + shut_down(NULL);
}
