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


# ---- examples/convnet.c ----


def conv(n, channels):
    return {"weight": normal(3, 3, n, channels, scale=(2 / (9 * n)) ** 0.5), "bias": zeros(channels)}


def conv_block(p, x):
    x = jax.lax.conv_general_dilated(x, p["weight"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jax.lax.reduce_window(
        jax.nn.relu(x + p["bias"]), -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


class Convnet:
    optimizer = optax.adam(optax.cosine_decay_schedule(2e-3, 600000))

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


def rms_norm(scale, x):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def rotary(x):
    """x [batch, length, heads, depth]."""
    half = x.shape[-1] // 2
    angle = jnp.arange(x.shape[1])[:, None, None] * 10000.0 ** (-jnp.arange(half) / half)
    first, second = x[..., :half], x[..., half:]
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return jnp.concatenate([first * cos - second * sin, first * sin + second * cos], -1)


class Transformer:
    layers, heads, width = 4, 4, 128
    rate = optax.join_schedules([optax.linear_schedule(0, 2e-3, 100), optax.cosine_decay_schedule(2e-3, 1000000)], [100])
    decayed = staticmethod(lambda parameters: jax.tree.map(lambda p: p.ndim > 1, parameters))
    optimizer = optax.chain(optax.clip_by_global_norm(1), optax.adamw(rate, b2=0.99, weight_decay=0.1, mask=decayed))

    def parameters(self):
        w, ones = self.width, lambda: np.ones(self.width, np.float32)
        weight = lambda n, units: dense(n, units)["weight"]
        layer = lambda: {"norm1": ones(), "norm2": ones(), "hidden": weight(w, 4 * w), "narrow": weight(4 * w, w),
                         **{name: weight(w, w) for name in ("query", "key", "value", "output")}}
        return {"character": normal(256, w, scale=0.02), "layers": [layer() for _ in range(self.layers)], "norm": ones(),
                "next": weight(w, 256)}

    def batches(self, folder):
        return models_data.text(16, 128)

    def layer(self, p, x):
        y = rms_norm(p["norm1"], x)
        heads = lambda name: (y @ p[name]).reshape(*y.shape[:2], self.heads, -1)
        y = jax.nn.dot_product_attention(rotary(heads("query")), rotary(heads("key")), heads("value"), is_causal=True)
        x = x + y.reshape(x.shape) @ p["output"]
        return x + jax.nn.gelu(rms_norm(p["norm2"], x) @ p["hidden"]) @ p["narrow"]

    def loss(self, p, key, text):
        x = p["character"][text[:, :-1]]
        for layer in p["layers"]:
            x = self.layer(layer, x)
        return cross_entropy(rms_norm(p["norm"], x) @ p["next"], text[:, 1:])


# ---- steps ----

MODELS = {"convnet": Convnet, "transformer": Transformer}


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
