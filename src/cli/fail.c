/* Failures of a command, told with the thread's message.
 */
#include <stdio.h>

#include "cli/cli.h"

nt__exit_code nt__report(nt__exit_code code) {
    fflush(stdout);
    fprintf(stderr, "nitro: %s\n", nt_error_message());
    return code;
}

nt__exit_code nt__report_failure(nt_status status) {
    return nt__report(status == NT_INTERRUPTED ? nt__signals_exit_code() : NT__EXIT_FAILED);
}

nt__exit_code nt__report_wrong_use(nt_status status) {
    return nt__report(status == NT_OUT_OF_MEMORY ? NT__EXIT_FAILED : NT__EXIT_WRONG_USE);
}
