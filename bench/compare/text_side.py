"""The jax side of compare/text: trains the model of transformer_jax.py. Prints the steps made and the bits per
character of the last twentieth of the text."""
import functools
import sys

import jax
import numpy as np
import optax
import transformer_jax as model


def main():
    path, length, batch, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    text = np.fromfile(path, np.uint8)
    count = (len(text) - 1) // length
    samples = np.stack([text[i * length : i * length + length + 1] for i in range(count)])
    train, held_out = np.split(samples, [count * 19 // 20])
    steps = len(train) // batch
    optimizer = model.training(steps)
    parameters = jax.device_put(model.initial(seed))
    state = optimizer.init(parameters)

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(parameters, state, samples):
        gradients = jax.grad(model.loss_of)(parameters, samples)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state

    order = np.random.default_rng(seed).permutation(len(train))
    for i in range(steps):
        parameters, state = step(parameters, state, train[order[i * batch : (i + 1) * batch]])
    measure = jax.jit(model.loss_of)
    parts = [held_out[i : i + batch] for i in range(0, len(held_out), batch)]
    losses = [measure(parameters, part) for part in parts]
    print(steps, np.average(losses, weights=[len(part) for part in parts]) / np.log(2))


main()
