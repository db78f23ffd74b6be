/* A program of one's own around an experiment: it makes its data, trains, and prints what was learnt. See "As a
 * library" in the README. The nitro command can train this file too; it does not call main.
 *
 *     cc program.c $(pkg-config --cflags --libs nitro-tcmalloc)
 */
#include <nitro.h>

#include <stdio.h>

#define LINE(FIELD, DEVICE, GRAPH_CONST)         \
    FIELD(int, rows, 512, "samples to train on") \
    FIELD(int, batch, 32, "samples in a micro-batch")

NT_EXPERIMENT(Line, LINE)

/* y = 2 a - 3 b + 1 at points of the unit square. */
static nt_status build_data(const Line *e, nt_data *data) {
    nt_array *x = nt_array_new(NT_F32, nt_dims(e->rows, 2)), *y = nt_array_new(NT_F32, nt_dims(e->rows, 1));
    for (int i = 0; x && y && i < e->rows; i++) {
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

NT_DEFINE(Line, LINE, .build_data = build_data, .forward = forward, .loss = loss);

static void on_event(const nt_event *event, void *context) {
    (void)context;
    if (event->kind == NT_EVENT_EPOCH && event->epoch % 10 == 0)
        printf("epoch %d: loss %.6f\n", (int)event->epoch, event->loss);
}

static nt_status print_line(nt_run *run) {
    nt_array *weight = nt_run_parameter(run, "line.weight"), *bias = nt_run_parameter(run, "line.bias");
    bool there = weight && bias;
    if (there)
        printf("y = %.2f a + %.2f b + %.2f\n", nt_array_get(weight, 0), nt_array_get(weight, 1), nt_array_get(bias, 0));
    nt_array_free(weight);
    nt_array_free(bias);
    return there ? NT_OK : nt_error_status();
}

int main(void) {
    Line fields = Line_defaults();
    nt_run_options options = {.max_epochs = {true, 40}, .learning_rate = {true, 0.1}, .no_log = true, .quiet = true};
    options.on_event = on_event;
    nt_run *run = NULL;
    nt_status status = nt_run_new(Line_experiment(), &fields, &options, &run);
    if (status == NT_OK) status = nt_train(run);
    if (status == NT_OK) status = print_line(run);
    nt_run_free(run);
    if (status == NT_OK) status = nt_shutdown();
    if (status != NT_OK) fprintf(stderr, "%s\n", nt_error_message());
    return status == NT_OK ? 0 : 1;
}
