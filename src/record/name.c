/* Names: of the files of records, and of runs.
 * Not here: what a name that is taken leads to (writer.c).
 */
#include "record/record_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

enum { MOST_OF_A_METRIC = 40 };

/* "val/acc" as "val_acc". `out` holds MOST_OF_A_METRIC + 1 bytes. */
static void metric_part(const char *metric, char *out) {
    size_t length = 0;
    for (; length < MOST_OF_A_METRIC && metric[length]; length++) {
        char c = metric[length];
        bool is_dot_again = c == '.' && length > 0 && out[length - 1] == '.'; /* ".." is for folders */
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
        out[length] = plain && !is_dot_again ? c : '_';
    }
    out[length] = 0;
    if (length == 0) strcpy(out, "metric");
}

/* An epoch has four digits, so that names sort as they were written. */
char *nt__record_name(const nt__record_entry *entry) {
    char metric[MOST_OF_A_METRIC + 1];
    nt__text name = {0};
    nt__text_add(&name, "epoch-%04" PRId64 "-step-%" PRId64, entry->epoch, entry->step);
    if (entry->batch) nt__text_add(&name, "-batch-%" PRId64, entry->batch);
    if (entry->scored) {
        metric_part(entry->metric ? entry->metric : "", metric);
        nt__text_add(&name, "-%s=%.6g", metric, entry->score);
    }
    nt__text_say(&name, NT__RECORD_EXTENSION);
    if (!name.failed) return name.data;
    nt__text_free(&name);
    return NULL;
}

nt_status nt__record_name_check(const char *name) {
    if (!name || !nt__ends_in(name, NT__RECORD_EXTENSION) || !nt__is_utf8(name, strlen(name)))
        return nt__fail(NT_INVALID, "'%s' is not a checkpoint filename: it must be text in UTF-8 that ends in '%s'",
                        name ? name : "NULL", NT__RECORD_EXTENSION);
    if (strpbrk(name, "/\\") || strstr(name, ".."))
        return nt__fail(NT_INVALID,
                        "the checkpoint filename '%s' has a path separator or '..': checkpoints lie in one folder",
                        name);
    return NT_OK;
}

/* Each byte that is one of 4 times 62 gives a letter; the others would make some letters more frequent. */
nt_status nt__run_id(char out[NT__RUN_ID]) {
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const unsigned count = sizeof letters - 1;
    int length = 0;
    while (length < NT__RUN_ID - 1) {
        unsigned char byte;
        if (getrandom(&byte, 1, 0) != 1) {
            if (errno == EINTR) continue;
            return nt__fail(NT_IO, "the system gives no random bytes for the id of a run: %s", strerror(errno));
        }
        if (byte < 4 * count) out[length++] = letters[byte % count];
    }
    out[length] = 0;
    return NT_OK;
}
