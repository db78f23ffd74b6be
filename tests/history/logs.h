/* Logs made up for tests of what reads them. Include after cmocka. */
#ifndef NT_TESTS_HISTORY_LOGS_H
#define NT_TESTS_HISTORY_LOGS_H

#include <stdio.h>
#include <string.h>

#include "../base/scratch.h"
#include "base/files.h"

/* Writes "<folder>/metrics.jsonl" in the scratch folder. */
static inline const char *put_log(const char *folder, const char *text) {
    char name[SCRATCH_PATH];
    assert_int_equal(nt__make_folder(scratch(folder)), NT_OK);
    snprintf(name, sizeof name, "%s/metrics.jsonl", folder);
    scratch_put(name, text, strlen(text));
    return scratch(folder);
}

static inline void add_epoch(nt__text *log, int epoch, int steps, double loss, const char *metrics) {
    nt__text_add(log,
                 "{\"loss\":9.5,\"type\":\"metrics\",\"context\":\"train\",\"epoch\":%d,\"step\":%d}\n"
                 "{\"loss\":%.9g,\"type\":\"metrics\",\"context\":\"epoch\",\"epoch\":%d,\"step\":%d}\n"
                 "{%s,\"type\":\"metrics\",\"context\":\"validate\",\"epoch\":%d,\"step\":%d}\n",
                 epoch, epoch * steps, loss, epoch, epoch * steps, metrics, epoch, epoch * steps);
}

/* 40 epochs of 4 steps with the losses 1 / epoch; mae is 0.5 in epoch 23, and farther off it the larger. */
static inline const char *put_forty(const char *folder, const char *behind) {
    nt__text log = {0};
    nt__text_say(&log,
                 "{\"hidden\":32,\"max_epochs\":40,\"type\":\"params\"}\n"
                 "{\"experiment\":\"Regression\",\"started\":\"2026-01-02T03:04:05Z\",\"type\":\"environment\"}\n");
    for (int epoch = 1; epoch <= 40; epoch++) {
        char metrics[64];
        snprintf(metrics, sizeof metrics, "\"mae\":%.9g,\"rows\":200", 0.5 + 0.125 * abs(epoch - 23));
        add_epoch(&log, epoch, 4, 1.0 / epoch, metrics);
    }
    nt__text_say(&log, behind);
    assert_false(log.failed);
    const char *path = put_log(folder, log.data);
    nt__text_free(&log);
    return path;
}

#endif
