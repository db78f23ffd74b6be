/* An optimizer rule of one's own: Yogi (Zaheer et al. 2018), which nitro does not have, on made-up data. A rule is a
 * list of its numbers, a list of what it keeps, and a traced update; the hook `optimizer` gives it to a group of
 * parameters.
 *
 *     nitro train rule.c --max-epochs=20
 *     nitro train rule.c --schedule opt.beta1=linear:0.5:0.9      beta1 is an input, so this compiles nothing anew
 */
#include <nitro.h>

/* ---- the rule --------------------------------------------------------------------------------------------------- */

enum { BETA1, BETA2, EPSILON }; /* places among the numbers, */
enum { M, V };                  /* and among the states */

/* m = beta1 m + (1 - beta1) g; v = v - (1 - beta2) sign(v - g g) g g; dx = eta m / (sqrt(v) + epsilon). */
static nt_tensor yogi_update(nt_update *u) {
    nt_tensor beta1 = u->numbers[BETA1], beta2 = u->numbers[BETA2], square = nt_square(u->g);
    nt_tensor change = nt_mul(nt_sign(nt_sub(u->state[V], square)), square);
    u->next_state[M] = nt_add(nt_mul(beta1, u->state[M]), nt_mul(nt_sub(1, beta1), u->g));
    u->next_state[V] = nt_sub(u->state[V], nt_mul(nt_sub(1, beta2), change));
    return nt_mul(u->eta, nt_div(u->next_state[M], nt_add(nt_sqrt(u->next_state[V]), u->numbers[EPSILON])));
}

static const nt_rule_kind yogi = {
    .name = "Yogi",
    .numbers = {{.name = "beta1", .range = NT_BETWEEN_0_AND_1, .is_input = true},
                {.name = "beta2", .range = NT_BETWEEN_0_AND_1, .is_input = true},
                {.name = "epsilon", .range = NT_ABOVE_0}}, /* a constant of the program */
    .states = {{.name = "m"}, {.name = "v", .value = 1e-6}},
    .update = yogi_update,
    .uses_rate = true,
};

/* ---- an experiment that trains with it -------------------------------------------------------------------------- */

#define LINE(FIELD, DEVICE, GRAPH_CONST)              \
    FIELD(double, beta1, 0.9, "of Yogi's mean")       \
    FIELD(int, batch, 32, "samples in a micro-batch") \
    FIELD(int, max_epochs, 20, "passes over the training data")

NT_EXPERIMENT(Line, LINE)

/* y = 2 a - 3 b + 1 at points of the unit square. */
static nt_status build_data(const Line *e, nt_data *data) {
    enum { ROWS = 512 };
    nt_array *x = nt_array_new(NT_F32, nt_dims(ROWS, 2)), *y = nt_array_new(NT_F32, nt_dims(ROWS, 1));
    for (int i = 0; x && y && i < ROWS; i++) {
        double a = i % 23 / 23.0, b = i % 19 / 19.0;
        nt_array_set(x, 2 * i, a);
        nt_array_set(x, 2 * i + 1, b);
        nt_array_set(y, i, 2 * a - 3 * b + 1);
    }
    nt_split(data, "train", .batch = e->batch, .shuffle = true, .drop_last = true);
    nt_split_field(data, "train", "x", x);
    nt_split_field(data, "train", "y", y);
    return nt_data_status(data);
}

static nt_tensor forward(const Line_view *e, nt_model *m, nt_batch *batch) {
    (void)e;
    return nt_dense(m, "line", nt_field(batch, "x"), 1);
}

static nt_tensor loss(const Line_view *e, nt_tensor y, nt_batch *batch) {
    (void)e;
    return nt_mean(nt_square(nt_sub(y, nt_field(batch, "y"))));
}

static double learning_rate(const Line *e) {
    (void)e;
    return 0.02;
}

/* The numbers in the order of the kind. */
static nt_rule optimizer(const Line *e, const char *group) {
    (void)group;
    return nt_rule_of(&yogi, e->beta1, 0.999, 1e-3);
}

NT_DEFINE(Line, LINE, .build_data = build_data, .forward = forward, .loss = loss, .learning_rate = learning_rate,
          .optimizer = optimizer);
