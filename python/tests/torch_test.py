"""PyTorch loops as workers. Skipped by name where there is no PyTorch."""

import os
import sys
import tempfile
import unittest

try:
    import torch
    from torch.nn import functional as F
except ImportError:
    torch = None

os.environ["LIBPARAMD"] = os.path.abspath("program/libparamd.so")
os.environ["PARAMD"] = os.path.abspath("cli/paramd")
sys.path.insert(0, os.path.abspath("python"))

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


@unittest.skipIf(torch is None, "needs PyTorch")
class TorchTest(unittest.TestCase):

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

    def test_a_loop_learns_and_its_checkpoint_is_a_state_dict(self):
        import paramd
        losses, worker = self.train(network(), epochs=5)
        self.assertTrue(worker.close())
        self.assertEqual(len(losses), 5 * 16)
        self.assertLess(losses[-1], losses[0] / 2)
        model = network()
        state = {name: torch.from_numpy(value)
                 for name, value in paramd.load(self.run_dir).items()}
        model.load_state_dict(state, strict=False)
        model.eval()
        points, labels = self.data.tensors
        accuracy = (model(points).argmax(1) == labels).float().mean()
        self.assertGreater(float(accuracy), 0.9)

    def test_the_steps_are_pytorchs_own(self):
        # The same batches in the same order with torch.optim, batch norm and all.
        seen = []

        class Recorded(torch.utils.data.Dataset):
            def __init__(self, data):
                self.data = data

            def __len__(self):
                return len(self.data)

            def __getitem__(self, index):
                seen.append(index)
                return self.data[index]

        # What Adam divides by is near zero at first: it magnifies the last bit.
        for optimizer, of_torch, atol in (
                ({"sgd": {"momentum": 0.9}, "learning_rate": 0.05},
                 lambda p: torch.optim.SGD(p, 0.05, momentum=0.9), 2e-5),
                ({"adam": {}, "learning_rate": 0.01},
                 lambda p: torch.optim.Adam(p, 0.01, eps=1e-8), 2e-4)):
            with self.subTest(optimizer=optimizer):
                data, self.data = self.data, Recorded(self.data)
                seen.clear()
                with tempfile.TemporaryDirectory() as run_dir:
                    self.run_dir = run_dir
                    model = network()
                    self.train(model, optimizer=optimizer)
                    import paramd
                    found = paramd.load(run_dir)
                self.data = data
                alone = network()
                stepper = of_torch(alone.parameters())
                for begin in range(0, len(seen), 16):
                    x, y = torch.utils.data.default_collate(
                        [self.data[i] for i in seen[begin:begin + 16]])
                    stepper.zero_grad()
                    F.cross_entropy(alone(x), y).backward()
                    stepper.step()
                for name, value in alone.state_dict().items():
                    if value.is_floating_point():
                        torch.testing.assert_close(
                            torch.from_numpy(found[name]), value, atol=atol,
                            rtol=10 * atol, msg=lambda m, n=name: f"{n}: {m}")

    def test_a_data_loaders_processes_read_ahead(self):
        model = network()
        worker = self.worker(model)
        loader = torch.utils.data.DataLoader(self.data, 32, num_workers=2)
        examples = 0
        for epoch in worker.epochs(2):
            for x, y in epoch.batches(loader):
                examples += len(x)
                worker.step(F.cross_entropy(model(x), y))
        self.assertEqual(examples, 2 * len(self.data))
        self.assertTrue(worker.close())

    def test_what_is_evaluated_is_the_test_data(self):
        evaluated = []

        def evaluate(model, x, y):
            self.assertFalse(model.training)
            evaluated.append(len(x))
            output = model(x)
            return F.cross_entropy(output, y), (output.argmax(1) == y).sum()

        model = network()
        self.train(model, epochs=1, test=blobs(50), evaluate=evaluate)
        self.assertEqual(sum(evaluated) % 50, 0)
        self.assertGreater(sum(evaluated), 0)
        self.assertTrue(model.training)

    def test_a_loss_that_is_not_finite_is_refused_and_may_be_skipped(self):
        import paramd
        model = network()
        worker = self.worker(model)
        refused = 0
        for epoch in worker.epochs(1):
            for number, (x, y) in enumerate(epoch.batches(self.data, 64)):
                loss = F.cross_entropy(model(x), y)
                if number == 1:
                    with self.assertRaises(paramd.NotFinite):
                        worker.step(loss * float("nan"))
                    refused += 1
                    worker.skip()
                    continue
                worker.step(loss)
        self.assertEqual(refused, 1)
        self.assertTrue(worker.close())

    def test_a_parameter_without_a_gradient_is_zeros_or_refused_by_name(self):
        import paramd

        class Idle(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.used = torch.nn.Linear(8, 3)
                self.idle = torch.nn.Parameter(torch.ones(2))

            def forward(self, x):
                return self.used(x)

        self.train(Idle(), epochs=1)
        self.assertEqual(paramd.load(self.run_dir)["idle"].tolist(), [1, 1])
        self.run_dir += "-strict"
        with self.assertRaisesRegex(paramd.InvalidArgument, "'idle'"):
            self.train(Idle(), epochs=1, missing_gradients="error")

    def test_a_batch_that_was_not_stepped_is_said(self):
        import paramd
        worker = self.worker(network())
        with self.assertRaisesRegex(paramd.Error, "not stepped"):
            for epoch in worker.epochs(1):
                for _ in epoch.batches(self.data, 64):
                    pass

    def test_step_without_a_batch_is_said(self):
        import paramd
        model = network()
        worker = self.worker(model)
        with self.assertRaisesRegex(paramd.Error, "without a batch"):
            worker.step(model(torch.zeros(2, 8)).sum())

    def test_frozen_parameters_stay(self):
        import paramd
        model = network()
        before = model[0].weight.detach().clone()
        model[0].weight.requires_grad_(False)
        self.train(model, epochs=1)
        after = torch.from_numpy(paramd.load(self.run_dir)["0.weight"])
        self.assertTrue(torch.equal(before, after))

    def test_parameters_of_bfloat16_are_trained_in_float32(self):
        model = torch.nn.Linear(8, 3).to(torch.bfloat16)
        worker = self.worker(model)
        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data, 32):
                worker.step(F.cross_entropy(model(x.bfloat16()).float(), y))
        self.assertTrue(worker.close())

    def test_a_compiled_model_trains(self):
        model = network()
        compiled = torch.compile(model, backend="eager")
        worker = self.worker(model)
        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data, 32):
                worker.step(F.cross_entropy(compiled(x), y))
        self.assertTrue(worker.close())


if __name__ == "__main__":
    unittest.main()
