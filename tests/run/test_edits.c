/* Code that is edited, compiled, loaded and used while the process runs: what a new run compiles, what an old one says.
 * The objects are compiled by the C compiler and loaded as a
 * program with a main loop of its own does it, always from the same path.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "experiment/experiment.h"
#include "toy.h"

/* ---- the experiment on disk ------------------------------------------------------------------------------------- */

/* What the experiment reads of the test, and what it tells it. */
double nt_test_global = 1, nt_test_captured = 0.5;
int nt_test_traces, nt_test_calls;

static const char scale_header[] = "#define SCALE 2\n"
                                   "enum { POWER = 1 };\n";

/* Three calls below forward, in another file. */
static const char helper_source[] = "#include <nitro.h>\n"
                                    "#include \"scale.h\"\n"
                                    "extern double nt_test_global;\n"
                                    "double captured = 0.5;\n"
                                    "static const double shift = 0.25;\n"
                                    "static nt_tensor squash(nt_tensor x) {\n"
                                    "    return nt_tanh(nt_add(x, shift));\n"
                                    "}\n"
                                    "static nt_tensor middle(nt_tensor x) {\n"
                                    "    nt_tensor y = nt_mul(squash(x), SCALE);\n"
                                    "    for (int i = 1; i < POWER; i++) y = nt_mul(y, y);\n"
                                    "    return y;\n"
                                    "}\n"
                                    "nt_tensor helper(nt_tensor x) {\n"
                                    "    return nt_mul(nt_mul(middle(x), nt_test_global), captured);\n"
                                    "}\n";

static const char main_source[] =
    "#include <nitro.h>\n"
    "extern double nt_test_captured, captured;\n"
    "extern int nt_test_traces, nt_test_calls;\n"
    "nt_tensor helper(nt_tensor x);\n"
    "#define LIST(FIELD, DEVICE, GRAPH_CONST) \\\n"
    "    GRAPH_CONST(int, hidden, 6, \"units\") \\\n"
    "    DEVICE(float, smoothing, 0.0f, \"label smoothing\") \\\n"
    "    FIELD(int, batch, 8, \"samples\") \\\n"
    "    FIELD(int, accum, 1, \"micro-batches in a step\")\n"
    "NT_EXPERIMENT(Edited, LIST)\n"
    "static nt_status build_data(const Edited *e, nt_data *data) {\n"
    "    static int calls;\n"
    "    nt_test_calls = 100 * ++calls;\n"
    "    captured = nt_test_captured;\n"
    "    nt_array *x = nt_array_new(NT_F32, nt_dims(32, 3)), *label = nt_array_new(NT_I32, nt_dims(32));\n"
    "    for (int i = 0; i < 96; i++) nt_array_set(x, i, (i * 37 % 17 - 8) / 8.0);\n"
    "    for (int i = 0; i < 32; i++) nt_array_set(label, i, i * 7 % 2);\n"
    "    nt_split(data, \"train\", .batch = e->batch);\n"
    "    nt_split(data, \"val\", .batch = e->batch, .shares = \"train\");\n"
    "    nt_split_field(data, \"train\", \"x\", nt_array_retain(x));\n"
    "    nt_split_field(data, \"train\", \"label\", nt_array_retain(label));\n"
    "    nt_split_field(data, \"val\", \"x\", x);\n"
    "    nt_split_field(data, \"val\", \"label\", label);\n"
    "    return nt_data_status(data);\n"
    "}\n"
    "static nt_tensor forward(const Edited_view *e, nt_model *m, nt_batch *batch) {\n"
    "    nt_test_traces++;\n"
    "    nt_tensor x = helper(nt_dense(m, \"hidden\", nt_field(batch, \"x\"), e->hidden));\n"
    "    return nt_dense(m, \"logits\", x, 2);\n"
    "}\n"
    "static nt_tensor loss(const Edited_view *e, nt_tensor logits, nt_batch *batch) {\n"
    "    return nt_cross_entropy(logits, nt_field(batch, \"label\"), .label_smoothing = e->smoothing);\n"
    "}\n"
    "static void metrics(const Edited *e, nt_metrics *out, const nt_array *logits, const nt_host_batch *batch) {\n"
    "    (void)e, (void)batch;\n"
    "    nt_metric_mean(out, \"first\", nt_array_get(logits, 0), 1);\n"
    "}\n"
    "static double learning_rate(const Edited *e) {\n"
    "    (void)e;\n"
    "    return 0.05;\n"
    "}\n"
    "static nt_rule optimizer(const Edited *e, const char *group) {\n"
    "    (void)group;\n"
    "    (void)e;\n"
    "    return nt_sgd();\n"
    "}\n"
    "NT_DEFINE(Edited, LIST, .build_data = build_data, .forward = forward, .loss = loss,\n"
    "          .learning_rate = learning_rate, .optimizer = optimizer, .metrics = metrics);\n";

static void put(const char *file, const char *text) {
    scratch_put(file, text, strlen(text));
}

/* The file with one piece of it replaced. */
static void put_edited(const char *file, const char *text, const char *old, const char *new) {
    static char edited[1 << 14];
    const char *at = strstr(text, old);
    if (!at) fail_msg("'%s' is not in %s", old, file);
    int before = (int)(at - text);
    int length = snprintf(edited, sizeof edited, "%.*s%s%s", before, text, new, at + strlen(old));
    assert_true(length < (int)sizeof edited);
    put(file, edited);
}

static void put_all(void) {
    put("scale.h", scale_header);
    put("helper.c", helper_source);
    put("main.c", main_source);
}

/* In the scratch folder, so that names of files in messages are short. */
static int compile(const char *object, const char *first, const char *second) {
    char command[3 * SCRATCH_PATH];
    snprintf(command, sizeof command, "cd '%s' && cc -shared -fPIC -I '%s/../include' -Wl,-Bsymbolic %s %s -o %s",
             scratch_folder, getenv("NT_TESTS"), first, second, object);
    return system(command);
}

static void load(void) {
    assert_int_equal(compile("edited.so", "main.c", "helper.c"), 0);
    assert_ok(nt_experiment_load(scratch("edited.so")));
}

/* Before each test. */
static int start(void **state) {
    (void)state;
    put_all();
    load();
    return 0;
}

static const nt_experiment *newest(void) {
    const nt_experiment *experiment = nt_experiment_find("Edited");
    assert_non_null(experiment);
    return experiment;
}

/* ---- runs ------------------------------------------------------------------------------------------------------- */

static nt_run *make_with(nt_run_options options) {
    nt_run *run;
    assert_ok(nt_run_new(newest(), NULL, &options, &run));
    return run;
}

static nt_run *make(void) {
    return make_with(quiet_options(NULL));
}

/* The mean of the first output: a value of forward and of nothing else. */
static double evaluated(nt_run *run) {
    nt_results results;
    assert_ok(nt_validate(run, &results));
    assert_string_equal(results.values[0].name, "first");
    return results.values[0].value;
}

static const char *drift_of(nt_run *run) {
    const char *report;
    assert_ok(nt_run_drift(run, &report));
    return report;
}

#define assert_drift(run, part) assert_drift_at(run, part, __LINE__)
static void assert_drift_at(nt_run *run, const char *part, int line) {
    const char *report = drift_of(run);
    if (*part ? !strstr(report, part) : *report != 0) fail_msg("line %d: wanted '%s', got '%s'", line, part, report);
}

/* Names of the programs compiled since then: "gradient forward ". */
static const char *compiled_since(uint64_t misses) {
    static char names[256];
    *names = 0;
    for (const nt_cache_report_t *report; (report = nt_cache_report((size_t)misses)); misses++) {
        strcat(names, report->program);
        strcat(names, " ");
    }
    return names;
}

/* ---- every kind of edit ----------------------------------------------------------------------------------------- */

static const struct edit {
    const char *file, *text, *old, *new;
    const char *compiled; /* by a new run that is trained and validated */
    const char *says;     /* of what moved: in the report of the miss, and in what the old run says */
    bool other_outputs;
} edits[] = {
    /* A helper three calls below forward, in another file. */
    {"helper.c", helper_source, "nt_tanh(", "nt_logistic(", "gradient evaluation ",
     "helper.c:7 in squash: tanh : (tensor<8x6xf32>) -> tensor<8x6xf32> -> ", true},
    {"helper.c", helper_source, "return y;", "return nt_neg(y);", "gradient evaluation ",
     "helper.c:12 in middle: new, negate", true},
    /* Constants of every kind. */
    {"helper.c", helper_source, "shift = 0.25", "shift = 0.75", "gradient evaluation ",
     "helper.c:7 in squash: constant", true},
    {"scale.h", scale_header, "SCALE 2", "SCALE 3", "gradient evaluation ", "helper.c:10 in middle: constant", true},
    {"scale.h", scale_header, "POWER = 1", "POWER = 2", "gradient evaluation ", "helper.c:11 in middle: new, multiply",
     true},
    /* Hooks: only the programs that they are part of. */
    {"main.c", main_source, "return nt_cross_entropy(logits", "return nt_cross_entropy(nt_mul(logits, 0.5)",
     "gradient evaluation ", "main.c:32 in loss: new, constant", false},
    {"main.c", main_source, "nt_sgd()", "nt_adam()", "optimizer ", "rule: SGD() -> Adam(", false},
    {"main.c", main_source, "\"logits\", x, 2)", "\"logits\", nt_mul(x, x), 2)", "gradient evaluation ",
     "main.c:29 in forward: new, multiply", true},
    /* A layer's size moves the flat parameters, which says nothing of the place: the operation does. */
    {"main.c", main_source, "\"hidden\", nt_field(batch, \"x\"), e->hidden", "\"hidden\", nt_field(batch, \"x\"), 5",
     "gradient optimizer evaluation ", "parameters.default: f32[38] -> f32[32]", true},
    /* Nothing that is part of a program. */
    {"helper.c", helper_source, "nt_tensor y = nt_mul(squash(x), SCALE);\n",
     "/* A comment\n that moves lines. */ nt_tensor z = squash(x), y = nt_mul(z, SCALE);\n", "", "", false},
    {"scale.h", scale_header, "enum {", "/* powers */\n\n#define UNUSED 4\nenum {", "", "", false},
    {"main.c", main_source, "nt_array_get(logits, 0)", "2 * nt_array_get(logits, 0)", "", "", true},
};

static void each_edit_compiles_what_it_moved(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        const struct edit *edit = &edits[i];
        nt_cache_reset();
        nt_run *old = make();
        double untrained = evaluated(old);
        assert_ok(nt_train(old));
        double trained = evaluated(old);
        uint64_t misses = nt_cache_stats().misses;
        assert_drift(old, "");

        put_edited(edit->file, edit->text, edit->old, edit->new);
        load();
        nt_run *new = make();
        double other = evaluated(new);
        assert_ok(nt_train(new));
        char compiled[64] = "";
        /* The order of use: the evaluation comes first here. */
        const char *names = compiled_since(misses);
        for (const char *const *name = (const char *const[]){"gradient ", "optimizer ", "evaluation ", NULL}; *name;
             name++)
            if (strstr(names, *name)) strcat(compiled, *name);
        if (strcmp(compiled, edit->compiled) != 0) fail_msg("edit %zu compiled '%s'", i, names);
        assert_int_equal(nt_cache_stats().misses - misses, strlen(names) ? nt_cache_stats().entries - misses : 0);
        for (const nt_cache_report_t *report; (report = nt_cache_report((size_t)misses)); misses++)
            if (!strstr(report->moved, edit->says) ||
                (strcmp(report->program, "optimizer") != 0 && !strstr(report->moved, ".c:")))
                fail_msg("edit %zu: the miss says '%s'", i, report->moved);
        if ((other != untrained) != edit->other_outputs) fail_msg("edit %zu: %g and %g", i, untrained, other);
        assert_drift(new, "");

        /* The old run says so and is what it was. */
        assert_drift(old, edit->says);
        if (strstr(edit->says, "parameters."))
            assert_drift(old, "  forward program: parameters.default: f32[38] -> f32[32]; main.c:28 in forward: ");
        assert_true(evaluated(old) == trained);
        uint64_t before = nt_cache_stats().misses;
        assert_ok(nt_train(old));
        assert_int_equal(nt_cache_stats().misses, before);
        nt_run_free(old);

        /* Back again: nothing is compiled, and the run of the edit is the one that is old. */
        put(edit->file, edit->text);
        load();
        nt_run *again = make();
        assert_true(evaluated(again) == untrained);
        assert_ok(nt_train(again));
        assert_int_equal(nt_cache_stats().misses, before);
        assert_drift(new, *edit->says ? " program: " : "");
        nt_run_free(again);
        nt_run_free(new);
    }
}

/* The reference does not notice these: a global that changed and a value that a hook captured, with no code loaded. */
static void globals_and_captured_values_count(void **state) {
    (void)state;
    double *values[] = {&nt_test_global, &nt_test_captured};
    for (size_t i = 0; i < 2; i++) {
        nt_cache_reset();
        nt_run *old = make();
        double before = evaluated(old);
        assert_ok(nt_train(old));
        assert_int_equal(nt_cache_stats().misses, 3);
        double value = *values[i];
        *values[i] = 3;
        nt_run *new = make();
        assert_true(evaluated(new) != before);
        assert_ok(nt_train(new));
        assert_int_equal(nt_cache_stats().misses, 5);
        assert_non_null(strstr(nt_cache_report(3)->moved, "helper.c:15 in helper: constant"));
        assert_drift(old, i == 0 ? "  forward program: helper.c:15 in helper: constant <{value = dense<1> : "
                                   "tensor<8x6xf32>}> : () -> tensor<8x6xf32> -> constant <{value = dense<3>"
                                 : "  forward program: helper.c:15 in helper: constant <{value = dense<0.5> : "
                                   "tensor<8x6xf32>}> : () -> tensor<8x6xf32> -> constant <{value = dense<3>");
        assert_drift(new, "");
        *values[i] = value;
        nt_run_free(new);
        new = make();
        assert_drift(old, "");
        nt_run_free(new);
        nt_run_free(old);
    }
}

/* ---- what an old run says --------------------------------------------------------------------------------------- */

static char notices[16][1024];
static int notice_count;
static void keep_notice(const char *line, void *context) {
    (void)context;
    if (notice_count < 16) snprintf(notices[notice_count++], sizeof notices[0], "%s", line);
}

/* The whole message; on training, validation and evaluation; not when quiet. */
static void it_says_so_when_it_is_used(void **state) {
    (void)state;
    nt_run_options options = quiet_options(NULL);
    nt_run *quiet = make();
    options.quiet = false;
    options.max_epochs = (nt_maybe_int){true, 3};
    nt_notice_function before = nt_set_notice(keep_notice, NULL);
    nt_run *run = make_with(options);
    assert_ok(nt_train(run));
    notice_count = 0;
    assert_ok(nt_validate(run, NULL));
    assert_int_equal(notice_count, 0);

    put_edited("main.c", main_source, "return nt_cross_entropy(logits", "return nt_cross_entropy(nt_neg(logits)");
    load();
    assert_ok(nt_train(quiet));
    assert_int_equal(notice_count, 0);
    assert_ok(nt_validate(run, NULL));
    assert_int_equal(notice_count, 2);
    assert_string_equal(notices[1], "  evaluation program: main.c:32 in loss: new, negate : (tensor<8x2xf32>) -> "
                                    "tensor<8x2xf32>");
    notice_count = 0;
    assert_ok(nt_train(run));
    assert_int_equal(notice_count, 3);
    assert_string_equal(notices[0], "Edited: the code has changed since this run was made. It goes on with what it was "
                                    "made with; a new run uses the new code. What differs:");
    assert_string_equal(notices[1], "  gradient program: main.c:32 in loss: new, negate : (tensor<8x2xf32>) -> "
                                    "tensor<8x2xf32>");
    assert_string_equal(notices[2], "  evaluation program: main.c:32 in loss: new, negate : (tensor<8x2xf32>) -> "
                                    "tensor<8x2xf32>");

    /* A later load that has nothing to do with it changes nothing of that. */
    put_edited("helper.c", helper_source, "double captured = 0.5;", "double captured = 0.5, more;");
    load();
    notice_count = 0;
    assert_ok(nt_train(run));
    assert_int_equal(notice_count, 3);
    nt_set_notice(before, NULL);
    nt_run_free(run);
    nt_run_free(quiet);
}

/* Once a call, and in training only when code was loaded since. The data are looked through never. */
static void load_in_the_first_epoch(const nt_event *event, void *context) {
    (void)context;
    if (event->kind != NT_EVENT_EPOCH || event->epoch != 1) return;
    put_edited("helper.c", helper_source, "nt_tanh(", "nt_logistic(");
    load();
    nt_test_traces = 0;
}

static void training_traces_on_entry_only(void **state) {
    (void)state;
    nt_run_options options = quiet_options(NULL);
    options.quiet = false;
    options.max_epochs = (nt_maybe_int){true, 4};
    nt_notice_function before = nt_set_notice(keep_notice, NULL);
    nt_run *run = make_with(options);
    nt_test_traces = 0;
    assert_ok(nt_train(run));
    assert_int_equal(nt_test_traces, 4); /* the parameters, gradient, forward, evaluation */
    assert_ok(nt_validate(run, NULL));
    assert_int_equal(nt_test_traces, 7);
    nt_run_free(run);

    options.on_event = load_in_the_first_epoch;
    run = make_with(options);
    notice_count = 0;
    assert_ok(nt_train(run));
    assert_int_equal(nt_test_traces, 4); /* in the second epoch of four */
    assert_int_equal(notice_count, 3);
    assert_non_null(strstr(notices[1], "  gradient program: helper.c:7 in squash: tanh"));
    assert_non_null(strstr(notices[2], "  forward program: helper.c:7 in squash: tanh"));
    nt_set_notice(before, NULL);
    nt_run_free(run);
}

/* Defaults and the rate, then against now; what was given when the run was made is no drift. */
static void settings_that_moved_are_named(void **state) {
    (void)state;
    nt_run_options options = quiet_options(NULL);
    options.run_dir = "elsewhere";
    options.accum = (nt_maybe_int){true, 2};
    options.learning_rate = (nt_maybe_double){true, 0.5};
    nt_run *given = make_with(options), *plain = make();
    assert_drift(given, "");
    put_edited("main.c", main_source, "FIELD(int, accum, 1,", "FIELD(int, accum, 4,");
    load();
    assert_drift(given, "What differs:\n  field accum: default 1 -> 4; this run still uses 2");
    assert_drift(plain, "What differs:\n  field accum: default 1 -> 4; this run still uses 1");
    assert_null(strstr(drift_of(given), "run_dir"));
    put_edited("main.c", main_source, "return 0.05", "return 0.1");
    load();
    assert_drift(given, "What differs:\n  learning_rate: 0.05 -> 0.1; this run still uses 0.5");
    assert_drift(plain, "What differs:\n  learning_rate: 0.05 -> 0.1; this run still uses 0.05");
    put_edited("main.c", main_source, "NT_DEFINE(Edited, LIST,",
               "static int64_t seed(const Edited *e) {\n    (void)e;\n    return 9;\n}\n"
               "NT_DEFINE(Edited, LIST, .seed = seed,");
    load();
    assert_drift(plain, "What differs:\n  seed: 42 -> 9; this run still uses 42");
    put_edited("main.c", main_source, "return 0.05", "return 0.1");
    load();
    /* Evaluations have no use for these. */
    nt_notice_function before = nt_set_notice(keep_notice, NULL);
    options.quiet = false;
    notice_count = 0;
    nt_run *loud = make_with(options);
    put_all();
    load();
    assert_ok(nt_validate(loud, NULL));
    assert_int_equal(notice_count, 0);
    nt_set_notice(before, NULL);
    nt_run_free(loud);
    nt_run_free(given);
    nt_run_free(plain);
}

/* Layouts that differ: reported, and the run goes on with its own. */
static void fields_that_moved_are_named(void **state) {
    (void)state;
    static const char row[] = "    FIELD(int, batch, 8, \"samples\") \\\n";
    static const struct {
        const char *old, *new, *says;
    } cases[] = {
        {row, "    FIELD(int, batch, 8, \"samples\") \\\n    GRAPH_CONST(double, depth, 2.5, \"new\") \\\n",
         "What differs:\n  field depth (double): added, default 2.5; this run has no such field"},
        {"    DEVICE(float, smoothing, 0.0f, \"label smoothing\") \\\n",
         "    DEVICE(double, smoothing, 0.0, \"\") \\\n",
         "  field smoothing: float (4 bytes) -> double (8 bytes); this run keeps its own"},
        {"FIELD(int, batch", "GRAPH_CONST(int, batch", "What differs:\n  field batch: Host -> GraphConst"},
        {"FIELD(int, accum, 1, \"micro-batches in a step\")", "",
         "What differs:\n  field accum (int): removed; this run keeps it"},
        {"GRAPH_CONST(int, hidden, 6", "GRAPH_CONST(int, hidden, 9",
         "What differs:\n  field hidden: default 6 -> 9; this run still uses 6"},
        /* Another order moves every offset and nothing else. */
        {"    GRAPH_CONST(int, hidden, 6, \"units\") \\\n    DEVICE(float, smoothing, 0.0f, \"label smoothing\") \\\n",
         "    DEVICE(float, smoothing, 0.0f, \"label smoothing\") \\\n    GRAPH_CONST(int, hidden, 6, \"units\") \\\n",
         ""},
    };
    nt_run *run = make();
    double value = evaluated(run);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_edited("main.c", main_source, cases[i].old, cases[i].new);
        load();
        assert_drift(run, cases[i].says);
        assert_true(evaluated(run) == value);
    }
    assert_ok(nt_train(run));
    nt_run_free(run);
}

static void code_that_does_not_trace_is_a_drift(void **state) {
    (void)state;
    nt_run *run = make();
    double value = evaluated(run);
    put_edited("helper.c", helper_source, "nt_tanh(", "nt_matmul(x, ");
    load();
    nt_run *refused = (nt_run *)&value;
    nt_run_options options = quiet_options(NULL);
    assert_fails(nt_run_new(newest(), NULL, &options, &refused), NT_INVALID, "helper.c:7 in squash");
    assert_drift(run, "What differs:\n  the new code does not trace: helper.c:7 in squash: ");
    assert_true(evaluated(run) == value);
    assert_ok(nt_train(run));
    /* The message that stood before the check stands after it. */
    assert_null(nt_run_parameter(run, "absent"));
    const char *report;
    assert_ok(nt_run_drift(run, &report));
    assert_non_null(strstr(nt_error_message(), "has no parameter 'absent'"));

    put_edited("main.c", main_source, ".loss = loss,", "");
    put("helper.c", helper_source);
    load();
    assert_drift(run, "  the new code does not trace: main.c: experiment 'Edited' has no loss hook");
    put_edited("main.c", main_source, ", .metrics = metrics", "");
    load();
    assert_drift(run, "What differs:\n  hook metrics: removed; this run keeps its own");
    nt_run_free(run);
}

/* The check is not seen in any counter, and short memory at any point of it is an error and no leak. */
static void the_check_leaves_nothing(void **state) {
    (void)state;
    nt_run *run = make();
    assert_ok(nt_train(run));
    put_edited("helper.c", helper_source, "nt_tanh(", "nt_logistic(");
    load();
    assert_drift(run, "forward program");
    size_t live = nt__memory().live, failures = 0;
    nt__engine_counts before = nt__engine_counts_now();
    nt_cache_stats_t stats = nt_cache_stats();
    for (size_t n = 1;; n++) {
        const char *report;
        size_t total = nt__memory().total;
        nt__memory_fail_at(n);
        nt_status status = nt_run_drift(run, &report);
        bool reached = nt__memory().total - total >= n;
        nt__memory_fail_at(0);
        if (!reached) break;
        if (status != NT_OUT_OF_MEMORY || nt__memory().live != live)
            fail_msg("allocation %zu: %s, %zu blocks, %zu before", n, nt_status_name(status), nt__memory().live, live);
        failures++;
    }
    assert_true(failures > 100);
    nt__engine_counts after = nt__engine_counts_now();
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(nt_cache_stats().misses, stats.misses);
    assert_int_equal(nt_cache_stats().hits, stats.hits);
    assert_ok(nt_train(run));
    assert_int_equal(nt_run_drift(NULL, &(const char *){NULL}), NT_INVALID);
    assert_int_equal(nt_run_drift(run, NULL), NT_INVALID);
    nt_run_free(run);
}

/* ---- loading ---------------------------------------------------------------------------------------------------- */

/* Each load is a copy of its own, also of the same file and of content that was there before; static and
 * thread-local state begins anew. */
static void each_load_is_a_copy(void **state) {
    (void)state;
    static const char *const shifts[] = {"0.25", "1.25", "2.25", "0.25", "0.25"};
    double values[5];
    const nt_experiment *definitions[5];
    /* In this test only: the leak checker of gcc 12 ends in a fault when dozens of objects with thread-local variables
     * are loaded. */
    put_edited("main.c", main_source, "nt_test_calls = 100 * ++calls;",
               "static _Thread_local int thread_calls; nt_test_calls = 100 * ++calls + ++thread_calls;");
    for (size_t i = 0; i < 5; i++) {
        put_edited("helper.c", helper_source, "0.25", shifts[i]);
        load();
        definitions[i] = newest();
        nt_run *run = make();
        assert_int_equal(nt_test_calls, 101);
        nt_run *another = make();
        assert_int_equal(nt_test_calls, 202);
        values[i] = evaluated(run);
        nt_run_free(run);
        nt_run_free(another);
        for (size_t j = 0; j < i; j++) assert_ptr_not_equal(definitions[i], definitions[j]);
    }
    assert_true(values[0] != values[1] && values[1] != values[2] && values[0] != values[2]);
    assert_true(values[0] == values[3] && values[0] == values[4]);
    for (size_t i = 0; i < 5; i++) assert_string_equal(definitions[i]->name, "Edited");
    /* Nothing is left beside the object: what is there is the sources, the objects and no copy. */
    assert_int_equal(scratch_entries(scratch_folder), 4);
}

static void what_cannot_be_loaded_is_refused(void **state) {
    (void)state;
    assert_fails(nt_experiment_load(NULL), NT_INVALID, "nt_experiment_load: path is NULL");
    assert_fails(nt_experiment_load(scratch("absent.so")), NT_NOT_FOUND, "absent.so");
    put("text.so", "no object\n");
    assert_fails(nt_experiment_load(scratch("text.so")), NT_INVALID, "text.so' cannot be loaded: ");
    put("plain.c", "int plain(void) { return 0; }\n");
    put("lacking.c", "int absent_function(void); int plain(void) { return absent_function(); }\n");
    assert_int_equal(compile("plain.so", "plain.c", ""), 0);
    assert_int_equal(compile("lacking.so", "lacking.c", ""), 0);
    assert_fails(nt_experiment_load(scratch("plain.so")), NT_NOT_FOUND,
                 "plain.so' was loaded and has no experiment: define one with NT_DEFINE");
    assert_fails(nt_experiment_load(scratch("lacking.so")), NT_INVALID, "undefined symbol: absent_function");
    size_t live = nt__memory().live;
    for (size_t n = 1; n < 4; n++) {
        nt__memory_fail_at(n);
        nt_status status = nt_experiment_load(scratch("plain.so"));
        nt__memory_fail_at(0);
        assert_true(status == NT_OUT_OF_MEMORY || status == NT_NOT_FOUND);
        assert_int_equal(nt__memory().live, live);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_edit_compiles_what_it_moved, start),
        cmocka_unit_test_setup(globals_and_captured_values_count, start),
        cmocka_unit_test_setup(it_says_so_when_it_is_used, start),
        cmocka_unit_test_setup(training_traces_on_entry_only, start),
        cmocka_unit_test_setup(settings_that_moved_are_named, start),
        cmocka_unit_test_setup(fields_that_moved_are_named, start),
        cmocka_unit_test_setup(code_that_does_not_trace_is_a_drift, start),
        cmocka_unit_test_setup(the_check_leaves_nothing, start),
        cmocka_unit_test_setup(each_load_is_a_copy, start),
        cmocka_unit_test_setup(what_cannot_be_loaded_is_refused, start),
    };
    int failed = cmocka_run_group_tests(tests, scratch_make, scratch_remove);
    return failed + (shut_down(NULL) != 0);
}
