/* How long it takes to trace, differentiate and print the example's gradient program: what a handle pays for having the
 * program's content as its key. Includes the program's description and hash. Not here: compiling.
 *
 *     trace_time [ROUNDS]
 */
#include "bench.h"
#include "run/run_internal.h"

/* Of examples/fashion.c, which is linked in. */
const nt_experiment *Fashion_experiment(void);

static double trace_once(nt_run *run) {
    nt__program_free(run->gradient);
    run->gradient = NULL;
    double start = nt__seconds();
    must(nt__trace_gradient(run));
    return nt__seconds() - start;
}

int main(int argument_count, char **arguments) {
    size_t rounds = argument_count > 1 ? strtoul(arguments[1], NULL, 10) : 500;
    nt_run *run;
    must(nt_run_new(Fashion_experiment(), NULL, &(nt_run_options){.no_log = true, .quiet = true}, &run));
    double first = trace_once(run), *seconds = room(rounds + 1, sizeof *seconds);
    for (size_t i = 0; i <= rounds; i++) seconds[i] = trace_once(run);
    printf("gradient program of Fashion: %zu bytes of text; trace, gradient and print: first %.3f ms, median %.3f ms\n",
           strlen(nt__program_text(run->gradient)), first * 1e3, median(seconds, rounds + 1) * 1e3);
    nt__free(seconds);
    nt_run_free(run);
    must(nt_shutdown());
    return 0;
}
