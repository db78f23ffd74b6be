/* Bounds of numbers: whether the elements of an array lie within them, and what to say of the first that does not.
 * Not here: who claims them (graph), and the places that messages name (data, run).
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "array/array.h"

/* How far the sum of probabilities may be from 1: a thousand of them in bf16 are not further off. */
static const double sum_tolerance = 0.01;

bool nt__bounds_equal(const nt__bounds *a, const nt__bounds *b) {
    return a->low == b->low && a->high == b->high && a->above_low == b->above_low && a->below_high == b->below_high &&
           a->integers == b->integers && a->signs == b->signs && a->sums_to_1 == b->sums_to_1;
}

/* ---- elements --------------------------------------------------------------------------------------------------- */

/* The least and the greatest number that is right. An infinity never is. */
typedef struct closed {
    double low, high;
} closed;

static closed close_ends(const nt__bounds *b) {
    bool above = b->above_low || isinf(b->low), below = b->below_high || isinf(b->high);
    return (closed){above ? nextafter(b->low, INFINITY) : b->low, below ? nextafter(b->high, -INFINITY) : b->high};
}

/* Without a branch, so that the compiler takes several elements at a time: targets may be as large as images. */
#define DEFINE_ALL_WITHIN(name, element)                                                                      \
    static bool name(const element *x, size_t count, closed ends) {                                           \
        int right = 1;                                                                                        \
        for (size_t i = 0; i < count; i++) right &= ((double)x[i] >= ends.low) & ((double)x[i] <= ends.high); \
        return right;                                                                                         \
    }
DEFINE_ALL_WITHIN(all_within_f32, float)
DEFINE_ALL_WITHIN(all_within_f64, double)
DEFINE_ALL_WITHIN(all_within_u8, uint8_t)

static bool all_within(const nt__bounds *b, nt_dtype dtype, const void *elements, size_t count) {
    closed ends = close_ends(b);
    if (b->signs) return false;
    switch (dtype) {
    case NT_F32: return all_within_f32(elements, count, ends);
    case NT_F64: return all_within_f64(elements, count, ends);
    case NT_U8: return all_within_u8(elements, count, ends);
    default: return false;
    }
}

static bool is_within(const nt__bounds *b, closed ends, double value) {
    return b->signs ? value == -1 || value == 1 : value >= ends.low && value <= ends.high;
}

static double element_at(nt_dtype dtype, const void *elements, size_t i) {
    return nt__element_get(dtype, (const char *)elements + i * nt_dtype_size(dtype));
}

/* As few digits as tell the element from others of its type, so that what is just outside does not look inside. */
static void print_element(nt_dtype dtype, double value, char *out, size_t size) {
    if (!nt_dtype_is_float(dtype)) {
        nt__format(out, size, "%.0f", value);
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        char element[8];
        nt__format(out, size, "%.*g", digits, nt__plain_nan(value));
        nt__element_set(dtype, element, nt__read_double(out, NULL));
        if (isnan(value) || nt__element_get(dtype, element) == value) return;
    }
}

/* What stands after "is not". */
static void print_bounds(const nt__bounds *b, char *out, size_t size) {
    if (b->signs)
        snprintf(out, size, "-1 or 1");
    else if (isinf(b->high))
        nt__format(out, size, "a finite number %s%g%s", b->above_low ? "above " : "from ", b->low,
                   b->above_low ? "" : " on");
    else if (b->integers)
        nt__format(out, size, "in %.0f..%.0f", b->low, b->high);
    else if (b->above_low || b->below_high)
        nt__format(out, size, "in %g %s x %s %g", b->low,
                   b->above_low ? "<" : "<=", b->below_high ? "<" : "<=", b->high);
    else
        nt__format(out, size, "in %g..%g", b->low, b->high);
}

static bool say_element(const nt__bounds *b, nt_dtype dtype, double value, nt__outside *out) {
    char number[48], bounds[96];
    print_element(dtype, value, number, sizeof number);
    print_bounds(b, bounds, sizeof bounds);
    snprintf(out->text, sizeof out->text, "%s is not %s", number, bounds);
    return false;
}

/* ---- sums ------------------------------------------------------------------------------------------------------- */

static bool sums_hold(const nt__bounds *b, nt_dtype dtype, const void *elements, size_t count, nt__outside *out) {
    size_t each = (size_t)b->sums_to_1;
    for (size_t first = 0; each && first + each <= count; first += each) {
        double sum = 0;
        for (size_t i = first; i < first + each; i++) sum += element_at(dtype, elements, i);
        if (fabs(sum - 1) <= sum_tolerance) continue;
        out->element = first;
        nt__format(out->text, sizeof out->text, "its %zu probabilities sum to %g and not to 1 (within %g)", each, sum,
                   sum_tolerance);
        return false;
    }
    return true;
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

bool nt__bounds_hold(const nt__bounds *bounds, nt_dtype dtype, const void *elements, size_t count, nt__outside *out) {
    closed ends = close_ends(bounds);
    bool right = all_within(bounds, dtype, elements, count);
    for (size_t i = 0; !right && i < count; i++) {
        double value = element_at(dtype, elements, i);
        if (is_within(bounds, ends, value)) continue;
        out->element = i;
        return say_element(bounds, dtype, value, out);
    }
    return sums_hold(bounds, dtype, elements, count, out);
}
