"""Workers in Python, with everything in one process."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

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

    def test_slots_are_loaded_where_they_are_asked_for(self):
        import paramd
        self.worker(optimizer={"adam": {}, "learning_rate": 0.1},
                    epochs=1).train()
        names = set(paramd.load(self.run_dir, slots=True))
        self.assertIn("w/slot:momentum", names)
        self.assertNotIn("w/slot:momentum", paramd.load(self.run_dir))

    def test_there_is_no_checkpoint_where_there_is_none(self):
        import paramd
        with self.assertRaisesRegex(paramd.InvalidArgument, "no checkpoint"):
            paramd.load(self.directory.name)

    def test_a_mistake_in_the_job_is_named(self):
        import paramd
        with self.assertRaisesRegex(paramd.InvalidArgument, "epochs.*whole number"):
            self.worker(epochs="none")
        with self.assertRaisesRegex(paramd.InvalidArgument, "unknown key"):
            self.worker(epoch=3)

    def test_a_gradient_that_is_not_finite_is_refused_by_name(self):
        import paramd

        def gradient(weights, indices):
            return 1.0, {"w": 0.0, "b": float("nan")}

        with self.assertRaisesRegex(paramd.NotFinite, "gradient of 'b'"):
            self.worker(gradient).train()

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

    def test_two_threads_are_told_apart(self):
        import paramd
        worker = self.worker()
        session = worker._session
        self.assertIsNotNone(session.next())
        with self.assertRaisesRegex(paramd.Error, "not stepped"):
            session.next()
        session._busy.acquire()
        with self.assertRaisesRegex(paramd.Error, "two threads"):
            session.finish(0.0)
        session._busy.release()
        self.assertFalse(worker.close())
        self.assertFalse(worker.close())

    def test_a_forked_process_is_told_so(self):
        import paramd
        worker = self.worker()
        child = os.fork()
        if child == 0:
            try:
                worker._session.next()
            except paramd.Error as error:
                os._exit(7 if "forked" in str(error) else 1)
            os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
        worker.close()

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
