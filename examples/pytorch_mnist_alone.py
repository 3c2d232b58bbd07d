"""Fashion-MNIST in PyTorch: python3 pytorch_mnist_alone.py [DIRECTORY]"""

import gzip
import sys

import torch
from torch.nn import functional as F

EPOCHS, BATCH = 5, 64


def load(directory, split):
    """Images as [n, 784] in [0, 1], and classes."""
    def read(kind, header):
        with gzip.open(f"{directory}/{split}-{kind}-ubyte.gz") as file:
            return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8,
                                    offset=header)
    images = read("images-idx3", 16).reshape(-1, 784).float() / 255
    return torch.utils.data.TensorDataset(images, read("labels-idx1", 8).long())


def main():
    directory = (sys.argv + ["/usr/share/datasets/fashion-mnist"])[1]
    dataset, test = load(directory, "train"), load(directory, "t10k")
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(),
                                torch.nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(EPOCHS):
        for x, y in torch.utils.data.DataLoader(dataset, BATCH, shuffle=True):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    images, labels = test.tensors
    accuracy = (model(images).argmax(1) == labels).float().mean()
    print(f"test accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
