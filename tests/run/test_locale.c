/* A program whose locale has a decimal comma: files, names and texts are those of any other locale, and a run goes on
 * in one that was begun in another.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>

#include "course.h"
#include "base/files.h"

#include "../base/comma.h"

static nt_named_schedule schedules[3];

static course make_scheduled(void) {
    course c = make_course();
    fields.smoothing = 0.0625f;
    schedules[0] = (nt_named_schedule){"learning_rate", nt_schedule_cosine(0.0123, 0.5e-3)};
    c.options.schedules = schedules;
    c.options.log = "jsonl,csv";
    c.options.gradient_clip_norm = (nt_maybe_double){true, 0.75};
    return c;
}

static void set_locale(bool comma) {
    if (comma)
        assert_true(comma_set());
    else
        assert_non_null(setlocale(LC_ALL, "C"));
}

static void train_in(bool comma, stretch s) {
    course c = make_scheduled();
    set_locale(comma);
    train_stretch(&c, s);
    set_locale(false);
}

/* Goes on in the folder that make_course would empty. */
static void go_on_in(bool comma) {
    course c = {.experiment = *Course_experiment(), .fields = &fields};
    c.experiment.hooks.optimizer = choose;
    c.options.max_epochs = (nt_maybe_int){true, 2};
    c.options.schedules = schedules;
    c.options.log = "jsonl,csv";
    c.options.gradient_clip_norm = (nt_maybe_double){true, 0.75};
    set_locale(comma);
    train_stretch(&c, (stretch){.resume = true});
    set_locale(false);
}

/* ---- what is left ----------------------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of the files, then the lines of both logs that say nothing of time and place. */
static char *remains(void) {
    enum { MOST = 32 };
    char *names[MOST] = {NULL}, path[SCRATCH_PATH + 64];
    size_t count = 0;
    nt__text text = {0};
    const struct dirent *entry;
    DIR *folder = opendir(course_folder());
    assert_non_null(folder);
    while ((entry = readdir(folder)) && count < MOST) names[count++] = nt__strdup(entry->d_name);
    closedir(folder);
    qsort(names, count, sizeof *names, by_text);
    for (size_t i = 0; i < count; i++) nt__text_add(&text, "%s\n", names[i]);
    for (size_t i = 0; i < count; i++) nt__free(names[i]);
    static const char *const logs[] = {"metrics.jsonl", "metrics.csv"};
    for (size_t i = 0; i < 2; i++) {
        char *lines, *save = NULL;
        size_t length;
        snprintf(path, sizeof path, "%s/%s", course_folder(), logs[i]);
        assert_ok(nt__read_file(path, &lines, &length));
        for (char *line = strtok_r(lines, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
            if (!strstr(line, "environment") && !strstr(line, "seconds") && !strstr(line, "data_wait_frac"))
                nt__text_add(&text, "%s\n", line);
        nt__free(lines);
    }
    return text.data;
}

static void files_are_those_of_another_locale(void **state) {
    (void)state;
    train_in(false, (stretch){0});
    char *plain = remains();
    train_in(true, (stretch){0});
    char *comma = remains();
    assert_string_equal(comma, plain);
    assert_non_null(strstr(comma, "val_loss=0."));
    assert_non_null(strstr(comma, "\"schedules\":\"learning_rate cosine(0.0123 0.0005)\""));
    nt__free(plain);
    nt__free(comma);
}

static void a_run_goes_on_in_another_locale(void **state) {
    (void)state;
    trained whole, resumed;
    train_in(false, (stretch){0});
    trained_read(&whole);
    for (int first = 0; first < 2; first++) {
        train_in(first, (stretch){.stop_at = 3});
        go_on_in(!first);
        trained_read(&resumed);
        assert_same(&whole, &resumed, first ? "from a comma to a point" : "from a point to a comma");
        trained_free(&resumed);
    }
    trained_free(&whole);
}

/* ---- numbers that are read -------------------------------------------------------------------------------------- */

static void texts_are_read_with_a_point(void **state) {
    (void)state;
    nt_schedules parsed = {0};
    double rate = 0;
    const nt_field_info field = {.name = "rate", .type = NT_FIELD_DOUBLE, .size = sizeof rate};
    set_locale(true);
    assert_ok(nt__schedule_parse("learning_rate=cosine:0.5:0.25", &parsed));
    assert_true(nt__schedule_value(&parsed.items[0].schedule, 1, 100) <= 0.5);
    assert_ok(nt__field_parse(&field, "0.125", &rate));
    assert_true(rate == 0.125);
    assert_int_equal(nt__field_parse(&field, "0,125", &rate), NT_INVALID);
    nt__text text = {0};
    nt__field_print(&field, &rate, &text);
    assert_string_equal(text.data, "0.125");
    nt__text_free(&text);
    nt__schedules_free(&parsed);
    set_locale(false);
}

static int set_up(void **state) {
    return scratch_make(state) == 0 ? comma_make() : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_those_of_another_locale),
        cmocka_unit_test(a_run_goes_on_in_another_locale),
        cmocka_unit_test(texts_are_read_with_a_point),
    };
    return cmocka_run_group_tests_name("locale", tests, set_up, end_courses);
}
