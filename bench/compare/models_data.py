"""Batches for the sides of bench/compare/models that are not nitro: the data of the examples, in memory, in another
order in each pass."""
import subprocess

import numpy as np

KING_JAMES = "bible -f gen1:1-rev22:21 2>/dev/null | cut -d ' ' -f 2-"


def fashion(folder, batch, labelled=True):
    """Images [batch, 28, 28, 1] u8, and labels."""
    fields = [np.fromfile(folder + "/train-images-idx3-ubyte", np.uint8, offset=16).reshape(-1, 28, 28, 1)]
    if labelled:
        fields.append(np.fromfile(folder + "/train-labels-idx1-ubyte", np.uint8, offset=8))
    return rows_of(fields, batch)


def text(batch, length):
    """Samples [batch, length + 1] u8 of the King James text, as examples/text.h cuts it."""
    characters = np.frombuffer(subprocess.run(KING_JAMES, shell=True, capture_output=True, check=True).stdout, np.uint8)
    count = (len(characters) - 1) // length
    starts = np.arange(count * 19 // 20)[:, None] * length
    return rows_of([characters[starts + np.arange(length + 1)]], batch)


def rows_of(arrays, batch):
    draw = np.random.default_rng(0)
    while True:
        order = draw.permutation(len(arrays[0]))
        for at in range(0, len(order) - batch + 1, batch):
            rows = order[at : at + batch]
            yield [array[rows] for array in arrays]
