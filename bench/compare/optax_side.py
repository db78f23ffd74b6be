"""The optax side of compare/optimizer: the protocol of bench/optimizer_step.c, with the arrays apart, as optax has
them, jitted with donated parameters and state."""
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

WIDTH = 50
RULES = {
    "adam": lambda: optax.adam(1e-3),
    "adamw": lambda: optax.adamw(1e-3, weight_decay=0.01),
    "lamb": lambda: optax.lamb(1e-3, weight_decay=0.01),
}

rule, arrays, elements, clip_norm = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
optimizer = RULES[rule]()
if clip_norm > 0:
    optimizer = optax.chain(optax.clip_by_global_norm(clip_norm), optimizer)


def step(parameters, state, gradients):
    updates, state = optimizer.update(gradients, state, parameters)
    return optax.apply_updates(parameters, updates), state


shape = (elements // arrays // WIDTH, WIDTH)
draw = np.random.default_rng(1)
parameters = [jnp.zeros(shape, jnp.float32) for _ in range(arrays)]
gradients = [jax.device_put(draw.uniform(-1, 1, shape).astype(np.float32)) for _ in range(arrays)]
state = optimizer.init(parameters)
lowered = jax.jit(step, donate_argnums=(0, 1)).lower(parameters, state, gradients)
start = time.perf_counter()
compiled = lowered.compile()
print("ready %.6f" % (time.perf_counter() - start), flush=True)
jitted = jax.jit(step, donate_argnums=(0, 1))
for line in sys.stdin:
    start = time.perf_counter()
    for _ in range(int(line)):
        parameters, state = jitted(parameters, state, gradients)
        np.asarray(optax.tree.get(state, "count"))
    print("%.9f" % (time.perf_counter() - start), flush=True)
