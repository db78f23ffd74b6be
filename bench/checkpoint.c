/* What a checkpoint costs: how long training is held up by one, how long it takes until it is on the disk, and how long
 * a record takes to load. The other side of bench/compare/checkpoint; not here: a run, whose state is only stood for by
 * arrays on the device.
 *
 *     checkpoint FOLDER ARRAYS ELEMENTS      f32 arrays of so many elements each
 *
 * Prints "ready". Then for each line of standard input: "save" prints "HELD TOTAL", seconds until training could go on
 * and until the record, its manifest and the folder are synced; "load" prints the seconds of reading that record and
 * checking its hash; "quit" ends.
 */
#include "bench.h"
#include "base/files.h"
#include "record/record.h"

typedef struct device_state {
    nt__engine *engine;
    nt__buffer *buffers;
    size_t count;
    nt__type type;
} device_state;

static void upload_state(device_state *state, int64_t elements) {
    state->type = (nt__type){NT_F32, nt_dims(elements)};
    state->buffers = room(state->count, sizeof *state->buffers);
    for (size_t i = 0; i < state->count; i++) upload_drawn(state->engine, "state", state->type, 1, &state->buffers[i]);
}

static nt_array *host_array(nt__record_writer *writer, nt__type type) {
    nt_array *array = nt__record_writer_array(writer, type.dtype, type.shape);
    if (!array) must(NT_OUT_OF_MEMORY);
    return array;
}

/* A copy on the host, as a step that donates its arguments asks for. */
static void copy_state(const device_state *state, nt__record_writer *writer, int64_t step, nt__record *record) {
    must(nt__record_new(record));
    for (size_t i = 0; i < state->count; i++) {
        char name[32];
        snprintf(name, sizeof name, "array%zu", i);
        nt_array *array = host_array(writer, state->type);
        must(nt__buffer_read(state->engine, &state->buffers[i], array->data));
        must(nt__record_add(record, name, array));
    }
    must(nt__record_set(record, "epoch", json_integer(step)));
    must(nt__record_set(record, "batch", json_integer(0)));
    must(nt__record_set(record, "step", json_integer(step)));
}

static void save(const device_state *state, nt__record_writer *writer, int64_t step) {
    nt__record record;
    double start = nt__seconds();
    must(nt__record_writer_ready(writer));
    copy_state(state, writer, step, &record);
    must(nt__record_writer_put(writer, &record, NULL));
    double held = nt__seconds() - start;
    must(nt__record_writer_wait(writer));
    printf("%.6f %.6f\n", held, nt__seconds() - start);
}

static void load(const char *folder) {
    nt__record_source source;
    nt__record record;
    double start = nt__seconds();
    must(nt__record_source_auto(folder, &source));
    must(source.path ? nt__record_load(source.path, &record) : nt__fail(NT_NOT_FOUND, "nothing was saved yet"));
    printf("%.6f\n", nt__seconds() - start);
    nt__record_free(&record);
    nt__record_source_free(&source);
}

int main(int count, char **arguments) {
    device_state state = {.count = count == 4 ? (size_t)atoll(arguments[2]) : 0};
    if (state.count == 0) must(nt__fail(NT_INVALID, "usage: checkpoint FOLDER ARRAYS ELEMENTS"));
    nt__record_writer_options options = {.folder = arguments[1], .run = "bench", .retention = nt__retention_default()};
    nt__record_writer *writer;
    char line[16];
    int64_t step = 0;
    options.retention.best = 1;
    must(nt__engine_open(1, &state.engine));
    upload_state(&state, atoll(arguments[3]));
    must(nt__record_writer_open(&options, &writer));
    printf("ready\n");
    for (fflush(stdout); fgets(line, sizeof line, stdin) && strcmp(line, "quit\n") != 0; fflush(stdout)) {
        if (strcmp(line, "load\n") == 0)
            load(options.folder);
        else
            save(&state, writer, ++step);
    }
    must(nt__record_writer_close(writer));
    return 0;
}
