"""The jax and the torch side of bench/compare/operations: answers requests as bench/operations.c does.

    operations_side.py jax|torch
"""
import os
import re
import sys
import time

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SECONDS_A_REQUEST, MOST_RUNS, LEAST_RUNS = 0.1, 400, 5
ROW = re.compile(r'^OPERATION\((\w+), "([^"]*)", .*, "([^"]*)", "([^"]*)"\)$')


def rows():
    """Name, inputs, jax, torch of each operation."""
    with open(ROOT + "/operations.def") as file:
        return [match.groups() for match in map(ROW.match, file) if match]


def draw(spec):
    found = re.match(r"(\w+)\[([\d,]*)\](?:<(\d+))?", spec)
    kind, shape = found[1], [int(size) for size in found[2].split(",")]
    source = np.random.default_rng(0)
    if kind == "f32":
        return source.uniform(0.1, 0.9, shape).astype(np.float32)
    return source.integers(0, int(found[3] or 1000), shape).astype({"i32": np.int32, "u32": np.uint32}[kind])


class Jax:
    def __init__(self):
        import jax
        import jax.numpy as jnp
        from jax import lax

        def conv(a, b, stride, padding, groups=1):
            return lax.conv_general_dilated(
                a, b, stride, padding, dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups)

        def pool(a, start, reduce, size, stride, padding):
            return lax.reduce_window(a, start, reduce, (1, size, size, 1), (1, stride, stride, 1), padding)

        self.jax, self.names = jax, {"jax": jax, "jnp": jnp, "lax": lax, "conv": conv, "pool": pool}

    def make(self, row, gradient):
        jax = self.jax
        arrays = [jax.device_put(draw(spec)) for spec in row[1].split()]
        function = eval("lambda %s: %s" % (", ".join("abc"[: len(arrays)]), row[2]), self.names)
        if not gradient:
            forward = jax.jit(function)
            return lambda: forward(*arrays).block_until_ready()
        y = jax.eval_shape(function, *arrays)
        floating = [i for i, array in enumerate(arrays) if array.dtype == np.float32]
        if y.dtype != np.float32 or not floating:
            return None
        cotangent = jax.device_put(draw("f32[%s]" % ",".join(map(str, y.shape))) if y.shape else np.float32(0.5))

        def of_floating(cotangent, *arrays):
            def some(*values):
                return function(*[values[floating.index(i)] if i in floating else a for i, a in enumerate(arrays)])

            return jax.vjp(some, *[arrays[i] for i in floating])[1](cotangent)

        backward = jax.jit(of_floating)
        return lambda: jax.block_until_ready(backward(cotangent, *arrays))


class Torch:
    def __init__(self):
        import torch
        import torch.nn.functional as F

        # Pictures keep the memory that they have for the others: channels last.
        self.torch = torch
        self.names = {
            "torch": torch, "F": F, "nchw": lambda x: x.permute(0, 3, 1, 2), "nhwc": lambda x: x.permute(0, 2, 3, 1),
            "oihw": lambda x: x.permute(3, 2, 0, 1)}

    def make(self, row, gradient):
        torch = self.torch
        arrays = [draw(spec) for spec in row[1].split()]
        inputs = [torch.from_numpy(a.view(np.int32) if a.dtype == np.uint32 else a) for a in arrays]
        function = eval("lambda %s: %s" % (", ".join("abc"[: len(inputs)]), row[3]), self.names)
        if not gradient:
            def forward():
                with torch.no_grad():
                    function(*inputs)

            return forward
        floating = [x.requires_grad_() for x in inputs if x.dtype == torch.float32]
        if not floating or not function(*inputs).requires_grad:
            return None
        cotangent = torch.rand(function(*inputs).shape)
        return lambda: torch.autograd.grad(function(*inputs), floating, cotangent)


def measure(run):
    run()
    times, start = [], time.perf_counter()
    while len(times) < MOST_RUNS and (len(times) < LEAST_RUNS or time.perf_counter() - start < SECONDS_A_REQUEST):
        before = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - before))
    times.sort()
    return "%.5f %.5f" % (times[0], times[len(times) // 2])


def main():
    side = {"jax": Jax, "torch": Torch}[sys.argv[1]]()
    by_name, made = {row[0]: row for row in rows()}, {}
    for line in sys.stdin:
        name, kind = line.split()
        if (name, kind) not in made:
            made[name, kind] = side.make(by_name[name], kind == "gradient")
        run = made[name, kind]
        print(measure(run) if run else "-", flush=True)


main()
