/* The TensorBoard logger: lines of a run as summaries of an event file.
 * Not here: the file (events.c), PNG (image.c).
 */
#include <math.h>
#include <string.h>
#include <time.h>

#include "log/events.h"
#include "log/image.h"
#include "log/log.h"

typedef struct board {
    char *folder;
    bool resumes, begun;
    int64_t step, position; /* as the log was opened */
    nt__events events;
} board;

/* A position has the number of the file above its length. */
enum { LENGTH_BITS = 40 };

/* ---- events ----------------------------------------------------------------------------------------------------- */

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static nt_status put_summary(board *b, int64_t step, Nt__Board__Value **values, size_t count) {
    Nt__Board__Summary summary = NT__BOARD__SUMMARY__INIT;
    Nt__Board__Event event = NT__BOARD__EVENT__INIT;
    if (count == 0) return NT_OK;
    summary.n_values = count;
    summary.values = values;
    event.seconds = seconds_now();
    event.step = step;
    event.what_case = NT__BOARD__EVENT__WHAT_SUMMARY;
    event.summary = &summary;
    return nt__events_put(&b->events, &event);
}

/* A reader forgets what a run that was killed logged after the step. */
static nt_status put_start(board *b) {
    Nt__Board__Session session = NT__BOARD__SESSION__INIT;
    Nt__Board__Event event = NT__BOARD__EVENT__INIT;
    session.status = 1;
    event.seconds = seconds_now();
    event.step = b->step + 1;
    event.what_case = NT__BOARD__EVENT__WHAT_SESSION;
    event.session = &session;
    return nt__events_put(&b->events, &event);
}

/* With the first line, so that a log without one leaves everything as it was. */
static nt_status begin(board *b) {
    nt_status status = NT_OK;
    if (!b->resumes)
        status = nt__events_keep_previous(b->folder);
    else if (b->position >= 0)
        status = nt__events_cut(b->folder, (int)(b->position >> LENGTH_BITS),
                                b->position & (((int64_t)1 << LENGTH_BITS) - 1));
    if (status == NT_OK) status = nt__events_open(b->folder, &b->events);
    b->begun = status == NT_OK;
    return status == NT_OK && b->resumes ? put_start(b) : status;
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

static Nt__Board__Value *new_value(nt__arena *arena, const char *tag) {
    Nt__Board__Value *value = nt__arena_alloc(arena, 1, sizeof *value);
    char *copy = value ? nt__arena_strdup(arena, tag) : NULL;
    if (!copy) return NULL;
    *value = (Nt__Board__Value)NT__BOARD__VALUE__INIT;
    value->tag = copy;
    return value;
}

static Nt__Board__Value *new_number(nt__arena *arena, const char *group, const char *name, double number) {
    char *tag = nt__arena_sprintf(arena, "%s/%s", group, name);
    Nt__Board__Value *value = tag ? new_value(arena, tag) : NULL;
    if (!value) return NULL;
    value->value_case = NT__BOARD__VALUE__VALUE_NUMBER;
    value->number = (float)number;
    return value;
}

/* Tags are "<context>/<name>"; the epoch goes along. */
static nt_status put_metrics(board *b, nt__arena *arena, const nt_log_line *line) {
    Nt__Board__Value **values = nt__arena_alloc(arena, line->count + 1, sizeof *values);
    size_t count = 0;
    if (!values) return NT_OUT_OF_MEMORY;
    for (size_t i = 0; i < line->count; i++) {
        if (line->values[i].text || !isfinite(line->values[i].number)) continue;
        values[count] = new_number(arena, line->context, line->values[i].name, line->values[i].number);
        if (!values[count++]) return NT_OUT_OF_MEMORY;
    }
    if (count == 0) return NT_OK;
    values[count] = new_number(arena, line->context, "epoch", (double)line->epoch);
    return values[count] ? put_summary(b, line->step, values, count + 1) : NT_OUT_OF_MEMORY;
}

/* ---- texts ------------------------------------------------------------------------------------------------------ */

enum { DT_STRING = 7 };

static nt_status put_text(board *b, nt__arena *arena, int64_t step, const char *tag, const char *text) {
    static char plugin_name[] = "text";
    Nt__Board__Value *value = new_value(arena, tag);
    if (!value) return NT_OUT_OF_MEMORY;
    Nt__Board__Plugin plugin = NT__BOARD__PLUGIN__INIT;
    Nt__Board__Metadata metadata = NT__BOARD__METADATA__INIT;
    Nt__Board__Tensor tensor = NT__BOARD__TENSOR__INIT;
    char *copy = nt__arena_strdup(arena, text);
    if (!copy) return NT_OUT_OF_MEMORY;
    ProtobufCBinaryData bytes = {.len = strlen(copy), .data = (uint8_t *)copy};
    plugin.name = plugin_name;
    metadata.plugin = &plugin;
    tensor.dtype = DT_STRING;
    tensor.n_strings = 1;
    tensor.strings = &bytes;
    value->metadata = &metadata;
    value->value_case = NT__BOARD__VALUE__VALUE_TENSOR;
    value->tensor = &tensor;
    return put_summary(b, step, &value, 1);
}

static nt_status put_built_text(board *b, nt__arena *arena, int64_t step, const char *tag, nt__text *text) {
    nt_status status = text->failed ? NT_OUT_OF_MEMORY : put_text(b, arena, step, tag, text->data ? text->data : "");
    nt__text_free(text);
    return status;
}

/* A list in Markdown, the names bold. */
static nt_status put_list(board *b, nt__arena *arena, const nt_log_line *line) {
    nt__text text = {0};
    for (size_t i = 0; i < line->count; i++) {
        const nt_log_value *value = &line->values[i];
        nt__text_add(&text, "- **%s**: ", value->name);
        if (value->text)
            nt__text_say(&text, value->text);
        else
            nt__text_add(&text, "%.9g", nt__plain_nan(value->number));
        nt__text_say(&text, "\n");
    }
    return put_built_text(b, arena, line->step, line->type, &text);
}

/* Values "key" and "value"; a number is a curve, a text is shown as it is. */
static nt_status put_other(board *b, nt__arena *arena, const nt_log_line *line) {
    if (line->count != 2 || !line->values[0].text) return put_list(b, arena, line);
    const char *key = line->values[0].text;
    if (line->values[1].text) return put_text(b, arena, line->step, key, line->values[1].text);
    Nt__Board__Value *value = new_number(arena, "other", key, line->values[1].number);
    return value ? put_summary(b, line->step, &value, 1) : NT_OUT_OF_MEMORY;
}

/* Four blanks in front of a line make it code in Markdown. */
static nt_status put_source(board *b, nt__arena *arena, const nt_log_line *line) {
    nt__text text = {0};
    const char *path = line->values[0].text, *code = line->values[1].text;
    bool is_code = strcmp(line->values[1].name, "text") == 0;
    char *tag = nt__arena_sprintf(arena, "source/%s", path);
    if (!tag) return NT_OUT_OF_MEMORY;
    for (const char *at = code; *at;) {
        size_t length = strcspn(at, "\n");
        nt__text_say(&text, is_code ? "    " : "");
        nt__text_put(&text, at, length);
        nt__text_say(&text, "\n");
        at += length + (at[length] != 0);
    }
    return put_built_text(b, arena, line->step, tag, &text);
}

static nt_status put_finish(board *b, nt__arena *arena, const nt_log_line *line) {
    return put_text(b, arena, line->step, "run/status", line->values[0].text);
}

/* ---- arrays ----------------------------------------------------------------------------------------------------- */

enum { BUCKETS = 30 };

typedef struct counted {
    double least, most, sum, squares, count, limits[BUCKETS], counts[BUCKETS];
} counted;

static void measure(const nt_array *array, counted *out) {
    int64_t count = nt_shape_elements(array->shape);
    out->least = INFINITY;
    out->most = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        double value = nt_array_get(array, i);
        if (!isfinite(value)) continue;
        out->least = fmin(out->least, value);
        out->most = fmax(out->most, value);
        out->sum += value;
        out->squares += value * value;
        out->count++;
    }
}

/* Buckets of one width between the least and the most; values that are not finite are in none. */
static void count_buckets(const nt_array *array, counted *out) {
    bool is_point = out->least == out->most;
    double low = is_point ? out->least - 0.5 : out->least, width = (is_point ? 1 : out->most - out->least) / BUCKETS;
    int64_t count = nt_shape_elements(array->shape);
    for (int i = 0; i < BUCKETS; i++) out->limits[i] = low + width * (i + 1);
    for (int64_t i = 0; i < count; i++) {
        double value = nt_array_get(array, i);
        if (!isfinite(value)) continue;
        double place = floor((value - low) / width);
        out->counts[(int)fmin(fmax(place, 0), BUCKETS - 1)]++;
    }
}

static nt_status put_histogram(board *b, nt__arena *arena, const nt_log_line *line) {
    counted c = {0};
    measure(line->array, &c);
    if (c.count == 0) return NT_OK;
    count_buckets(line->array, &c);
    Nt__Board__Histogram histogram = NT__BOARD__HISTOGRAM__INIT;
    Nt__Board__Value *value = new_value(arena, line->key);
    if (!value) return NT_OUT_OF_MEMORY;
    histogram.least = c.least;
    histogram.most = c.most;
    histogram.count = c.count;
    histogram.sum = c.sum;
    histogram.sum_of_squares = c.squares;
    histogram.n_limits = histogram.n_counts = BUCKETS;
    histogram.limits = c.limits;
    histogram.counts = c.counts;
    value->value_case = NT__BOARD__VALUE__VALUE_HISTOGRAM;
    value->histogram = &histogram;
    return put_summary(b, line->step, &value, 1);
}

static nt_status put_image(board *b, nt__arena *arena, const nt_log_line *line) {
    void *png;
    Nt__Board__Image image = NT__BOARD__IMAGE__INIT;
    Nt__Board__Value *value = new_value(arena, line->key);
    if (!value) return NT_OUT_OF_MEMORY;
    nt_status status = nt__png_of(line->array, &png, &image.png.len);
    if (status != NT_OK) return nt__fail_in(status, "image '%s'", line->key);
    image.height = (int32_t)line->array->shape.dims[0];
    image.width = (int32_t)line->array->shape.dims[1];
    image.channels = (int32_t)line->array->shape.dims[2];
    image.png.data = png;
    value->value_case = NT__BOARD__VALUE__VALUE_IMAGE;
    value->image = &image;
    status = put_summary(b, line->step, &value, 1);
    nt__free(png);
    return status;
}

/* ---- as a logger ------------------------------------------------------------------------------------------------ */

static const struct {
    const char *type;
    nt_status (*put)(board *b, nt__arena *arena, const nt_log_line *line);
} forms[] = {{"params", put_list},     {"environment", put_list}, {"source", put_source}, {"other", put_other},
             {"metrics", put_metrics}, {"finish", put_finish},    {"image", put_image},   {"histogram", put_histogram}};

static nt_status log_line(void *state, const nt_log_line *line) {
    board *b = state;
    nt_status status = b->begun ? NT_OK : begin(b);
    nt__arena arena = {0};
    for (size_t i = 0; status == NT_OK && i < sizeof forms / sizeof *forms; i++)
        if (strcmp(forms[i].type, line->type) == 0) status = forms[i].put(b, &arena, line);
    nt__arena_free(&arena);
    return status;
}

static void close_logger(void *state) {
    board *b = state;
    nt__events_close(&b->events);
    nt__free(b->folder);
    nt__free(b);
}

static nt_status open_logger(void *context, const nt_log_start *start, void **state) {
    (void)context;
    board *b = *state = nt__alloc(1, sizeof *b);
    if (!b) return NT_OUT_OF_MEMORY;
    *b = (board){.resumes = start->resumes,
                 .step = start->step,
                 .position = start->position,
                 .events = {.file = -1},
                 .folder = nt__strdup(start->run_dir)};
    if (b->folder) return NT_OK;
    close_logger(b);
    return NT_OUT_OF_MEMORY;
}

static int64_t position(void *state) {
    const board *b = state;
    return ((int64_t)b->events.number << LENGTH_BITS) | b->events.length;
}

const nt_logger nt__tensorboard_logger = {
    .name = "tensorboard", .open = open_logger, .line = log_line, .position = position, .close = close_logger};
