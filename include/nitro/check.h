/* A check of gradients: compares those of a traced function with central differences.
 */
#ifndef NITRO_CHECK_H
#define NITRO_CHECK_H

#include "nitro/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A function to check: makes a floating scalar of its inputs; `context` is what nt_check_gradient was given. */
typedef nt_tensor (*nt_checked_function)(const nt_tensor *inputs, void *context);

typedef struct nt_gradient_check_options {
    double step;      /* of the differences, times max(1, |x|): 1e-6 */
    double tolerance; /* of the error: 1e-6 */
} nt_gradient_check_options;

/* The element whose gradient is worst. The error is |gradient - difference| / max(1, |gradient|, |difference|), where
 * `difference` is (f(x + h) - f(x - h)) / 2h; infinite if just one of the two is finite. At a kink, where the slopes
 * before and after x differ, each number between the two is right, and the error is the distance from them. */
typedef struct nt_gradient_report {
    double error, gradient, difference;
    size_t input;
    int64_t element; /* in row-major order; -1: there is no floating element */
} nt_gradient_report;

/* Compiles the function on one device and runs it twice for each floating element of the inputs, in f64: floating
 * arrays are converted, others stay as they are and have no gradient. An error above the tolerance is NT_INVALID, and
 * the message tells the worst element. `report` may be NULL.
 *
 *     nt_array *inputs[] = {x, y};
 *     nt_check_gradient(my_loss, NULL, inputs, 2, &report, .tolerance = 1e-8)
 */
#define nt_check_gradient(function, context, inputs, count, report, ...) \
    nt_check_gradient_with(function, context, inputs, count, report, (nt_gradient_check_options){__VA_ARGS__})
nt_status nt_check_gradient_with(nt_checked_function function, void *context, nt_array *const *inputs, size_t count,
                                 nt_gradient_report *report, nt_gradient_check_options options);

#ifdef __cplusplus
}
#endif

#endif
