"""The peer of bench/model: a training step (forward, loss, backward) of the same
network in PyTorch, on one thread.

    torch_steps.py NAME TIMES ROUNDS

prints the CPU seconds of one of TIMES steps, once for each round.
"""

import sys
import time

import torch
from torch import nn
from torch.nn import functional


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(),
                         nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 49, 64), nn.ReLU(), nn.Linear(64, 10))


class Block(nn.Module):
    def __init__(self, inputs, filters, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, filters, 3, stride, 1, bias=False),
            nn.BatchNorm2d(filters), nn.ReLU(),
            nn.Conv2d(filters, filters, 3, 1, 1, bias=False),
            nn.BatchNorm2d(filters))
        self.shortcut = nn.Identity() if stride == 1 else nn.Sequential(
            nn.Conv2d(inputs, filters, 1, stride, bias=False),
            nn.BatchNorm2d(filters))

    def forward(self, x):
        return functional.relu(self.body(x) + self.shortcut(x))


def residual():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16),
        nn.ReLU(), Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.projection = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x):
        n, places, width = x.shape
        q, k, v = (part.view(n, places, self.heads, -1).transpose(1, 2)
                   for part in self.projection(x).chunk(3, dim=-1))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.output(y.transpose(1, 2).reshape(n, places, width))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(128, 128)
        self.position = nn.Parameter(torch.zeros(64, 128))
        self.parts = nn.ModuleList()
        for _ in range(2):
            self.parts.append(nn.Sequential(nn.LayerNorm(128),
                                            Attention(128, 4)))
            self.parts.append(nn.Sequential(
                nn.LayerNorm(128), nn.Linear(128, 512), nn.GELU(),
                nn.Linear(512, 128)))
        self.end = nn.Sequential(nn.LayerNorm(128), nn.Linear(128, 128))

    def forward(self, x):
        y = self.embedding(x) + self.position
        for part in self.parts:
            y = y + part(y)
        return self.end(y).flatten(0, 1)


def main(name, times, rounds):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if name == "gpt":
        model = Gpt()
        x = torch.randint(128, (16, 64))
        y = torch.randint(128, (16 * 64,))
    else:
        model = {"mlp": mlp, "cnn": cnn, "residual": residual}[name]()
        batch = 64 if name == "mlp" else 32
        x = torch.rand(batch, 1, 28, 28)
        y = torch.randint(10, (batch,))

    def step():
        model.zero_grad(set_to_none=False)
        functional.cross_entropy(model(x), y).backward()

    for _ in range(5):
        step()
    for _ in range(rounds):
        begin = time.process_time()
        for _ in range(times):
            step()
        print((time.process_time() - begin) / times)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
