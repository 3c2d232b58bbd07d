"""Models, data and loops of the tests of PyTorch loops."""

import contextlib
import os
import sys
import tempfile
import unittest
import unittest.mock

try:
    import numpy as np  # pylint: disable=unused-import
    import torch
    from torch.nn import functional as F
except ImportError:
    torch = F = np = None

os.environ["LIBPARAMD"] = os.path.abspath("program/libparamd.so")
os.environ["PARAMD"] = os.path.abspath("cli/paramd")
# Spawned processes look for what they are sent here.
sys.path[:0] = [os.path.abspath("python"), os.path.dirname(os.path.abspath(__file__))]

SGD = {"sgd": {}, "learning_rate": 0.1}


def blobs(count=256, features=8, classes=3):
    """Points around three centres: a data set that an MLP learns at once."""
    generator = torch.Generator().manual_seed(7)
    labels = torch.arange(count) % classes
    centres = torch.randn(classes, features, generator=generator) * 2
    points = centres[labels] + torch.randn(count, features, generator=generator)
    return torch.utils.data.TensorDataset(points, labels)


def network():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(8, 16, bias=False),
                               torch.nn.BatchNorm1d(16),
                               torch.nn.ReLU(), torch.nn.Linear(16, 3))


def wide():
    """2.3 MB, of which the last layer's 1.1 MB leave before the others are there."""
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(8, 34_000), torch.nn.ReLU(),
                               torch.nn.Linear(34_000, 8))


def plain():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(),
                               torch.nn.Linear(16, 3))


class FakeCuda:
    """As much of torch.cuda as Staging uses; what is copied is there at once."""

    def __init__(self):
        self.copies = 0
        self.done = True

    def is_available(self):
        return False

    def device(self, device):
        return contextlib.nullcontext()

    def current_stream(self, device):
        return self

    stream = device
    Stream = wait_stream = current_stream

    def Event(self):
        return self

    def record(self, stream=None):
        self.copies += 1

    def query(self):
        return self.done

    def synchronize(self):
        pass


def staged_by(cuda):
    """Has the processor stand for a device whose copies `cuda` makes."""
    from paramd import _staging, torch as ps
    return unittest.mock.patch.object(
        ps, "_staging_of", lambda picked: _staging.Staging(cuda, "cpu"))


def on_the_way_back(tensor, function):
    """The same tensor, whose gradient becomes what `function` makes of it."""
    tensor.register_hook(function)
    return tensor


@unittest.skipIf(torch is None, "needs PyTorch")
class LoopCase(unittest.TestCase):
    """Loops of a worker that is all of its job."""

    def setUp(self):
        torch.set_num_threads(1)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.run_dir = directory.name + "/run"
        self.data = blobs()

    def worker(self, model, **settings):
        import paramd.torch as ps
        settings = dict({"optimizer": SGD, "run_dir": self.run_dir,
                         "log_level": "error"}, **settings)
        return ps.Worker(model, **settings)

    def train(self, model, epochs=2, batch_size=16, **settings):
        worker = self.worker(model, **settings)
        losses = []
        for epoch in worker.epochs(epochs):
            for x, y in epoch.batches(self.data, batch_size=batch_size):
                loss = F.cross_entropy(model(x), y)
                worker.step(loss)
                losses.append(float(loss.detach()))
        return losses, worker

    def first_batch(self, worker):
        self.epochs = worker.epochs(1)  # A worker leaves when they are gone.
        return next(next(self.epochs).batches(self.data, 64))

    def recorded(self, model, change=lambda number, model: None, epochs=1,
                 batch_size=32, **settings):
        """What steps of a model do whose loop does `change` behind each batch is
        taken: the parameters that each batch was computed on."""
        worker = self.worker(model, **settings)
        seen = []
        for epoch in worker.epochs(epochs):
            for x, y in epoch.batches(self.data, batch_size):
                seen.append([p.detach().clone() for p in model.parameters()])
                change(len(seen), model)
                worker.step(F.cross_entropy(model(x), y))
        self.assertTrue(worker.close())
        return seen, worker

    def assert_same_steps(self, one, other):
        self.assertEqual(len(one), len(other))
        for number, (mine, others) in enumerate(zip(one, other)):
            for value, wanted in zip(mine, others):
                self.assertTrue(torch.equal(value, wanted), number)

    def copied(self, make, **options):
        """As recorded, of a model whose parameters may not lie elsewhere, and whose
        gradients are read nowhere but in the worker's memory."""
        from paramd import _gradients, _weights
        self.run_dir += "-copied"
        with unittest.mock.patch.object(_gradients, "may_be_lent", lambda *_: False), \
                unittest.mock.patch.object(_weights, "shareable",
                                           lambda some, _: [False] * len(some)):
            return self.recorded(make(), **options)[0]
