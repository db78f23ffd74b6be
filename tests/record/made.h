/* Records that a test makes, and folders of them.
 * Include after cmocka.
 */
#ifndef NT_TESTS_RECORD_MADE_H
#define NT_TESTS_RECORD_MADE_H

#include <stdio.h>
#include <string.h>

#include "../base/scratch.h"
#include "record/record_internal.h"

#define assert_ok(call)                                          \
    do {                                                         \
        if ((call) != NT_OK) fail_msg("%s", nt_error_message()); \
    } while (0)

/* The call fails with this status and a message that holds the text. */
#define assert_fails(call, status, text)                                                                  \
    do {                                                                                                  \
        assert_int_equal(call, status);                                                                   \
        if (!strstr(nt_error_message(), text)) fail_msg("\"%s\" lacks \"%s\"", nt_error_message(), text); \
    } while (0)

/* A folder of the scratch folder; the path lasts until the next call. */
static inline const char *test_folder(const char *name) {
    static char path[2 * SCRATCH_PATH];
    snprintf(path, sizeof path, "%s", scratch(name));
    return path;
}

enum { MADE_ELEMENTS = 1000 };

/* Two arrays whose elements follow from the step, and the facts that a writer asks for. score nan: not validated. */
static inline nt_status make_record(int64_t epoch, int64_t batch, int64_t step, double score, const char *stop_reason,
                                    nt__record *out) {
    nt_status status = nt__record_new(out);
    nt_array *weights = status == NT_OK ? nt_array_new(NT_F32, nt_dims(MADE_ELEMENTS)) : NULL;
    nt_array *counter = weights ? nt_array_new(NT_I64, (nt_shape){0}) : NULL;
    if (!counter) {
        nt_array_free(weights);
        nt__record_free(out);
        return NT_OUT_OF_MEMORY;
    }
    for (int i = 0; i < MADE_ELEMENTS; i++) ((float *)weights->data)[i] = (float)(step * 7 + i);
    memcpy(counter->data, &step, sizeof step);
    status = nt__record_add(out, "weights", weights);
    nt_status other = nt__record_add(out, "counter", counter);
    if (status == NT_OK) status = other;
    json_t *metrics = json_object();
    if (score == score) json_object_set_new(metrics, "val_loss", nt__record_number(score));
    const struct {
        const char *key;
        json_t *value;
    } facts[] = {{"epoch", json_integer(epoch)}, {"batch", json_integer(batch)},
                 {"step", json_integer(step)},   {"seed", json_integer(42)},
                 {"preset", json_null()},        {"metrics", metrics},
                 {"anchor_hashes", json_null()}, {"stop_reason", stop_reason ? json_string(stop_reason) : json_null()}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        other = nt__record_set(out, facts[i].key, facts[i].value);
        if (status == NT_OK) status = other;
    }
    if (status != NT_OK) nt__record_free(out);
    return status;
}

/* The arrays are those that make_record made for the record's step. */
static inline void assert_made(const nt__record *record) {
    int64_t step, counter;
    assert_ok(nt__record_integer(record, "step", &step));
    const nt__named_array *array = nt__record_find(record, "counter");
    assert_non_null(array);
    memcpy(&counter, array->data, sizeof counter);
    assert_int_equal(counter, step);
    array = nt__record_find(record, "weights");
    assert_non_null(array);
    assert_int_equal(array->type.dtype, NT_F32);
    for (int i = 0; i < MADE_ELEMENTS; i++) {
        float element;
        memcpy(&element, (const char *)array->data + (size_t)i * sizeof element, sizeof element);
        assert_true(element == (float)(step * 7 + i));
    }
}

static inline nt__record_writer_options writer_options(const char *folder, const char *run) {
    return (nt__record_writer_options){
        .folder = folder, .run = run, .retention = nt__retention_default(), .synchronous = true};
}

static inline nt_status put_made(nt__record_writer *writer, int64_t epoch, double score, const char *stop_reason) {
    nt__record record;
    nt_status status = make_record(epoch, 0, epoch * 4, score, stop_reason, &record);
    return status == NT_OK ? nt__record_writer_put(writer, &record, NULL) : status;
}

/* "1 2 4": the epochs of the folder's entries, in their order. */
static inline void assert_epochs(const char *folder, const char *epochs) {
    nt__manifest manifest;
    char text[256] = "";
    assert_ok(nt__manifest_read(folder, &manifest));
    for (size_t i = 0; i < manifest.count; i++) {
        size_t length = strlen(text);
        snprintf(text + length, sizeof text - length, "%s%d", i ? " " : "", (int)manifest.entries[i].epoch);
    }
    nt__manifest_free(&manifest);
    assert_string_equal(text, epochs);
}

/* The text lasts until the next call. */
static inline const char *file_of_epoch(const char *folder, const char *run, int64_t epoch) {
    static char name[3 * SCRATCH_PATH];
    nt__manifest manifest;
    *name = 0;
    assert_ok(nt__manifest_read(folder, &manifest));
    for (size_t i = 0; i < manifest.count; i++)
        if (manifest.entries[i].epoch == epoch && nt__same_run(manifest.entries[i].run, run))
            snprintf(name, sizeof name, "%s/%s", folder, manifest.entries[i].file);
    nt__manifest_free(&manifest);
    return name;
}

#endif
