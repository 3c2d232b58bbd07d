"""Workers in Python, with everything in one process."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import warnings

try:
    import numpy as np
except ImportError:
    np = None

LIBRARY = os.path.abspath("program/libparamd.so")
PROGRAM = os.path.abspath("cli/paramd")
os.environ["LIBPARAMD"] = LIBRARY
os.environ["PARAMD"] = PROGRAM
os.environ["PYTHONPATH"] = os.path.abspath("python")
sys.path.insert(0, os.path.abspath("python"))

SGD = {"sgd": {}, "learning_rate": 0.2}


def line_gradient(weights, indices):
    """Of y = 3x - 1 over 64 points."""
    x = indices / 64
    error = weights["w"] * x + weights["b"] - (3 * x - 1)
    return (error ** 2).mean(), {"w": 2 * (error * x).mean(),
                                 "b": 2 * error.mean()}


class ImportTest(unittest.TestCase):

    def test_the_import_loads_neither_numpy_nor_pytorch_nor_the_library(self):
        code = ("import sys, paramd; "
                "sys.exit(any(m in sys.modules for m in ('numpy', 'torch', "
                "'ctypes')))")
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_a_library_that_is_not_there_is_one_sentence(self):
        code = ("import paramd._native as n\n"
                "try:\n n.library()\n"
                "except Exception as e:\n print(e)")
        said = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True,
            text=True, env=dict(os.environ, LIBPARAMD="/nowhere.so")).stdout
        self.assertIn("'/nowhere.so' can't be loaded", said)

    def test_a_library_of_another_version_is_refused(self):
        code = ("import paramd._native as n\n"
                "n.__version__ = '9.9'\n"
                "try:\n n.library()\n"
                "except Exception as e:\n print(e)")
        said = subprocess.run([sys.executable, "-c", code], check=True,
                              capture_output=True, text=True).stdout
        self.assertIn("this package is 9.9: install both of one version", said)

    def fake_program(self, body):
        """A program in place of the daemon, of this version."""
        import paramd
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = directory.name + "/paramd"
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n[ $1 = version ] && exec echo "
                       f"'paramd {paramd.__version__} (commit x)'\n{body}\n")
        os.chmod(path, 0o700)
        os.environ["PARAMD"] = path
        self.addCleanup(os.environ.__setitem__, "PARAMD", PROGRAM)
        return path

    def test_a_daemon_of_another_version_is_refused(self):
        import paramd
        path = self.fake_program("")
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho 'paramd 9.9 (commit x)'\n")
        with self.assertRaisesRegex(paramd.Error, "is paramd 9.9; this package is"):
            paramd.Client("a:1").status()

    def test_a_program_that_does_not_end_is_not_waited_for(self):
        import paramd
        from paramd import client
        self.fake_program("exec sleep 600")
        client._EXIT_SECONDS, before = 0, client._EXIT_SECONDS
        self.addCleanup(setattr, client, "_EXIT_SECONDS", before)
        with self.assertRaisesRegex(paramd.Unavailable, "`paramd set` did not end"):
            paramd.Client("a:1").set("staleness", 4, run_dir="r",
                                     timeout_seconds=0.5)

    def test_tf_config_is_read(self):
        from paramd import InvalidArgument, TFConfig
        os.environ["TF_CONFIG"] = json.dumps(
            {"cluster": {"ps": ["a:1"], "worker": ["b:1"]},
             "task": {"type": "worker", "index": 0}})
        try:
            config = TFConfig.from_environment()
            self.assertEqual(config.cluster["ps"], ["a:1"])
            self.assertEqual((config.task_type, config.task_index), ("worker", 0))
            self.assertEqual(json.loads(config.to_json())["task"]["index"], 0)
            os.environ["TF_CONFIG"] = "{"
            with self.assertRaisesRegex(InvalidArgument, "TF_CONFIG"):
                TFConfig.from_environment()
        finally:
            del os.environ["TF_CONFIG"]


class ErrorsTest(unittest.TestCase):

    def test_flags_are_called_as_python_calls_them(self):
        from paramd import _errors
        for said, meant in (
                ("the chief needs --run_dir, where it goes on",
                 "the chief needs run_dir=, where it goes on"),
                ("give --insecure or --tls_dir", "give insecure=True or tls_dir="),
                ("`paramd tls init --job python` makes one; --run_dir names it",
                 "`paramd tls init --job python` makes one; run_dir= names it"),
                ("a line -- of text, and x--y", "a line -- of text, and x--y")):
            self.assertEqual(_errors.in_python(said), meant)
            self.assertEqual(str(_errors.make(3, said)), meant)

    def test_a_chief_without_a_directory_is_told_of_the_argument(self):
        code = ("import paramd\n"
                "try:\n"
                "  paramd.Worker({'w': [0.0]}, None, examples=1,"
                " optimizer={'sgd': {}, 'learning_rate': 1})\n"
                "except paramd.InvalidArgument as error:\n"
                "  print(error)\n")
        said = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True,
            env=dict(os.environ, TF_CONFIG=json.dumps(
                {"cluster": {"ps": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"]},
                 "task": {"type": "worker", "index": 0}}))).stdout
        self.assertIn("run_dir is missing: in a cluster the chief needs run_dir=", said)


class JobTest(unittest.TestCase):
    CLUSTER = {"ps": ["a:1"], "worker": ["b:1"]}

    def checkpoint(self, cluster, environment=(), **settings):
        from paramd import _job
        changed = dict(environment, TF_CONFIG=json.dumps({"cluster": cluster}))
        with unittest.mock.patch.dict(os.environ, changed):
            return _job.read(None, settings).get("checkpoint")

    def test_with_servers_checkpoints_are_written_unless_somebody_says_when(self):
        self.assertEqual(self.checkpoint(self.CLUSTER), {"every_seconds": 60})
        self.assertEqual(self.checkpoint(self.CLUSTER, checkpoint={"keep": 9}),
                         {"keep": 9, "every_seconds": 60})
        self.assertIsNone(self.checkpoint({"worker": ["b:1"]}))
        for said in ({"every_steps": 5}, {"every_steps": 0}, {"every_seconds": 7}):
            self.assertEqual(self.checkpoint(self.CLUSTER, checkpoint=said), said)
        self.assertIsNone(self.checkpoint(self.CLUSTER,
                                          backup_and_restore={"directory": "b"}))
        self.assertIsNone(self.checkpoint(
            self.CLUSTER, {"PARAMD_CHECKPOINT_EVERY_STEPS": "9"}))

    def test_a_directory_that_nobody_chose_is_said(self):
        code = ("import paramd, numpy\n"
                "paramd.Worker({'w': numpy.zeros(1)}, lambda w, i: (0.0, {}),"
                " examples=1, optimizer={'sgd': {}, 'learning_rate': 1}%s).train()\n")
        with tempfile.TemporaryDirectory() as directory:
            for more, named in (("", True), (", run_dir='mine'", False)):
                said = subprocess.run(
                    [sys.executable, "-c", code % more], check=True, cwd=directory,
                    capture_output=True, text=True).stderr
                self.assertEqual("result.json go to 'runs/python-1'" in said, named,
                                 said)
            self.assertTrue(os.path.exists(directory + "/runs/python-1/result.json"))


@unittest.skipIf(np is None, "needs NumPy")
class OneProcessTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.run_dir = self.directory.name + "/run"

    def worker(self, gradient=line_gradient, **settings):
        import paramd
        settings = dict({"epochs": 60, "batch_size": 8, "optimizer": SGD,
                         "run_dir": self.run_dir, "log_level": "error"},
                        **settings)
        return paramd.Worker({"w": 2.0, "b": 0.5}, gradient, examples=64,
                             **settings)

    def test_a_function_is_trained_and_its_checkpoint_is_loaded(self):
        import paramd
        evaluated = []

        def evaluate(weights, indices):
            evaluated.extend(indices)
            return 0.25, 1

        weights = self.worker(evaluate=evaluate, test_examples=10).train()
        self.assertAlmostEqual(float(weights["w"]), 3, delta=0.1)
        saved = paramd.load(self.run_dir)
        self.assertAlmostEqual(float(saved["w"]), 3, delta=0.1)
        self.assertEqual(saved["w"].shape, ())
        self.assertEqual(sorted(set(evaluated)), list(range(10)))
        with open(self.run_dir + "/result.json", encoding="utf-8") as file:
            evaluation = json.load(file)["evaluation"]
        self.assertEqual(evaluation["loss"], 0.25)

    def test_replicas_are_one_function_that_is_called_for_each(self):
        # 64 examples are four steps of three batches of 5, and one of 4.
        expected = {}
        for strategy, settings in (
                ("one_device", {"accumulate": 3}), ("mirrored", {"replicas": 3}),
                ("central_storage", {"replicas": 3}),
                ("parameter_server", {"replicas": 3, "staleness": "sync"})):
            with self.subTest(strategy=strategy):
                seen = []

                def gradient(weights, indices):
                    seen.append(list(indices))
                    return line_gradient(weights, indices)

                weights = self.worker(
                    gradient, strategy=strategy, epochs=3, batch_size=5,
                    optimizer={"sgd": {"momentum": 0.9}, "learning_rate": 0.1},
                    run_dir=f"{self.run_dir}-{strategy}", **settings).train()
                found = {"seen": seen, "w": weights["w"].tobytes(),
                         "b": weights["b"].tobytes()}
                expected = expected or found
                self.assertEqual(3 * 13, len(seen))
                self.assertEqual(expected, found)

    def test_slots_are_loaded_where_they_are_asked_for(self):
        import paramd
        self.worker(optimizer={"adam": {}, "learning_rate": 0.1},
                    epochs=1).train()
        names = set(paramd.load(self.run_dir, slots=True))
        self.assertIn("w/slot:momentum", names)
        self.assertNotIn("w/slot:momentum", paramd.load(self.run_dir))

    def test_slots_of_rows_have_a_number_for_each(self):
        from paramd import checkpoint
        manifest = {"variables": [{"name": "a/t", "shape": ["4", "2"]}]}
        slots = ("key", "used", "sketch", "steps", "row_accumulator")
        parts = {f"a/t/slot:{slot}": [(2, np.array([3, 4])), (0, np.array([1, 2]))]
                 for slot in slots}
        parts["a/t"] = parts["a/t/slot:momentum"] = [(0, np.arange(8))]
        joined = checkpoint._join(manifest, parts)
        for slot in slots:
            self.assertEqual(joined[f"a/t/slot:{slot}"].tolist(), [1, 2, 3, 4])
        for name in ("a/t", "a/t/slot:momentum"):
            self.assertEqual(joined[name].tolist(), [[0, 1], [2, 3], [4, 5], [6, 7]])

    def test_there_is_no_checkpoint_where_there_is_none(self):
        import paramd
        with self.assertRaisesRegex(paramd.InvalidArgument, "no checkpoint"):
            paramd.load(self.directory.name)

    def test_a_checkpoint_that_is_damaged_is_refused_naming_the_file(self):
        import paramd
        self.worker(epochs=1).train()
        self.assertEqual(set(paramd.load(self.run_dir)), {"w", "b"})
        checkpoint = sorted(pathlib.Path(self.run_dir, "checkpoints").glob("[0-9]*"))
        tensors = next(checkpoint[-1].glob("*.safetensors"))
        manifest = checkpoint[-1] / "manifest.json"
        for path, change, said in (
                (tensors, lambda old: old[:-1], "it was written with"),
                (tensors, lambda old: old[:-1] + bytes([old[-1] ^ 1]), "crc32c"),
                (tensors, lambda old: b"", "it has 0 bytes"),
                (manifest, lambda old: old.replace(b"w", b"v"), "crc32c")):
            with self.subTest(said=said, path=path.name):
                old = path.read_bytes()
                path.write_bytes(change(old))
                with self.assertRaisesRegex(paramd.InvalidArgument, said) as caught:
                    paramd.load(self.run_dir)
                self.assertIn(path.name, str(caught.exception))
                path.write_bytes(old)
        for path in (tensors, manifest, checkpoint[-1] / "manifest.crc32c"):
            old = path.read_bytes()
            for at in range(0, len(old), 41):
                path.write_bytes(old[:at] + bytes([old[at] ^ 1 << at % 8])
                                 + old[at + 1:])
                with self.assertRaises(paramd.InvalidArgument,
                                       msg=f"{path.name} byte {at}"):
                    paramd.load(self.run_dir)
            path.write_bytes(old)
        self.assertEqual(set(paramd.load(self.run_dir)), {"w", "b"})
        for path in (tensors, manifest):
            old = path.read_bytes()
            path.unlink()
            with self.assertRaisesRegex(paramd.InvalidArgument, "can't be read"):
                paramd.load(self.run_dir)
            path.write_bytes(old)

    def test_numbers_that_numpy_does_not_have_are_named(self):
        from paramd import checkpoint
        with self.assertRaisesRegex(checkpoint._Damaged, "numbers are F8_E5M2"):
            checkpoint._tensor(np.zeros(4, np.uint8),
                               {"dtype": "F8_E5M2", "data_offsets": [0, 4]})
        with self.assertRaisesRegex(checkpoint._Damaged, "beyond its end"):
            checkpoint._tensor(np.zeros(4, np.uint8),
                               {"dtype": "F32", "data_offsets": [0, 8]})

    def test_rows_of_bf16_are_read_as_float32(self):
        from paramd import checkpoint
        tensor = checkpoint._tensor(
            np.array([0x80, 0x3F, 0x40, 0xC0], np.uint8),
            {"dtype": "BF16", "data_offsets": [0, 4], "shape": [2, 1]})
        self.assertEqual(tensor.dtype, np.float32)
        self.assertEqual(tensor.tolist(), [[1], [-3]])

    def test_a_mistake_in_the_job_is_named(self):
        import paramd
        with self.assertRaisesRegex(paramd.InvalidArgument, "epochs.*whole number"):
            self.worker(epochs="none")
        with self.assertRaisesRegex(paramd.InvalidArgument, "unknown key"):
            self.worker(epoch=3)

    def test_a_launcher_that_names_no_cluster_is_warned_of(self):
        os.environ["WORLD_SIZE"] = "4"
        self.addCleanup(os.environ.pop, "WORLD_SIZE")
        with self.assertWarnsRegex(RuntimeWarning, "WORLD_SIZE is 4, but TF_CONFIG"):
            self.worker(epochs=1).train()

    def test_settings_are_what_a_job_file_has(self):
        from paramd import InvalidArgument, _job
        read = _job.read(None, {
            "run_dir": pathlib.Path("/tmp/run"), "seed": np.int64(7),
            "optimizer": {"adam": {}, "learning_rate": np.float64(0.5)}})
        self.assertEqual((read["run_dir"], read["seed"]), ("/tmp/run", 7))
        self.assertEqual(read["optimizer"]["learning_rate"], 0.5)
        with self.assertRaisesRegex(
                InvalidArgument, "optimizer: the servers have it, .*found a .*Encoder"):
            _job.read(None, {"optimizer": json.JSONEncoder()})
        with self.assertRaisesRegex(InvalidArgument, "checkpoint: settings are "):
            _job.read({"checkpoint": {"every_steps": object()}}, {})

    def test_a_gradient_that_is_not_finite_is_refused_by_name(self):
        import paramd

        def gradient(weights, indices):
            return 1.0, {"w": 0.0, "b": float("nan")}

        with self.assertRaisesRegex(paramd.NotFinite, "gradient of 'b'"):
            self.worker(gradient).train()

    def test_gradients_are_clipped_by_the_norm_of_all(self):
        from paramd import NotFinite
        rate, most, batches = 0.2, 0.25, []

        def gradient(weights, indices):
            batches.append(indices)
            return line_gradient(weights, indices)

        trained = self.worker(gradient, epochs=2, optimizer={
            **SGD, "clip_global_norm": most}).train()
        weights = {"w": np.float32(2), "b": np.float32(0.5)}
        for indices in batches:
            _, gradients = line_gradient(weights, indices)
            norm = np.sqrt(sum(value ** 2 for value in gradients.values()))
            for name, value in gradients.items():
                weights[name] -= np.float32(
                    rate * value * min(1, most / (norm + 1e-6)))
        self.assertEqual(len(batches), 16)
        for name, value in weights.items():
            self.assertAlmostEqual(float(trained[name]), float(value), places=5)
        self.run_dir += "-next"
        with self.assertRaisesRegex(NotFinite, "gradient of 'b'"):
            self.worker(lambda weights, indices: (1.0, {"b": float("inf")}),
                        optimizer={**SGD, "clip_global_norm": most}).train()

    def test_a_scale_of_learning_rates_holds_until_it_is_set_again(self):
        import paramd

        def train(epochs, scales):
            """The weights of each step, and the trained ones."""
            seen = []

            def gradient(weights, indices):
                seen.append(float(weights["w"]))
                if len(seen) in scales:
                    worker.set(learning_rate_scale=scales[len(seen)])
                return line_gradient(weights, indices)

            worker = self.worker(gradient, epochs=epochs)
            trained = float(worker.train()["w"])
            worker.set(learning_rate_scale=7)  # It is over.
            return seen, trained

        seen, trained = train(2, {5: 0})
        self.assertEqual(len(set(seen[:5])), 5)
        # The push of the step before may have been on its way.
        self.assertEqual(set(seen[6:]), {trained})
        self.assertEqual(self.scale(), 0)
        seen, again = train(3, {})
        self.assertEqual((set(seen), again), ({trained}, trained))
        seen, again = train(4, {3: 1})
        self.assertEqual(len(set(seen[4:])), len(seen[4:]))
        self.assertIsNone(self.scale())
        with self.assertRaisesRegex(paramd.InvalidArgument, "from 0 to 1000000"):
            train(5, {2: -1})
        with self.assertRaisesRegex(paramd.InvalidArgument, "is a number; found a str"):
            self.worker(epochs=5).set(learning_rate_scale="0.1")

    def scale(self):
        """That of the newest checkpoint; None: it has none."""
        newest = max(pathlib.Path(self.run_dir, "checkpoints").glob(
            "[0-9]*/manifest.json"))
        return json.loads(newest.read_text()).get("learning_rate_scale")

    def test_a_gradient_of_what_is_no_variable_is_refused_by_name(self):
        import paramd
        with self.assertRaisesRegex(paramd.InvalidArgument,
                                    "of 'W', which is no variable; those are w, b"):
            self.worker(lambda weights, indices: (1.0, {"W": 0.0})).train()

    def test_weights_are_the_functions_to_keep_and_to_write_to(self):
        # Also where several batches are one push, on the same weights.
        for settings in ({}, {"accumulate": 4}):
            self.run_dir += "-next"
            kept, copies, evaluated = [], [], []

            def gradient(weights, indices):
                copies.append(float(weights["w"]))
                kept.append(weights["w"])
                weights["b"][...] = 7
                weights.pop("b")
                return 1.0, {"w": 1.0}

            def evaluate(weights, indices):
                evaluated.append(weights["b"])
                return 1.0

            self.worker(gradient, epochs=2, evaluate=evaluate, test_examples=4,
                        **settings).train()
            self.assertEqual([float(value) for value in kept], copies)
            self.assertEqual(len(set(copies)), 16 // settings.get("accumulate", 1))
            self.assertEqual({float(value) for value in evaluated}, {0.5})

    def test_how_many_examples_there_are_numpy_may_say(self):
        import paramd
        with paramd.Worker({"w": 1.0}, line_gradient, examples=np.int64(64),
                           optimizer=SGD, run_dir=self.run_dir) as worker:
            self.assertEqual(len(worker._session.next().indices), 32)

    def test_a_gradient_of_another_shape_is_refused_by_name(self):
        def gradient(weights, indices):
            return 1.0, {"w": np.zeros(3)}

        with self.assertRaisesRegex(ValueError, "gradient of 'w' is \\(3,\\)"):
            self.worker(gradient).train()

    def test_an_exception_of_the_program_leaves_the_job(self):
        def gradient(weights, indices):
            raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            self.worker(gradient).train()
        # Another one goes on in its place.
        weights = self.worker().train()
        self.assertAlmostEqual(float(weights["w"]), 3, delta=0.2)

    def test_a_program_whose_job_is_stopped_ends_with_0(self):
        code = """
import subprocess, sys
import paramd
sys.path.insert(0, sys.argv[3])
stops = []
def gradient(weights, indices):
    if not stops:
        stops.append(subprocess.Popen([sys.argv[2], "stop", sys.argv[1]]))
    return 0.5, {"w": 0.0}
worker = paramd.Worker({"w": 2.0}, gradient, examples=64, epochs=1000000,
                       batch_size=8, optimizer={"sgd": {}, "learning_rate": 0.1},
                       run_dir=sys.argv[1])
try:
    worker.train()
except paramd.JobStopped as stopped:
    assert stops[0].wait() == 0
    print("said:", stopped, flush=True)
    raise
"""
        done = subprocess.run(
            [sys.executable, "-c", code, self.run_dir, PROGRAM, "."],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"said: stopped by an operator \(uid \d+\) at "
                         r"step \d+; a later start goes on from ")
        self.assertNotIn("Traceback", done.stderr)

    def test_a_batch_is_finished_before_the_next(self):
        import paramd
        worker = self.worker()
        session = worker._session
        self.assertIsNotNone(session.next())
        with self.assertRaisesRegex(paramd.Error, "not stepped"):
            session.next()
        session.compute()
        self.assertFalse(worker.close())
        self.assertFalse(worker.close())
        with self.assertRaisesRegex(paramd.Cancelled, "has left the job"):
            session.next()

    def test_a_second_thread_is_refused_while_the_first_computes(self):
        import paramd
        computing, told = threading.Event(), threading.Event()

        def gradient(weights, indices):
            computing.set()
            told.wait()
            return line_gradient(weights, indices)

        worker = self.worker(gradient)
        trained = []
        first = threading.Thread(target=lambda: trained.append(worker.train()))
        first.start()
        computing.wait()
        for call in (worker.train, worker.close, worker._session.upcoming,
                     lambda: worker._session.finish(0.0)):
            with self.assertRaisesRegex(paramd.Error, "two threads"):
                call()
        told.set()
        first.join()
        # It was not disturbed.
        self.assertAlmostEqual(float(trained[0]["w"]), 3, delta=0.1)

    def test_a_forked_process_ends_without_the_worker(self):
        code = """
import os, sys, paramd
worker = paramd.Worker({"w": 1.0}, lambda w, i: (0.0, {}), examples=64,
                       optimizer={"sgd": {}, "learning_rate": 0.1},
                       batch_size=8, epochs=2, run_dir=sys.argv[1],
                       log_level="error")
session = worker._session
if os.fork() == 0:
    for call in (session.next, session.upcoming, session.compute,
                 lambda: session.gradient_ready(0), lambda: session.finish(0.0)):
        try:
            call()
        except paramd.Error as error:
            assert "forked" in str(error), error
        else:
            raise AssertionError(call)
    sys.exit(7)  # Python's own end, at which workers leave their jobs.
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
worker.train()
"""
        subprocess.run([sys.executable, "-c", code, self.run_dir], check=True)
        with open(self.run_dir + "/result.json", encoding="utf-8") as file:
            self.assertEqual(int(json.load(file)["global_step"]), 16)

    def test_an_interrupt_is_raised_while_a_batch_is_waited_for(self):
        # Worker 1 of a cluster in which nobody else lives.
        from paramd import cluster
        addresses = cluster._addresses(3)
        os.environ["TF_CONFIG"] = json.dumps(
            {"cluster": {"ps": addresses[:1], "worker": addresses[1:]},
             "task": {"type": "worker", "index": 1}})
        try:
            worker = self.worker()
        finally:
            del os.environ["TF_CONFIG"]
        timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            worker.train()


if __name__ == "__main__":
    unittest.main()
