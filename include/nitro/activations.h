/* Activations: functions of one floating tensor, element by element; of another type they are errors.
 * More are operations of nitro/ops.h: nt_relu, nt_tanh, nt_logistic (the sigmoid), nt_softmax, nt_log_softmax.
 * "Gradient" gives what the cotangent is multiplied by at a kink; elsewhere it is the derivative.
 */
#ifndef NITRO_ACTIVATIONS_H
#define NITRO_ACTIVATIONS_H

#include "nitro/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- of the family of relu -------------------------------------------------------------------------------------- */

#define nt_relu6(x) nt_relu6_at(x, NT_SITE) /* min(max(x, 0), 6), keeps nan. Gradient: 0 at 0 and 6 */
/* x above 0, else slope x (Maas et al. 2013); the slope is finite. Gradient: slope at 0. */
#define nt_leaky_relu(x, slope) nt_leaky_relu_at(x, slope, NT_SITE)
/* x above 0, else alpha (exp(x) - 1), alpha from 0 on (Clevert et al. 2015). Gradient: alpha at 0. */
#define nt_elu(x, alpha) nt_elu_at(x, alpha, NT_SITE)
/* x above 0, else alpha (exp(x / alpha) - 1), whose derivative has no jump; alpha is above 0 (Barron 2017). */
#define nt_celu(x, alpha) nt_celu_at(x, alpha, NT_SITE)
/* 1.0507 times the elu with alpha = 1.67326 (Klambauer et al. 2017). */
#define nt_selu(x) nt_selu_at(x, NT_SITE)
#define nt_hard_tanh(x) nt_hard_tanh_at(x, NT_SITE)       /* x cut to -1..1. Gradient: 0 at -1 and 1 */
#define nt_hard_sigmoid(x) nt_hard_sigmoid_at(x, NT_SITE) /* relu6(x + 3) / 6 */
#define nt_hard_swish(x) nt_hard_swish_at(x, NT_SITE)     /* x relu6(x + 3) / 6 (Howard et al. 2019) */

nt_tensor nt_relu6_at(nt_tensor x, nt_site site);
nt_tensor nt_leaky_relu_at(nt_tensor x, double slope, nt_site site);
nt_tensor nt_elu_at(nt_tensor x, double alpha, nt_site site);
nt_tensor nt_celu_at(nt_tensor x, double alpha, nt_site site);
nt_tensor nt_selu_at(nt_tensor x, nt_site site);
nt_tensor nt_hard_tanh_at(nt_tensor x, nt_site site);
nt_tensor nt_hard_sigmoid_at(nt_tensor x, nt_site site);
nt_tensor nt_hard_swish_at(nt_tensor x, nt_site site);

/* ---- smooth ones ------------------------------------------------------------------------------------------------ */

/* x times the standard normal's distribution function at x (Hendrycks and Gimpel 2016), and its approximation by
 * 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). */
#define nt_gelu(x) nt_gelu_at(x, NT_SITE)
#define nt_gelu_tanh(x) nt_gelu_tanh_at(x, NT_SITE)
#define nt_silu(x) nt_silu_at(x, NT_SITE)               /* x / (1 + exp(-x)), also called swish */
#define nt_softplus(x) nt_softplus_at(x, NT_SITE)       /* log(1 + exp(x)) without overflow */
#define nt_log_sigmoid(x) nt_log_sigmoid_at(x, NT_SITE) /* -log(1 + exp(-x)) without overflow */
#define nt_softsign(x) nt_softsign_at(x, NT_SITE)       /* x / (1 + |x|) */
#define nt_mish(x) nt_mish_at(x, NT_SITE)               /* x tanh(softplus(x)) (Misra 2019) */
/* a / (1 + exp(-b)) of the two halves a, b of x along an axis of even size (Dauphin et al. 2016). */
#define nt_glu(x, axis) nt_glu_at(x, axis, NT_SITE)

nt_tensor nt_gelu_at(nt_tensor x, nt_site site);
nt_tensor nt_gelu_tanh_at(nt_tensor x, nt_site site);
nt_tensor nt_silu_at(nt_tensor x, nt_site site);
nt_tensor nt_softplus_at(nt_tensor x, nt_site site);
nt_tensor nt_log_sigmoid_at(nt_tensor x, nt_site site);
nt_tensor nt_softsign_at(nt_tensor x, nt_site site);
nt_tensor nt_mish_at(nt_tensor x, nt_site site);
nt_tensor nt_glu_at(nt_tensor x, int64_t axis, nt_site site);

#ifdef __cplusplus
}
#endif

#endif
