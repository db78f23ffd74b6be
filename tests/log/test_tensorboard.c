/* src/log/tensorboard.c: event files, read back by the Python package tensorboard; what becomes of those of a former
 * run, and of a run that goes on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <sys/wait.h>

#include "../base/scratch.h"
#include "base/files.h"
#include "log/events.h"
#include "log/image.h"
#include "log/log.h"

#define COUNT_OF(list) (sizeof(list) / sizeof *(list))

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static void *open_log(const char *folder, bool resumes, int64_t step, int64_t position) {
    void *state;
    nt_log_start start = {.run_dir = scratch(folder), .resumes = resumes, .step = step, .position = position};
    assert_int_equal(nt__make_folder(start.run_dir), NT_OK);
    if (nt__tensorboard_logger.open(NULL, &start, &state) != NT_OK) fail_msg("%s", nt_error_message());
    return state;
}

static void put(void *state, nt_log_line line) {
    if (nt__tensorboard_logger.line(state, &line) != NT_OK) fail_msg("%s", nt_error_message());
}

static void put_number(void *state, const char *context, int64_t step, const char *name, double number) {
    const nt_log_value value = {name, NULL, number};
    put(state,
        (nt_log_line){.type = "metrics", .context = context, .step = step, .epoch = 2, .values = &value, .count = 1});
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

/* What the programs have: `a` is the reader of the folder. */
static const char head[] =
    "import sys; sys.path.insert(0, sys.argv[1])\n"
    "import numpy as np\n"
    "from tensorboard.backend.event_processing import event_accumulator\n"
    "a = event_accumulator.EventAccumulator(sys.argv[2], {'scalars': 0, 'histograms': 0, 'images': 0, 'tensors': 0})\n"
    "a.Reload()\n"
    "def scalars(tag): return [(e.step, e.value) for e in a.Scalars(tag)]\n"
    "def text(tag):\n"
    "    events = a.Tensors(tag)\n"
    "    assert a.SummaryMetadata(tag).plugin_data.plugin_name == 'text'\n"
    "    assert len(events) == 1\n"
    "    return events[0].step, events[0].tensor_proto.string_val[0].decode()\n"
    "def same(a, b): assert a == b, (a, b)\n";

static void check_with_python(const char *folder, const char *checks) {
    char *program = nt__sprintf("%s%s", head, checks);
    assert_non_null(program);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execlp("python3", "python3", "-c", program, getenv("NT_PYTHONPATH"), scratch(folder), (char *)NULL);
        _exit(98);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    nt__free(program);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

static void numbers_are_scalars_of_their_context(void **state) {
    (void)state;
    void *log = open_log("scalars", false, 0, -1);
    const nt_log_value both[] = {{"accuracy", NULL, 0.75}, {"lost", NULL, NAN}, {"f1", NULL, 0.1}};
    put_number(log, "train", 1, "loss", 2.5);
    put_number(log, "train", 4000000000, "loss", 1.5);
    put(log,
        (nt_log_line){.type = "metrics", .context = "validate", .step = 8, .epoch = 3, .values = both, .count = 3});
    put_number(log, "data", 8, "data_wait_frac", 0.25);
    const nt_log_value other[] = {{"key", "speed", 0}, {"value", NULL, 12.5}};
    put(log, (nt_log_line){.type = "other", .step = 9, .values = other, .count = 2});
    nt__tensorboard_logger.close(log);
    check_with_python("scalars",
                      "same(sorted(a.Tags()['scalars']), ['data/data_wait_frac', 'data/epoch', 'other/speed', "
                      "'train/epoch', 'train/loss', 'validate/accuracy', 'validate/epoch', 'validate/f1'])\n"
                      "same(scalars('train/loss'), [(1, 2.5), (4000000000, 1.5)])\n"
                      "same(scalars('train/epoch'), [(1, 2.0), (4000000000, 2.0)])\n"
                      "same(scalars('validate/accuracy'), [(8, 0.75)])\n"
                      "same(scalars('validate/f1'), [(8, float(np.float32(0.1)))])\n"
                      "same(scalars('validate/epoch'), [(8, 3.0)])\n"
                      "same(scalars('other/speed'), [(9, 12.5)])\n"
                      "import time; assert abs(a.Scalars('train/loss')[0].wall_time - time.time()) < 300\n");
}

static void texts_are_markdown(void **state) {
    (void)state;
    void *log = open_log("texts", false, 0, -1);
    const nt_log_value params[] = {{"hidden", NULL, 32}, {"note", "a *b*", 0}};
    const nt_log_value report[] = {{"key", "binding_report", 0}, {"value", "data\n  train: \"8\" batches\n", 0}};
    const nt_log_value source[] = {{"path", "net.c", 0}, {"text", "int x;\n\nint y;", 0}};
    const nt_log_value finish[] = {{"status", "requested", 0}, {"seconds", NULL, 2}};
    put(log, (nt_log_line){.type = "params", .values = params, .count = 2});
    put(log, (nt_log_line){.type = "other", .values = report, .count = 2});
    put(log, (nt_log_line){.type = "source", .values = source, .count = 2});
    put(log, (nt_log_line){.type = "finish", .step = 12, .values = finish, .count = 2});
    nt__tensorboard_logger.close(log);
    check_with_python("texts", "same(text('params'), (0, '- **hidden**: 32\\n- **note**: a *b*\\n'))\n"
                               "same(text('binding_report'), (0, 'data\\n  train: \"8\" batches\\n'))\n"
                               "same(text('source/net.c'), (0, '    int x;\\n    \\n    int y;\\n'))\n"
                               "same(text('run/status'), (12, 'requested'))\n");
}

static void histograms_count_what_is_finite(void **state) {
    (void)state;
    void *log = open_log("histograms", false, 0, -1);
    nt_array *values = nt_array_new(NT_F32, nt_dims(2, 32));
    for (int i = 0; i < 60; i++) nt_array_set(values, i, i);
    for (int i = 60; i < 63; i++) nt_array_set(values, i, i % 2 ? NAN : INFINITY);
    nt_array_set(values, 63, 60);
    put(log, (nt_log_line){.type = "histogram", .key = "hidden.weight", .step = 4, .array = values});
    for (int i = 0; i < 64; i++) nt_array_set(values, i, 2);
    put(log, (nt_log_line){.type = "histogram", .key = "point", .step = 4, .array = values});
    for (int i = 0; i < 64; i++) nt_array_set(values, i, NAN);
    put(log, (nt_log_line){.type = "histogram", .key = "nothing", .step = 4, .array = values});
    nt_array_free(values);
    nt__tensorboard_logger.close(log);
    check_with_python("histograms", "same(sorted(a.Tags()['histograms']), ['hidden.weight', 'point'])\n"
                                    "e, = a.Histograms('hidden.weight')\n"
                                    "h = e.histogram_value\n"
                                    "same((e.step, h.min, h.max, h.num, h.sum), (4, 0.0, 60.0, 61.0, 1830.0))\n"
                                    "same(h.sum_squares, float(sum(i * i for i in range(61))))\n"
                                    "same(list(h.bucket_limit), [2.0 * (i + 1) for i in range(30)])\n"
                                    "same(list(h.bucket), [2.0] * 29 + [3.0])\n"
                                    "p = a.Histograms('point')[0].histogram_value\n"
                                    "same((p.min, p.max, sum(p.bucket)), (2.0, 2.0, 64.0))\n"
                                    "same([l for l, n in zip(p.bucket_limit, p.bucket) if n], [1.5 + 16 / 30])\n");
}

/* Whether nitro was built with libpng. */
static bool has_images(void) {
    const char *images = getenv("NT_IMAGES");
    return images && strcmp(images, "1") == 0;
}

static void an_image_without_libpng_is_refused(void) {
    void *log = open_log("images", false, 0, -1);
    nt_array *pixels = nt_array_new(NT_U8, nt_dims(2, 3, 1));
    const nt_log_line line = {.type = "image", .key = "sample", .array = pixels};
    assert_int_equal(nt__tensorboard_logger.line(log, &line), NT_NOT_FOUND);
    assert_string_equal(nt_error_message(), "image 'sample': this nitro was built without libpng, so images cannot be "
                                            "logged: install libpng-dev and build again, or log no image");
    nt_array_free(pixels);
    nt__tensorboard_logger.close(log);
}

static void images_are_png(void **state) {
    (void)state;
    if (!has_images()) {
        an_image_without_libpng_is_refused();
        return;
    }
    static const int channels[] = {1, 3, 4};
    void *log = open_log("images", false, 0, -1);
    for (size_t c = 0; c < COUNT_OF(channels); c++) {
        nt_array *pixels = nt_array_new(NT_U8, nt_dims(2, 3, channels[c]));
        for (int i = 0; i < 6 * channels[c]; i++) nt_array_set(pixels, i, 10 * i);
        char key[16];
        snprintf(key, sizeof key, "image%d", channels[c]);
        put(log, (nt_log_line){.type = "image", .key = key, .step = 7, .array = pixels});
        nt_array_free(pixels);
    }
    nt__tensorboard_logger.close(log);
    /* The rows of so small an image are after one another in one chunk; no filter is 0. */
    check_with_python("images", "import struct, zlib\n"
                                "for c, kind in ((1, 0), (3, 2), (4, 6)):\n"
                                "    e, = a.Images('image%d' % c)\n"
                                "    same((e.step, e.width, e.height), (7, 3, 2))\n"
                                "    data = e.encoded_image_string\n"
                                "    same(data[:8], b'\\x89PNG\\r\\n\\x1a\\n')\n"
                                "    at, pixels = 8, b''\n"
                                "    while at < len(data):\n"
                                "        n, name = struct.unpack('>I4s', data[at:at + 8])\n"
                                "        if name == b'IHDR':\n"
                                "            same(struct.unpack('>IIBB', data[at + 8:at + 18]), (3, 2, 8, kind))\n"
                                "        if name == b'IDAT': pixels += data[at + 8:at + 8 + n]\n"
                                "        at += 12 + n\n"
                                "    raw = zlib.decompress(pixels)\n"
                                "    same(len(raw), 2 * (1 + 3 * c))\n"
                                "    first = raw[1:1 + 3 * c]\n"
                                "    if raw[0] == 0: same(list(first), [10 * i for i in range(3 * c)])\n");
}

static void what_is_no_image_is_refused(void **state) {
    (void)state;
    nt_array *array = nt_array_new(NT_F32, nt_dims(2, 3, 3));
    assert_int_equal(nt__check_image(array), NT_INVALID);
    assert_string_equal(nt_error_message(),
                        "the pixels are f32[2,3,3], and an image is u8[height,width,channels] with 1 "
                        "(grey), 3 (RGB) or 4 (RGBA) channels");
    nt_array_free(array);
    static const int64_t shapes[][3] = {{2, 3, 2}, {2, 0, 3}, {0, 3, 3}, {2, 3, 5}};
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        array = nt_array_new(NT_U8, nt_dims(shapes[i][0], shapes[i][1], shapes[i][2]));
        assert_int_equal(nt__check_image(array), NT_INVALID);
        nt_array_free(array);
    }
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

static int count_files(const char *folder, const char *beginning) {
    int count = 0;
    DIR *directory = opendir(scratch(folder));
    assert_non_null(directory);
    const struct dirent *entry;
    while ((entry = readdir(directory))) count += strncmp(entry->d_name, beginning, strlen(beginning)) == 0;
    closedir(directory);
    return count;
}

/* As the JSON Lines do. Event files of other programs are left alone. */
static void a_new_run_keeps_the_files_of_the_former_one(void **state) {
    (void)state;
    for (int run = 1; run <= 3; run++) {
        void *log = open_log("again", false, 0, -1);
        if (run == 1) scratch_put("again/events.out.tfevents.1700000000.other", "", 0);
        put_number(log, "train", run, "loss", run);
        nt__tensorboard_logger.close(log);
    }
    void *unused = open_log("again", false, 0, -1);
    nt__tensorboard_logger.close(unused);
    assert_int_equal(count_files("again", "events.out.tfevents."), 2);
    assert_int_equal(count_files("again", "previous.events."), 1);
    check_with_python("again", "same(scalars('train/loss'), [(3, 3.0)])\n");
}

/* The place is exact within a step. */
static void a_resumed_run_has_no_step_twice(void **state) {
    (void)state;
    void *log = open_log("resumed", false, 0, -1);
    put_number(log, "train", 1, "loss", 1);
    put_number(log, "train", 2, "loss", 2);
    int64_t position = nt__tensorboard_logger.position(log);
    put_number(log, "validate", 2, "accuracy", 0.5);
    put_number(log, "train", 3, "loss", 3);
    nt__tensorboard_logger.close(log);
    for (int again = 1; again <= 2; again++) {
        log = open_log("resumed", true, 2, position);
        put_number(log, "validate", 2, "accuracy", 0.25 * again);
        put_number(log, "train", 3, "loss", 30 * again);
        nt__tensorboard_logger.close(log);
    }
    assert_int_equal(count_files("resumed", "events.out.tfevents."), 2);
    check_with_python("resumed", "same(scalars('train/loss'), [(1, 1.0), (2, 2.0), (3, 60.0)])\n"
                                 "same(scalars('validate/accuracy'), [(2, 0.5)])\n");
}

/* Where no place was kept, the record of a start makes readers forget the steps after. */
static void without_a_place_the_start_says_it(void **state) {
    (void)state;
    void *log = open_log("start", false, 0, -1);
    for (int step = 1; step <= 4; step++) put_number(log, "train", step, "loss", step);
    nt__tensorboard_logger.close(log);
    log = open_log("start", true, 2, -1);
    put_number(log, "train", 3, "loss", 30);
    nt__tensorboard_logger.close(log);
    check_with_python("start", "same(scalars('train/loss'), [(1, 1.0), (2, 2.0), (3, 30.0)])\n");
}

/* ---- parts ------------------------------------------------------------------------------------------------------ */

/* RFC 3720, Appendix B.4. */
static void the_checksum_is_crc_32c(void **state) {
    (void)state;
    uint8_t bytes[32] = {0};
    assert_int_equal(nt__crc32c(bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(nt__crc32c(bytes, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++) bytes[i] = (uint8_t)i;
    assert_int_equal(nt__crc32c(bytes, 32), 0x46dd794e);
}

static void a_failed_allocation_leaves_nothing(void **state) {
    (void)state;
    nt_array *pixels = nt_array_new(NT_U8, nt_dims(2, 2, 3));
    const nt_log_value values[] = {{"path", "net.c", 0}, {"text", "int x;", 0}}, number = {"loss", NULL, 1};
    const nt_log_line lines[] = {
        {.type = "params", .values = values, .count = 2},
        {.type = "source", .values = values, .count = 2},
        {.type = "metrics", .context = "train", .step = 1, .values = &number, .count = 1},
        {.type = "histogram", .key = "h", .array = pixels},
        {.type = has_images() ? "image" : "histogram", .key = "i", .array = pixels},
        {.type = "finish", .values = values, .count = 2},
    };
    assert_int_equal(nt__make_folder(scratch("memory")), NT_OK);
    size_t before = nt__memory().live;
    nt_status status = NT_OUT_OF_MEMORY;
    for (size_t n = 1; status != NT_OK; n++) {
        void *log = NULL;
        nt_log_start start = {.run_dir = scratch("memory"), .position = -1};
        nt__memory_fail_at(n);
        status = nt__tensorboard_logger.open(NULL, &start, &log);
        bool is_open = status == NT_OK;
        for (size_t i = 0; status == NT_OK && i < COUNT_OF(lines); i++)
            status = nt__tensorboard_logger.line(log, &lines[i]);
        nt__memory_fail_at(0);
        if (is_open) nt__tensorboard_logger.close(log);
        assert_true(status == NT_OK || status == NT_OUT_OF_MEMORY);
        assert_int_equal(nt__memory().live, before);
    }
    nt_array_free(pixels);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_scalars_of_their_context),
        cmocka_unit_test(texts_are_markdown),
        cmocka_unit_test(histograms_count_what_is_finite),
        cmocka_unit_test(images_are_png),
        cmocka_unit_test(what_is_no_image_is_refused),
        cmocka_unit_test(a_new_run_keeps_the_files_of_the_former_one),
        cmocka_unit_test(a_resumed_run_has_no_step_twice),
        cmocka_unit_test(without_a_place_the_start_says_it),
        cmocka_unit_test(the_checksum_is_crc_32c),
        cmocka_unit_test(a_failed_allocation_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
