/* A variational autoencoder on Fashion-MNIST (Kingma and Welling 2014): a bound of -243.7 nats an image on the test
 * images after 20 epochs. The loss is minus the evidence lower bound, pixels being the probabilities of Bernoulli
 * variables, and draws the code z of each image once. Evaluation drops nothing, and draws z once too.
 *     nitro predict vae.c --decode --weight-map='*=*' --input=z=codes.npy --out=images.npy
 * makes images [n, 784] between 0 and 1 of any codes f32 [n, 20], such as standard normal ones. (decode was false when
 * the parameters were trained; the map says that another value is meant.) */
#include <nitro.h>

#define VAE(FIELD, DEVICE, GRAPH_CONST)                                                        \
    GRAPH_CONST(int, hidden, 400, "units in the hidden layer of the encoder and decoder")      \
    GRAPH_CONST(int, code, 20, "numbers that an image is made of")                             \
    GRAPH_CONST(bool, decode, false, "forward makes images of the field z; for predict")       \
    GRAPH_CONST(double, dropout, 0.1, "of the encoder's hidden layer")                         \
    FIELD(int, batch, 128, "images in a micro-batch")                                          \
    FIELD(int, max_epochs, 20, "passes over the training data")                                \
    FIELD(float, peak, 1e-3f, "learning rate of the first step; it falls to 0 along a cosine") \
    FIELD(const char *, data_dir, "/usr/share/datasets/fashion-mnist", "folder of the IDX files")

NT_EXPERIMENT(Vae, VAE)

static nt_status build_data(const Vae *e, nt_data *data) {
    nt_split(data, "train", .batch = e->batch, .shuffle = true, .drop_last = true);
    nt_split_field(data, "train", "image", nt_idx_read(e->data_dir, "train-images-idx3-ubyte.gz"));
    nt_split(data, "test", .batch = e->batch);
    nt_split_field(data, "test", "image", nt_idx_read(e->data_dir, "t10k-images-idx3-ubyte.gz"));
    return nt_data_status(data);
}

/* [n, 784] between 0 and 1. */
static nt_tensor pixels(nt_batch *batch) {
    nt_tensor x = nt_reshape(nt_field(batch, "image"), -1, 784);
    return nt_div(nt_convert(x, NT_F32), 255);
}

/* [n, 2 code]: the mean of each number of the code, then the logarithm of each variance. */
static nt_tensor encode(const Vae_view *e, nt_model *m, nt_tensor x) {
    NT_SCOPE(m, "encoder") {
        x = nt_dropout(m, "dropout", nt_relu(nt_dense(m, "hidden", x, e->hidden)), e->dropout);
        x = nt_dense(m, "code", x, 2 * e->code);
    }
    return x;
}

/* Codes [n, code] to the logits of the pixels [n, 784]. */
static nt_tensor decode(const Vae_view *e, nt_model *m, nt_tensor z) {
    NT_SCOPE(m, "decoder") z = nt_dense(m, "logits", nt_relu(nt_dense(m, "hidden", z, e->hidden)), 784);
    return z;
}

/* A normal draw with the encoder's mean and variance, as a function of them: the draw itself has no gradient. */
static nt_tensor draw(const Vae_view *e, nt_model *m, nt_tensor code) {
    nt_tensor mean = nt_range(code, 1, 0, e->code), log_variance = nt_range(code, 1, e->code, 2 * e->code);
    nt_tensor noise = nt_random_normal(nt_random_key(m, "noise"), NT_F32, nt_shape_of(mean));
    return nt_add(mean, nt_mul(nt_exp(nt_mul(log_variance, 0.5)), noise));
}

/* Codes to images. The encoder is traced to declare its parameters, which the file has too. */
static nt_tensor images_of(const Vae_view *e, nt_model *m, nt_tensor z) {
    encode(e, m, nt_full(NT_F32, nt_dims(nt_dim(z, 0), 784), 0));
    return nt_logistic(decode(e, m, z));
}

/* [n, 784 + 2 code]: the logits of the pixels, then what the encoder gave. */
static nt_tensor forward(const Vae_view *e, nt_model *m, nt_batch *batch) {
    if (e->decode) return images_of(e, m, nt_field(batch, "z"));
    nt_tensor code = encode(e, m, pixels(batch));
    return nt_concatenate(1, decode(e, m, draw(e, m, code)), code);
}

/* For each image the cross entropy of its pixels, in nats. */
static nt_tensor reconstruction(nt_tensor outputs, nt_batch *batch) {
    nt_tensor logits = nt_range(outputs, 1, 0, 784);
    return nt_sum(nt_binary_cross_entropy(logits, pixels(batch), .reduction = NT_NONE), 1);
}

/* For each image the divergence of its normal distribution from the standard one, in nats. */
static nt_tensor divergence(const Vae_view *e, nt_tensor outputs) {
    nt_tensor mean = nt_range(outputs, 1, 784, 784 + e->code);
    nt_tensor log_variance = nt_range(outputs, 1, 784 + e->code, 784 + 2 * e->code);
    nt_tensor each = nt_sub(nt_add(nt_exp(log_variance), nt_square(mean)), nt_add(log_variance, 1));
    return nt_mul(nt_sum(each, 1), 0.5);
}

static nt_tensor loss(const Vae_view *e, nt_tensor outputs, nt_batch *batch) {
    return nt_mean(nt_add(reconstruction(outputs, batch), divergence(e, outputs)));
}

static void device_metrics(const Vae_view *e, nt_device_metrics *out, nt_tensor outputs, nt_batch *batch) {
    nt_tensor pixels_cost = nt_sum(reconstruction(outputs, batch)), kl = nt_sum(divergence(e, outputs));
    int64_t images = nt_dim(outputs, 0);
    nt_device_mean(out, "elbo", nt_neg(nt_add(pixels_cost, kl)), images);
    nt_device_mean(out, "reconstruction", pixels_cost, images);
    nt_device_mean(out, "kl", kl, images);
}

static nt_rule optimizer(const Vae *e, const char *group) {
    (void)e, (void)group;
    return nt_adam();
}

static void schedules(const Vae *e, nt_schedules *out) {
    nt_schedule_set(out, "learning_rate", nt_schedule_cosine(e->peak, 0));
}

NT_DEFINE(Vae, VAE, .build_data = build_data, .forward = forward, .loss = loss, .optimizer = optimizer,
          .schedules = schedules, .device_metrics = device_metrics);
