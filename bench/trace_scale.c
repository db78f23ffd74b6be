/* How long it takes to trace, differentiate and print the gradient program of a transformer of 12, 24 and 48 layers,
 * and how much memory and text it is. Not here: compiling.
 *
 *     trace_scale [ROUNDS]
 */
#include <time.h>

#include "../tests/graph/transformer.h"
#include "bench.h"

/* Processor time of the thread: the machine may be busy with other things. */
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void time_layers(int layers, size_t rounds) {
    const transformer t = {layers, 8, 512, 1024, 16};
    transformer_parameters parameters;
    transformer_size size = {0};
    double *seconds = room(rounds, sizeof *seconds);
    must(transformer_learn(&t, &parameters));
    for (size_t i = 0; i < rounds; i++) {
        double start = now();
        must(transformer_program(&t, &parameters, &size));
        seconds[i] = now() - start;
    }
    double first = seconds[0], middle = median(seconds, rounds);
    printf("%2d layers, %zu parameters: %zu nodes in %.2f MB, %zu lines of text in %.2f MB; first %.1f ms, median %.1f "
           "ms\n",
           layers, parameters.layout.row_count, size.nodes, (double)size.bytes / 1e6, size.lines,
           (double)size.text / 1e6, first * 1e3, middle * 1e3);
    transformer_forget(&parameters);
    nt__free(seconds);
}

int main(int argument_count, char **arguments) {
    size_t rounds = argument_count > 1 ? strtoul(arguments[1], NULL, 10) : 21;
    if (rounds == 0) rounds = 1;
    for (int layers = 12; layers <= 48; layers *= 2) time_layers(layers, rounds);
    return 0;
}
