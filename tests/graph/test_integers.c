/* Integers at the ends of their types, shifts, and axes of one element, where engines fold what they know: against C.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "graph/emit.h"
#include "traced.h"

enum { MOST = 512, MOST_ELEMENTS = 16 };

static nt__result results[MOST];
static char names[MOST][96];
static int64_t wanted[MOST][MOST_ELEMENTS]; /* zeros before a trace */
static size_t count;

static int64_t *expect(nt_tensor y, const char *format, ...) NT__PRINTF(2, 3);
static int64_t *expect(nt_tensor y, const char *format, ...) {
    assert_true(count < MOST && nt_shape_elements(nt_shape_of(y)) <= MOST_ELEMENTS);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(names[count], sizeof names[count], format, arguments);
    va_end(arguments);
    results[count] = (nt__result){names[count], y, {0}};
    return wanted[count++];
}

/* An element as 64 bits. */
static int64_t bits_of(const nt_array *array, int64_t at) {
    size_t size = nt_dtype_size(array->dtype);
    uint64_t bits = 0;
    memcpy(&bits, (const char *)array->data + (size_t)at * size, size);
    int unused = 64 - 8 * (int)size;
    return nt__dtype_is_unsigned(array->dtype) || array->dtype == NT_BOOL ? (int64_t)bits
                                                                          : (int64_t)(bits << unused) >> unused;
}

/* Runs what was expected and ends the trace. */
static void check(nt__graph *graph, nt_array *const *arrays) {
    nt_array *got[MOST] = {NULL};
    assert_ok(nt__trace_status(graph));
    traced program = traced_compile(traced_engine(), results, count);
    nt__trace_end(graph);
    traced_run(&program, arrays, got);
    traced_free(&program);
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): traced_run has filled it */
        for (int64_t k = 0; k < nt_shape_elements(got[i]->shape); k++) {
            if (bits_of(got[i], k) == wanted[i][k]) continue;
            print_error("%s, element %d: %lld, right is %lld\n", names[i], (int)k, (long long)bits_of(got[i], k),
                        (long long)wanted[i][k]);
            wrong++;
        }
        nt_array_free(got[i]);
    }
    memset(wanted, 0, sizeof wanted);
    count = 0;
    assert_int_equal(wrong, 0);
}

static const nt_dtype integers[] = {NT_I8, NT_I16, NT_I32, NT_I64, NT_U8, NT_U16, NT_U32, NT_U64};
enum { TYPES = sizeof integers / sizeof *integers };

static int width_of(nt_dtype dtype) {
    return 8 * (int)nt_dtype_size(dtype);
}

/* The bits of a value of the type, as 64 of them. */
static int64_t in_type(nt_dtype dtype, uint64_t bits) {
    int unused = 64 - width_of(dtype);
    return nt__dtype_is_unsigned(dtype) ? (int64_t)(bits << unused >> unused) : (int64_t)(bits << unused) >> unused;
}

/* ---- shifts ----------------------------------------------------------------------------------------------------- */

static int64_t shifted(nt_dtype dtype, int64_t a, int64_t b, bool logical) {
    int width = width_of(dtype);
    bool fills = b < 0 || b >= width, negative = a < 0 && !nt__dtype_is_unsigned(dtype);
    if (!logical && negative) return fills ? -1 : a >> b;
    uint64_t bits = (uint64_t)a << (64 - width) >> (64 - width);
    return fills ? 0 : in_type(dtype, bits >> b);
}

/* Operands with each of the ends of the type against each of some shifts. */
static void shift_operands(nt_dtype dtype, int64_t *a, int64_t *b) {
    int width = width_of(dtype);
    const uint64_t top = UINT64_C(1) << (width - 1);
    const uint64_t ends[4] = {top, top - 1, UINT64_MAX, 5};
    const int64_t by[4] = {0, 1, width - 1, width};
    for (int i = 0; i < 16; i++) {
        a[i] = in_type(dtype, ends[i / 4]);
        b[i] = i == 15 ? in_type(dtype, UINT64_MAX) : by[i % 4];
    }
}

static void shifts_are_those_of_c(void **state) {
    (void)state;
    nt_array *arrays[2 * TYPES];
    nt__graph *graph = nt__trace_begin();
    for (int t = 0; t < TYPES; t++) {
        int64_t a[16], b[16];
        nt_tensor in[2], constant[2];
        shift_operands(integers[t], a, b);
        for (int k = 0; k < 2; k++) {
            nt_array *array = arrays[2 * t + k] = nt_array_new(integers[t], nt_dims(16));
            size_t size = nt_dtype_size(integers[t]);
            for (size_t i = 0; i < 16; i++) memcpy((char *)array->data + i * size, k ? &b[i] : &a[i], size);
            in[k] = traced_input(2 * t + k, nt__array_type(array));
            constant[k] = nt_constant(array);
        }
        for (int folded = 0; folded < 2; folded++) {
            const nt_tensor *x = folded ? constant : in;
            const char *name = nt_dtype_name(integers[t]);
            int64_t *right = expect(nt_shift_right(x[0], x[1]), "shift_right of %s%s", name, folded ? "s" : "");
            int64_t *logical = expect(nt_shift_right_logical(x[0], x[1]), "shift_right_logical of %s", name);
            int64_t *left = expect(nt_shift_left(x[0], x[1]), "shift_left of %s", name);
            for (int i = 0; i < 16; i++) {
                right[i] = shifted(integers[t], a[i], b[i], false);
                logical[i] = shifted(integers[t], a[i], b[i], true);
                bool fills = b[i] < 0 || b[i] >= width_of(integers[t]);
                left[i] = fills ? 0 : in_type(integers[t], (uint64_t)a[i] << b[i]);
            }
        }
    }
    check(graph, arrays);
    for (int i = 0; i < 2 * TYPES; i++) nt_array_free(arrays[i]);
}

/* ---- comparisons with an iota ----------------------------------------------------------------------------------- */

static const char *const comparison_names[] = {"=", "!=", "<", "<=", ">", ">="};

static bool holds(int comparison, double a, double b) {
    const bool results_of[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};
    return results_of[comparison];
}

static void expect_comparisons(nt_dtype dtype, int64_t size, double number) {
    static nt_tensor (*const compare[])(nt_tensor, nt_tensor, nt_site) = {
        nt_equal_at, nt_not_equal_at, nt_less_at, nt_less_equal_at, nt_greater_at, nt_greater_equal_at};
    nt_tensor places = nt_iota(dtype, nt_dims(size), 0), other = nt_tensor_number(number);
    for (int i = 0; i < 6; i++) {
        const char *type = nt_dtype_name(dtype), *sign = comparison_names[i];
        int64_t *after =
            expect(compare[i](places, other, NT_SITE), "iota of %d %s %s %g", (int)size, type, sign, number);
        int64_t *before =
            expect(compare[i](other, places, NT_SITE), "%g %s iota of %d %s", number, sign, (int)size, type);
        for (int k = 0; k < size; k++) {
            after[k] = holds(i, k, number);
            before[k] = holds(i, number, k);
        }
    }
}

static void an_iota_compares_as_its_numbers_do(void **state) {
    (void)state;
    for (nt_dtype dtype = 0; dtype < NT_BOOL; dtype++) {
        bool floating = nt_dtype_is_float(dtype), has_sign = floating || !nt__dtype_is_unsigned(dtype);
        int width = width_of(dtype);
        double top = floating ? 1024 : width == 64 ? 0x1p53 : (double)((UINT64_C(1) << (width - has_sign)) - 1);
        double bottom = floating ? -1024 : width == 64 ? -0x1p63 : -top - 1;
        nt__graph *graph = nt__trace_begin();
        for (int64_t size = 1; size <= 3; size += 2) {
            const double numbers[] = {0, 1, (double)size - 1, (double)size, top, -1, bottom};
            for (int i = 0; i < (has_sign ? 7 : 5); i++) expect_comparisons(dtype, size, numbers[i]);
        }
        check(graph, NULL);
    }
}

static void triangles_of_all_sizes_are_right(void **state) {
    (void)state;
    for (int64_t rows = 1; rows <= 3; rows++) {
        nt_array *arrays[3];
        nt__graph *graph = nt__trace_begin();
        for (int64_t columns = 1; columns <= 3; columns++) {
            nt_array *x = arrays[columns - 1] = nt_array_new(NT_I32, nt_dims(rows, columns));
            for (int64_t i = 0; i < rows * columns; i++) nt_array_set(x, i, (double)(i + 3));
            nt_tensor in = traced_input((int)columns - 1, nt__array_type(x));
            for (int64_t diagonal = -4; diagonal <= 4; diagonal++) {
                const int r = (int)rows, c = (int)columns, d = (int)diagonal;
                int64_t *all = expect(nt_triangle(rows, columns, diagonal), "triangle of %d x %d at %d", r, c, d);
                int64_t *lower = expect(nt_lower_triangle(in, diagonal), "lower of %d x %d at %d", r, c, d);
                int64_t *upper = expect(nt_upper_triangle(in, diagonal), "upper of %d x %d at %d", r, c, d);
                for (int64_t i = 0; i < rows * columns; i++) {
                    int64_t over = i % columns - i / columns - diagonal;
                    all[i] = over <= 0;
                    lower[i] = over <= 0 ? i + 3 : 0;
                    upper[i] = over >= 0 ? i + 3 : 0;
                }
            }
        }
        check(graph, arrays);
        for (int i = 0; i < 3; i++) nt_array_free(arrays[i]);
    }
}

/* ---- axes of one element, and sums ------------------------------------------------------------------------------ */

static void an_axis_of_one_element_is_an_axis(void **state) {
    (void)state;
    for (int t = 0; t < TYPES; t++) {
        nt_dtype dtype = integers[t];
        nt_array *x = nt_array_new(dtype, nt_dims(2, 1));
        nt_array_set(x, 0, 1);
        nt_array *arrays[] = {x};
        nt__graph *graph = nt__trace_begin();
        nt_tensor in = traced_input(0, nt__array_type(x)), places;
        expect(nt_argmax(in, 1), "argmax");
        expect(nt_argmin(in, 1), "argmin");
        expect(nt_argsort(in, 1, NT_DESCENDING), "argsort");
        expect(nt_sort(in, 1, NT_ASCENDING), "sort")[0] = 1;
        expect(nt_top_k(in, 1, &places), "top_k")[0] = 1;
        expect(places, "places of top_k");
        expect(nt_reduce_max(in, 1), "reduce_max")[0] = 1;
        expect(nt_cummax(in, 1, NT_FORWARD), "cummax")[0] = 1;
        expect(nt_one_hot(in, 1, NT_I32), "one_hot")[1] = 1;
        expect(nt_take(in, nt_full(NT_I32, nt_dims(1), 0), 1), "take")[0] = 1;
        expect(nt_flip(in, 1), "flip")[0] = 1;
        expect(nt_roll(in, 1, 1), "roll")[0] = 1;
        check(graph, arrays);
        nt_array_free(x);
    }
}

static void sums_of_integers_do_not_lose_what_they_hold(void **state) {
    (void)state;
    nt_array *arrays[] = {nt_array_new(NT_U8, nt_dims(3)), nt_array_new(NT_I64, nt_dims(3))};
    const double bytes[] = {255, 229, 204};
    for (int i = 0; i < 3; i++) nt_array_set(arrays[0], i, bytes[i]);
    ((int64_t *)arrays[1]->data)[0] = INT64_C(1) << 53;
    ((int64_t *)arrays[1]->data)[1] = 1;
    nt__graph *graph = nt__trace_begin();
    nt_tensor pixels = nt_convert(traced_input(0, nt__array_type(arrays[0])), NT_I32);
    nt_tensor large = traced_input(1, nt__array_type(arrays[1]));
    expect(nt_sum(pixels), "sum of u8")[0] = 688;
    expect(nt_prod(pixels), "product of u8")[0] = 255 * 229 * 204;
    int64_t *running = expect(nt_cumsum(pixels, 0, NT_FORWARD), "cumsum of u8");
    running[0] = 255, running[1] = 484, running[2] = 688;
    expect(nt_matmul(pixels, pixels), "product of vectors")[0] = 255 * 255 + 229 * 229 + 204 * 204;
    expect(nt_sum(large), "sum of i64")[0] = (INT64_C(1) << 53) + 1;
    check(graph, arrays);
    for (int i = 0; i < 2; i++) nt_array_free(arrays[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shifts_are_those_of_c),
        cmocka_unit_test(an_iota_compares_as_its_numbers_do),
        cmocka_unit_test(triangles_of_all_sizes_are_right),
        cmocka_unit_test(an_axis_of_one_element_is_an_axis),
        cmocka_unit_test(sums_of_integers_do_not_lose_what_they_hold),
    };
    return cmocka_run_group_tests(tests, NULL, traced_close_engine);
}
