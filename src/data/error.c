/* Errors that are kept and raised later, perhaps on another thread.
 * Not here: messages and their making (base).
 */
#include "data/data_internal.h"

#include <stdio.h>

nt_status nt__error_keep(nt__kept_error *kept, nt_status status) {
    if (status == NT_OK || kept->status != NT_OK) return status;
    kept->status = status;
    snprintf(kept->message, sizeof kept->message, "%s", nt_error_message());
    return status;
}

nt_status nt__error_raise(const nt__kept_error *kept) {
    return kept->status == NT_OK ? NT_OK : nt__fail(kept->status, "%s", kept->message);
}
