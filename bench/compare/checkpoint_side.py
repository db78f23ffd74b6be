"""The Python sides of bench/compare/checkpoint: torch.save, orbax and the safetensors package, on the same arrays.

    checkpoint_side.py torch|orbax|safetensors FOLDER ARRAYS ELEMENTS

The protocol is that of bench/checkpoint.c. A file that torch.save or safetensors wrote is synced, as nitro's is; orbax
syncs what it writes itself or not at all. What loads gives arrays in host memory.
"""
import os
import shutil
import sys
import time

import numpy as np

KIND, FOLDER, ARRAYS, ELEMENTS = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
STATE = {"array%d" % i: np.random.default_rng(i).random(ELEMENTS, np.float32) for i in range(ARRAYS)}


def sync(path):
    for name in [path, os.path.dirname(path)]:
        descriptor = os.open(name, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


class OneFile:
    """Written beside and renamed, in the thread that trains."""

    path = FOLDER + "/state"

    def save(self):
        start = time.perf_counter()
        self.write(self.path + ".tmp")
        sync(self.path + ".tmp")
        os.rename(self.path + ".tmp", self.path)
        sync(self.path)
        held = time.perf_counter() - start
        return held, held


class Torch(OneFile):
    def __init__(self):
        import torch

        self.torch = torch
        self.state = {name: torch.from_numpy(array) for name, array in STATE.items()}

    def write(self, path):
        self.torch.save(self.state, path)

    def load(self):
        return self.torch.load(self.path)


class Safetensors(OneFile):
    def write(self, path):
        from safetensors.numpy import save_file

        save_file(STATE, path)

    def load(self):
        from safetensors.numpy import load_file

        return load_file(self.path)


class Orbax:
    """The asynchronous checkpointer: training goes on when it has its copy."""

    path = FOLDER + "/orbax"

    def __init__(self):
        import jax
        import orbax.checkpoint as orbax

        self.state = {name: jax.device_put(array) for name, array in STATE.items()}
        self.checkpointer = orbax.AsyncCheckpointer(orbax.StandardCheckpointHandler())
        self.arguments = orbax.args.StandardSave(self.state)
        self.turn = 0

    def save(self):
        self.turn += 1
        start = time.perf_counter()
        self.checkpointer.save("%s/%d" % (self.path, self.turn), args=self.arguments)
        held = time.perf_counter() - start
        self.checkpointer.wait_until_finished()
        total = time.perf_counter() - start
        shutil.rmtree("%s/%d" % (self.path, self.turn - 1), ignore_errors=True)
        return held, total

    def load(self):
        return self.checkpointer.restore("%s/%d" % (self.path, self.turn))


side = {"torch": Torch, "orbax": Orbax, "safetensors": Safetensors}[KIND]()
print("ready", flush=True)
for line in sys.stdin:
    if line == "save\n":
        print("%.6f %.6f" % side.save(), flush=True)
    elif line == "load\n":
        start = time.perf_counter()
        loaded = side.load()
        print("%.6f" % (time.perf_counter() - start), flush=True)
        del loaded
    else:
        break
