/* Fashion-MNIST with a perceptron of two hidden layers: about 0.87 test accuracy after 5 epochs. */
#include <nitro.h>

#define FASHION(FIELD, DEVICE, GRAPH_CONST)                                               \
    GRAPH_CONST(int, hidden, 256, "units in the first hidden layer; the second has half") \
    DEVICE(float, smoothing, 0.0f, "label smoothing")                                     \
    FIELD(int, batch, 128, "images in a micro-batch")                                     \
    FIELD(int, max_epochs, 5, "passes over the training data")                            \
    FIELD(const char *, data_dir, "/usr/share/datasets/fashion-mnist", "folder of the IDX files")

NT_EXPERIMENT(Fashion, FASHION)

static nt_status build_data(const Fashion *e, nt_data *data) {
    nt_split(data, "train", .batch = e->batch, .shuffle = true, .drop_last = true, .limit = 55000);
    nt_split(data, "val", .batch = e->batch, .first = 55000);
    nt_array *images = nt_idx_read(e->data_dir, "train-images-idx3-ubyte.gz");
    nt_split_field(data, "train", "image", nt_array_retain(images));
    nt_split_field(data, "val", "image", images);
    nt_array *labels = nt_idx_read(e->data_dir, "train-labels-idx1-ubyte.gz");
    nt_split_field(data, "train", "label", nt_array_retain(labels));
    nt_split_field(data, "val", "label", labels);
    nt_split(data, "test", .batch = e->batch);
    nt_split_field(data, "test", "image", nt_idx_read(e->data_dir, "t10k-images-idx3-ubyte.gz"));
    nt_split_field(data, "test", "label", nt_idx_read(e->data_dir, "t10k-labels-idx1-ubyte.gz"));
    return nt_data_status(data);
}

static nt_tensor forward(const Fashion_view *e, nt_model *m, nt_batch *batch) {
    nt_tensor x = nt_reshape(nt_field(batch, "image"), -1, 784);
    x = nt_div(nt_convert(x, NT_F32), 255);
    x = nt_relu(nt_dense(m, "hidden1", x, e->hidden));
    x = nt_relu(nt_dense(m, "hidden2", x, e->hidden / 2));
    return nt_dense(m, "logits", x, 10);
}

static nt_tensor loss(const Fashion_view *e, nt_tensor logits, nt_batch *batch) {
    return nt_cross_entropy(logits, nt_field(batch, "label"), .label_smoothing = e->smoothing);
}

static void metrics(const Fashion *e, nt_metrics *out, const nt_array *logits, const nt_host_batch *batch) {
    (void)e;
    nt_metric_accuracy(out, "accuracy", logits, nt_host_field(batch, "label"));
}

NT_DEFINE(Fashion, FASHION, .build_data = build_data, .forward = forward, .loss = loss, .metrics = metrics);
