/* What a step costs beside the device: argument checks, accounting, counters, schedules, events. Meant for the fake
 * plugin, which computes nothing; its own time is in the figures, so they are upper bounds. Not here: kernels, data.
 *
 *     NITRO_PLUGIN=build/tests/fake_plugin.so NITRO_FAKE=forget step_time [STEPS]
 */
#include <time.h>

#include "bench.h"
#include "base/files.h"
#include "nitro.h"

#define SMALL(FIELD, DEVICE, GRAPH_CONST) DEVICE(float, smoothing, 0.1f, "label smoothing")
NT_EXPERIMENT(Small, SMALL)

enum { BATCH = 4, BATCHES = 500, UNITS = 4 };

static nt_status build_data(const Small *e, nt_data *data) {
    (void)e;
    nt_split(data, "train", .batch = BATCH);
    nt_split_field(data, "train", "x", nt_array_new(NT_F32, nt_dims(BATCH * BATCHES, UNITS)));
    nt_split_field(data, "train", "label", nt_array_new(NT_U8, nt_dims(BATCH * BATCHES)));
    return nt_data_status(data);
}

/* Ten arrays, as a small model has. */
static nt_tensor forward(const Small_view *e, nt_model *m, nt_batch *batch) {
    (void)e;
    nt_tensor x = nt_field(batch, "x");
    for (int i = 0; i < 5; i++) NT_SCOPE(m, "layer%d", i) x = nt_dense(m, "dense", x, UNITS);
    return x;
}

static nt_tensor loss(const Small_view *e, nt_tensor logits, nt_batch *batch) {
    return nt_cross_entropy(logits, nt_field(batch, "label"), .label_smoothing = e->smoothing);
}

static const char *param_group(const Small *e, const char *path) {
    (void)e;
    return strncmp(path, "layer0.", 7) == 0 ? "first" : NULL;
}

NT_DEFINE(Small, SMALL, .build_data = build_data, .forward = forward, .loss = loss, .param_group = param_group);

/* ---- clocks ----------------------------------------------------------------------------------------------------- */

enum { WARM_UP = 200 };
typedef struct clocks {
    int64_t from;
    double wall, thread, process;
} clocks;

static double seconds_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static clocks read_clocks(int64_t step) {
    return (clocks){step, nt__seconds(), seconds_of(CLOCK_THREAD_CPUTIME_ID), seconds_of(CLOCK_PROCESS_CPUTIME_ID)};
}

static void start_clocks(const nt_event *event, void *context) {
    if (event->kind == NT_EVENT_STEP && event->step == WARM_UP) *(clocks *)context = read_clocks(event->step);
}

static void measure(const char *title, int64_t steps, const nt_named_schedule *schedules, bool log) {
    clocks start = {0};
    nt_run *run;
    nt_run_options options = {.no_log = !log,
                              .quiet = true,
                              .run_dir = "runs/step_time",
                              .max_epochs = {true, INT64_MAX},
                              .max_steps = {true, steps},
                              .schedules = schedules,
                              .on_event = start_clocks,
                              .event_context = &start};
    must(nt_run_new(Small_experiment(), NULL, &options, &run));
    must(nt_train(run));
    clocks end = read_clocks(steps);
    double each = 1e6 / (double)(end.from - start.from);
    printf("%-34s %6.1f us of the training thread, %6.1f of the process, %6.1f by the clock\n", title,
           each * (end.thread - start.thread), each * (end.process - start.process), each * (end.wall - start.wall));
    nt_run_free(run);
}

int main(int argument_count, char **arguments) {
    int64_t steps = WARM_UP + (argument_count > 1 ? strtoll(arguments[1], NULL, 10) : 5000);
    const nt_named_schedule schedules[] = {{"smoothing", nt_schedule_linear(0.1, 0, .steps = steps)},
                                           {"learning_rate", nt_schedule_cosine(1e-3, 0, .steps = steps)},
                                           {0}};
    measure("a step", steps, NULL, false);
    measure("with a field and rates scheduled", steps, schedules, false);
    measure("with a line of the log", steps, NULL, true);
    must(nt_shutdown());
    return 0;
}
