"""The jax side of bench/compare/models: each example's model as one jitted step with donated state.

    models_jax.py DATA RUN_DIR MODEL
"""
import sys

import common
import jax
import jax.numpy as jnp
import models_data
import numpy as np
import optax
import transformer_jax

STEPS = 600000  # of the schedules, which never end here

draw = np.random.default_rng(42)


def normal(*shape, scale):
    return (scale * draw.standard_normal(shape)).astype(np.float32)


def zeros(*shape):
    return np.zeros(shape, np.float32)


def dense(n, units):
    return {"weight": normal(n, units, scale=(2 / (n + units)) ** 0.5), "bias": zeros(units)}


def apply_dense(p, x):
    return x @ p["weight"] + p["bias"]


def dropout(key, rate, x):
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)


def cross_entropy(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def warm_up(peak, steps):
    return optax.join_schedules(
        [optax.linear_schedule(0, peak, steps), optax.cosine_decay_schedule(peak, STEPS)], [steps])


class Model:
    """Parameters, an optimizer, batches and a loss; statistics, which a step moves, only where a model has some."""

    def statistics(self):
        return {}

    def loss_and_statistics(self, p, statistics, key, *batch):
        return self.loss(p, key, *batch), statistics


# ---- examples/fashion.c ----


class Perceptron(Model):
    optimizer = optax.radam(1e-3)

    def parameters(self):
        return [dense(784, 256), dense(256, 128), dense(128, 10)]

    def batches(self, folder):
        return models_data.fashion(folder, 128)

    def loss(self, p, key, images, labels):
        x = images.reshape(-1, 784).astype(jnp.float32) / 255
        for layer in p[:-1]:
            x = jax.nn.relu(apply_dense(layer, x))
        return cross_entropy(apply_dense(p[-1], x), labels)


# ---- examples/convnet.c ----


def kernel(size, n, channels):
    return normal(size, size, n, channels, scale=(2 / (size * size * n)) ** 0.5)


def conv(n, channels):
    return {"weight": kernel(3, n, channels), "bias": zeros(channels)}


def apply_kernel(weight, x, stride=1):
    strides = (stride, stride)
    return jax.lax.conv_general_dilated(x, weight, strides, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def conv_block(p, x):
    x = apply_kernel(p["weight"], x)
    return jax.lax.reduce_window(
        jax.nn.relu(x + p["bias"]), -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


class Convnet(Model):
    optimizer = optax.adam(optax.cosine_decay_schedule(2e-3, STEPS))

    def parameters(self):
        return {"conv1": conv(1, 16), "conv2": conv(16, 32), "hidden": dense(7 * 7 * 32, 128), "logits": dense(128, 10)}

    def batches(self, folder):
        return models_data.fashion(folder, 100)

    def loss(self, p, key, images, labels):
        x = images.astype(jnp.float32) / 255
        x = conv_block(p["conv2"], conv_block(p["conv1"], x))
        x = jax.nn.relu(apply_dense(p["hidden"], x.reshape(len(x), -1)))
        return cross_entropy(apply_dense(p["logits"], dropout(key, 0.25, x)), labels)


# ---- examples/resnet.c ----


def norm_relu(p, statistics, x):
    """And the statistics after this batch. The variance is taken in one pass, as flax's default is."""
    mean, square = x.mean((0, 1, 2)), jnp.square(x).mean((0, 1, 2))
    variance = square - jnp.square(mean)
    count = x.size // x.shape[-1]
    seen = {"mean": mean, "variance": variance * count / (count - 1)}
    y = (x - mean) * (p["scale"] * jax.lax.rsqrt(variance + 1e-5)) + p["shift"]
    return jax.nn.relu(y), jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, statistics, seen)


def apply_residual(p, statistics, x, stride):
    y, norm1 = norm_relu(p["norm1"], statistics["norm1"], x)
    if "shortcut" in p:
        x = apply_kernel(p["shortcut"], y, stride)
    y, norm2 = norm_relu(p["norm2"], statistics["norm2"], apply_kernel(p["conv1"], y, stride))
    return x + apply_kernel(p["conv2"], y), {"norm1": norm1, "norm2": norm2}


def decayed_nesterov(rate, decay):
    """The rate is in the velocity, the decay is not."""
    decays = lambda p: jax.tree.map(lambda x: x.ndim > 1, p)
    return optax.chain(optax.scale_by_learning_rate(rate), optax.trace(0.9, nesterov=True),
                       optax.add_decayed_weights(lambda count: -decay * rate(count), decays))


class Resnet(Model):
    sizes = [(16, 16, 1), (16, 32, 2), (32, 64, 2)]  # channels before and after a block, and its stride
    optimizer = decayed_nesterov(warm_up(0.1, 200), 5e-3)

    def residual(self, n, channels, stride):
        p = {"norm1": self.norm(n), "conv1": kernel(3, n, channels),
             "norm2": self.norm(channels), "conv2": kernel(3, channels, channels)}
        return p if stride == 1 else {**p, "shortcut": kernel(1, n, channels)}

    def norm(self, channels):
        return {"scale": zeros(channels) + 1, "shift": zeros(channels)}

    def parameters(self):
        return {"stem": kernel(3, 1, 16), "blocks": [self.residual(*size) for size in self.sizes],
                "norm": self.norm(64), "logits": dense(64, 10)}

    def statistics(self):
        of = lambda channels: {"mean": zeros(channels), "variance": zeros(channels) + 1}
        return {"blocks": [{"norm1": of(n), "norm2": of(channels)} for n, channels, _ in self.sizes], "norm": of(64)}

    def batches(self, folder):
        return models_data.fashion(folder, 128)

    def loss_and_statistics(self, p, statistics, key, images, labels):
        x = images.astype(jnp.float32) / 255
        x = jnp.where(jax.random.bernoulli(key, 0.5, (len(x), 1, 1, 1)), jnp.flip(x, 2), x)
        x, blocks = apply_kernel(p["stem"], x), []
        for block, before, (_, _, stride) in zip(p["blocks"], statistics["blocks"], self.sizes):
            x, after = apply_residual(block, before, x, stride)
            blocks.append(after)
        x, norm = norm_relu(p["norm"], statistics["norm"], x)
        logits = apply_dense(p["logits"], x.mean((1, 2)))
        return cross_entropy(logits, labels), {"blocks": blocks, "norm": norm}


# ---- examples/vae.c ----


class Vae(Model):
    hidden, code = 400, 20
    optimizer = optax.adam(optax.cosine_decay_schedule(1e-3, STEPS))

    def parameters(self):
        return {"encoder": dense(784, self.hidden), "code": dense(self.hidden, 2 * self.code),
                "decoder": dense(self.code, self.hidden), "logits": dense(self.hidden, 784)}

    def batches(self, folder):
        return models_data.fashion(folder, 128, labelled=False)

    def loss(self, p, key, images):
        drop, noise = jax.random.split(key)
        x = images.reshape(-1, 784).astype(jnp.float32) / 255
        hidden = dropout(drop, 0.1, jax.nn.relu(apply_dense(p["encoder"], x)))
        mean, log_variance = jnp.split(apply_dense(p["code"], hidden), 2, -1)
        z = mean + jnp.exp(0.5 * log_variance) * jax.random.normal(noise, mean.shape)
        logits = apply_dense(p["logits"], jax.nn.relu(apply_dense(p["decoder"], z)))
        divergence = 0.5 * (jnp.exp(log_variance) + jnp.square(mean) - log_variance - 1).sum(-1)
        return (optax.sigmoid_binary_cross_entropy(logits, x).sum(-1) + divergence).mean()


# ---- examples/transformer.c ----


class Transformer(Model):
    optimizer = transformer_jax.training(STEPS)

    def parameters(self):
        return transformer_jax.initial(42)

    def batches(self, folder):
        return models_data.text(16, 128)

    def loss(self, p, key, text):
        return transformer_jax.loss_of(p, text)


# ---- examples/lstm.c ----


class Lstm(Model):
    units, width = 256, 64
    optimizer = optax.chain(optax.clip_by_global_norm(1), optax.adam(warm_up(5e-3, 50)))

    def parameters(self):
        return {"character": normal(256, self.width, scale=1), "given": dense(self.width, 4 * self.units),
                "state": dense(self.units, 4 * self.units)["weight"], "next": dense(self.units, 256)}

    def batches(self, folder):
        return models_data.text(32, 128)

    def loss(self, p, key, text):
        given = apply_dense(p["given"], p["character"][text[:, :-1]])

        def cell(carry, given):
            state, memory = carry
            i, f, g, o = jnp.split(given + state @ p["state"], 4, -1)
            memory = jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(g)
            state = jax.nn.sigmoid(o) * jnp.tanh(memory)
            return (state, memory), state

        start = jnp.zeros((len(text), self.units))
        states = jax.lax.scan(cell, (start, start), given.swapaxes(0, 1))[1].swapaxes(0, 1)
        return cross_entropy(apply_dense(p["next"], states), text[:, 1:].astype(jnp.int32))


# ---- steps ----

MODELS = {"fashion": Perceptron, "convnet": Convnet, "resnet": Resnet, "vae": Vae, "transformer": Transformer,
          "lstm": Lstm}


def stepper(model):
    def train_step(parameters, statistics, state, count, batch):
        key = jax.random.fold_in(jax.random.key(42), count)
        gradient = jax.value_and_grad(model.loss_and_statistics, has_aux=True)
        (loss, statistics), gradients = gradient(parameters, statistics, key, *batch)
        updates, state = model.optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), statistics, state, count + 1, loss

    step = jax.jit(train_step, donate_argnums=(0, 1, 2, 3))
    parameters, statistics = jax.device_put([model.parameters(), model.statistics()])
    carried = [parameters, statistics, model.optimizer.init(parameters), jnp.zeros((), jnp.uint32)]

    def take(*batch):
        *carried[:], loss = step(*carried, batch)
        return loss

    return take


folder, run_folder, name = sys.argv[1:]
model = MODELS[name]()
common.serve(common.Marks(run_folder), lambda: model.batches(folder), stepper(model))
