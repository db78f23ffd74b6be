/* Fashion-MNIST with two convolutions: 0.915 test accuracy after 6 epochs. */
#include <nitro.h>

#define CONVNET(FIELD, DEVICE, GRAPH_CONST)                                                    \
    GRAPH_CONST(int, channels, 16, "of the first convolution; the second has double")          \
    GRAPH_CONST(double, dropout, 0.25, "of what goes into the last layer")                     \
    FIELD(int, batch, 100, "images in a micro-batch")                                          \
    FIELD(int, max_epochs, 6, "passes over the training data")                                 \
    FIELD(float, peak, 2e-3f, "learning rate of the first step; it falls to 0 along a cosine") \
    FIELD(const char *, data_dir, "/usr/share/datasets/fashion-mnist", "folder of the IDX files")

NT_EXPERIMENT(Convnet, CONVNET)

static nt_status build_data(const Convnet *e, nt_data *data) {
    nt_split(data, "train", .batch = e->batch, .shuffle = true, .drop_last = true);
    nt_split_field(data, "train", "image", nt_idx_read(e->data_dir, "train-images-idx3-ubyte.gz"));
    nt_split_field(data, "train", "label", nt_idx_read(e->data_dir, "train-labels-idx1-ubyte.gz"));
    nt_split(data, "test", .batch = e->batch);
    nt_split_field(data, "test", "image", nt_idx_read(e->data_dir, "t10k-images-idx3-ubyte.gz"));
    nt_split_field(data, "test", "label", nt_idx_read(e->data_dir, "t10k-labels-idx1-ubyte.gz"));
    return nt_data_status(data);
}

/* A convolution, and the largest of each 2 x 2 of its results. */
static nt_tensor block(nt_model *m, const char *name, nt_tensor x, int channels) {
    x = nt_conv_layer(m, name, x, channels, nt_dims(3, 3), .same = true, .weight_init = nt_he_normal());
    return nt_max_pool(nt_relu(x), nt_dims(2, 2));
}

static nt_tensor forward(const Convnet_view *e, nt_model *m, nt_batch *batch) {
    nt_tensor x = nt_reshape(nt_field(batch, "image"), -1, 28, 28, 1);
    x = nt_div(nt_convert(x, NT_F32), 255);
    x = block(m, "conv1", x, e->channels);
    x = block(m, "conv2", x, 2 * e->channels);
    x = nt_reshape(x, nt_dim(x, 0), -1);
    x = nt_relu(nt_dense(m, "hidden", x, 128));
    return nt_dense(m, "logits", nt_dropout(m, "dropout", x, e->dropout), 10);
}

static nt_tensor loss(const Convnet_view *e, nt_tensor logits, nt_batch *batch) {
    (void)e;
    return nt_cross_entropy(logits, nt_field(batch, "label"));
}

static nt_rule optimizer(const Convnet *e, const char *group) {
    (void)e, (void)group;
    return nt_adam();
}

static void schedules(const Convnet *e, nt_schedules *out) {
    nt_schedule_set(out, "learning_rate", nt_schedule_cosine(e->peak, 0));
}

static void metrics(const Convnet *e, nt_metrics *out, const nt_array *logits, const nt_host_batch *batch) {
    (void)e;
    nt_metric_accuracy(out, "accuracy", logits, nt_host_field(batch, "label"));
}

NT_DEFINE(Convnet, CONVNET, .build_data = build_data, .forward = forward, .loss = loss, .optimizer = optimizer,
          .schedules = schedules, .metrics = metrics);
