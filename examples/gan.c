/* A generative adversarial network on Fashion-MNIST (Goodfellow et al. 2014): two networks, two losses, two optimizers.
 *     nitro train gan.c --r1
 * trains with the penalty on the discriminator's slope at real images (R1, Mescheder et al. 2018). */
#include <nitro.h>
#include <stdlib.h>
#include <string.h>

#define GAN(FIELD, DEVICE, GRAPH_CONST)                                               \
    GRAPH_CONST(int, hidden, 256, "units in each hidden layer")                       \
    GRAPH_CONST(bool, r1, false, "penalize the discriminator's slope at real images") \
    DEVICE(float, gamma, 1.0f, "weight of that penalty")                              \
    FIELD(int, noise, 64, "numbers that an image is made of")                         \
    FIELD(int, batch, 128, "images in a step")                                        \
    FIELD(int, max_epochs, 10, "passes over the training data")                       \
    FIELD(const char *, data_dir, "/usr/share/datasets/fashion-mnist", "folder of the IDX files")

NT_EXPERIMENT(Gan, GAN)

static nt_array *uniform(int64_t rows, int64_t columns) {
    unsigned short state[3] = {1, 2, 3};
    nt_array *numbers = nt_array_new(NT_F32, nt_dims(rows, columns));
    for (int64_t i = 0; numbers && i < rows * columns; i++) ((float *)numbers->data)[i] = (float)erand48(state) * 2 - 1;
    return numbers;
}

static nt_status build_data(const Gan *e, nt_data *data) {
    nt_array *images = nt_idx_read(e->data_dir, "train-images-idx3-ubyte.gz");
    nt_split(data, "train", .batch = e->batch, .shuffle = true, .drop_last = true);
    nt_split_field(data, "train", "noise", uniform(images ? images->shape.dims[0] : 0, e->noise));
    nt_split_field(data, "train", "image", images);
    return nt_data_status(data);
}

static nt_tensor hidden_layers(const Gan_view *e, nt_model *m, nt_tensor x) {
    for (int i = 1; i <= 2; i++) NT_SCOPE(m, "hidden%d", i) {
            x = nt_dense(m, "dense", x, e->hidden);
            x = nt_max(x, nt_mul(x, 0.2)); /* leaky relu */
        }
    return x;
}

/* What evaluation and prediction use: noise [n, noise] to images [n, 784] between -1 and 1. */
static nt_tensor forward(const Gan_view *e, nt_model *m, nt_batch *batch) {
    nt_tensor x = nt_field(batch, "noise");
    NT_SCOPE(m, "generator") x = nt_tanh(nt_dense(m, "image", hidden_layers(e, m, x), 784));
    return x;
}

/* How real images are, [n, 1]: real ones above 0. */
static nt_tensor discriminate(const Gan_view *e, nt_model *m, nt_tensor image) {
    NT_SCOPE(m, "discriminator") image = nt_dense(m, "score", hidden_layers(e, m, image), 1);
    return image;
}

static nt_tensor softplus(nt_tensor x) {
    return nt_logaddexp(x, 0);
}

static nt_tensor train_step(const Gan_view *e, nt_model *m, nt_batch *batch, nt_optimizers *optimizers,
                            nt_device_metrics *metrics) {
    nt_tensor real = nt_reshape(nt_field(batch, "image"), -1, 784), of_real, of_fake = real, fake;
    real = nt_sub(nt_div(nt_convert(real, NT_F32), 127.5), 1);

    /* The discriminator tells them apart; the generator is held constant by taking no gradient of it. */
    fake = forward(e, m, batch);
    of_real = discriminate(e, m, real);
    NT_REUSE(m) of_fake = discriminate(e, m, fake);
    nt_tensor loss = nt_add(nt_mean(softplus(nt_neg(of_real))), nt_mean(softplus(of_fake)));
    if (e->r1) {
        nt_tensor slope = nt_grad(nt_sum(of_real), real);
        nt_tensor penalty = nt_mean(nt_sum(nt_square(slope), -1));
        loss = nt_add(loss, nt_mul(nt_mul(e->gamma, 0.5), penalty));
        nt_device_value(metrics, "penalty", penalty);
    }
    nt_step(optimizers, nt_parameter_grads(m, loss, "discriminator"));

    /* The generator is to mislead the discriminator of now. */
    NT_REUSE(m) of_fake = discriminate(e, m, fake);
    nt_tensor generator_loss = nt_mean(softplus(nt_neg(of_fake)));
    nt_step(optimizers, nt_parameter_grads(m, generator_loss, "generator"));
    nt_device_value(metrics, "generator_loss", generator_loss);
    return loss;
}

static const char *param_group(const Gan *e, const char *path) {
    (void)e;
    return strncmp(path, "generator.", 10) == 0 ? "generator" : "discriminator";
}

static nt_rule optimizer(const Gan *e, const char *group) {
    (void)e;
    (void)group;
    return nt_adam(.beta1 = 0.5);
}

static double learning_rate(const Gan *e) {
    (void)e;
    return 2e-4;
}

NT_DEFINE(Gan, GAN, .build_data = build_data, .forward = forward, .train_step = train_step, .param_group = param_group,
          .optimizer = optimizer, .learning_rate = learning_rate);
