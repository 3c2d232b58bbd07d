"""PyTorch's own parameter server, beside which torch_benchmark.py measures.

torch.distributed.rpc in its fastest form (bench/peers.md, "gradients"): each of two
servers has a layer and SGD; a worker computes as on paramd, pushes a layer's gradients
and gets the layer's weights in the answer, both layers at once. One process:

    torch_rpc_peer.py ROLE INDEX PORT EPOCHS DIRECTORY

ROLE is ps or worker. Each prints "ROLE steps seconds CPU-seconds", of its loop.
"""

import os
import resource
import sys
import threading
import time

import torch
from torch.distributed import rpc
from torch.nn import functional as F

SERVERS = WORKERS = 2
LEARNING_RATE = 0.1


class Layer:
    """What one server holds."""

    def __init__(self, weights):
        self._weights = weights
        self._lock = threading.Lock()

    def exchange(self, gradients):
        """Applies gradients, and returns the weights."""
        with self._lock, torch.no_grad():
            for weight, gradient in zip(self._weights, gradients):
                weight.sub_(gradient, alpha=LEARNING_RATE)
            return [weight.clone() for weight in self._weights]


_layer = None


def place(weights):
    """On a server: what it begins with, from the worker that is first."""
    global _layer
    if _layer is None:
        _layer = Layer(weights)


def exchange(gradients):
    """On a server."""
    return _layer.exchange(gradients)


def cpu():
    """CPU-seconds of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def train(index, epochs, data, model):
    """This worker's part of each epoch; its steps."""
    from torch_benchmark import BATCH
    layers = [list(model[0].parameters()), list(model[2].parameters())]
    for server, layer in enumerate(layers):
        rpc.rpc_sync(f"ps{server}", place, ([w.detach() for w in layer],))
    order = torch.Generator().manual_seed(1)
    steps = 0
    for _ in range(epochs):
        # All permute alike; each takes its part.
        mine = torch.randperm(len(data), generator=order).split(BATCH)
        for indices in mine[index::WORKERS]:
            x, y = data.gather(indices)
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            loss.item()
            answers = [rpc.rpc_async(f"ps{server}", exchange,
                                     ([w.grad for w in layer],))
                       for server, layer in enumerate(layers)]
            with torch.no_grad():
                for answer, layer in zip(answers, layers):
                    for weight, value in zip(layer, answer.wait()):
                        weight.copy_(value)
                        weight.grad = None
            steps += 1
    return steps


def main():
    role, index, port, epochs, directory = sys.argv[1:]
    index, epochs = int(index), int(epochs)
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    if role == "worker":
        from torch_benchmark import Examples, load, network
        data, model = Examples(load(directory)), network()
    before = cpu()
    rpc.init_rpc(f"{role}{index}", rank=index if role == "ps" else SERVERS + index,
                 world_size=SERVERS + WORKERS)
    begun, steps = time.monotonic(), 0
    if role == "worker":
        steps = train(index, epochs, data, model)
    seconds = time.monotonic() - begun
    rpc.shutdown()  # Waits for all.
    print(role, steps, seconds, cpu() - before)


if __name__ == "__main__":
    sys.modules["torch_rpc_peer"] = sys.modules["__main__"]
    main()
