"""What is done with a trained model while and after it is trained: it is
evaluated by a task of its own, another job begins with it, and TensorBoard
shows how it went."""

import glob
import json
import os
import re
import signal
import struct
import tempfile
import unittest

from tests.cluster import paramd

try:
    from tensorboard.backend.event_processing import event_accumulator
except ImportError:
    event_accumulator = None


def example_of_the_docs():
    """The job settings that docs/warm-start.md shows for PyTorch's model."""
    with open("docs/warm-start.md", encoding="utf-8") as file:
        example = re.search(
            r"trained_test.py runs this one.*?```json\n(.*?)```", file.read(),
            re.DOTALL)
    return json.loads(example[1])


def transposed(matrix, rows, columns):
    numbers = struct.unpack(f"<{rows * columns}f", matrix)
    return struct.pack(f"<{rows * columns}f", *(
        numbers[row * columns + column]
        for column in range(columns) for row in range(rows)))


def save_safetensors(path, tensors):
    """`tensors`: the shape and the bytes of each, by name."""
    header, data = {}, b""
    for name, (shape, content) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


class TrainedTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.job = os.path.join(self.directory, "job.json")
        with open(self.job, "w", encoding="utf-8") as file:
            json.dump({**paramd.tiny_job(self.directory), "epochs": 5,
                       "summary": {"every_steps": 5},
                       "checkpoint": {"every_steps": 10}}, file)

    def start(self, run, *flags, environment=None):
        run = paramd.Run("run", "--job", self.job, "--run_dir",
                         os.path.join(self.directory, run), *flags,
                         directory=self.directory, environment=environment)
        self.addCleanup(run.kill)
        return run

    def evaluator(self, run, *flags):
        task = {"task": {"type": "evaluator", "index": 0}}
        return self.start(run, *flags,
                          environment={"TF_CONFIG": json.dumps(task)})

    def train(self, run, *flags):
        process = self.start(run, *flags)
        self.assertEqual(process.wait(), 0, process.output)
        return self.result(run)

    def result(self, run):
        with open(os.path.join(self.directory, run, "result.json"),
                  encoding="utf-8") as file:
            return json.load(file)

    def evaluations(self, run):
        with open(os.path.join(self.directory, run, "evaluation.jsonl"),
                  encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def newest(self, run):
        return os.path.join(
            self.directory, run, "checkpoints",
            paramd.checkpoints(os.path.join(self.directory, run))[-1])

    def test_an_evaluator_ends_with_what_the_chief_found(self):
        evaluator = self.evaluator("run")
        evaluator.wait_for(" ready")
        result = self.train("run")
        self.assertEqual(evaluator.wait(), 0, evaluator.output)
        last = self.evaluations("run")[-1]
        evaluation = result["evaluation"]
        self.assertEqual(last["step"], int(result["global_step"]))
        self.assertEqual(last["correct"], int(evaluation["correct"]))
        self.assertEqual(last["examples"], int(evaluation["examples"]))
        self.assertEqual(last["accuracy"], evaluation["metrics"]["accuracy"])
        self.assertEqual(last["loss"], evaluation["loss"])
        # Started again, it has nothing to do.
        before = self.evaluations("run")
        again = self.evaluator("run")
        self.assertEqual(again.wait(), 0, again.output)
        self.assertEqual(self.evaluations("run"), before)

    def test_an_evaluator_leaves_when_it_is_told_to(self):
        evaluator = self.evaluator("run")
        evaluator.wait_for(" ready")
        evaluator.signal(signal.SIGTERM)
        self.assertEqual(evaluator.wait(), 143, evaluator.output)

    def test_a_job_begins_with_what_another_one_has_learnt(self):
        # Steps so small that they change nothing.
        still = ("--set", "optimizer.learning_rate=1e-30")
        trained = self.train("trained")
        warm = self.train("warm", *still, "--set",
                          f"warm_start.path={self.directory}/trained")
        cold = self.train("cold", *still)
        self.assertEqual(warm["evaluation"], {
            **trained["evaluation"], "epoch": warm["evaluation"]["epoch"]})
        self.assertEqual(paramd.tensors(self.newest("warm")),
                         paramd.tensors(self.newest("trained")))
        self.assertNotEqual(paramd.tensors(self.newest("warm")),
                            paramd.tensors(self.newest("cold")))
        self.assertNotEqual(cold["evaluation"]["loss"],
                            warm["evaluation"]["loss"])

    def test_a_job_that_has_learnt_nothing_says_so_at_the_end(self):
        run = self.start("still", "--set", "optimizer.learning_rate=1e-30")
        self.assertEqual(run.wait(), 0, run.output)
        (warning,) = self.result("still")["warnings"]
        self.assertRegex(warning, "of 64 examples of the test set are right, as "
                         "many as guessing among 10 classes gives")
        self.assertIn(f"warning paramd {warning}", run.output)
        self.assertIn(f"warning:       {warning}\n", run.output)

    def test_a_model_of_pytorch_is_taken_as_the_docs_say(self):
        layers = ("--set",
                  'model.layers=["flatten",{"dense":16},"relu",{"dense":10}]')
        self.train("trained", *layers)
        trained = paramd.tensors(self.newest("trained"))
        pytorch = os.path.join(self.directory, "pytorch")
        os.mkdir(pytorch)
        # torch.nn.Linear has its weight as outputs by inputs; the first one is
        # square.
        save_safetensors(os.path.join(pytorch, "model.safetensors"), {
            "1.weight": ([16, 16], transposed(trained["dense_1/kernel"], 16, 16)),
            "1.bias": ([16], trained["dense_1/bias"]),
            "3.weight": ([10, 16], transposed(trained["dense_2/kernel"], 16, 10)),
            "3.bias": ([10], trained["dense_2/bias"]),
        })
        settings = {**example_of_the_docs()["warm_start"], "path": pytorch}
        flags = [flag for key, value in settings.items()
                 for flag in ("--set", f"warm_start.{key}={value}")]
        # Steps so small that they change nothing.
        still = ("--set", "optimizer.learning_rate=1e-30")
        self.train("warm", *layers, *still, *flags)
        self.assertEqual(paramd.tensors(self.newest("warm")), trained)
        untold = self.start("untold", *layers, *still, *flags,
                            "--set", "warm_start.transpose=")
        self.assertEqual(untold.wait(), 2, untold.output)
        self.assertIn("(it fits transposed: name it in warm_start.transpose)",
                      untold.output)

    def test_what_a_job_cannot_begin_with_is_said_and_nothing_is_trained(self):
        self.train("trained")
        run = self.start(
            "other", "--set", f"warm_start.path={self.directory}/trained",
            "--set", "model.layers=[\"flatten\",{\"dense\":12}]")
        self.assertEqual(run.wait(), 2, run.output)
        self.assertIn("'dense_1/kernel' in '" + self.newest("trained") +
                      "' has the shape 16x10; variable 'dense_1/kernel' has "
                      "16x12", run.output)
        self.assertIn("'dense_1/bias'", run.output)

    @unittest.skipIf(event_accumulator is None,
                     "needs tensorboard from PyPI")
    def test_tensorboard_shows_how_it_went(self):
        result = self.train("run")
        summaries = os.path.join(self.directory, "run", "summaries")
        self.assertEqual(
            len(glob.glob(os.path.join(summaries, "events.out.tfevents.*"))),
            1)
        events = event_accumulator.EventAccumulator(summaries)
        events.Reload()
        steps = [event.step for event in events.Scalars("evaluation/loss")]
        # Those of the epochs before may be told when the last push is there.
        self.assertEqual(steps, sorted(steps))
        last = events.Scalars("evaluation/accuracy")[-1]
        self.assertEqual(last.step, int(result["global_step"]))
        self.assertAlmostEqual(
            last.value, result["evaluation"]["metrics"]["accuracy"], places=6)


if __name__ == "__main__":
    unittest.main()
