/* The nitro side of the comparison: the example's perceptron under Adam, which every side has. Prints the marks that
 * compare reads. Not an example: examples/fashion.c is.
 */
#include <nitro.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define COMPARED(FIELD, DEVICE, GRAPH_CONST)                                              \
    GRAPH_CONST(int, hidden, 256, "units in the first hidden layer; the second has half") \
    FIELD(int, batch, 128, "images in a micro-batch")                                     \
    FIELD(const char *, data_dir, "", "folder of the IDX files")

NT_EXPERIMENT(Compared, COMPARED)

/* Seconds since the process was started, whose time compare gives. */
static double since_start(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9 - atof(getenv("BENCH_START"));
}

static nt_status build_data(const Compared *e, nt_data *data) {
    double start = since_start();
    nt_array *images = nt_idx_read(e->data_dir, "train-images-idx3-ubyte");
    nt_array *labels = nt_idx_read(e->data_dir, "train-labels-idx1-ubyte");
    nt_split(data, "train", .batch = e->batch, .shuffle = true, .drop_last = true, .limit = 55000);
    nt_split_field(data, "train", "image", nt_array_retain(images));
    nt_split_field(data, "train", "label", nt_array_retain(labels));
    nt_split(data, "val", .batch = e->batch, .first = 55000);
    nt_split_field(data, "val", "image", images);
    nt_split_field(data, "val", "label", labels);
    printf("data %.6f\n", since_start() - start);
    return nt_data_status(data);
}

static nt_tensor forward(const Compared_view *e, nt_model *m, nt_batch *batch) {
    nt_tensor x = nt_reshape(nt_field(batch, "image"), -1, 784);
    x = nt_div(nt_convert(x, NT_F32), 255);
    x = nt_relu(nt_dense(m, "hidden1", x, e->hidden));
    x = nt_relu(nt_dense(m, "hidden2", x, e->hidden / 2));
    return nt_dense(m, "logits", x, 10);
}

static nt_tensor loss(const Compared_view *e, nt_tensor logits, nt_batch *batch) {
    (void)e;
    return nt_cross_entropy(logits, nt_field(batch, "label"));
}

static void metrics(const Compared *e, nt_metrics *out, const nt_array *logits, const nt_host_batch *batch) {
    (void)e;
    const nt_array *labels = nt_host_field(batch, "label");
    nt_metric_mean(out, "accuracy", (double)nt_count_correct(logits, labels), (double)labels->shape.dims[0]);
}

static nt_rule optimizer(const Compared *e, const char *group) {
    (void)group;
    (void)e;
    return nt_adam();
}

NT_DEFINE(Compared, COMPARED, .build_data = build_data, .forward = forward, .loss = loss, .metrics = metrics,
          .optimizer = optimizer);

static double processor_seconds(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

static void mark(const nt_event *event, void *context) {
    double *steps = context, now = since_start();
    if (event->kind == NT_EVENT_STEP && event->step <= event->steps) steps[event->step - 1] = now;
    if (event->kind == NT_EVENT_EPOCH)
        printf("epoch %ld %.6f %.6f %.6f %.6f\n", (long)event->epoch, now, event->loss, event->values[0].value,
               processor_seconds());
}

static int fail(void) {
    fprintf(stderr, "fashion_adam: %s\n", nt_error_message());
    return 1;
}

enum { MOST_STEPS = 100000 };

int main(int argument_count, char **arguments) {
    if (argument_count != 4 || !getenv("BENCH_START")) {
        fprintf(stderr, "usage: BENCH_START=SECONDS fashion_adam DATA_DIR RUN_DIR EPOCHS\n");
        return 2;
    }
    static double steps[MOST_STEPS];
    Compared fields = Compared_defaults();
    fields.data_dir = arguments[1];
    nt_run_options options = {.run_dir = arguments[2],
                              .max_epochs = {true, atoi(arguments[3])},
                              .quiet = true,
                              .on_event = mark,
                              .event_context = steps};
    nt_run *run;
    if (nt_run_new(Compared_experiment(), &fields, &options, &run) || nt_train(run)) return fail();
    for (int64_t i = 0; i < nt_run_step(run) && i < MOST_STEPS; i++) printf("step %.7f\n", steps[i]);
    nt_run_free(run);
    return nt_shutdown() ? fail() : 0;
}
