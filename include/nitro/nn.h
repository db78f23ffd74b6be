/* Models: parameters and layer state declared where they are used, by name, inside scopes; names that draw random
 * numbers. Layers and losses are in nitro/layers.h and nitro/losses.h.
 */
#ifndef NITRO_NN_H
#define NITRO_NN_H

#include "nitro/gradient.h"
#include "nitro/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The model of an experiment while forward or train_step is traced: its scopes and parameters. Kept in a variable and
 * used in another hook, it is an error. */
typedef struct nt_model nt_model;
/* The micro-batch during a trace. */
typedef struct nt_batch nt_batch;

/* A field of the batch, axis 0 the sample: nt_field(b, "image"). Fields that no traced hook reads never reach the
 * device. */
#define nt_field(batch, name) nt_field_at(batch, name, NT_SITE)
nt_tensor nt_field_at(nt_batch *batch, const char *name, nt_site site);

/* ---- initial values --------------------------------------------------------------------------------------------- */

/* How a parameter starts. Drawn on the host by threefry2x32 from the run's seed and the parameter's path, so a new
 * parameter changes no other one. The zero value is "not given": what the layer says, zeros for nt_parameter. Limits,
 * deviations and gains are finite and at least 0; another one, and a kind that there is not, is an error where the
 * parameter is declared. */
typedef struct nt_init {
    enum {
        NT_INIT_DEFAULT,
        NT_INIT_CONSTANT,
        NT_INIT_UNIFORM,
        NT_INIT_NORMAL,
        NT_INIT_TRUNCATED_NORMAL,
        NT_INIT_ORTHOGONAL,
        NT_INIT_FORGET_BIAS
    } kind;
    enum { NT_SCALE_ABSOLUTE, NT_SCALE_GLOROT, NT_SCALE_HE, NT_SCALE_LECUN } scale;
    double value; /* the constant, the limit of a uniform, the standard deviation of a normal (when the scale is
                     absolute), the gain of an orthogonal one, what a forget gate has */
} nt_init;

nt_init nt_zeros(void);
nt_init nt_ones(void);
nt_init nt_filled(double value);
nt_init nt_uniform(double limit);                       /* in [-limit, limit) */
nt_init nt_normal(double standard_deviation);           /* mean 0 */
nt_init nt_truncated_normal(double standard_deviation); /* of the parent normal; cut at two standard deviations */
/* Of variance 2 / (fan_in + fan_out) (Glorot and Bengio 2010), 2 / fan_in (He et al. 2015) and 1 / fan_in (LeCun et al.
 * 1998): uniform, and a truncated normal whose variance is that after the cut. The fans are the inputs and outputs of a
 * unit: of [..., in, out], the axes before counted as positions of a kernel. */
nt_init nt_glorot_uniform(void);
nt_init nt_glorot_normal(void);
nt_init nt_he_uniform(void);
nt_init nt_he_normal(void);
nt_init nt_lecun_uniform(void);
nt_init nt_lecun_normal(void);
/* A random rotation times the gain (Saxe et al. 2014): of [..., n] seen as a matrix with n columns, the rows or the
 * columns, whichever are fewer, have length `gain` and are orthogonal to one another. A gain of 1 keeps lengths. */
nt_init nt_orthogonal(double gain);
/* Of the bias of nt_lstm, or of one's own cell with such gates, [4 * units]: `value` in the forget gate's quarter, the
 * second, 0 in the others. */
nt_init nt_forget_bias(double value);

/* ---- parameters and scopes -------------------------------------------------------------------------------------- */

typedef struct nt_parameter_options {
    nt_dtype dtype; /* f32 */
    nt_init init;   /* zeros */
} nt_parameter_options;
/* A trainable array. Its path is the scopes around the call and the name, joined by dots. The first trace creates it; a
 * path used twice in one trace outside NT_REUSE, or with another shape, is an error that shows both places. */
#define nt_parameter(m, name, shape, ...) nt_parameter_at(m, name, shape, (nt_parameter_options){__VA_ARGS__}, NT_SITE)
nt_tensor nt_parameter_at(nt_model *m, const char *name, nt_shape shape, nt_parameter_options options, nt_site site);

/* NT_SCOPE(m, "block%d", i) { ... }: names inside get the prefix. Leave the body only at its end. */
#define NT_SCOPE(m, ...) NT_SCOPE_(NT_JOIN3(nt_scope_, __LINE__, _), m, __VA_ARGS__)
/* The variable has the line in its name, so that nested scopes do not hide one another's. */
#define NT_SCOPE_(once, m, ...) \
    for (bool once = nt_scope_enter(m, NT_SITE, __VA_ARGS__); once; once = nt_scope_leave(m))
bool nt_scope_enter(nt_model *m, nt_site site, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool nt_scope_leave(nt_model *m);

/* NT_REUSE(m) { ... }: inside, a path may be declared again, and is the same parameter: a layer that is called several
 * times, weights that two layers share. Without it that is an error. Leave the body only at its end. */
#define NT_REUSE(m) NT_REUSE_(NT_JOIN3(nt_reuse_, __LINE__, _), m)
#define NT_REUSE_(once, m) for (bool once = nt_reuse_enter(m, NT_SITE); once; once = nt_reuse_leave(m))
bool nt_reuse_enter(nt_model *m, nt_site site);
bool nt_reuse_leave(nt_model *m);

/* Whether the trace under way is of a model that trains: forward is traced for training and for evaluation, and this
 * decides as a C condition. Parameters and states are declared in both, and forward returns the same type in both. */
#define nt_is_training(m) nt_is_training_at(m, NT_SITE)
bool nt_is_training_at(const nt_model *m, nt_site site);

/* ---- mixed precision -------------------------------------------------------------------------------------------- */

/* Parameters in f32, arithmetic in a type of 16 bits, outputs in f32: the setting compute_dtype of a run ("bf16",
 * nitro/run.h) for the whole of forward and train_step, and NT_COMPUTE for a part of it. What then holds:
 * - Layers and nt_parameter declare f32, so files, gradients, optimizers and averages are f32.
 * - A layer converts an x of f32, bf16 or f16 and its parameters to the type, computes in it and returns it;
 * nt_parameter gives the parameter in it too. Rows of an embedding are converted when they are taken.
 * - Means, variances and sums of norms, softmax, attention's weights, batch norm's running statistics and other layer
 *   states, and sums that operations make (nt_sum, nt_mean, nt_avg_pool) stay in f32 inside.
 * - What forward returns is converted to f32, so loss and metrics see f32. A train_step that calls forward itself
 *   converts: nt_convert(y, NT_F32).
 * - f64 stays f64, parameters that ask for another type than f32 have it, integers are not touched, and operations
 * never convert: a tensor of one's own that meets a layer's result is made to fit by nt_to_compute. bf16 has the range
 * of f32, so gradients need no loss scaling. In f16 those below 6e-8 become 0, and nitro has no loss scaling: f16 is
 * for evaluation and prediction. */

/* NT_COMPUTE(m, NT_F32) { ... }: layers inside compute in that type, f32, bf16 or f16, whatever is set outside: a part
 * that needs all digits, or one part of a model in bf16. Nests. Leave the body only at its end. */
#define NT_COMPUTE(m, dtype) NT_COMPUTE_(NT_JOIN3(nt_compute_, __LINE__, _), m, dtype)
#define NT_COMPUTE_(once, m, dtype) \
    for (bool once = nt_compute_enter(m, dtype, NT_SITE); once; once = nt_compute_leave(m))
bool nt_compute_enter(nt_model *m, nt_dtype dtype, nt_site site);
bool nt_compute_leave(nt_model *m);
/* x as a layer takes it here: f32, bf16 and f16 in the type that layers compute in; x itself if none is set, and of
 * other types. */
#define nt_to_compute(m, x) nt_to_compute_at(m, x, NT_SITE)
nt_tensor nt_to_compute_at(const nt_model *m, nt_tensor x, nt_site site);

/* ---- layer state ------------------------------------------------------------------------------------------------ */

typedef struct nt_state_options {
    nt_dtype dtype; /* f32; any type */
    nt_init init;   /* zeros */
} nt_state_options;
/* An array that a model carries from micro-batch to micro-batch beside its parameters, as running statistics: its value
 * before this one. It lives on the device, is saved and loaded with the parameters, and has no gradient. Paths are
 * those of nt_parameter, and no parameter may have the same one. In evaluation and prediction it has the value that
 * training left. */
#define nt_state(m, name, shape, ...) nt_state_at(m, name, shape, (nt_state_options){__VA_ARGS__}, NT_SITE)
nt_tensor nt_state_at(nt_model *m, const char *name, nt_shape shape, nt_state_options options, nt_site site);
/* What a state of this scope, declared before, is from the next micro-batch on: a tensor of its type. Once in a trace;
 * inside NT_REUSE again, and there nt_state gives what it was set to last. A state changes accum times in a step. In
 * evaluation and prediction nothing changes. Not in the body of a loop or a branch (nitro/control.h). */
#define nt_state_set(m, name, value) nt_state_set_at(m, name, value, NT_SITE)
void nt_state_set_at(nt_model *m, const char *name, nt_tensor value, nt_site site);

/* ---- random numbers --------------------------------------------------------------------------------------------- */

/* The key u32[2] of a name, for the draws of nitro/random.h: made of the run's seed, the scopes around the call with
 * the name, and in training the number of the micro-batch, which is counted on the device. So another micro-batch draws
 * other numbers, another seed compiles nothing, other draws, comments and lines change nothing, and another name or
 * scope does. Forward in evaluation and prediction draws the same numbers in every batch, those of the seed and the
 * name. A name draws once in a trace: used twice it is an error that shows both places, and nt_random_fold makes
 * further keys of one. Inside NT_REUSE a name may draw again, and draws other numbers. In the body of a loop
 * (nitro/control.h) each iteration has a key of its own. */
#define nt_random_key(m, name) nt_random_key_at(m, name, NT_SITE)
nt_tensor nt_random_key_at(nt_model *m, const char *name, nt_site site);

#ifdef __cplusplus
}
#endif

#endif
