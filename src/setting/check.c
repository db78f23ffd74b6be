/* Which values settings may have.
 * Not here: what fits a certain experiment or its data.
 */
#include <math.h>
#include <string.h>

#include "log/log.h"
#include "setting/checks.h"

enum { ORIGIN = 64 };

/* Where a bad value came from: " (from the accum hook)". */
static const char *origin(const nt__settings *s, const nt__setting *setting, char text[ORIGIN]) {
    static const struct {
        const char *before, *after;
    } words[] = {[NT__FROM_FIELD] = {" (from the field ", ")"},
                 [NT__FROM_HOOK] = {" (from the ", " hook)"},
                 [NT__FROM_OPTION] = {" (from the option ", ")"}};
    nt__source from = nt__setting_source(setting, s);
    text[0] = 0;
    if (words[from].before) snprintf(text, ORIGIN, "%s%s%s", words[from].before, setting->name, words[from].after);
    return text;
}

static nt_status refuse(const nt__setting *setting, const nt__settings *s, nt__setting_value value,
                        const char *advice) {
    char text[ORIGIN];
    origin(s, setting, text);
    if (setting->type == NT_FIELD_INT64)
        return nt__fail(NT_INVALID, "%s is %lld%s; %s", setting->name, (long long)value.whole, text, advice);
    if (setting->type == NT_FIELD_DOUBLE)
        return nt__fail(NT_INVALID, "%s is %g%s; %s", setting->name, nt__plain_nan(value.real), text, advice);
    return nt__fail(NT_INVALID, "%s is '%s'%s; %s", setting->name, value.text, text, advice);
}

/* ---- the checks that rows name ---------------------------------------------------------------------------------- */

NT__CHECK(any) {
    (void)setting;
    (void)s;
    (void)value;
    return NT_OK;
}

NT__CHECK(from_0) {
    return value.whole >= 0 ? NT_OK : refuse(setting, s, value, "give 0 or more");
}

NT__CHECK(above_0) {
    return value.real > 0 && isfinite(value.real) ? NT_OK : refuse(setting, s, value, "give a finite number above 0");
}

NT__CHECK(finite_from_0) {
    bool good = value.real >= 0 && isfinite(value.real);
    return good ? NT_OK : refuse(setting, s, value, "give a finite number, 0 for none");
}

NT__CHECK(clip) {
    return isfinite(value.real) ? NT_OK : refuse(setting, s, value, "give a finite number, 0 for no clipping");
}

NT__CHECK(ema_decay) {
    bool good = value.real >= 0 && value.real < 1;
    return good ? NT_OK : refuse(setting, s, value, "give a number below 1 such as 0.999, 0 for no average");
}

NT__CHECK(keep) {
    return value.whole >= 1 ? NT_OK
                            : refuse(setting, s, value,
                                     "give how many of the best are kept, 1 or more; checkpoint = false writes none");
}

/* A manual step is one batch, whatever it does with it. */
NT__CHECK(accum) {
    char text[ORIGIN];
    if (value.whole < 1) return refuse(setting, s, value, "a step has at least 1 micro-batch: give 1 or more");
    if (!s->manual || value.whole == 1) return NT_OK;
    return nt__fail(NT_INVALID,
                    "accum is %lld%s, and training is manual (the train_step hook), which makes a step of each batch: "
                    "leave accum at 1, and let train_step split its batch if it must",
                    (long long)value.whole, origin(s, setting, text));
}

NT__CHECK(loggers) {
    char text[ORIGIN];
    nt_status status = nt__loggers_check(value.text);
    return status == NT_OK ? NT_OK : nt__fail_in(status, "log is '%s'%s", value.text, origin(s, setting, text));
}

static bool is_one_of(const char *text, const char *a, const char *b) {
    return strcmp(text, a) == 0 || strcmp(text, b) == 0;
}

NT__CHECK(mode) {
    bool good = !value.text || is_one_of(value.text, "min", "max");
    return good ? NT_OK : refuse(setting, s, value, "give min or max: which of two values is better");
}

NT__CHECK(scope) {
    return is_one_of(value.text, "run", "dir")
               ? NT_OK
               : refuse(setting, s, value,
                        "give run, to keep other runs' checkpoints in run_dir, or dir, to rank them all together");
}

/* NULL: layers cannot compute in it. */
static const nt_dtype *find_compute_dtype(const char *name) {
    static const nt_dtype all[] = {NT_F32, NT_BF16, NT_F16};
    for (size_t i = 0; name && i < sizeof all / sizeof *all; i++)
        if (strcmp(nt_dtype_name(all[i]), name) == 0) return &all[i];
    return NULL;
}

NT__CHECK(compute_dtype) {
    return find_compute_dtype(value.text) ? NT_OK : refuse(setting, s, value, "layers compute in f32, bf16 or f16");
}

bool nt__is_compute_dtype(const char *name) {
    return find_compute_dtype(name) != NULL;
}

nt_dtype nt__compute_dtype(const nt__settings *s) {
    return *find_compute_dtype(s->compute_dtype);
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

static nt_status check_gradient_norm(const nt__settings *s) {
    if (!s->gradient_norm || !s->manual || s->evaluate_only) return NT_OK;
    return nt__fail(NT_INVALID,
                    "gradient_norm is given, and training is manual (the train_step hook), which has gradients of "
                    "its own: report nt_norm of those as a value of train_step, such as \"discriminator_norm\"");
}

nt_status nt__settings_check(const nt__settings *s) {
    const nt__setting *setting;
    for (size_t i = 0; (setting = nt__setting_at(i)); i++) {
        if (s->evaluate_only && nt__setting_is_for_training(setting)) continue;
        nt_status status = setting->check(setting, s, nt__setting_of(setting, s));
        if (status != NT_OK) return status;
    }
    return check_gradient_norm(s);
}

/* The worst would be kept for the best. */
static nt_status warn_of_mode(const nt__settings *s, const nt_experiment *experiment) {
    const char *usual = nt__usual_mode(s->checkpoint_metric);
    if (!s->checkpoint || !usual || !s->checkpoint_mode || strcmp(usual, s->checkpoint_mode) == 0) return NT_OK;
    bool is_max = strcmp(s->checkpoint_mode, "max") == 0;
    return nt__warn("%s: checkpoint_mode is %s, and of '%s' %s values are better by its name: the best is taken to be "
                    "the one with the %s",
                    experiment->name, s->checkpoint_mode, s->checkpoint_metric, is_max ? "smaller" : "larger",
                    is_max ? "largest" : "smallest");
}

nt_status nt__settings_warn(const nt__settings *s, const nt_experiment *experiment) {
    nt_status status = warn_of_mode(s, experiment);
    if (status != NT_OK) return status;
    if (nt__compute_dtype(s) != NT_F16) return NT_OK;
    return nt__warn("%s: layers compute in f16, whose gradients below 6e-8 become 0 without a word: there is no loss "
                    "scaling. bf16 has the range of f32 and is meant for training, f16 for evaluations and predictions",
                    experiment->name);
}
