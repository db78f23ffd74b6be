/* The checks that rows of settings name. Each gives NT_OK, or NT_INVALID with the setting, its value, where that came
 * from and what to give. */
#ifndef NT_SETTING_CHECKS_H
#define NT_SETTING_CHECKS_H

#include "setting/setting.h"

#define NT__CHECK(name) \
    nt_status nt__check_##name(const nt__setting *setting, const nt__settings *s, nt__setting_value value)

NT__CHECK(any);
NT__CHECK(from_0);
NT__CHECK(above_0);
NT__CHECK(finite_from_0);
NT__CHECK(accum);
NT__CHECK(clip);
NT__CHECK(ema_decay);
NT__CHECK(loggers);
NT__CHECK(compute_dtype);
NT__CHECK(keep);
NT__CHECK(mode);
NT__CHECK(scope);

#endif
