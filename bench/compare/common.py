"""What the Python sides of the comparison share: the data, its order, and the marks that compare reads."""
import os
import sys
import time

import numpy as np

BATCH, TRAIN_ROWS = 128, 55000
START = float(os.environ["BENCH_START"])


def since_start():
    return time.clock_gettime(time.CLOCK_MONOTONIC) - START


def load(folder):
    """Training images [60000, 784] and labels of plain IDX files, mapped into memory."""
    start = since_start()
    images = np.memmap(folder + "/train-images-idx3-ubyte", np.uint8, "r", 16).reshape(-1, 784)
    labels = np.memmap(folder + "/train-labels-idx1-ubyte", np.uint8, "r", 8)
    print("data %.6f" % (since_start() - start))
    return images, labels


def train_batches(images, labels, epoch):
    """The full batches of an epoch in another order each time."""
    order = np.random.default_rng(epoch).permutation(TRAIN_ROWS)
    for at in range(0, TRAIN_ROWS - BATCH + 1, BATCH):
        rows = order[at : at + BATCH]
        yield images[rows], labels[rows]


def validation_batches(images, labels):
    """The rows after those of training; the last batch is filled up with its last row. Gives the real rows too."""
    for at in range(TRAIN_ROWS, len(images), BATCH):
        rows = np.minimum(np.arange(at, at + BATCH), len(images) - 1)
        yield images[rows], labels[rows], min(BATCH, len(images) - at)


class Marks:
    """Each step is marked when its loss is known on the host, and written to a log, as nitro does."""

    def __init__(self, run_folder):
        os.makedirs(run_folder, exist_ok=True)
        self.log = open(run_folder + "/metrics.jsonl", "w")
        self.steps, self.losses = [], []

    def step(self, loss):
        self.steps.append(since_start())
        self.losses.append(loss)
        self.log.write('{"loss":%.9g,"type":"metrics","context":"train","step":%d}\n' % (loss, len(self.steps)))
        self.log.flush()

    def epoch(self, number, accuracy):
        values = number, since_start(), np.mean(self.losses), accuracy, time.process_time()
        print("epoch %d %.6f %.6f %.6f %.6f" % values)
        self.losses = []

    def finish(self):
        for seconds in self.steps:
            print("step %.7f" % seconds)


def serve(marks, open_batches, step):
    """Takes steps when it is told to, as model_steps.c does; `step` gives a loss that is read while the next one
    runs."""
    start = since_start()
    batches = open_batches()
    batch = next(batches)
    data = since_start() - start
    marks.step(float(step(*batch)))
    print("ready %.6f %.6f" % (marks.steps[-1], data), flush=True)
    for line in sys.stdin:
        before, count = None, int(line) + 1
        for _ in range(count):
            loss = step(*next(batches))
            if before is not None:
                marks.step(float(before))
            before = loss
        marks.step(float(before))
        print("%.9f" % (marks.steps[-1] - marks.steps[-count]), flush=True)


def arguments():
    folder, run_folder, epochs = sys.argv[1:4]
    return folder, run_folder, int(epochs)
