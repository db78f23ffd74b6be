/* Trust ratios: how far each array may step, by its own size. Of LARS and LAMB (nitro/optim.h). */
#include "optim/rules.h"

nt_tensor nt__with_decay(const nt_update *u, nt_tensor direction, nt_tensor decay) {
    nt_tensor decayed = nt_add(direction, nt_mul(decay, u->x));
    return u->decayed ? nt_where(*u->decayed, decayed, direction) : decayed;
}

/* Of each array. A division by 0 is kept out of the ratio. */
static nt_tensor ratios(const nt_update *u, nt_tensor direction, double coefficient, nt_tensor epsilon) {
    nt_tensor size = nt_sqrt(nt_update_sums(u, nt_square(u->x)));
    nt_tensor step = nt_sqrt(nt_update_sums(u, nt_square(direction)));
    nt_tensor known = nt_and(nt_greater(size, 0), nt_greater(step, 0));
    nt_tensor ratio = nt_div(nt_mul(coefficient, size), nt_add(nt_where(known, step, 1), epsilon));
    return nt_convert(nt_where(known, ratio, 1), u->dtype);
}

nt_tensor nt__trust_ratio(const nt_update *u, nt_tensor direction, double coefficient, nt_tensor epsilon) {
    nt_tensor ratio = nt_update_spread(u, ratios(u, direction, coefficient, epsilon));
    return u->decayed ? nt_where(*u->decayed, ratio, 1) : ratio;
}
