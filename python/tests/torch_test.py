"""PyTorch loops as workers. Skipped by name where there is no PyTorch."""

import contextlib
import os
import pathlib
import sys
import tempfile
import threading
import unittest
import unittest.mock

try:
    import numpy as np
    import torch
    from torch.nn import functional as F
except ImportError:
    torch = None

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


class InParts(torch.nn.Module if torch else object):
    """A layer is used twice, and goes backward by itself each time."""

    def __init__(self, width):
        super().__init__()
        torch.manual_seed(3)
        self.inner = torch.nn.Linear(8, 8)
        self.outer = torch.nn.Linear(8, width)
        self.reentrant = True

    def forward(self, x):
        from torch.utils.checkpoint import checkpoint
        x = x.clone().requires_grad_()
        for _ in range(2):
            x = (checkpoint(self.inner, x, use_reentrant=True)
                 if self.reentrant else self.inner(x)).relu()
        return self.outer(x)[:, :3]


# One of several, of the test that is at this path.
SYNC_WORKER = """
import importlib.util
spec = importlib.util.spec_from_file_location("torch_test", %r)
test = importlib.util.module_from_spec(spec)
spec.loader.exec_module(test)
case = test.TorchTest()
case.run_dir, case.data = %r, test.blobs()
test.torch.set_num_threads(1)
case.train(test.plain(), **%r)
"""


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


class Numbers(torch.utils.data.IterableDataset if torch else object):
    """0 to 11, shared by the processes that read them."""

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        return iter(range(12) if info is None
                    else range(info.id, 12, info.num_workers))


def on_the_way_back(tensor, function):
    """The same tensor, whose gradient becomes what `function` makes of it."""
    tensor.register_hook(function)
    return tensor


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

    def test_sync_workers_have_the_weights_of_one_that_accumulates(self):
        import paramd
        settings = {"staleness": "sync", "optimizer": {"adam": {},
                                                       "learning_rate": 0.01}}
        script = pathlib.Path(self.run_dir).with_name("worker.py")
        script.write_text(SYNC_WORKER % (os.path.abspath(__file__), self.run_dir,
                                         settings))
        with paramd.local(2, [str(script)] * 2,
                          directory=self.run_dir + "-logs") as cluster:
            cluster.wait(100, progress=False)
        together = paramd.load(self.run_dir)
        self.run_dir += "-alone"
        self.train(plain(), accumulate=2, **settings)
        alone = paramd.load(self.run_dir)
        for name, values in plain().state_dict().items():
            self.assertGreater(abs(values.numpy() - alone[name]).max(), 0.01)
            np.testing.assert_allclose(together[name], alone[name], rtol=0, atol=1e-6)

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

    def test_a_gradient_that_is_not_finite_leaves_nothing_of_a_small_model(self):
        import paramd
        model = network()
        worker = self.worker(model)
        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data, 64):
                hidden = on_the_way_back(model[:2](x), lambda g: g * float("nan"))
                with self.assertRaisesRegex(paramd.NotFinite, "nothing of this"):
                    worker.step(F.cross_entropy(model[2:](hidden), y))
                worker.step(F.cross_entropy(model(x), y))
        self.assertTrue(worker.close())

    def test_a_wide_model_leaves_by_layers_and_learns(self):
        losses, worker = self.train(wide(), epochs=1, batch_size=32,
                                    optimizer={"adam": {}, "learning_rate": 1e-3})
        self.assertTrue(worker.close())
        self.assertLess(losses[-1], losses[0] / 2)

    def first_batch(self, worker):
        self.epochs = worker.epochs(1)  # A worker leaves when they are gone.
        return next(next(self.epochs).batches(self.data, 64))

    def leave_in_the_middle(self, spoil, refused, said):
        """A batch of a wide model whose gradient is spoilt on its way; the rest is
        then trained by another worker. Returns what the first one could do."""
        import paramd
        model = wide()
        worker = self.worker(model, name="wide")
        x, y = self.first_batch(worker)
        output = model[2](on_the_way_back(model[:2](x), spoil))
        with self.assertRaisesRegex(refused, said):
            worker.step(F.cross_entropy(output, y))
        return worker, lambda: self.assertEqual(
            len(self.train(wide(), epochs=1, batch_size=64, name="wide")[0]), 4)

    def test_a_gradient_that_is_not_finite_behind_others_ends_the_worker(self):
        import paramd
        worker, rest = self.leave_in_the_middle(
            lambda g: g * float("nan"), paramd.PartlyPushed,
            "gradient of '0.*' is not finite; a part of this batch was pushed")
        with self.assertRaises(paramd.Cancelled):
            self.first_batch(worker)
        rest()  # The batch too: it was handed out again.

    def test_what_has_begun_to_leave_is_neither_stepped_again_nor_skipped(self):
        import paramd

        def fail(gradient):
            raise KeyError("mine")

        for again in (lambda worker: worker.skip(),
                      lambda worker: worker.step(torch.tensor(1.0))):
            self.run_dir += "-next"
            worker, rest = self.leave_in_the_middle(fail, KeyError, "mine")
            with self.assertRaisesRegex(paramd.PartlyPushed, "computed anew"):
                again(worker)
            rest()

    def test_a_small_model_is_stepped_again_after_an_exception(self):
        model = network()
        worker = self.worker(model)

        def fail(gradient):
            raise KeyError("mine")

        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data, 64):
                hidden = on_the_way_back(model[:2](x), fail)
                with self.assertRaisesRegex(KeyError, "mine"):
                    worker.step(F.cross_entropy(model[2:](hidden), y))
                worker.step(F.cross_entropy(model(x), y))
        self.assertTrue(worker.close())

    def test_a_second_thread_is_refused_while_the_first_steps(self):
        import paramd
        model = network()
        worker = self.worker(model)
        refused = []

        def use(worker):
            for call in (lambda: worker.step(torch.tensor(1.0)), worker.skip,
                         lambda: next(epoch.batches(self.data, 64))):
                try:
                    call()
                except paramd.Error as error:
                    refused.append(str(error))

        def while_it_steps(gradient):
            second = threading.Thread(target=use, args=(worker,))
            second.start()
            second.join()

        for epoch in worker.epochs(1):
            for number, (x, y) in enumerate(epoch.batches(self.data, 64)):
                hidden = model[:2](x)
                if number == 1:
                    hidden.register_hook(while_it_steps)
                worker.step(F.cross_entropy(model[2:](hidden), y))
        self.assertEqual(len(refused), 3)
        for sentence in refused:
            self.assertIn("two threads use one worker", sentence)
        self.assertTrue(worker.close())

    def test_a_batch_that_is_skipped_is_in_no_figure(self):
        model = network()
        worker = self.worker(model)
        said = []
        for epoch in worker.epochs(1):
            for number, (x, y) in enumerate(epoch.batches(self.data, 64)):
                if number == 0:
                    session = worker._session
                    finish = session._finish

                    def note(result):
                        said.append((result.examples, result.loss_sum))
                        finish(result)

                    session._finish = note
                if number == 1:
                    worker.skip()
                else:
                    worker.step(model(x).sum() * 0 + 1)
        self.assertTrue(worker.close())
        self.assertEqual(said, [(64, 64), (0, 0), (64, 64), (64, 64)])

    def test_a_sparse_gradient_is_trained_as_a_dense_one(self):
        import paramd
        saved = []
        for sparse in (False, True):
            torch.manual_seed(3)
            model = torch.nn.Embedding(300, 3, sparse=sparse)
            self.run_dir += f"-{sparse}"
            worker = self.worker(model)
            for epoch in worker.epochs(1):
                for x, y in epoch.batches(self.data, 32):
                    rows = (x[:, :2].abs() * 50).long().clamp(max=299)
                    worker.step(F.cross_entropy(model(rows).sum(1), y))
            saved.append(paramd.load(self.run_dir)["weight"])
        self.assertEqual(saved[0].tolist(), saved[1].tolist())

    def embedding(self, width=4):
        """A model of a table and a layer, and the rows that a batch reads of it."""
        torch.manual_seed(3)

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.table = torch.nn.Embedding(5000, width, sparse=True)
                self.head = torch.nn.Linear(width, 3)

            def forward(self, x):
                return self.head(self.table(rows_of(x)).mean(1))

        def rows_of(x, y=None):
            return (x.abs() * 500).long().clamp(max=4999)

        return Model(), rows_of

    def test_rows_that_are_looked_up_are_trained_as_the_whole_table(self):
        import paramd
        saved = []
        for by_rows in (False, True):
            model, rows_of = self.embedding()
            self.run_dir += "-rows"
            losses = []
            worker = self.worker(
                model, lookups={"table.weight": rows_of} if by_rows else None,
                test=self.data,
                evaluate=lambda model, x, y: losses.append(
                    F.cross_entropy(model(x), y).item()) or losses[-1])
            for epoch in worker.epochs(2):
                for x, y in epoch.batches(self.data, 16):
                    worker.step(F.cross_entropy(model(x), y))
            checkpoint = paramd.load(self.run_dir)
            saved.append((checkpoint["table.weight"].tolist(),
                          checkpoint["head.weight"].tolist(), losses[-1]))
        self.assertEqual(saved[0], saved[1])

    def test_rows_that_nobody_named_are_refused(self):
        import paramd
        model, rows_of = self.embedding()
        worker = self.worker(model,
                             lookups={"table.weight": lambda x, y: rows_of(x)[:, :2]})
        epochs = worker.epochs(1)
        x, y = next(next(epochs).batches(self.data, 16))
        with self.assertRaisesRegex(paramd.InvalidArgument,
                                    "of 'table.weight', which lookups did not name"):
            worker.step(F.cross_entropy(model(x), y))
        worker.close()

    def test_what_cannot_be_looked_up_is_refused_by_name(self):
        import paramd
        model, rows_of = self.embedding()
        with self.assertRaisesRegex(paramd.InvalidArgument, "names 'tabel.weight'"):
            self.worker(model, lookups={"tabel.weight": rows_of})
        with self.assertRaisesRegex(paramd.InvalidArgument, "1 dimensions, not 2"):
            self.worker(model, lookups={"head.bias": rows_of})
        model, rows_of = self.embedding(width=3)
        epoch = next(self.worker(model, lookups={"table.weight": rows_of}).epochs(1))
        with self.assertRaisesRegex(paramd.InvalidArgument, "'table.weight'.*262144"):
            next(epoch.batches(self.data, 16))
        model, rows_of = self.embedding()
        model.table.sparse = False
        worker = self.worker(model, lookups={"table.weight": rows_of})
        epochs = worker.epochs(1)
        x, y = next(next(epochs).batches(self.data, 16))
        with self.assertRaisesRegex(paramd.InvalidArgument, "sparse=True"):
            worker.step(F.cross_entropy(model(x), y))
        worker.close()

    def test_what_says_no_length_is_refused_in_a_sentence(self):
        import paramd
        loader = torch.utils.data.DataLoader(Numbers(), 8)
        for dataset in (Numbers(), loader, iter([])):
            epoch = next(self.worker(network()).epochs(1))
            with self.assertRaisesRegex(paramd.InvalidArgument, "examples="):
                next(epoch.batches(dataset, 8))
        for dataset, options, said in (
                (iter([1]), {"examples": 8}, "can't begin again"),
                (iter([1]), {"examples": 8, "num_workers": 1}, "can't begin again"),
                (self.data, {"examples": 8}, "this one has them"),
                (paramd.Stream([1], examples=8), {"examples": 8}, "leave examples"),
                (paramd.Shards([2], range), {"num_workers": 1}, "leave examples"),
                (lambda i, n: [1], {"examples": 8, "num_workers": 1}, "leave num_work"),
                (7, {"examples": 8}, "int can't be iterated")):
            epoch = next(self.worker(network()).epochs(1))
            with self.assertRaisesRegex(paramd.InvalidArgument, said):
                next(epoch.batches(dataset, 8, **options))

    def read(self, dataset, epochs=2, collate=list, **options):
        """The batches of a loop that trains on nothing of them."""
        worker = self.worker(model := torch.nn.Linear(1, 1))
        found = []
        for epoch in worker.epochs(epochs):
            for batch in epoch.batches(dataset, collate_fn=collate, **options):
                found.append((epoch.number, batch))
                worker.step(model(torch.ones(1, 1)).sum())
        self.assertTrue(worker.close())
        return found

    def test_shards_are_leased_and_each_example_comes_once_an_epoch(self):
        import paramd
        shards = paramd.Shards([0, 10, 20], lambda s: range(s, s + 5 + s // 10))
        found = self.read(shards, batch_size=4)
        self.assertEqual([len(batch) for _, batch in found], [4, 4, 4, 4, 2] * 2)
        for number in (1, 2):
            of_it = [e for epoch, batch in found if epoch == number for e in batch]
            self.assertEqual(sorted(of_it), [*range(5), *range(10, 16),
                                             *range(20, 27)])

    def test_an_iterable_dataset_is_read_on_and_begins_again(self):
        wanted = [(1, [0, 1, 2, 3]), (1, [4, 5, 6, 7]), (1, [8, 9]),
                  (2, [10, 11, 0, 1]), (2, [2, 3, 4, 5]), (2, [6, 7])]
        self.assertEqual(self.read(Numbers(), batch_size=4, examples=10), wanted)
        self.run_dir += "-function"
        self.assertEqual(self.read(lambda worker, workers: range(12), batch_size=4,
                                   examples=10), wanted)

    def test_processes_read_an_iterable_dataset_ahead(self):
        loader = torch.utils.data.DataLoader(Numbers(), 4, num_workers=2,
                                             collate_fn=list)
        found = self.read(loader, epochs=1, examples=24)
        # Each of the two reads every second one, and sends its six at once.
        self.assertEqual([e for _, batch in found for e in batch],
                         [*range(0, 12, 2), *range(1, 12, 2)] * 2)

    def test_what_step_can_not_take_is_said_and_the_batch_is_still_held(self):
        import paramd
        model = network()
        worker = self.worker(model)
        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data, 64):
                each = F.cross_entropy(model(x), y, reduction="none")
                for loss in (each, each.mean().detach(), 0.5):
                    with self.assertRaisesRegex(paramd.InvalidArgument, "mean loss"):
                        worker.step(loss)
                worker.step(each.mean())
        self.assertTrue(worker.close())

    def test_the_batch_size_stays(self):
        import paramd
        worker = self.worker(model := network())
        with self.assertRaisesRegex(paramd.InvalidArgument,
                                    "batch_size: 32; the job began with 64"):
            for epoch, size in zip(worker.epochs(2), (64, 32)):
                for x, y in epoch.batches(self.data, size):
                    worker.step(F.cross_entropy(model(x), y))

    def test_parameters_without_real_values_are_refused_by_name(self):
        import paramd
        for model, said in (
                (torch.nn.Linear(8, 3, device="meta"), "'weight' on meta"),
                (torch.nn.Linear(8, 3, dtype=torch.complex64), "'weight' is of")):
            with self.assertRaisesRegex(paramd.InvalidArgument, said):
                self.first_batch(self.worker(model))

    def test_a_worker_whose_device_is_gone_leaves_and_says_so(self):
        import paramd
        from paramd._weights import not_copied
        gone = []

        class Parameter(torch.nn.Parameter):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                if gone and func is torch.Tensor.copy_:
                    raise RuntimeError("CUDA error: gone\nmore of it")
                return super().__torch_function__(func, types, args, kwargs or {})

        model = network()
        model[0].weight = Parameter(model[0].weight.detach())
        worker = self.worker(model)
        stepped = 0
        with self.assertRaisesRegex(paramd.InvalidArgument,
                                    "'0.weight' on cpu .*: CUDA error: gone$"):
            for epoch in worker.epochs(1):
                for x, y in epoch.batches(self.data, 64):
                    worker.step(F.cross_entropy(model(x), y))
                    stepped += 1
                    gone.append(True)
        # The batch of which the weights were not copied is handed out again.
        self.assertEqual((stepped, len(self.train(network(), 1, 64)[0])), (1, 3))
        tensor = unittest.mock.Mock(device=torch.device("cuda:1"))
        self.assertIsInstance(not_copied("w", tensor, RuntimeError("gone")),
                              paramd.Unavailable)

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
        self.run_dir += "-scaled"
        worker = self.worker(Idle())
        for epoch in worker.epochs(1):
            for _ in epoch.batches(self.data, 64):
                self.assertTrue(worker.step(torch.ones(1, requires_grad=True),
                                            scaler=torch.amp.GradScaler("cpu")))
        self.run_dir += "-strict"
        with self.assertRaisesRegex(paramd.InvalidArgument, "'idle'"):
            self.train(Idle(), epochs=1, missing_gradients="error")

    def test_of_a_wide_model_whose_gradients_must_all_be_there_nothing_leaves(self):
        import paramd
        model = wide()
        model.idle = torch.nn.Parameter(torch.ones(2))
        self.data = blobs(64)
        worker = self.worker(model, missing_gradients="error")
        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data, 64):
                output = model[2](model[1](model[0](x)))
                with self.assertRaisesRegex(paramd.InvalidArgument, "'idle'"):
                    worker.step(F.cross_entropy(output, y))
                worker.skip()
        self.assertTrue(worker.close())

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

    def test_autocast_trains(self):
        model = network()
        worker = self.worker(model)
        losses = []
        for epoch in worker.epochs(3):
            for x, y in epoch.batches(self.data, 32):
                with torch.autocast("cpu", torch.bfloat16):
                    output = model(x)
                    self.assertEqual(output.dtype, torch.bfloat16)
                    loss = F.cross_entropy(output, y)
                worker.step(loss)
                losses.append(loss.item())
        self.assertTrue(worker.close())
        self.assertLess(losses[-1], losses[0] / 2)

    def train_scaled(self, scaler, spoil=()):
        """What of each batch was pushed, and the weights; gradients of the batches
        `spoil` are infinite."""
        import paramd
        model = plain()
        worker = self.worker(model)
        pushed = []
        for epoch in worker.epochs(1):
            for number, (x, y) in enumerate(epoch.batches(self.data, 32)):
                hidden = model[:2](x)
                if number in spoil:
                    hidden.register_hook(lambda g: g * float("inf"))
                pushed.append(worker.step(F.cross_entropy(model[2:](hidden), y),
                                          scaler=scaler))
        self.assertTrue(worker.close())
        return pushed, paramd.load(self.run_dir)

    def test_what_a_grad_scaler_scales_is_pushed_unscaled(self):
        _, alone = self.train_scaled(None)
        for enabled in (True, False):
            self.run_dir += "-scaled"
            scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12, enabled=enabled)
            pushed, scaled = self.train_scaled(scaler)
            self.assertEqual(pushed, [True] * 8)
            for name, values in alone.items():
                np.testing.assert_array_equal(scaled[name], values)

    def test_what_a_grad_scaler_finds_infinite_is_left_out_and_scaled_less(self):
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
        pushed, weights = self.train_scaled(scaler, spoil=(1, 4))
        self.assertEqual(pushed, [True, False, True, True, False, True, True, True])
        self.assertEqual(scaler.get_scale(), 2.0**10)
        for values in weights.values():
            self.assertTrue(np.isfinite(values).all())
        self.run_dir += "-next"
        scaler = torch.amp.GradScaler("cpu")
        # Also where a part would have left by layers.
        with unittest.mock.patch(f"{__name__}.plain", wide):
            pushed, _ = self.train_scaled(scaler, spoil=(0,))
        self.assertEqual(pushed, [False] + [True] * 7)

    def test_what_is_staged_is_trained_as_what_is_not(self):
        # The processor in place of a device: its copies are done when they begin.
        _, alone = self.train_scaled(None)
        for scaler in (None, torch.amp.GradScaler("cpu")):
            self.run_dir += "-staged"
            cuda = FakeCuda()
            with staged_by(cuda):
                _, staged = self.train_scaled(scaler)
            self.assertEqual(cuda.copies, 8 * (4 + 4))
            for name, values in alone.items():
                np.testing.assert_array_equal(staged[name], values)

    def test_staged_gradients_are_handed_out_when_they_are_there(self):
        from paramd._staging import Staging
        cuda = FakeCuda()
        staging = Staging(cuda, "cpu")
        staging.take(1, torch.ones(2))
        staging.take(0, torch.ones(3))
        cuda.done = False
        self.assertEqual(list(staging.taken(wait=False)), [])
        cuda.done = True
        self.assertEqual([(n, g.tolist()) for n, g in staging.taken(wait=False)],
                         [(1, [1, 1]), (0, [1, 1, 1])])
        staging.take(0, torch.zeros(3))
        staging.drop()
        self.assertEqual(list(staging.taken(wait=True)), [])

    def test_a_compiled_model_trains(self):
        model = network()
        compiled = torch.compile(model, backend="eager")
        worker = self.worker(model)
        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data, 32):
                worker.step(F.cross_entropy(compiled(x), y))
        self.assertTrue(worker.close())

    # ---- what travels without a copy

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

    def test_parameters_lie_where_weights_are_pulled_to(self):
        model, places, lent = network(), set(), []
        worker = self.worker(model)
        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data, 32):
                weight = model[0].weight
                places.add(weight.data_ptr())
                work = worker._session.held
                self.assertEqual(weight.data_ptr(), work.weights[0].ctypes.data)
                for gradient in work.gradients[:4]:
                    gradient.fill(7)  # Of it nothing is read, or written.
                worker.step(F.cross_entropy(model(x), y))
                for gradient in work.gradients[:4]:
                    self.assertTrue((gradient == 7).all())
                lent.append(len(worker._session._lent))
        self.assertEqual(len(places), 2)
        self.assertLess(max(lent), 4)  # They come back.
        self.assertTrue(worker.close())
        self.assertEqual(worker._session._lent, {})

    def test_what_is_not_copied_is_trained_as_what_is(self):
        for make in (network, wide):
            with self.subTest(make=make.__name__):
                self.run_dir += "-next"
                seen, worker = self.recorded(make())
                self.assertEqual(len(worker._weights.shared),
                                 len(list(make().parameters())))
                self.assert_same_steps(seen, self.copied(make))

    def test_what_a_loop_writes_to_parameters_is_in_no_later_step(self):
        def spoil(number, model):
            if number % 2 == 0:
                with torch.no_grad():
                    model[0].weight.zero_()
            for parameter in model.parameters():
                parameter.data.mul_(0.5)

        # Also where several batches are one push, on the same weights.
        for settings in ({}, {"staleness": "sync"}, {"push_every": 2}):
            with self.subTest(settings=settings):
                self.run_dir += "-next"
                self.assert_same_steps(
                    self.recorded(plain(), spoil, **settings)[0],
                    self.copied(plain, change=spoil, **settings))

    def test_parameters_that_a_program_puts_elsewhere_are_copied_there(self):
        mine = torch.zeros(16, 8)

        def move(number, model):
            if number == 2:
                mine.copy_(model[0].weight.data)
                model[0].weight.data = mine
            if number == 3:
                self.assertEqual(model[0].weight.data_ptr(), mine.data_ptr())
                model.to(torch.float64).to(torch.float32)

        seen, worker = self.recorded(plain(), move)
        self.assertEqual(len(worker._weights.shared), 0)
        self.assert_same_steps(seen, self.copied(plain))

    def test_memory_that_processes_come_to_share_is_not_the_workers(self):
        kept = []

        def share(number, model):
            if number == 1:
                kept.extend(model.state_dict().values())
            if number == 2:  # Also what is sent through a queue of processes.
                for tensor in kept:
                    tensor.share_memory_()
            if number == 5:
                model.share_memory()
            self.assertEqual(model[0].weight.is_shared(), number >= 5)

        seen, worker = self.recorded(plain(), share)
        self.assertEqual(len(worker._weights.shared), 0)
        self.assert_same_steps(seen, self.copied(plain))

    def test_what_may_not_lie_elsewhere_is_known(self):
        from paramd._sharing import shareable
        tied = torch.nn.Parameter(torch.zeros(4))
        flat = torch.zeros(8)

        class Own(torch.nn.Parameter):
            pass

        shared = torch.nn.Parameter(torch.zeros(3).share_memory_())
        buffer = torch.zeros(2)
        parameters = [torch.nn.Parameter(torch.zeros(2, 3)), tied,
                      torch.nn.Parameter(tied.data.view(2, 2)),
                      torch.nn.Parameter(flat[:4]),
                      torch.nn.Parameter(torch.zeros(3, 2).t()), Own(torch.zeros(2)),
                      torch.nn.Parameter(torch.zeros(2, dtype=torch.bfloat16)),
                      torch.nn.Parameter(torch.zeros(2, device="meta")), shared,
                      torch.nn.Parameter(buffer)]
        self.assertEqual(shareable(parameters, [buffer]), [True] + [False] * 9)
        # What somebody else has of them would never change any more.
        held = [torch.nn.Parameter(torch.zeros(2)) for _ in range(3)]
        others = held[0].data, held[1].detach().numpy()
        self.assertEqual(shareable(held, []), [False, False, True])
        del others
        self.assertEqual(shareable(held, []), [True] * 3)

    def test_a_tensor_that_has_no_address_is_no_obstacle(self):
        from paramd._sharing import shareable

        class Wrapper(torch.Tensor):
            @staticmethod
            def __new__(cls):
                return torch.Tensor._make_wrapper_subclass(cls, (2,))

            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                raise NotImplementedError(func)

        class Refuses(torch.Tensor):
            def untyped_storage(self):
                raise NotImplementedError("no storage")

        self.assertEqual(
            shareable([torch.nn.Parameter(torch.zeros(2))],
                      [Wrapper(), torch.zeros(2).as_subclass(Refuses)]), [True])

    def test_an_alias_of_a_parameter_stays_one(self):
        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(3)
                self.embed = torch.nn.Linear(8, 3)
                self.tied = self.embed.weight.data

            def forward(self, x):
                return F.linear(self.embed(x), self.tied.t())[:, :3]

        def check(number, model):
            self.assertTrue(torch.equal(model.tied, model.embed.weight))

        seen, worker = self.recorded(Tied(), check)
        self.assertEqual(len(worker._weights.shared), 1)
        self.assert_same_steps(seen, self.copied(Tied))

    def test_another_worker_has_the_parameters_as_the_first_one(self):
        model = plain()
        for _ in range(2):
            self.run_dir += "-next"
            _, worker = self.recorded(model)
            self.assertEqual(len(worker._weights.shared), 4)

    def test_tied_and_overlapping_parameters_stay_so(self):
        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(3)
                self.one = torch.nn.Linear(8, 8)
                self.same = torch.nn.Linear(8, 8)
                self.same.weight = self.one.weight
                self.flat = torch.nn.Parameter(torch.randn(3, 8))
                # A parameter of its own in the same memory.
                self.head = torch.nn.Parameter(self.flat.data[1:])

            def forward(self, x):
                return F.linear(self.same(self.one(x).relu()), self.flat)

        def check(number, model):
            self.assertIs(model.same.weight, model.one.weight)
            self.assertTrue(torch.equal(model.head, model.flat[1:]))

        seen, worker = self.recorded(Tied(), check)
        self.assertEqual(len(worker._weights.shared), 3)
        self.assert_same_steps(seen, self.copied(Tied))

    def test_a_gradient_that_comes_in_parts_is_their_sum(self):
        def plainly(number, model):
            model.reentrant = False

        for width in (3, 40_000):
            with self.subTest(width=width):
                self.run_dir += "-next"
                seen, _ = self.recorded(InParts(width))
                self.run_dir += "-plainly"
                for one, other in zip(seen, self.recorded(InParts(width), plainly)[0]):
                    for value, wanted in zip(one, other):
                        torch.testing.assert_close(value, wanted)

    def test_a_part_is_added_where_the_one_before_it_is(self):
        # Lent, written, on its way from the device, and come from there.
        from paramd import _gradients

        def staged(done):
            cuda = FakeCuda()
            cuda.done = done
            return staged_by(cuda)

        seen = []
        for patch in (contextlib.nullcontext(),
                      unittest.mock.patch.object(_gradients, "may_be_lent",
                                                 lambda *_: False),
                      staged(False), staged(True)):
            self.run_dir += "-next"
            with patch:
                seen.append(self.recorded(InParts(40_000), batch_size=128)[0])
        for others in seen[1:]:
            self.assert_same_steps(seen[0], others)

    def test_rows_that_come_in_parts_are_added(self):
        from paramd._gradients import Gradients
        parameter = torch.nn.Parameter(torch.zeros(5, 2))
        gradients = Gradients(None, [("rows", parameter)], None, False)
        work = unittest.mock.Mock(gradients=[np.full((2, 2), 7, np.float32)],
                                  rows={0: np.array([1, 4])})
        for number, rows in enumerate(([4, 4], [1, 4])):
            gradient = torch.sparse_coo_tensor([rows], torch.ones(2, 2), (5, 2))
            gradients.take(0, gradient, work, adds=number == 1)
        self.assertEqual(work.gradients[0].tolist(), [[1, 1], [3, 3]])

    def test_a_gradient_whose_memory_is_not_its_own_is_copied(self):
        flat = torch.zeros(8 * 16)
        kept = []

        def into_a_buffer(gradient):
            flat.copy_(gradient.reshape(-1))
            return flat.view_as(gradient)

        def keep(gradient):
            kept.append(gradient.detach())

        def make(spoils=True):
            model = plain()
            if spoils:
                model[0].weight.register_hook(into_a_buffer)
                model[2].weight.register_hook(keep)
            return model

        def spoil(number, model):
            flat.fill_(float("nan"))
            for gradient in kept:
                gradient.fill_(float("nan"))

        from paramd import _gradients
        lent, given = [], _gradients.may_be_lent
        with unittest.mock.patch.object(
                _gradients, "may_be_lent",
                lambda *of: lent.append(given(*of)) or lent[-1]):
            seen, _ = self.recorded(make(), spoil)
        self.assertEqual(lent, [False, True, False, True] * len(seen))
        self.assert_same_steps(seen, self.copied(lambda: make(spoils=False)))

    def test_what_is_copied_is_not_kept_until_backward_ends(self):
        import weakref
        model, alive = wide().to(torch.bfloat16), []
        first = []
        model[2].bias.register_post_accumulate_grad_hook(
            lambda p: first.append(weakref.ref(p.grad)))
        worker = self.worker(model)  # Whose hooks are behind that one.
        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data, 64):
                hidden = model[0](x.bfloat16())
                hidden.register_hook(
                    lambda _: alive.extend(ref() is not None for ref in first))
                worker.step(F.cross_entropy(model[1:](hidden), y))
        self.assertTrue(alive)
        self.assertFalse(any(alive))

    def test_gradients_of_a_scaled_exception_are_in_no_other_step(self):
        def fail(gradient):
            raise KeyError("mine")

        model, scaler = plain(), torch.amp.GradScaler("cpu", init_scale=8.0)
        worker = self.worker(model)
        seen = []
        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data, 32):
                seen.append([p.detach().clone() for p in model.parameters()])
                hidden = on_the_way_back(model[:2](x).detach().requires_grad_(), fail)
                with self.assertRaisesRegex(KeyError, "mine"):
                    worker.step(F.cross_entropy(model[2:](hidden), y), scaler=scaler)
                self.assertEqual([p.grad for p in model.parameters()], [None] * 4)
                with unittest.mock.patch.object(worker._gradients, "_may_lend",
                                                lambda *_: fail(None)), \
                        self.assertRaisesRegex(KeyError, "mine"):
                    worker.step(F.cross_entropy(model(x), y), scaler=scaler)
                self.assertEqual([p.grad for p in model.parameters()], [None] * 4)
                worker.step(F.cross_entropy(model(x), y), scaler=scaler)
        self.assert_same_steps(seen, self.copied(plain))

    def test_gradients_of_an_exception_are_in_no_other_step(self):
        def fail(gradient):
            raise KeyError("mine")

        for make in (network, plain):
            self.run_dir += "-next"
            model = make()
            worker = self.worker(model)
            seen = []
            for epoch in worker.epochs(1):
                for x, y in epoch.batches(self.data, 32):
                    seen.append([p.detach().clone() for p in model.parameters()])
                    hidden = on_the_way_back(model[:2](x).detach().requires_grad_(),
                                             fail)
                    with self.assertRaisesRegex(KeyError, "mine"):
                        worker.step(F.cross_entropy(model[2:](hidden), y))
                    self.assertEqual([p.grad for p in model.parameters()],
                                     [None] * len(list(model.parameters())))
                    worker.step(F.cross_entropy(model(x), y))
            if make is plain:  # Of the other one the statistics were moved twice.
                self.assert_same_steps(seen, self.copied(make))

    def test_what_a_program_has_put_into_grad_is_added_and_stays_its_own(self):
        model = plain()
        worker = self.worker(model)
        mine = [torch.zeros_like(p) for p in model.parameters()]
        seen = []
        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data, 32):
                seen.append([p.detach().clone() for p in model.parameters()])
                for parameter, gradient in zip(model.parameters(), mine):
                    parameter.grad = gradient.zero_()
                worker.step(F.cross_entropy(model(x), y))
                for gradient in mine:  # Sent it may be still, from elsewhere.
                    gradient.fill_(float("nan"))
        self.assertTrue(worker.close())
        self.assert_same_steps(seen, self.copied(plain))

    def test_tensors_of_a_model_outlive_its_worker(self):
        import gc
        model = plain()
        kept = []
        seen, worker = self.recorded(
            model, lambda number, model: kept.append(model.state_dict()))
        del worker
        gc.collect()
        # As with PyTorch's optimizers these are the model's memory, not copies.
        places = {state["0.weight"].data_ptr() for state in kept}
        self.assertEqual(len(places), 2)
        for state in kept:
            self.assertTrue(torch.isfinite(state["0.weight"]).all())
        self.assertTrue(torch.equal(model[0].weight, seen[-1][0]))
        state = {name: value + 1 for name, value in model.state_dict().items()}
        model.load_state_dict(state)
        self.assertTrue(torch.equal(model[0].weight, seen[-1][0] + 1))
        self.run_dir += "-again"
        again, _ = self.recorded(model)  # By another worker, from there on.
        self.assertTrue(torch.equal(again[0][0], seen[-1][0] + 1))

    def test_what_is_evaluated_is_not_written_over_what_is_trained_on(self):
        evaluated = []

        def evaluate(model, x, y):
            evaluated.append(model[0].weight.detach().clone())
            return F.cross_entropy(model(x), y)

        settings = {"test": blobs(50), "evaluate": evaluate}
        seen, _ = self.recorded(plain(), epochs=3, **settings)
        self.assertGreater(len(evaluated), 1)
        self.assert_same_steps(seen, self.copied(plain, epochs=3, **settings))

    def test_a_graph_of_other_weights_does_not_go_backward(self):
        model = plain()
        worker = self.worker(model)
        before = None
        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data, 64):
                loss = F.cross_entropy(model(x), y)
                if before is not None:
                    with self.assertRaisesRegex(RuntimeError, "inplace operation"):
                        worker.step(before)
                worker.step(loss)
                before = F.cross_entropy(model(x), y)
        self.assertTrue(worker.close())

    def test_a_forked_process_leaves_the_model_alone(self):
        model = plain()

        def fork(number, model):
            if number != 2:
                return
            child = os.fork()
            if child == 0:
                with torch.no_grad():
                    for parameter in model.parameters():
                        parameter.zero_()
                os._exit(0)
            self.assertEqual(os.waitpid(child, 0)[1], 0)

        seen, _ = self.recorded(model, fork)
        self.assert_same_steps(seen, self.copied(plain))

    def test_a_tensor_data_set_is_read_as_its_examples(self):
        class Batched(torch.utils.data.Dataset):
            """As the first one, and says how it was asked."""
            asked = []

            def __init__(self, data):
                self.data = data

            def __len__(self):
                return len(self.data)

            def __getitem__(self, index):
                return self.data[index]

        class AtOnce(Batched):
            def __getitems__(self, indices):
                self.asked.append(len(indices))
                return [self.data[i] for i in indices]

        found = []
        for dataset in (self.data, Batched(self.data), AtOnce(self.data)):
            self.run_dir += "-next"
            worker = self.worker(model := plain())
            for epoch in worker.epochs(1):
                for batch in epoch.batches(dataset, 48):
                    self.assertIsInstance(batch, list)
                    found.append([part.tolist() for part in batch])
                    worker.step(F.cross_entropy(model(batch[0]), batch[1]))
        self.assertEqual(found[:6], found[6:12])
        self.assertEqual(found[:6], found[12:])
        self.assertEqual(sum(AtOnce.asked), len(self.data))


if __name__ == "__main__":
    unittest.main()
