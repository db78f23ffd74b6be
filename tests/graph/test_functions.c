/* Every function of one floating tensor and of two, with its derivatives, at numbers of elements around those where an
 * engine changes its loops, in every floating type, of inputs and of constants that it may fold: against the C library
 * in long double and against sums and series written out here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "graph/emit.h"
#include "grid.h"
#include "nitro/gradient.h"

typedef long double real;

/* ---- functions that the C library lacks ------------------------------------------------------------------------- */

static real logistic(real x) {
    return 1 / (1 + expl(-x));
}

/* The derivative of order n of digamma for x > 0: its series from x + 40 on by Euler's sum formula, 6.4.10 to 6.4.12 of
 * Abramowitz and Stegun; n = 0 by 6.3.18. */
static real polygamma(int n, real x) {
    static const real bernoulli[] = {1 / 6.0L, -1 / 30.0L, 1 / 42.0L, -1 / 30.0L, 5 / 66.0L, -691 / 2730.0L, 7 / 6.0L};
    real sum = 0, factorial = tgammal(n + 1), sign = n % 2 ? 1 : -1;
    while (x < 40) {
        sum += n ? sign * factorial / powl(x, n + 1) : -1 / x;
        x += 1;
    }
    if (n == 0) {
        sum += logl(x) - 0.5L / x;
        for (int k = 1; k <= 7; k++) sum -= bernoulli[k - 1] / (2 * k * powl(x, 2 * k));
        return sum;
    }
    real tail = tgammal(n) / powl(x, n) + factorial / (2 * powl(x, n + 1));
    for (int k = 1; k <= 7; k++)
        tail += bernoulli[k - 1] * tgammal(2 * k + n) / (tgammal(2 * k + 1) * powl(x, 2 * k + n));
    return sum + sign * tail;
}

/* By Newton's method. */
static real erf_inverse(real x) {
    real y = 0;
    for (int i = 0; i < 60; i++) y -= (erfl(y) - x) * expl(y * y) / M_2_SQRTPIl;
    return y;
}

static real sign_of(real x) {
    return x > 0 ? 1 : x < 0 ? -1 : 0;
}

static real floor_mod(real x, real y) {
    return x - floorl(x / y) * y;
}

static real log_add(real x, real y) {
    return fmaxl(x, y) + log1pl(expl(-fabsl(x - y)));
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

#define A in[0]
#define B in[1]

/* name, nitro's, what is right of x and y, smallest and largest x, and y */
#define EACH_FUNCTION(ROW)                                                         \
    ROW(exp, nt_exp(A), expl(x), -6, 6, 0, 0)                                      \
    ROW(expm1, nt_expm1(A), expm1l(x), -4, 4, 0, 0)                                \
    ROW(exp2, nt_exp2(A), exp2l(x), -8, 8, 0, 0)                                   \
    ROW(log, nt_log(A), logl(x), 0.1, 9, 0, 0)                                     \
    ROW(log1p, nt_log1p(A), log1pl(x), -0.8, 9, 0, 0)                              \
    ROW(log2, nt_log2(A), log2l(x), 0.1, 9, 0, 0)                                  \
    ROW(log10, nt_log10(A), log10l(x), 0.1, 9, 0, 0)                               \
    ROW(sqrt, nt_sqrt(A), sqrtl(x), 0.1, 9, 0, 0)                                  \
    ROW(rsqrt, nt_rsqrt(A), 1 / sqrtl(x), 0.1, 9, 0, 0)                            \
    ROW(cbrt, nt_cbrt(A), cbrtl(x), 0.1, 9, 0, 0)                                  \
    ROW(tanh, nt_tanh(A), tanhl(x), -3, 3, 0, 0)                                   \
    ROW(logistic, nt_logistic(A), logistic(x), -6, 6, 0, 0)                        \
    ROW(relu, nt_relu(A), fmaxl(x, 0), -3, 3, 0, 0)                                \
    ROW(abs, nt_abs(A), fabsl(x), -3, 3, 0, 0)                                     \
    ROW(sign, nt_sign(A), sign_of(x), -3, 3, 0, 0)                                 \
    ROW(neg, nt_neg(A), -x, -3, 3, 0, 0)                                           \
    ROW(square, nt_square(A), x *x, -3, 3, 0, 0)                                   \
    ROW(sin, nt_sin(A), sinl(x), -7, 7, 0, 0)                                      \
    ROW(cos, nt_cos(A), cosl(x), -7, 7, 0, 0)                                      \
    ROW(tan, nt_tan(A), tanl(x), -1.2, 1.2, 0, 0)                                  \
    ROW(asin, nt_asin(A), asinl(x), -0.9, 0.9, 0, 0)                               \
    ROW(acos, nt_acos(A), acosl(x), -0.9, 0.9, 0, 0)                               \
    ROW(atan, nt_atan(A), atanl(x), -6, 6, 0, 0)                                   \
    ROW(sinh, nt_sinh(A), sinhl(x), -4, 4, 0, 0)                                   \
    ROW(cosh, nt_cosh(A), coshl(x), -4, 4, 0, 0)                                   \
    ROW(asinh, nt_asinh(A), asinhl(x), -6, 6, 0, 0)                                \
    ROW(acosh, nt_acosh(A), acoshl(x), 1.2, 9, 0, 0)                               \
    ROW(atanh, nt_atanh(A), atanhl(x), -0.9, 0.9, 0, 0)                            \
    ROW(erf, nt_erf(A), erfl(x), -3, 3, 0, 0)                                      \
    ROW(erfc, nt_erfc(A), erfcl(x), -3, 3, 0, 0)                                   \
    ROW(erf_inv, nt_erf_inv(A), erf_inverse(x), -0.9, 0.9, 0, 0)                   \
    ROW(lgamma, nt_lgamma(A), lgammal(x), 0.2, 9, 0, 0)                            \
    ROW(digamma, nt_digamma(A), polygamma(0, x), 0.2, 9, 0, 0)                     \
    ROW(polygamma_1, nt_polygamma(1, A), polygamma(1, x), 0.2, 9, 0, 0)            \
    ROW(polygamma_2, nt_polygamma(2, A), polygamma(2, x), 0.2, 9, 0, 0)            \
    ROW(floor, nt_floor(A), floorl(x), -4, 4, 0, 0)                                \
    ROW(ceil, nt_ceil(A), ceill(x), -4, 4, 0, 0)                                   \
    ROW(round, nt_round(A), rintl(x), -4, 4, 0, 0)                                 \
    ROW(round_half_away, nt_round_half_away(A), roundl(x), -4, 4, 0, 0)            \
    ROW(trunc, nt_trunc(A), truncl(x), -4, 4, 0, 0)                                \
    ROW(add, nt_add(A, B), x + y, 0.5, 4, 0.5, 4)                                  \
    ROW(sub, nt_sub(A, B), x - y, 0.5, 4, -4, -0.5)                                \
    ROW(mul, nt_mul(A, B), x *y, -4, 4, -4, 4)                                     \
    ROW(div, nt_div(A, B), x / y, -4, 4, 0.5, 4)                                   \
    ROW(div_number, nt_div(A, 3), x / 3, -4, 4, 0, 0)                              \
    ROW(pow, nt_pow(A, B), powl(x, y), 0.5, 3, -2, 2)                              \
    ROW(pow_number, nt_pow(A, 2.5), powl(x, 2.5L), 0.5, 3, 0, 0)                   \
    ROW(rem, nt_rem(A, B), fmodl(x, y), -2, 2, 3, 5)                               \
    ROW(mod, nt_mod(A, B), floor_mod(x, y), 0.5, 2, 3, 5)                          \
    ROW(floor_div, nt_floor_div(A, B), floorl(x / y), 0.25, 2, 3, 5)               \
    ROW(max, nt_max(A, B), fmaxl(x, y), -4, 4, -4, 4)                              \
    ROW(min, nt_min(A, B), fminl(x, y), -4, 4, -4, 4)                              \
    ROW(clamp, nt_clamp(A, -1.125, B), fminl(fmaxl(x, -1.125L), y), -4, 4, 0.5, 3) \
    ROW(atan2, nt_atan2(A, B), atan2l(x, y), -4, 4, -4, -0.5)                      \
    ROW(atan2_number, nt_atan2(A, 1), atan2l(x, 1), -4, 4, 0, 0)                   \
    ROW(atan2_of_number, nt_atan2(1, A), atan2l(1, x), -4, 4, 0, 0)                \
    ROW(logaddexp, nt_logaddexp(A, B), log_add(x, y), -4, 4, -4, 4)                \
    ROW(logaddexp_number, nt_logaddexp(A, 1), log_add(x, 1), -4, 4, 0, 0)          \
    ROW(hypot, nt_hypot(A, B), hypotl(x, y), -4, 4, 0.5, 4)                        \
    ROW(hypot_number, nt_hypot(A, 1), hypotl(x, 1), -4, 4, 0, 0)                   \
    ROW(copysign, nt_copysign(A, B), copysignl(x, y), 0.5, 4, -4, 4)

#define BUILD(name, build, right, ...)                   \
    static nt_tensor build_##name(const nt_tensor *in) { \
        return build;                                    \
    }                                                    \
    static real right_##name(real x, real y) {           \
        (void)y;                                         \
        return right;                                    \
    }
EACH_FUNCTION(BUILD)

typedef struct row {
    const char *name;
    nt_tensor (*build)(const nt_tensor *in);
    real (*right)(real x, real y);
    double low[2], high[2]; /* of x, of y, which is not used where both are 0 */
} row;

#define ROW(name, build, right, x_low, x_high, y_low, y_high) \
    {#name, build_##name, right_##name, {x_low, y_low}, {x_high, y_high}},
static const row rows[] = {EACH_FUNCTION(ROW)};
enum { ROWS = sizeof rows / sizeof *rows, EACH = 3 };

static bool has_second(const row *r) {
    return r->low[1] != 0 || r->high[1] != 0;
}

/* ---- cases ------------------------------------------------------------------------------------------------------ */

static const int64_t sizes[] = {64, 1, 4099, 9, 1000, 8, 55, 100};
enum { SIZES = sizeof sizes / sizeof *sizes, TYPES = 4, QUICK = TYPES * 2 };

typedef struct functions_case {
    nt_dtype dtype;
    int64_t size;
    bool folded;
} functions_case;

static functions_case case_of(size_t index) {
    static const nt_dtype floating[] = {NT_F32, NT_F64, NT_BF16, NT_F16};
    return (functions_case){floating[index % TYPES], sizes[index / TYPES / 2 % SIZES], index / TYPES % 2 == 1};
}

static void describe(size_t index, FILE *to) {
    functions_case c = case_of(index);
    fprintf(to, "%lld elements of %s%s", (long long)c.size, nt_dtype_name(c.dtype), c.folded ? ", constant" : "");
}

/* Evenly over the range, in another order for the second operand; never where a function has a step. */
static nt_array *operand_of(const row *r, int which, nt_dtype dtype, int64_t size) {
    nt_array *array = nt_array_new(dtype, nt_dims(size));
    assert_non_null(array);
    int64_t step = which ? 7 : 1;
    for (int64_t i = 0; i < size; i++) {
        double part = ((double)(i * step % size) + 0.37) / (double)size;
        nt_array_set(array, i, r->low[which] + part * (r->high[which] - r->low[which]));
    }
    return array;
}

/* The derivative by x or y, by differences of fourth order. */
static real slope(const row *r, int which, real x, real y, real h) {
    real by_x = which == 0 ? h : 0, by_y = which == 1 ? h : 0;
    real near = r->right(x + by_x, y + by_y) - r->right(x - by_x, y - by_y);
    real far = r->right(x + 2 * by_x, y + 2 * by_y) - r->right(x - 2 * by_x, y - 2 * by_y);
    return (8 * near - far) / (12 * h);
}

/* ---- comparing -------------------------------------------------------------------------------------------------- */

static bool is_right(const row *r, int result, const nt_array *x, const nt_array *y, const nt_array *got) {
    static const char *const names[] = {"value", "first derivative", "second operand's derivative"};
    static const double value[] = {[NT_F32] = 4e-6, [NT_F64] = 1e-13, [NT_BF16] = 1.2e-2, [NT_F16] = 2e-3};
    static const double derivative[] = {[NT_F32] = 1e-5, [NT_F64] = 1e-11, [NT_BF16] = 3e-2, [NT_F16] = 4e-3};
    for (int64_t i = 0; i < got->shape.dims[0]; i++) {
        real a = nt_array_get(x, i), b = y ? (real)nt_array_get(y, i) : 0;
        double wanted = (double)(result ? slope(r, result - 1, a, b, 1e-4L) : r->right(a, b));
        double is = nt_array_get(got, i), bound = (result ? derivative : value)[got->dtype] * fmax(1, fabs(wanted));
        if (fabs(is - wanted) <= bound) continue;
        /* Beside a step or an edge there is no slope to compare with. */
        if (result && fabs((double)slope(r, result - 1, a, b, 2e-4L) - wanted) > 1e-6 * fmax(1, fabs(wanted))) continue;
        fprintf(stderr, "%s of %s, element %lld of %lld, at %.9g, %.9g: %.9g, right is %.9g\n", names[result], r->name,
                (long long)i, (long long)got->shape.dims[0], (double)a, (double)b, is, wanted);
        return false;
    }
    return true;
}

static bool run(size_t index) {
    functions_case c = case_of(index);
    nt_array *arrays[ROWS * 2] = {0}, *got[ROWS * EACH];
    nt__result results[ROWS * EACH];
    int count = 0, place[ROWS];
    nt__graph *graph = nt__trace_begin();
    for (int i = 0; i < ROWS; i++) {
        int operands = 1 + has_second(&rows[i]);
        nt_tensor in[2], gradients[2];
        for (int k = 0; k < operands; k++) {
            arrays[2 * i + k] = operand_of(&rows[i], k, c.dtype, c.size);
            in[k] = traced_input(2 * i + k, nt__array_type(arrays[2 * i + k]));
            if (c.folded) {
                nt__attributes elements = {.elements = arrays[2 * i + k]->data, .alone = true};
                in[k] = nt__emit(NT__OP_constant, NT_SITE, nt__array_type(arrays[2 * i + k]), 0, NULL, &elements);
            }
        }
        place[i] = count;
        nt_tensor y = rows[i].build(in);
        results[count++] = (nt__result){"value", y, {0}};
        nt_grads_at(nt_sum(y), in, (size_t)operands, gradients, NT_SITE);
        for (int k = 0; k < operands; k++) results[count++] = (nt__result){"gradient", gradients[k], {0}};
    }
    assert_ok(nt__trace_status(graph));
    traced program = traced_compile(traced_engine(), results, (size_t)count);
    nt__trace_end(graph);
    traced_run(&program, arrays, got);
    traced_free(&program);
    bool right = true;
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < 2 + has_second(&rows[i]); k++)
            right &= is_right(&rows[i], k, arrays[2 * i], arrays[2 * i + 1], got[place[i] + k]);
    for (int i = 0; i < count; i++) nt_array_free(got[i]);
    for (int i = 0; i < ROWS * 2; i++) nt_array_free(arrays[i]);
    return right;
}

int main(int argc, char **argv) {
    return grid_main(&(grid){QUICK, run, describe}, argc, argv);
}
