/* How long it takes to trace, differentiate and print the example's gradient program: what a handle pays for having the
 * program's content as its key. Includes the program's description and hash. And how long a whole handle of the
 * unchanged example takes, without build_data, with its programs in memory. Not here: compiling.
 *
 *     trace_time [ROUNDS]
 */
#include <time.h>

#include "bench.h"
#include "base/files.h"
#include "run/run_internal.h"
#include "step/tracing.h"

/* Of examples/fashion.c, which is linked in. */
const nt_experiment *Fashion_experiment(void);

static double trace_once(nt_run *run) {
    nt__program_free(run->traced.programs.gradient);
    run->traced.programs.gradient = NULL;
    double start = nt__seconds();
    must(nt__trace_gradient(&run->traced));
    return nt__seconds() - start;
}

/* ---- a whole handle --------------------------------------------------------------------------------------------- */

/* Processor time of the thread: the machine may be busy with other things. */
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double seconds_of_data;
static nt_status timed_build_data(const void *e, nt_data *data) {
    double start = now();
    nt_status status = Fashion_experiment()->hooks.build_data(e, data);
    seconds_of_data += now() - start;
    return status;
}

/* Up to the programs being ready to run. */
static nt_run *make_handle(const nt_experiment *experiment) {
    nt_run *run;
    must(nt_run_new(experiment, NULL, &(nt_run_options){.no_log = true, .quiet = true}, &run));
    must(nt__program_ready(run->traced.programs.gradient));
    must(nt__program_ready(run->traced.programs.optimizer));
    must(nt__program_ready(run->traced.programs.forward));
    return run;
}

static void time_handles(size_t rounds) {
    nt_experiment experiment = *Fashion_experiment();
    experiment.hooks.build_data = timed_build_data;
    double *seconds = room(rounds, sizeof *seconds);
    nt_run_free(make_handle(&experiment));
    for (size_t i = 0; i < rounds; i++) {
        seconds_of_data = 0;
        double start = now();
        nt_run *run = make_handle(&experiment);
        seconds[i] = now() - start - seconds_of_data;
        nt_run_free(run);
    }
    printf("a handle of Fashion without build_data, programs in memory: median %.3f ms of its thread\n",
           median(seconds, rounds) * 1e3);
    nt__free(seconds);
}

int main(int argument_count, char **arguments) {
    size_t rounds = argument_count > 1 ? strtoul(arguments[1], NULL, 10) : 500;
    nt_run *run;
    must(nt_run_new(Fashion_experiment(), NULL, &(nt_run_options){.no_log = true, .quiet = true}, &run));
    double first = trace_once(run), *seconds = room(rounds + 1, sizeof *seconds);
    for (size_t i = 0; i <= rounds; i++) seconds[i] = trace_once(run);
    printf("gradient program of Fashion: %zu bytes of text; trace, gradient and print: first %.3f ms, median %.3f ms\n",
           strlen(nt__program_text(run->traced.programs.gradient)), first * 1e3, median(seconds, rounds + 1) * 1e3);
    nt__free(seconds);
    nt_run_free(run);
    time_handles(11);
    must(nt_shutdown());
    return 0;
}
