"""The model of examples/transformer.h in jax, and the rule and schedule of examples/transformer.c, for the comparisons
of what it learns (text) and of how long a step takes (models)."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

LAYERS, HEADS, WIDTH, CHARACTERS = 4, 4, 128, 256
PEAK, WARMUP, DECAY, CLIP_NORM = 2e-3, 100, 0.1, 1.0


def initial(seed):
    draw = np.random.default_rng(seed)

    def dense(rows, columns):
        limit = (6 / (rows + columns)) ** 0.5
        return draw.uniform(-limit, limit, (rows, columns)).astype(np.float32)

    def block():
        projections = {name: dense(WIDTH, WIDTH) for name in ("query", "key", "value", "output")}
        wide = {"hidden": dense(WIDTH, 4 * WIDTH), "narrow": dense(4 * WIDTH, WIDTH)}
        ones = {name: np.ones(WIDTH, np.float32) for name in ("attention_norm", "hidden_norm")}
        return {**projections, **wide, **ones}

    return {
        "character": draw.normal(0, 0.02, (CHARACTERS, WIDTH)).astype(np.float32),
        "blocks": [block() for _ in range(LAYERS)],
        "norm": np.ones(WIDTH, np.float32),
        "next": dense(WIDTH, CHARACTERS),
    }


def norm(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def rotary(x):
    """Pairs i and i + half of [batch, length, heads, size], turned by position and rate."""
    length, half = x.shape[1], x.shape[3] // 2
    angle = jnp.arange(length)[:, None, None] * 10000.0 ** (-jnp.arange(half) / half)
    first, second, cosine, sine = x[..., :half], x[..., half:], jnp.cos(angle), jnp.sin(angle)
    return jnp.concatenate([first * cosine - second * sine, first * sine + second * cosine], -1)


def attention(p, x):
    heads = lambda name: (x @ p[name]).reshape(*x.shape[:2], HEADS, -1)
    y = jax.nn.dot_product_attention(rotary(heads("query")), rotary(heads("key")), heads("value"), is_causal=True)
    return y.reshape(x.shape) @ p["output"]


def forward(parameters, text):
    x = parameters["character"][text]
    for p in parameters["blocks"]:
        x = x + attention(p, norm(x, p["attention_norm"]))
        x = x + jax.nn.gelu(norm(x, p["hidden_norm"]) @ p["hidden"]) @ p["narrow"]
    return norm(x, parameters["norm"]) @ parameters["next"]


def loss_of(parameters, samples):
    logits = forward(parameters, samples[:, :-1])
    return optax.softmax_cross_entropy_with_integer_labels(logits, samples[:, 1:].astype(jnp.int32)).mean()


def rate(total):
    """Of step t from 1 on: a line to PEAK at step WARMUP, then a cosine to 0."""
    rise = lambda t: PEAK * t / WARMUP
    fall = lambda t: PEAK * (1 + jnp.cos(jnp.pi * (t - WARMUP - 1) / (total - WARMUP))) / 2
    return lambda count: jnp.where(count + 1 <= WARMUP, rise(count + 1), fall(count + 1))


def training(total):
    is_matrix = functools.partial(jax.tree.map, lambda p: p.ndim > 1)
    return optax.chain(
        optax.clip_by_global_norm(CLIP_NORM),
        optax.scale_by_adam(b2=0.99),
        optax.add_decayed_weights(DECAY, is_matrix),
        optax.scale_by_learning_rate(rate(total)),
    )
