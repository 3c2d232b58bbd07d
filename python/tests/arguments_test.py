"""Each public function with each optional argument left out: it works, or says in a
sentence what it needs. What needs PyTorch or Keras is skipped by name without it."""

import asyncio
import importlib
import inspect
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
os.environ["PARAMD"] = os.path.abspath("cli/paramd")
sys.path.insert(0, os.path.abspath("python"))

SGD = {"sgd": {}, "learning_rate": 0.1}
# What the functions that train take besides, as settings of the job.
SETTINGS = {"log_level": "error", "epochs": 1, "batch_size": 4}
# Nobody listens there.
NOWHERE = "127.0.0.1:1"


def optional_arguments(function):
    """The names of those that have a default."""
    return [a.name for a in inspect.signature(function).parameters.values()
            if a.default is not a.empty]


def public_functions(module, names):
    """(name, function) of functions and classes, and of their public methods."""
    for name in names:
        found = getattr(module, name)
        if inspect.isclass(found) and issubclass(found, (Exception, tuple)):
            continue  # Errors and results.
        if inspect.isclass(found):
            yield name, found
            for method, function in inspect.getmembers(found, inspect.isfunction):
                own = method in found.__dict__ and not method.startswith("_")
                if own and not isinstance(function, property):
                    yield f"{name}.{method}", function
        else:
            yield name, found


class ArgumentsCase:
    """A module's functions. A subclass has `module`, `names`, and for each function
    with optional arguments a method that calls it, `call_` and its name with dots as
    underscores, and `all_` and its name with all of the arguments."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.calls = 0

    def new_run(self):
        self.calls += 1
        return f"{self.directory}/run-{self.calls}"

    def functions(self):
        module = importlib.import_module(self.module)
        return [(name, function) for name, function
                in public_functions(module, self.names) if optional_arguments(function)]

    def test_each_optional_argument_may_be_left_out(self):
        import paramd
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, function in self.functions():
                word = name.replace(".", "_")
                every = getattr(self, f"all_{word}")()
                self.assertEqual(sorted(every), sorted(optional_arguments(function)),
                                 f"of {name}")
                for left_out in [None, *every]:
                    with self.subTest(function=name, left_out=left_out):
                        arguments = {key: value for key, value in every.items()
                                     if key != left_out}
                        try:
                            getattr(self, f"call_{word}")(**arguments)
                        except paramd.Error as error:
                            self.assertGreater(len(str(error)), 20)


@unittest.skipIf(np is None, "needs NumPy")
class PackageTest(ArgumentsCase, unittest.TestCase):
    module = "paramd"
    names = ["Worker", "Shards", "Stream", "local", "load", "Client", "AsyncClient"]

    def all_Worker(self):
        return {"evaluate": lambda weights, indices: 0.5, "test_examples": 8,
                "job": {"name": "mine"}, "insecure": False, "tls_dir": None}

    def call_Worker(self, **arguments):
        import paramd
        worker = paramd.Worker(
            {"w": np.zeros(2)}, lambda weights, indices: (1.0, {"w": np.ones(2)}),
            examples=16, optimizer=SGD, run_dir=self.new_run(), **SETTINGS, **arguments)
        self.assertTrue((worker.train()["w"] < 0).all())

    def all_Shards(self):
        return {"examples": [3, 4], "shuffle": False, "seed": 7, "seeks": True}

    def call_Shards(self, **arguments):
        import paramd
        shards = paramd.Shards(
            [3, 4], lambda count, begin=0: iter(range(begin, count)), **arguments)
        self.assertEqual(len(shards.read(1, np.arange(7))), 7)

    def all_local(self):
        return {"servers": 1, "workers": [[sys.executable, "-c", "pass"]]}

    def call_local(self, **arguments):
        import paramd
        with paramd.local(directory=self.new_run(), **arguments):
            pass

    def all_load(self):
        return {"slots": True}

    def call_load(self, **arguments):
        import paramd
        self.call_Worker()
        found = paramd.load(f"{self.directory}/run-{self.calls}", **arguments)
        self.assertIn("w", found)

    def all_Client(self):
        return {"tls_dir": None, "timeout_seconds": 0.2}

    def call_Client(self, **arguments):
        import paramd
        paramd.Client(NOWHERE, **arguments)

    def client(self):
        import paramd
        return paramd.Client(NOWHERE, timeout_seconds=0.2)

    def all_Client_pull(self):
        return {"names": ["w"], "timeout_seconds": 0.2}

    def call_Client_pull(self, names=None, timeout_seconds=0.2):
        # Without its own time it would be waited for.
        self.client().pull(names, timeout_seconds=timeout_seconds)

    def all_Client_set(self):
        return {"run_dir": self.directory, "timeout_seconds": 0.2}

    def call_Client_set(self, **arguments):
        self.client().set("staleness", 3, **arguments)

    def all_Client_checkpoint(self):
        return {"run_dir": self.directory, "timeout_seconds": 0.2}

    def call_Client_checkpoint(self, **arguments):
        self.client().checkpoint(**arguments)

    def asynchronous(self):
        import paramd
        return paramd.AsyncClient(NOWHERE, timeout_seconds=0.2)

    all_AsyncClient = all_Client
    all_AsyncClient_pull = all_Client_pull
    all_AsyncClient_set = all_Client_set
    all_AsyncClient_checkpoint = all_Client_checkpoint

    def call_AsyncClient(self, **arguments):
        import paramd
        paramd.AsyncClient(NOWHERE, **arguments)

    def call_AsyncClient_pull(self, names=None, timeout_seconds=0.2):
        asyncio.run(self.asynchronous().pull(names, timeout_seconds=timeout_seconds))

    def call_AsyncClient_set(self, **arguments):
        asyncio.run(self.asynchronous().set("staleness", 3, **arguments))

    def call_AsyncClient_checkpoint(self, **arguments):
        asyncio.run(self.asynchronous().checkpoint(**arguments))


def rows_of(x, y=None):
    """Of a table of 32 rows."""
    del y
    return x.long()


@unittest.skipIf(torch is None or np is None, "needs PyTorch")
class TorchTest(ArgumentsCase, unittest.TestCase):
    module = "paramd.torch"
    names = ["Worker", "Epoch", "load"]

    def setUp(self):
        super().setUp()
        self.data = torch.utils.data.TensorDataset(
            torch.arange(16) % 32, torch.arange(16.0))

    def network(self):
        torch.manual_seed(3)
        return torch.nn.Sequential(torch.nn.Embedding(32, 4, sparse=True),
                                   torch.nn.Linear(4, 1))

    def train(self, worker, step=lambda worker, loss: worker.step(loss), count=1,
              **of_batches):
        steps = 0
        for epoch in worker.epochs() if count is None else worker.epochs(count):
            batches = epoch.batches(self.data, **of_batches)
            for x, y in batches:
                step(worker, ((worker.model(x)[:, 0] - y) ** 2).mean())
                steps += 1
        self.assertGreater(steps, 0)

    def worker(self, **arguments):
        import paramd.torch as ps
        return ps.Worker(self.network(), **dict(
            {"optimizer": SGD, "run_dir": self.new_run(), **SETTINGS}, **arguments))

    def all_Worker(self):
        return {"model": self.network(), "optimizer": SGD,
                "job": {"name": "mine", "optimizer": SGD}, "test": self.data,
                "evaluate": lambda model, x, y: ((model(x)[:, 0] - y) ** 2).mean(),
                "test_collate_fn": torch.utils.data.default_collate,
                "lookups": {"0.weight": rows_of}, "missing_gradients": "error",
                "clip_grad_norm": 1.0,
                "stages": 2, "micro_batches": 4, "schedule": "interleaved",
                "stages_per_device": 2,
                "insecure": False, "tls_dir": None}

    def call_Worker(self, **arguments):
        import paramd.torch as ps
        self.train(ps.Worker(run_dir=self.new_run(), **SETTINGS, **arguments))

    def test_lookups_need_no_test_data(self):
        every = self.all_Worker()
        del every["test"], every["evaluate"]
        self.call_Worker(**every)

    def test_a_model_or_its_stages_are_enough(self):
        self.call_Worker(model=self.network(), optimizer=SGD)
        self.call_Worker(stages=list(self.network()), optimizer=SGD)

    def all_Worker_epochs(self):
        return {"count": 1}

    def call_Worker_epochs(self, count=None):
        self.train(self.worker(), count=count)

    def all_Worker_step(self):
        return {"scaler": None, "backward": False, "only": lambda model: model[1]}

    def call_Worker_step(self, **arguments):
        only = arguments.pop("only", None)

        def step(worker, loss):
            if not arguments.get("backward", True):
                loss.backward()
            if only is not None:
                arguments["only"] = only(worker.model)
            worker.step(loss, **arguments)
        self.train(self.worker(), step)

    def all_Epoch_batches(self):
        return {"batch_size": 4, "collate_fn": torch.utils.data.default_collate,
                "num_workers": 0, "examples": None}

    def call_Epoch_batches(self, **arguments):
        self.train(self.worker(), **arguments)


@unittest.skipIf(keras is None or torch is None or np is None,
                 "needs Keras and PyTorch")
class KerasTest(ArgumentsCase, unittest.TestCase):
    module = "paramd.keras"
    names = ["fit", "Optimizer", "Callback", "load", "Worker"]

    def setUp(self):
        super().setUp()
        self.x = np.arange(48, dtype=np.float32).reshape(16, 3) / 48
        self.y = self.x.sum(1, keepdims=True)

    def network(self, **compiled):
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        model.compile(loss="mse", **compiled)
        return model

    def all_fit(self):
        return {"y": self.y, "optimizer": SGD, "epochs": 1, "batch_size": 4,
                "validation_data": (self.x, self.y),
                "callbacks": [keras.callbacks.Callback()], "verbose": 0}

    def call_fit(self, y=None, **arguments):
        from paramd import keras as pk
        pk.fit(self.network(), self.x, y, run_dir=self.new_run(), log_level="error",
               **arguments)

    def all_Optimizer(self):
        return {"name": "mine"}

    def call_Optimizer(self, **arguments):
        from paramd import keras as pk
        pk.fit(self.network(optimizer=pk.Optimizer(SGD, **arguments)), self.x, self.y,
               run_dir=self.new_run(), log_level="error")

    def all_Optimizer_apply(self):
        return {"trainable_variables": None}

    def call_Optimizer_apply(self, **arguments):
        from paramd import keras as pk
        optimizer = pk.Optimizer(SGD)
        optimizer.serves = True
        optimizer.apply([], **arguments)

    def all_Callback(self):
        return {"batch_size": 4, "epochs": 1}

    def call_Callback(self, **arguments):
        self.fit_with(lambda callback, method: None, **arguments)

    def fit_with(self, each, **arguments):
        from paramd import keras as pk
        model = self.network(optimizer=pk.Optimizer(SGD))
        callback = pk.Callback(examples=16, run_dir=self.new_run(), log_level="error",
                               **arguments)
        model.fit(self.x, self.y, batch_size=4, epochs=100, verbose=0,
                  callbacks=[callback])

    def all_logs(self):
        return {"logs": {"loss": 1.0}}

    all_Callback_on_train_begin = all_logs
    all_Callback_on_epoch_begin = all_logs
    all_Callback_on_train_batch_end = all_logs
    all_Callback_on_train_end = all_logs

    def begun(self):
        """A callback in the middle of a job."""
        from paramd import keras as pk
        model = self.network(optimizer=pk.Optimizer(SGD))
        callback = pk.Callback(examples=16, batch_size=4, run_dir=self.new_run(),
                               log_level="error")
        callback.set_model(model)
        callback.on_train_begin()
        self.addCleanup(callback.close)
        return callback

    def call_Callback_on_train_begin(self, **arguments):
        self.begun().on_train_begin(**arguments)

    def call_Callback_on_epoch_begin(self, **arguments):
        self.begun().on_epoch_begin(0, **arguments)

    def call_Callback_on_train_batch_end(self, **arguments):
        self.begun().on_train_batch_end(0, **arguments)

    def call_Callback_on_train_end(self, **arguments):
        self.begun().on_train_end(**arguments)

    def all_Worker(self):
        return TorchTest.all_Worker(self) | {
            "lookups": None, "missing_gradients": "zeros", "stages": None,
            "micro_batches": 16, "schedule": "1f1b", "stages_per_device": 1}

    @property
    def data(self):
        """As PyTorch reads it."""
        return torch.utils.data.TensorDataset(torch.from_numpy(self.x),
                                              torch.from_numpy(self.y))

    def call_Worker(self, evaluate=None, **arguments):
        from paramd import keras as pk
        if evaluate is not None:
            arguments["evaluate"] = lambda model, x, y: ((model(x) - y) ** 2).mean()
        worker = pk.Worker(run_dir=self.new_run(), **SETTINGS, **arguments)
        model = worker.model
        for epoch in worker.epochs(1):
            for x, y in epoch.batches(self.data):
                worker.step(((model(x) - y) ** 2).mean())

    def test_a_model_is_not_cut(self):
        import paramd
        from paramd import keras as pk
        for stages in (1, 2, [1], [self.network()]):
            with self.subTest(stages=stages):
                with self.assertRaisesRegex(paramd.Error, "leave out stages="):
                    pk.Worker(self.network(), optimizer=SGD, stages=stages)


if __name__ == "__main__":
    unittest.main()
