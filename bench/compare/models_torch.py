"""The torch side of bench/compare/models: each example's model, eager or compiled, with a fused optimizer.

    models_torch.py DATA RUN_DIR MODEL [compile]
"""
import sys

import common
import models_data
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(42)

STEPS = 600000  # of the schedules, which never end here


def warm_up(optimizer, steps):
    rise = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, 1, steps)
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    return torch.optim.lr_scheduler.SequentialLR(optimizer, [rise, fall], [steps])


# ---- examples/fashion.c ----


class Perceptron(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))

    def batches(self, folder):
        return models_data.fashion(folder, 128)

    def rule(self):
        return torch.optim.RAdam(self.parameters(), lr=1e-3), None  # there is no fused one

    def forward(self, images, labels):
        return F.cross_entropy(super().forward(images.view(-1, 784).float() / 255), labels.long())


# ---- examples/convnet.c ----


class Convnet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.hidden, self.logits = nn.Linear(7 * 7 * 32, 128), nn.Linear(128, 10)
        self.to(memory_format=torch.channels_last)

    def batches(self, folder):
        return models_data.fashion(folder, 100)

    def rule(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=2e-3, fused=True)
        return optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)

    def forward(self, images, labels):
        x = images.permute(0, 3, 1, 2).float() / 255
        for conv in (self.conv1, self.conv2):
            x = F.max_pool2d(F.relu(conv(x)), 2)
        x = F.relu(self.hidden(x.flatten(1)))
        return F.cross_entropy(self.logits(F.dropout(x, 0.25)), labels.long())


# ---- examples/resnet.c ----


def kernel(n, channels, size, stride=1):
    conv = nn.Conv2d(n, channels, size, stride, size // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight)
    return conv


class Residual(nn.Module):
    def __init__(self, n, channels, stride):
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(n), kernel(n, channels, 3, stride)
        self.norm2, self.conv2 = nn.BatchNorm2d(channels), kernel(channels, channels, 3)
        self.shortcut = kernel(n, channels, 1, stride) if stride != 1 else None

    def forward(self, x):
        y = F.relu(self.norm1(x))
        if self.shortcut:
            x = self.shortcut(y)
        return x + self.conv2(F.relu(self.norm2(self.conv1(y))))


class DecayedNesterov(torch.optim.SGD):
    """Decay stays out of the velocity, as in the example; so does the rate, which differs only while it changes."""

    def __init__(self, parameters, lr, decay):
        super().__init__(parameters, lr=lr, momentum=0.9, nesterov=True, fused=True)
        self.decay = decay

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim > 1:
                    p.mul_(1 - group["lr"] * self.decay)
        super().step()


class Resnet(nn.Module):
    def __init__(self):
        super().__init__()
        blocks = Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2)
        self.blocks = nn.Sequential(kernel(1, 16, 3), *blocks, nn.BatchNorm2d(64), nn.ReLU())
        self.logits = nn.Linear(64, 10)
        self.to(memory_format=torch.channels_last)

    def batches(self, folder):
        return models_data.fashion(folder, 128)

    def rule(self):
        optimizer = DecayedNesterov(self.parameters(), lr=0.1, decay=5e-3)
        return optimizer, warm_up(optimizer, 200)

    def forward(self, images, labels):
        x = images.permute(0, 3, 1, 2).float() / 255
        x = torch.where(torch.rand(len(x), 1, 1, 1) < 0.5, x.flip(3), x)
        return F.cross_entropy(self.logits(self.blocks(x).mean((2, 3))), labels.long())


# ---- examples/vae.c ----


class Vae(nn.Module):
    def __init__(self, hidden=400, code=20):
        super().__init__()
        self.hidden, self.code = nn.Linear(784, hidden), nn.Linear(hidden, 2 * code)
        self.decoder = nn.Sequential(nn.Linear(code, hidden), nn.ReLU(), nn.Linear(hidden, 784))

    def batches(self, folder):
        return models_data.fashion(folder, 128, labelled=False)

    def rule(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)
        return optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)

    def forward(self, images):
        x = images.view(-1, 784).float() / 255
        mean, log_variance = self.code(F.dropout(F.relu(self.hidden(x)), 0.1)).chunk(2, -1)
        logits = self.decoder(mean + (0.5 * log_variance).exp() * torch.randn_like(mean))
        divergence = 0.5 * (log_variance.exp() + mean.square() - log_variance - 1).sum()
        return (F.binary_cross_entropy_with_logits(logits, x, reduction="sum") + divergence) / len(x)


# ---- examples/transformer.c ----


def rotary(x):
    """x [batch, length, heads, depth]."""
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[1])[:, None, None] * 10000.0 ** (-torch.arange(half) / half)
    (first, second), cos, sin = x.chunk(2, -1), angle.cos(), angle.sin()
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        linear = lambda n, units: nn.Linear(n, units, bias=False)
        self.heads, self.norm1, self.norm2 = heads, nn.RMSNorm(width, 1e-6), nn.RMSNorm(width, 1e-6)
        self.query, self.key, self.value = linear(width, width), linear(width, width), linear(width, width)
        self.output, self.hidden, self.narrow = linear(width, width), linear(width, 4 * width), linear(4 * width, width)

    def forward(self, x):
        y = self.norm1(x)
        query, key, value = (f(y).view(*y.shape[:2], self.heads, -1) for f in (self.query, self.key, self.value))
        heads = [z.transpose(1, 2) for z in (rotary(query), rotary(key), value)]
        y = F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + self.output(y)
        return x + self.narrow(F.gelu(self.hidden(self.norm2(x)), approximate="tanh"))


class Transformer(nn.Module):
    def __init__(self, layers=4, heads=4, width=128):
        super().__init__()
        self.character = nn.Embedding(256, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm, self.next = nn.RMSNorm(width, 1e-6), nn.Linear(width, 256, bias=False)
        nn.init.normal_(self.character.weight, std=0.02)

    def batches(self, folder):
        return models_data.text(16, 128)

    def rule(self):
        some, others = [[p for p in self.parameters() if (p.ndim > 1) == large] for large in (True, False)]
        groups = [{"params": some, "weight_decay": 0.1}, {"params": others, "weight_decay": 0}]
        optimizer = torch.optim.AdamW(groups, lr=2e-3, betas=(0.9, 0.99), fused=True)
        return optimizer, warm_up(optimizer, 100)

    clip_norm = 1

    def forward(self, text):
        x = self.character(text[:, :-1].int())
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.next(self.norm(x)).flatten(0, 1), text[:, 1:].flatten().long())


# ---- examples/lstm.c ----


class Lstm(nn.Module):
    clip_norm = 1

    def __init__(self, units=256, width=64):
        super().__init__()
        self.character, self.lstm = nn.Embedding(256, width), nn.LSTM(width, units, batch_first=True)
        self.next = nn.Linear(units, 256)

    def batches(self, folder):
        return models_data.text(32, 128)

    def rule(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=5e-3, fused=True)
        return optimizer, warm_up(optimizer, 50)

    def forward(self, text):
        states = self.lstm(self.character(text[:, :-1].int()))[0]
        return F.cross_entropy(self.next(states).flatten(0, 1), text[:, 1:].flatten().long())


# ---- steps ----

MODELS = {"fashion": Perceptron, "convnet": Convnet, "resnet": Resnet, "vae": Vae, "transformer": Transformer,
          "lstm": Lstm}


def stepper(model, loss_of):
    optimizer, schedule = model.rule()
    clip_norm = getattr(model, "clip_norm", None)

    def take(*batch):
        loss = loss_of(*map(torch.from_numpy, batch))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if clip_norm:
            nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        optimizer.step()
        if schedule:
            schedule.step()
        return loss.detach()

    return take


folder, run_folder, name, *kind = sys.argv[1:]
model = MODELS[name]()
loss_of = torch.compile(model) if kind else model
common.serve(common.Marks(run_folder), lambda: model.batches(folder), stepper(model, loss_of))
