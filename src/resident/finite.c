/* Whether numbers of a model are finite, and where those that are not come from.
 * Not here: a loss that is not finite (diverged.c).
 */
#include <math.h>

#include "resident/resident.h"

void nt__add_step(const nt__task *task, const nt__place *closed, nt__text *out) {
    int64_t accum = task->settings.accum, last = closed->batch + 1;
    nt__text_add(out, "step %lld of epoch %lld (micro-batch%s ", (long long)closed->step, (long long)closed->epoch,
                 accum > 1 ? "es" : "");
    if (accum > 1) nt__text_add(out, "%lld to ", (long long)last - (long long)accum + 1);
    nt__text_add(out, "%lld of split 'train')", (long long)last);
}

/* Of f32, which most parameters are: the exponent of what is not finite has all bits. */
static int64_t count_bad_f32(const uint32_t *bits, int64_t length) {
    int64_t count = 0;
    for (int64_t i = 0; i < length; i++) count += (bits[i] & 0x7f800000u) == 0x7f800000u;
    return count;
}

/* An infinity is wrong in a parameter; a state may begin with one. */
int64_t nt__count_bad(nt__type type, const void *elements, bool is_state) {
    size_t width = nt_dtype_size(type.dtype);
    int64_t count = 0, length = nt_shape_elements(type.shape);
    if (type.dtype == NT_F32 && !is_state) return count_bad_f32(elements, length);
    for (int64_t i = 0; i < length; i++) {
        double value = nt__element_get(type.dtype, (const char *)elements + (size_t)i * width);
        count += is_state ? isnan(value) : !isfinite(value);
    }
    return count;
}

/* A loss is computed before the step that it leads to: what the last step broke, no loss has shown. */
static void say_where_from(const nt__resident *resident, bool is_state, nt__text *out) {
    const nt__place *closed = &resident->closed;
    if (is_state) {
        nt__text_say(out, "Look at what its layer was given: a state is computed of that");
    } else if (closed->step == 0) {
        nt__text_say(out, "This run has made no step, so they came with the weights that it was given");
    } else if (!resident->task->settings.check_divergence) {
        nt__text_say(
            out, "Look at the log for the first loss that is not finite, and at the gradient of the step before it");
    } else {
        nt__text_say(out, "The loss was finite up to there, so look at the gradient of ");
        nt__add_step(resident->task, closed, out);
        nt__text_say(out,
                     ", or of an earlier step for parameters that later batches do not use, for what has a value and "
                     "no finite gradient, as the root of 0; if it is finite the step was too large: train again "
                     "with a lower learning rate");
    }
}

nt_status nt__check_finite(const nt__resident *resident, const char *path, const nt__named_array *array,
                           bool is_state) {
    int64_t bad = nt__count_bad(array->type, array->data, is_state);
    nt__text text = {0};
    if (!bad) return NT_OK;
    nt__text_add(&text, "%s is not written: %lld of the %lld elements of %s '%s' are %s. ", path, (long long)bad,
                 (long long)nt_shape_elements(array->type.shape), is_state ? "layer state" : "parameter", array->name,
                 is_state ? "not a number" : "infinite or not a number");
    say_where_from(resident, is_state, &text);
    nt_status status = text.failed ? NT_OUT_OF_MEMORY : nt__fail(NT_DIVERGED, "%s", text.data);
    nt__text_free(&text);
    return status;
}
