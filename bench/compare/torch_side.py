"""The torch side: eager, with the fused optimizer."""
import common
import torch
from torch import nn

torch.manual_seed(42)


def train(images, labels, epochs, marks):
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
    loss_of = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    for epoch in range(1, epochs + 1):
        for batch, wanted in common.train_batches(images, labels, epoch):
            x = torch.from_numpy(batch).float().div_(255)
            loss = loss_of(model(x), torch.from_numpy(wanted).long())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            marks.step(loss.item())
        right = 0
        with torch.no_grad():
            for batch, wanted, rows in common.validation_batches(images, labels):
                scores = model(torch.from_numpy(batch).float().div_(255))
                right += int((scores.argmax(1).numpy() == wanted)[:rows].sum())
        marks.epoch(epoch, right / (len(images) - common.TRAIN_ROWS))


folder, run_folder, epochs = common.arguments()
marks = common.Marks(run_folder)
train(*common.load(folder), epochs, marks)
marks.finish()
