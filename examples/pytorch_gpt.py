"""A small language model on the licences that Debian ships, in PyTorch on paramd:
python3 pytorch_gpt.py [FILE...]

Two workers and two servers on this machine:
python3 -c "import paramd; c = paramd.Local(2, ['pytorch_gpt.py'] * 2); c.wait()"
"""

import glob
import math
import sys

import torch
import paramd.torch as ps
from torch.nn import functional as F

CONTEXT, WIDTH, HEADS, LAYERS = 64, 64, 4, 2


class Text(torch.utils.data.Dataset):
    """Windows of the files' bytes; what is to be predicted is one byte further."""

    def __init__(self, paths):
        text = b"".join(open(path, "rb").read() for path in paths)
        self.bytes = torch.frombuffer(bytearray(text), dtype=torch.uint8)

    def __len__(self):
        return (len(self.bytes) - 1) // CONTEXT

    def __getitem__(self, index):
        window = self.bytes[index * CONTEXT:(index + 1) * CONTEXT + 1].long()
        return window[:-1], window[1:]


class Gpt(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(256, WIDTH)
        self.places = torch.nn.Parameter(torch.randn(CONTEXT, WIDTH) * 0.02)
        layer = torch.nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0, activation="gelu",
            batch_first=True, norm_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, LAYERS,
                                                  enable_nested_tensor=False)
        self.head = torch.nn.Linear(WIDTH, 256)
        self.register_buffer(
            "mask", torch.triu(torch.full((CONTEXT, CONTEXT), -torch.inf), 1),
            persistent=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places
        return self.head(self.layers(x, mask=self.mask, is_causal=True))


def main():
    paths = sys.argv[1:] or sorted(
        path for path in glob.glob("/usr/share/common-licenses/*")
        if path[-1].isdigit())
    torch.manual_seed(1)
    model, dataset = Gpt(), Text(paths)
    worker = ps.Worker(model, name="gpt",
                       optimizer={"adam": {}, "learning_rate": 2e-3})
    for epoch in worker.epochs(3):
        losses = []
        for x, y in epoch.batches(dataset, batch_size=16):
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            worker.step(loss)
            losses.append(loss.item())
        if losses:
            bits = sum(losses) / len(losses) / math.log(2)
            print(f"epoch {epoch.number}: {bits:.3f} bits per byte", flush=True)


if __name__ == "__main__":
    main()
