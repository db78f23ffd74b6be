"""The jax side: one jitted step with donated state; the loss of a step is read while the next one runs, as in nitro."""
import common
import jax
import jax.numpy as jnp
import numpy as np
import optax

optimizer = optax.adam(1e-3)


def initial(seed):
    draw, sizes = np.random.default_rng(seed), [784, 256, 128, 10]
    limits = [(6 / (a + b)) ** 0.5 for a, b in zip(sizes, sizes[1:])]
    return [
        (draw.uniform(-limit, limit, (a, b)).astype(np.float32), np.zeros(b, np.float32))
        for a, b, limit in zip(sizes, sizes[1:], limits)
    ]


def forward(parameters, images):
    x = images.astype(jnp.float32) / 255
    for weight, bias in parameters[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    weight, bias = parameters[-1]
    return x @ weight + bias


def loss_of(parameters, images, labels):
    return optax.softmax_cross_entropy_with_integer_labels(forward(parameters, images), labels).mean()


def train_step(parameters, state, images, labels):
    loss, gradients = jax.value_and_grad(loss_of)(parameters, images, labels)
    updates, state = optimizer.update(gradients, state)
    return optax.apply_updates(parameters, updates), state, loss


def train(images, labels, epochs, marks):
    step, predict = jax.jit(train_step, donate_argnums=(0, 1)), jax.jit(forward)
    parameters = jax.device_put(initial(42))
    state = optimizer.init(parameters)
    for epoch in range(1, epochs + 1):
        before = None
        for batch in common.train_batches(images, labels, epoch):
            parameters, state, loss = step(parameters, state, *batch)
            if before is not None:
                marks.step(float(before))
            before = loss
        marks.step(float(before))
        right = 0
        for batch, wanted, rows in common.validation_batches(images, labels):
            right += int((np.asarray(predict(parameters, batch)).argmax(1) == wanted)[:rows].sum())
        marks.epoch(epoch, right / (len(images) - common.TRAIN_ROWS))


folder, run_folder, epochs = common.arguments()
marks = common.Marks(run_folder)
train(*common.load(folder), epochs, marks)
marks.finish()
