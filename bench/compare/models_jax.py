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


# ---- examples/fashion.c ----


class Perceptron:
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


def conv(n, channels):
    return {"weight": normal(3, 3, n, channels, scale=(2 / (9 * n)) ** 0.5), "bias": zeros(channels)}


def conv_block(p, x):
    x = jax.lax.conv_general_dilated(x, p["weight"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jax.lax.reduce_window(
        jax.nn.relu(x + p["bias"]), -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


class Convnet:
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


# ---- examples/transformer.c ----


class Transformer:
    optimizer = transformer_jax.training(STEPS)

    def parameters(self):
        return transformer_jax.initial(42)

    def batches(self, folder):
        return models_data.text(16, 128)

    def loss(self, p, key, text):
        return transformer_jax.loss_of(p, text)


# ---- examples/lstm.c ----


class Lstm:
    units, width = 256, 64
    rate = optax.join_schedules([optax.linear_schedule(0, 5e-3, 50), optax.cosine_decay_schedule(5e-3, STEPS)], [50])
    optimizer = optax.chain(optax.clip_by_global_norm(1), optax.adam(rate))

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

MODELS = {"convnet": Convnet, "transformer": Transformer, "lstm": Lstm, "fashion": Perceptron}


def stepper(model):
    def train_step(parameters, state, count, batch):
        key = jax.random.fold_in(jax.random.key(42), count)
        loss, gradients = jax.value_and_grad(model.loss)(parameters, key, *batch)
        updates, state = model.optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, count + 1, loss

    step = jax.jit(train_step, donate_argnums=(0, 1, 2))
    parameters = jax.device_put(model.parameters())
    carried = [parameters, model.optimizer.init(parameters), jnp.zeros((), jnp.uint32)]

    def take(*batch):
        *carried[:], loss = step(*carried, batch)
        return loss

    return take


folder, run_folder, name = sys.argv[1:]
model = MODELS[name]()
common.serve(common.Marks(run_folder), lambda: model.batches(folder), stepper(model))
