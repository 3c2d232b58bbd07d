"""A script of each front end, run again: its model is the job's from its begin to its
end. A front end that needs what is not installed is skipped by name."""

import os
import sys
import tempfile
import unittest
import warnings

os.environ["KERAS_BACKEND"] = "torch"

try:
    import numpy as np
except ImportError:
    np = None
try:
    import torch
except ImportError:
    torch = None
try:
    import keras
except ImportError:
    keras = None

os.environ["LIBPARAMD"] = os.path.abspath("program/libparamd.so")
sys.path.insert(0, os.path.abspath("python"))

EXAMPLES, BATCH = 64, 16
# What moves statistics and has momentum goes on moving.
SETTINGS = {"optimizer": {"sgd": {"momentum": 0.9}, "learning_rate": 0.05},
            "log_level": "error"}


def points():
    """Of a line."""
    x = np.random.default_rng(5).normal(size=(EXAMPLES, 3)).astype(np.float32)
    return x, (x @ np.array([3, -1, 2], np.float32) + 1)[:, None]


class Interrupted(Exception):
    """Ends a loop before its job."""


class Seen:
    """What one run of a script has seen.

    Attributes:
      begin: the model as the loop began, by variable.
      epochs: the number of each batch's epoch.
      end: the model behind the loop.
    """

    def __init__(self):
        self.begin = None
        self.epochs = []
        self.end = None

    def batch(self, epoch, stop_at):
        """A batch of this epoch, behind which the loop is interrupted if it is the
        last one that it may have."""
        self.epochs.append(epoch)
        if len(self.epochs) == stop_at:
            raise Interrupted


class AgainCase:
    """What holds of every front end. A subclass has `run`, which trains a model of
    other initial values each time."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.run_dir = directory.name + "/run"
        self.runs = 0

    def script(self, epochs, stop_at=0):
        """What a script has seen, and whether it warned that all is trained."""
        seen = Seen()
        self.runs += 1
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                self.run_front_end(seen, self.runs, stop_at, epochs=epochs,
                                   run_dir=self.run_dir, **SETTINGS)
            except Interrupted:
                pass
        return seen, any("are trained already" in str(w.message) for w in said)

    def saved(self):
        import paramd
        return paramd.load(self.run_dir)

    def assert_model(self, model, saved):
        self.assertEqual(sorted(model), sorted(saved))
        for name, values in saved.items():
            np.testing.assert_array_equal(model[name], values, err_msg=name)

    def test_behind_the_loop_the_model_is_the_checkpoint(self):
        seen, warned = self.script(2)
        self.assertEqual(seen.epochs, [1] * 4 + [2] * 4)
        self.assert_model(seen.end, self.saved())
        self.assertFalse(warned)

    def test_a_finished_job_gives_its_weights_and_trains_nothing(self):
        self.script(2)
        before = self.saved()
        again, warned = self.script(2)
        self.assertTrue(warned)
        self.assertEqual(again.epochs, [])
        self.assert_model(again.end, before)
        self.assert_model(self.saved(), before)

    def test_more_epochs_begin_behind_the_last_one_with_its_weights(self):
        self.script(2)
        before = self.saved()
        more, warned = self.script(3)
        self.assertFalse(warned)
        self.assert_model(more.begin, before)
        self.assertEqual(more.epochs, [3] * 4)
        self.assert_model(more.end, self.saved())

    def test_a_loop_that_was_interrupted_begins_in_its_epoch(self):
        self.script(3, stop_at=6)
        before = self.saved()
        rest, _ = self.script(3)
        self.assert_model(rest.begin, before)
        self.assertEqual(set(rest.epochs), {2, 3})
        self.assert_model(rest.end, self.saved())


@unittest.skipIf(np is None, "needs NumPy")
class NumPyTest(AgainCase, unittest.TestCase):

    def run_front_end(self, seen, run, stop_at, epochs, **settings):
        import paramd
        x, y = points()
        worker = None

        def gradient(weights, indices):
            seen.batch(0, stop_at)
            error = x[indices] @ weights["w"] + weights["b"] - y[indices][:, 0]
            return (error ** 2).mean(), {"w": 2 * x[indices].T @ error / len(error),
                                         "b": 2 * error.mean()}

        worker = paramd.Worker({"w": np.full(3, run), "b": np.float32(run)}, gradient,
                               examples=EXAMPLES, batch_size=BATCH, epochs=epochs,
                               **settings)
        seen.begin = dict(worker.weights)
        seen.end = worker.train()
        # A gradient function is not told the epoch.
        left = len(seen.epochs)
        seen.epochs = [epochs - (left - 1 - i) // 4 for i in range(left)]


class OfTorch(AgainCase):
    """Models of PyTorch's, with statistics."""

    def network(self, run):
        torch.manual_seed(run)
        return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.BatchNorm1d(5),
                                   torch.nn.ReLU(), torch.nn.Linear(5, 1))

    def values(self, model):
        return {name: value.detach().numpy().copy()
                for name, value in model.state_dict().items()
                if value.is_floating_point()}


@unittest.skipIf(torch is None or np is None, "needs PyTorch")
class TorchTest(OfTorch, unittest.TestCase):

    def run_front_end(self, seen, run, stop_at, epochs, **settings):
        import paramd.torch as ps
        x, y = map(torch.from_numpy, points())
        model = self.network(run)
        worker = ps.Worker(model, **settings)
        data = torch.utils.data.TensorDataset(x, y)
        for epoch in worker.epochs(epochs):
            if seen.begin is None:
                seen.begin = self.values(model)
            batches = 0
            for x, y in epoch.batches(data, BATCH):
                loss = ((model(x) - y) ** 2).mean()
                worker.step(loss)
                batches += 1
                seen.batch(epoch.number, stop_at)
            self.assertGreater(batches, 0)
        seen.end = self.values(model)

    def test_an_epoch_is_never_empty_and_says_its_number_before_its_batches(self):
        import paramd.torch as ps
        self.script(3, stop_at=6)
        x, y = map(torch.from_numpy, points())
        model = self.network(9)
        worker = ps.Worker(model, run_dir=self.run_dir, **SETTINGS)
        numbers = []
        for epoch in worker.epochs(3):
            numbers.append(epoch.number)
            for x_, y_ in epoch.batches(torch.utils.data.TensorDataset(x, y), BATCH):
                worker.step(((model(x_) - y_) ** 2).mean())
        self.assertEqual(numbers, [2, 3])

    def test_files_that_are_gone_when_the_job_has_finished_are_not_needed(self):
        import paramd
        import paramd.torch as ps
        x, y = map(torch.from_numpy, points())
        model = self.network(1)
        worker = ps.Worker(model, run_dir=self.run_dir, **SETTINGS)
        shards = paramd.Shards([0, 32], lambda begin: zip(x[begin:][:32],
                                                          y[begin:][:32]),
                               examples=[32, 32])
        for epoch in worker.epochs(1):
            for x_, y_ in epoch.batches(shards, BATCH):
                worker.step(((model(x_) - y_) ** 2).mean())
        again = self.network(2)
        with warnings.catch_warnings(record=True):
            self.assertEqual(list(ps.Worker(again, run_dir=self.run_dir,
                                            **SETTINGS).epochs(1)), [])
        self.assert_model(self.values(again), self.saved())


class OfKeras(AgainCase):
    """Models of Keras's, with statistics."""

    def network(self, run):
        keras.utils.set_random_seed(run)
        model = keras.Sequential(
            [keras.Input((3,)), keras.layers.Dense(5, name="one"),
             keras.layers.BatchNormalization(name="norm"),
             keras.layers.Dense(1, name="two")])
        return model

    def values(self, model):
        from paramd import keras as pk
        trained, other = pk._travelling(model)
        return {name: keras.ops.convert_to_numpy(variable).copy()
                for name, variable in trained + other}


def watching(seen, values):
    """A callback of Keras's that sees a loop."""

    class Watch(keras.callbacks.Callback):

        def on_train_begin(self, logs=None):
            seen.begin = values(self.model)

        def on_epoch_begin(self, epoch, logs=None):
            seen.epoch = epoch + 1

    return Watch()


@unittest.skipIf(keras is None or torch is None or np is None,
                 "needs Keras and PyTorch")
class KerasFitTest(OfKeras, unittest.TestCase):

    def run_front_end(self, seen, run, stop_at, epochs, **settings):
        import paramd.keras as pk
        model = self.network(run)
        model.compile(loss="mse")
        watch = watching(seen, self.values)
        watch.on_train_batch_end = lambda batch, logs=None: seen.batch(
            seen.epoch, stop_at)
        pk.fit(model, *points(), epochs=epochs, batch_size=BATCH, callbacks=[watch],
               **settings)
        seen.end = self.values(model)


@unittest.skipIf(keras is None or torch is None or np is None,
                 "needs Keras and PyTorch")
class KerasCallbackTest(OfKeras, unittest.TestCase):

    def run_front_end(self, seen, run, stop_at, epochs, optimizer, **settings):
        import paramd.keras as pk
        x, y = points()
        model = self.network(run)
        model.compile(optimizer=pk.Optimizer(optimizer), loss="mse")

        class Counted(pk.Callback):

            def on_train_batch_end(self, batch, logs=None):
                held = self._training._session.held
                if held is not None:
                    epoch = held.epoch
                super().on_train_batch_end(batch, logs)
                if held is not None:
                    seen.batch(epoch, stop_at)

        ours = Counted(examples=EXAMPLES, batch_size=BATCH, epochs=epochs, **settings)
        try:
            model.fit(x, y, batch_size=BATCH, epochs=100, verbose=0,
                      callbacks=[ours, watching(seen, self.values)])
        finally:
            ours.close()
        seen.end = self.values(model)


@unittest.skipIf(keras is None or torch is None or np is None,
                 "needs Keras and PyTorch")
class KerasWorkerTest(OfKeras, unittest.TestCase):

    def run_front_end(self, seen, run, stop_at, epochs, **settings):
        import paramd.keras as pk
        x, y = map(torch.from_numpy, points())
        model = self.network(run)
        worker = pk.Worker(model, **settings)
        for epoch in worker.epochs(epochs):
            if seen.begin is None:
                seen.begin = self.values(model)
            for x_, y_ in epoch.batches(torch.utils.data.TensorDataset(x, y), BATCH):
                worker.step(((model(x_, training=True) - y_) ** 2).mean())
                seen.batch(epoch.number, stop_at)
        seen.end = self.values(model)


if __name__ == "__main__":
    unittest.main()
