/* How long it takes to trace, differentiate and print the example's gradient program: what a handle pays for having the
 * program's content as its key. Includes the program's description and hash. Not here: compiling.
 *
 *     trace_time DATA_DIR [ROUNDS]
 */
#include "bench.h"
#include "run/run_internal.h"

#include "../examples/fashion.c"

static double trace_once(nt_run *run) {
    nt__program_free(run->gradient);
    run->gradient = NULL;
    double start = nt__seconds();
    must(nt__trace_gradient(run));
    return nt__seconds() - start;
}

int main(int argument_count, char **arguments) {
    if (argument_count < 2) {
        fprintf(stderr, "usage: trace_time DATA_DIR [ROUNDS]\n");
        return 2;
    }
    size_t rounds = argument_count > 2 ? strtoul(arguments[2], NULL, 10) : 500;
    Fashion fields = Fashion_defaults();
    fields.data_dir = arguments[1];
    nt_run *run;
    must(nt_run_new(Fashion_experiment(), &fields, &(nt_run_options){.no_log = true, .quiet = true}, &run));
    double first = trace_once(run), *seconds = room(rounds + 1, sizeof *seconds);
    for (size_t i = 0; i <= rounds; i++) seconds[i] = trace_once(run);
    printf("gradient program of Fashion: %zu bytes of text; trace, gradient and print: first %.3f ms, median %.3f ms\n",
           strlen(nt__program_text(run->gradient)), first * 1e3, median(seconds, rounds + 1) * 1e3);
    nt__free(seconds);
    nt_run_free(run);
    must(nt_shutdown());
    return 0;
}
