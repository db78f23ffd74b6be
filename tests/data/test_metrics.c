/* src/data/metrics.c and nt_count_correct: metrics over passes whose last batch is smaller, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "made.h"
#include "metric/metric.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- golden cases ----------------------------------------------------------------------------------------------- */

static const json_t *member(const json_t *of, const char *key) {
    const json_t *value = json_object_get(of, key);
    if (!value) fail_msg("no member '%s'", key);
    return value;
}

static nt_array *array_of(const json_t *json) {
    const json_t *shape = member(json, "shape"), *data = member(json, "data");
    nt_shape dims = {.rank = (int)json_array_size(shape)};
    for (int i = 0; i < dims.rank; i++) dims.dims[i] = json_integer_value(json_array_get(shape, (size_t)i));
    bool is_float = json_string_value(member(json, "dtype"))[0] == 'f';
    nt_array *array = nt_array_new(is_float ? NT_F32 : NT_I32, dims);
    assert_int_equal(nt_shape_elements(dims), json_array_size(data));
    for (size_t i = 0; i < json_array_size(data); i++)
        nt_array_set(array, (int64_t)i, json_number_value(json_array_get(data, i)));
    return array;
}

/* Rows first <= row < first + count. */
static nt_array *rows_of(const nt_array *whole, int64_t first, int64_t count) {
    size_t row = whole->bytes / (size_t)whole->shape.dims[0];
    nt_shape shape = whole->shape;
    shape.dims[0] = count;
    return nt_array_from(whole->dtype, shape, (const char *)whole->data + (size_t)first * row);
}

static int64_t elements(const nt_array *array) {
    return nt_shape_elements(array->shape);
}

static double total(const nt_array *a) {
    double sum = 0;
    for (int64_t i = 0; i < elements(a); i++) sum += nt_array_get(a, i);
    return sum;
}

static double rows_in(const nt_array *array) {
    return (double)array->shape.dims[0];
}

/* Each adds the metrics of one batch, whose inputs it gets in alphabetical order. */

static void add_accuracy(nt_metrics *m, nt_array *const *in) {
    nt_metric_mean(m, "accuracy", (double)nt_count_correct(in[1], in[0]), rows_in(in[0]));
}

static void add_squared_error(nt_metrics *m, nt_array *const *in) {
    double sum = 0;
    for (int64_t i = 0; i < elements(in[0]); i++) sum += pow(nt_array_get(in[0], i) - nt_array_get(in[1], i), 2);
    nt_metric_mean(m, "mse", sum, rows_in(in[0]));
}

static void add_absolute_error(nt_metrics *m, nt_array *const *in) {
    double sum = 0;
    for (int64_t i = 0; i < elements(in[0]); i++) sum += fabs(nt_array_get(in[0], i) - nt_array_get(in[1], i));
    nt_metric_mean(m, "mae", sum, rows_in(in[0]));
}

static void add_largest_error(nt_metrics *m, nt_array *const *in) {
    double largest = 0;
    for (int64_t i = 0; i < elements(in[0]); i++)
        largest = fmax(largest, fabs(nt_array_get(in[0], i) - nt_array_get(in[1], i)));
    nt_metric_max(m, "largest error", largest);
}

static double cross_entropy(const nt_array *logits, int64_t row, int64_t classes, int64_t label) {
    double sum = 0;
    for (int64_t i = 0; i < classes; i++) sum += exp(nt_array_get(logits, row * classes + i));
    return log(fmax(sum, 1e-300)) - nt_array_get(logits, row * classes + label);
}

/* The count is the number of tokens that are not padding, not that of the rows. */
static void add_token_loss(nt_metrics *m, nt_array *const *in) {
    const int64_t classes = in[1]->shape.dims[2];
    double sum = 0, count = 0;
    for (int64_t i = 0; i < elements(in[0]); i++) {
        double label = nt_array_get(in[0], i);
        if (label < 0) continue;
        sum += cross_entropy(in[1], i, classes, (int64_t)label);
        count++;
    }
    nt_metric_mean(m, "loss", sum, count);
}

static void add_all_modes(nt_metrics *m, nt_array *const *in) {
    double largest = -HUGE_VAL, smallest = HUGE_VAL;
    for (int64_t i = 0; i < elements(in[0]); i++) {
        largest = fmax(largest, nt_array_get(in[0], i));
        smallest = fmin(smallest, nt_array_get(in[0], i));
    }
    nt_metric_mean(m, "mean", total(in[0]), rows_in(in[0]));
    nt_metric_sum(m, "sum", total(in[0]));
    nt_metric_max(m, "max", largest);
    nt_metric_min(m, "min", smallest);
}

static void add_mean_of_batch(nt_metrics *m, nt_array *const *in) {
    nt_metric_mean(m, "val_loss", total(in[0]) / (double)elements(in[0]), 1);
}

static const struct {
    const char *name; /* of the case */
    const char *inputs[2];
    void (*add)(nt_metrics *m, nt_array *const *in);
} golden_rows[] = {
    {"accuracy/multiclass", {"labels", "logits"}, add_accuracy},
    {"regression/mse", {"prediction", "target"}, add_squared_error},
    {"regression/mae", {"prediction", "target"}, add_absolute_error},
    {"regression/max_error", {"prediction", "target"}, add_largest_error},
    {"mean_loss/by_tokens", {"labels", "logits"}, add_token_loss},
    {"modes/mean_sum_max_min", {"x"}, add_all_modes},
    {"modes/default_val_loss_is_mean_of_batches", {"x"}, add_mean_of_batch},
};

static void run_batch(nt_metrics *metrics, size_t row, nt_array *const *whole, int64_t first, int64_t count) {
    nt_array *batch[2] = {NULL};
    for (int i = 0; i < 2 && whole[i]; i++) batch[i] = rows_of(whole[i], first, count);
    golden_rows[row].add(metrics, batch);
    assert_int_equal(nt__metrics_end_batch(metrics), NT_OK);
    for (int i = 0; i < 2; i++) nt_array_free(batch[i]);
}

static void assert_golden_values(const nt_metrics *metrics, const json_t *c) {
    const json_t *data = member(member(c, "expected"), "data"), *tolerance = member(c, "tolerance");
    const json_t *wrong = json_object_get(c, "mean_of_batch_values");
    double rtol = json_number_value(member(tolerance, "rtol")), atol = json_number_value(member(tolerance, "atol"));
    assert_int_equal(nt__metrics_count(metrics), json_array_size(data));
    for (size_t i = 0; i < nt__metrics_count(metrics); i++) {
        double expected = json_number_value(json_array_get(data, i)), got = nt__metrics_value(metrics, i);
        if (fabs(got - expected) > atol + rtol * fabs(expected))
            fail_msg("%s: %.17g instead of %.17g", nt__metrics_name(metrics, i), got, expected);
        if (wrong) assert_true(fabs(got - json_number_value(wrong)) > 1e-3);
    }
}

static void run_case(size_t row, const json_t *c) {
    nt_metrics *metrics = nt__metrics_new();
    nt_array *whole[2] = {NULL};
    for (int i = 0; i < 2 && golden_rows[row].inputs[i]; i++)
        whole[i] = array_of(member(member(c, "inputs"), golden_rows[row].inputs[i]));
    const json_t *sizes = member(c, "batch_sizes");
    int64_t first = 0;
    for (size_t i = 0; i < json_array_size(sizes); i++) {
        int64_t count = json_integer_value(json_array_get(sizes, i));
        run_batch(metrics, row, whole, first, count);
        first += count;
    }
    assert_non_null(whole[0]);
    assert_int_equal(first, whole[0] ? whole[0]->shape.dims[0] : -1);
    assert_golden_values(metrics, c);
    for (int i = 0; i < 2; i++) nt_array_free(whole[i]);
    nt__metrics_free(metrics);
}

static json_t *read_golden(void) {
    char path[4096];
    json_error_t error;
    const char *tests = getenv("NT_TESTS");
    assert_non_null(tests); /* the folder of the tests */
    snprintf(path, sizeof path, "%s/golden/metrics.json", tests);
    json_t *whole = json_load_file(path, 0, &error);
    if (!whole) fail_msg("%s: %s", path, error.text);
    return whole;
}

static const json_t *find_case(const json_t *whole, const char *name) {
    const json_t *cases = member(whole, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        if (strcmp(json_string_value(member(c, "name")), name) == 0) return c;
    }
    fail_msg("no case '%s'", name);
    return NULL;
}

static void passes_with_a_short_last_batch_give_the_golden_values(void **state) {
    (void)state;
    json_t *whole = read_golden();
    for (size_t i = 0; i < sizeof golden_rows / sizeof *golden_rows; i++)
        run_case(i, find_case(whole, golden_rows[i].name));
    json_decref(whole);
}

/* ---- combining -------------------------------------------------------------------------------------------------- */

/* Three samples in batches of two and one, with mean losses 10 and 9: (10 + 10 + 9) / 3, not (10 + 9) / 2. */
static void a_mean_weighs_by_counts(void **state) {
    (void)state;
    nt_metrics *metrics = nt__metrics_new();
    nt_metric_mean(metrics, "loss", 2 * 10, 2);
    assert_int_equal(nt__metrics_end_batch(metrics), NT_OK);
    nt_metric_mean(metrics, "loss", 9, 1);
    assert_int_equal(nt__metrics_end_batch(metrics), NT_OK);
    assert_true(nt__metrics_value(metrics, 0) == 29.0 / 3);
    nt__metrics_free(metrics);
}

static void a_mean_of_nothing_is_nan(void **state) {
    (void)state;
    static const double sums[] = {0, 5};
    for (size_t i = 0; i < 2; i++) {
        nt_metrics *metrics = nt__metrics_new();
        nt_metric_mean(metrics, "loss", sums[i], 0);
        assert_int_equal(nt__metrics_end_batch(metrics), NT_OK);
        assert_true(isnan(nt__metrics_value(metrics, 0)));
        nt_metric_mean(metrics, "loss", 3, 2); /* a batch without a count takes no part */
        assert_int_equal(nt__metrics_end_batch(metrics), NT_OK);
        assert_true(nt__metrics_value(metrics, 0) == (sums[i] + 3) / 2);
        nt__metrics_free(metrics);
    }
}

static void a_nan_is_not_lost(void **state) {
    (void)state;
    for (int at = 0; at < 3; at++) {
        nt_metrics *metrics = nt__metrics_new();
        for (int i = 0; i < 3; i++) {
            double value = i == at ? (double)NAN : i;
            nt_metric_mean(metrics, "mean", value, 1);
            nt_metric_sum(metrics, "sum", value);
            nt_metric_max(metrics, "max", value);
            nt_metric_min(metrics, "min", value);
            assert_int_equal(nt__metrics_end_batch(metrics), NT_OK);
        }
        for (size_t i = 0; i < 4; i++) assert_true(isnan(nt__metrics_value(metrics, i)));
        nt__metrics_free(metrics);
    }
}

static void names_may_come_in_any_order(void **state) {
    (void)state;
    nt_metrics *metrics = nt__metrics_new();
    char name[] = "b"; /* a name need not outlive the call */
    nt_metric_max(metrics, name, -5);
    name[0] = 'a';
    nt_metric_min(metrics, name, 7);
    assert_int_equal(nt__metrics_end_batch(metrics), NT_OK);
    nt_metric_min(metrics, "a", 8);
    nt_metric_max(metrics, "b", -6);
    assert_int_equal(nt__metrics_end_batch(metrics), NT_OK);
    assert_int_equal(nt__metrics_count(metrics), 2);
    assert_string_equal(nt__metrics_name(metrics, 0), "b");
    assert_string_equal(nt__metrics_name(metrics, 1), "a");
    assert_true(nt__metrics_value(metrics, 0) == -5);
    assert_true(nt__metrics_value(metrics, 1) == 7);
    nt__metrics_free(metrics);
}

static void a_pass_without_metrics_has_none(void **state) {
    (void)state;
    nt_metrics *metrics = nt__metrics_new();
    assert_int_equal(nt__metrics_count(metrics), 0);
    assert_int_equal(nt__metrics_end_batch(metrics), NT_OK);
    assert_int_equal(nt__metrics_end_batch(metrics), NT_OK);
    assert_int_equal(nt__metrics_count(metrics), 0);
    nt__metrics_free(metrics);
    nt__metrics_free(NULL);
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static void set_twice(nt_metrics *m) {
    nt_metric_sum(m, "loss", 1);
    nt_metric_mean(m, "accuracy", 1, 1);
    nt_metric_mean(m, "accuracy", 1, 1);
}
static void leave_out(nt_metrics *m) {
    nt_metric_sum(m, "loss", 1);
}
static void set_one_more(nt_metrics *m) {
    nt_metric_sum(m, "loss", 1);
    nt_metric_mean(m, "accuracy", 1, 1);
    nt_metric_min(m, "other", 1);
}
static void combine_otherwise(nt_metrics *m) {
    nt_metric_max(m, "loss", 1);
    nt_metric_mean(m, "accuracy", 1, 1);
}
static void set_without_a_name(nt_metrics *m) {
    nt_metric_sum(m, "", 1);
}
static void set_without_any_name(nt_metrics *m) {
    nt_metric_sum(m, NULL, 1);
}
static void count_below_zero(nt_metrics *m) {
    nt_metric_sum(m, "loss", 1);
    nt_metric_mean(m, "accuracy", 1, -2);
}
static void count_nan(nt_metrics *m) {
    nt_metric_mean(m, "accuracy", 1, (double)NAN);
}

static void batches_that_differ_are_refused(void **state) {
    (void)state;
    static const struct {
        void (*third)(nt_metrics *m);
        const char *parts[3];
    } rows[] = {
        {set_twice, {"batch 3", "'accuracy'", "twice"}},
        {leave_out, {"batch 3", "'accuracy'", "not set"}},
        {set_one_more, {"batch 3", "'other'", "first batch"}},
        {combine_otherwise, {"batch 3", "'loss'", "by max, in the first batch it was by sum"}},
        {set_without_a_name, {"batch 3", "without a name"}},
        {set_without_any_name, {"batch 3", "name is NULL"}},
        {count_below_zero, {"batch 3", "'accuracy'", "-2"}},
        {count_nan, {"batch 3", "'accuracy'", "nan"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        nt_metrics *metrics = nt__metrics_new();
        for (int batch = 0; batch < 2; batch++) {
            nt_metric_sum(metrics, "loss", 1);
            nt_metric_mean(metrics, "accuracy", 1, 1);
            assert_int_equal(nt__metrics_end_batch(metrics), NT_OK);
        }
        rows[i].third(metrics);
        assert_int_equal(nt__metrics_end_batch(metrics), NT_INVALID);
        assert_message_has_all(rows[i].parts, 3);
        set_one_more(metrics); /* the error stays the first one */
        assert_int_equal(nt__metrics_end_batch(metrics), NT_INVALID);
        assert_message_has_all(rows[i].parts, 3);
        nt__metrics_free(metrics);
    }
}

static void metrics_with_an_error_take_nothing_more(void **state) {
    (void)state;
    nt_metrics *metrics = nt__metrics_new();
    nt_metric_sum(metrics, "loss", 1);
    set_without_a_name(metrics);
    nt_metric_sum(metrics, "other", 1);
    assert_int_equal(nt__metrics_end_batch(metrics), NT_INVALID);
    assert_message_has("batch 1: nt_metric_sum: a metric without a name");
    nt_metric_sum(metrics, "loss", 1);
    assert_int_equal(nt__metrics_count(metrics), 1);
    assert_true(nt__metrics_value(metrics, 0) == 1);
    nt__metrics_free(metrics);
}

static void every_refused_allocation_is_an_error(void **state) {
    (void)state;
    size_t live = nt__memory().live, failures = 0;
    nt_status status = NT_OUT_OF_MEMORY;
    while (status == NT_OUT_OF_MEMORY) {
        nt_metrics *metrics = nt__metrics_new();
        nt__memory_fail_at(++failures);
        nt_metric_sum(metrics, "loss", 1);
        nt_metric_sum(metrics, "other", 1);
        nt__memory_fail_at(0);
        status = nt__metrics_end_batch(metrics);
        if (status != NT_OK) assert_message_has("metrics of batch 1: out of host memory");
        nt__metrics_free(metrics);
        assert_int_equal(nt__memory().live, live);
    }
    assert_int_equal(status, NT_OK);
    assert_true(failures > 2);
    nt__memory_fail_at(1);
    assert_null(nt__metrics_new());
}

/* ---- counting --------------------------------------------------------------------------------------------------- */

/* Rows: right; tie, of which the first counts, twice; wrong; infinities, twice; nan, thrice. */
static const double scores[][3] = {
    {-1, -3, -0.5},   {2, 2, 1},           {1, 2, 2},           {3, 1, 0},           {-HUGE_VAL, -HUGE_VAL, -HUGE_VAL},
    {0, HUGE_VAL, 1}, {5, (double)NAN, 1}, {(double)NAN, 5, 1}, {1, 5, (double)NAN},
};
enum { ROWS = sizeof scores / sizeof *scores };
static const double labels[ROWS] = {2, 0, 2, 1, 0, 1, 0, 1, 2};
enum { CORRECT = 4 };

static nt_array *made_scores(nt_dtype dtype) {
    nt_array *array = nt_array_new(dtype, nt_dims(ROWS, 3));
    for (int64_t i = 0; i < ROWS * 3; i++) nt_array_set(array, i, scores[i / 3][i % 3]);
    return array;
}

static nt_array *made_labels(nt_dtype dtype) {
    nt_array *array = nt_array_new(dtype, nt_dims(ROWS));
    for (int64_t i = 0; i < ROWS; i++) nt_array_set(array, i, labels[i]);
    return array;
}

static void rows_with_their_largest_score_at_the_label_are_counted(void **state) {
    (void)state;
    for (nt_dtype s = 0; s < NT_DTYPE_COUNT; s++) {
        for (nt_dtype l = 0; l < NT_DTYPE_COUNT; l++) {
            nt_array *score = made_scores(s), *label = made_labels(l);
            bool fit = nt_dtype_is_float(s) && !nt_dtype_is_float(l);
            int64_t correct = nt_count_correct(score, label);
            if (l != NT_BOOL) assert_int_equal(correct, fit ? CORRECT : -1); /* 2 as bool is 1 */
            if (!fit) assert_message_has_all((const char *[]){nt_dtype_name(s), nt_dtype_name(l), "integer"}, 3);
            nt_array_free(score);
            nt_array_free(label);
        }
    }
}

static void a_label_that_is_no_class_is_never_right(void **state) {
    (void)state;
    nt_array *score = made_scores(NT_F32), *label = made_labels(NT_I64);
    nt_array_set(label, 0, -100);
    nt_array_set(label, 1, 3);
    assert_int_equal(nt_count_correct(score, label), CORRECT - 2);
    nt_array_free(score);
    nt_array_free(label);
}

static void no_rows_and_no_classes_give_0(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{0, 3}, {4, 0}, {0, 0}};
    for (size_t i = 0; i < 3; i++) {
        nt_array *score = nt_array_new(NT_F32, nt_dims(sizes[i][0], sizes[i][1]));
        nt_array *label = nt_array_new(NT_I32, nt_dims(sizes[i][0]));
        assert_int_equal(nt_count_correct(score, label), 0);
        nt_array_free(score);
        nt_array_free(label);
    }
}

static void arrays_that_do_not_fit_are_refused(void **state) {
    (void)state;
    static const struct {
        nt_shape scores, labels;
        const char *parts[2];
    } rows[] = {
        {{2, {4, 3}}, {1, {5}}, {"f32[4,3]", "i32[5]"}},
        {{2, {4, 3}}, {2, {4, 1}}, {"f32[4,3]", "i32[4,1]"}},
        {{1, {4}}, {1, {4}}, {"f32[4]", "i32[4]"}},
        {{3, {4, 3, 1}}, {1, {4}}, {"f32[4,3,1]", "i32[4]"}},
        {{0}, {0}, {"f32[]", "i32[]"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        nt_array *score = nt_array_new(NT_F32, rows[i].scores), *label = nt_array_new(NT_I32, rows[i].labels);
        assert_int_equal(nt_count_correct(score, label), -1);
        assert_message_has_all(rows[i].parts, 2);
        nt_array_free(score);
        nt_array_free(label);
    }
    nt_array *score = made_scores(NT_F32);
    assert_int_equal(nt_count_correct(score, NULL), -1);
    assert_message_has("labels is NULL");
    assert_int_equal(nt_count_correct(NULL, NULL), -1);
    assert_message_has("scores is NULL");
    nt_array_free(score);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_with_a_short_last_batch_give_the_golden_values),
        cmocka_unit_test(a_mean_weighs_by_counts),
        cmocka_unit_test(a_mean_of_nothing_is_nan),
        cmocka_unit_test(a_nan_is_not_lost),
        cmocka_unit_test(names_may_come_in_any_order),
        cmocka_unit_test(a_pass_without_metrics_has_none),
        cmocka_unit_test(batches_that_differ_are_refused),
        cmocka_unit_test(metrics_with_an_error_take_nothing_more),
        cmocka_unit_test(every_refused_allocation_is_an_error),
        cmocka_unit_test(rows_with_their_largest_score_at_the_label_are_counted),
        cmocka_unit_test(a_label_that_is_no_class_is_never_right),
        cmocka_unit_test(no_rows_and_no_classes_give_0),
        cmocka_unit_test(arrays_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
