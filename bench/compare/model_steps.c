/* The nitro side of bench/compare/models, linked with an example: takes steps of its training when it is told to.
 *
 *     model_steps RUN_DIR
 *
 * Prints "ready SECONDS DATA": from the start of the process, whose time BENCH_START gives, to the end of the first
 * step, and what build_data took of it. Then for each line "N" of standard input it trains for N + 1 steps and prints
 * "SECONDS" from the end of the first to the end of the last. A step is in flight while it waits, which is the first of
 * the next line. Not here: the models, which the examples are.
 */
#include <nitro.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Since the machine was started, where nobody gives a time. */
static double since_start(void) {
    const char *start = getenv("BENCH_START");
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9 - (start ? atof(start) : 0);
}

static void must(nt_status status) {
    if (status == NT_OK) return;
    fprintf(stderr, "%s\n", nt_error_message());
    exit(1);
}

static double seconds_of_data;
static nt_status timed_build_data(const void *e, nt_data *data) {
    double start = since_start();
    nt_status status = nt_experiment_at(0)->hooks.build_data(e, data);
    seconds_of_data = since_start() - start;
    return status;
}

/* Steps that are still to be taken, and when the first of them had ended; the next one is running by then. */
typedef struct turn {
    long left;
    double start;
} turn;

/* Waits for a line that says how many steps to take; at the end of the input training ends. */
static void wait_for_turn(turn *t) {
    char line[32];
    fflush(stdout);
    t->start = 0;
    if (fgets(line, sizeof line, stdin))
        t->left = strtol(line, NULL, 10);
    else
        nt_stop_request();
}

static void listen(const nt_event *event, void *context) {
    turn *t = context;
    if (event->kind != NT_EVENT_STEP) return;
    if (event->step == 1) {
        printf("ready %.6f %.6f\n", since_start(), seconds_of_data);
        wait_for_turn(t);
    } else if (t->start == 0) {
        t->start = since_start();
    } else if (--t->left == 0) {
        printf("%.9f\n", since_start() - t->start);
        wait_for_turn(t);
    }
}

int main(int argument_count, char **arguments) {
    if (argument_count != 2) return 1;
    turn t = {0};
    nt_experiment experiment = *nt_experiment_at(0);
    experiment.hooks.build_data = timed_build_data;
    nt_run_options options = {
        .run_dir = arguments[1], .max_epochs = {true, 1000}, .quiet = true, .on_event = listen, .event_context = &t};
    nt_run *run;
    must(nt_run_new(&experiment, NULL, &options, &run));
    nt_status status = nt_train(run);
    if (status != NT_INTERRUPTED) must(status);
    nt_run_free(run);
    must(nt_shutdown());
    return 0;
}
