"""A teacher's labels, a noisy student of them, and again: one job file."""

import copy
import json
import os
import tempfile
import unittest

from tests.cluster import paramd

_NAMES = ["teacher", "labels-1", "student-1", "labels-2", "student-2"]


def noisy(directory):
    job = paramd.tiny_job(directory)
    job.update(
        name="noisy", epochs=4, staleness="sync",
        model={"layers": ["flatten", {"dense": 12}, "relu", {"dropout": 0.2},
                          {"dense": 10}],
               "loss": "softmax_cross_entropy"},
        stages=[
            {"name": "teacher", "input": {"stages": [{"take": 24}, "shuffle"]}},
            {"name": "labels-1", "from": "teacher",
             "label": {"threshold": 0.1, "per_class": 6, "known": 24}},
            {"name": "student-1", "input": {"stages": [
                {"relabel": "stage:labels-1"}, "shuffle"]}},
            {"name": "labels-2", "from": "student-1",
             "label": {"threshold": 0.1, "known": 24}},
            {"name": "student-2", "input": {"stages": [
                {"relabel": "stage:labels-2"}, "shuffle"]}},
        ])
    return job


class ChainCase(unittest.TestCase):
    """A job with stages, in a directory of its own."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.job = noisy(self.directory)
        self.run_dir = os.path.join(self.directory, "run")

    def start(self, *command, run_dir=None):
        path = os.path.join(self.directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.job, file)
        run = paramd.Run(command[0], "--job", path, "--run_dir",
                         run_dir or self.run_dir, *command[1:],
                         directory=self.directory)
        self.addCleanup(run.kill)
        return run

    def finish(self, *command, run_dir=None):
        run = self.start(*command, run_dir=run_dir)
        self.assertEqual(run.wait(), 0, run.output)
        return run.output

    def labels(self, name, run_dir=None):
        path = os.path.join(run_dir or self.run_dir, name, "labels.records")
        with open(path, "rb") as file:
            return file.read()


class LabelsTest(ChainCase):

    def test_a_noisy_student_is_one_job(self):
        self.finish("run")
        with open(os.path.join(self.run_dir, "stages.json"),
                  encoding="utf-8") as file:
            stages = json.load(file)["stages"]
        self.assertEqual([stage["name"] for stage in stages], _NAMES)
        self.assertEqual(stages[1]["kind"], "labels")
        self.assertEqual(stages[1]["bytes"], len(self.labels("labels-1")))
        header = json.loads(self.labels("labels-1")[:1024])
        self.assertEqual(header["examples"], 64)
        # Finished stages are not made again.
        path = os.path.join(self.run_dir, "labels-1", "labels.records")
        before = os.stat(path).st_mtime_ns
        self.finish("run")
        self.assertEqual(os.stat(path).st_mtime_ns, before)

    def test_a_cluster_has_the_same_bits(self):
        self.finish("run")
        other = os.path.join(self.directory, "other")
        self.finish("local", "--servers=2", "--workers=1", run_dir=other)
        for name in ("labels-1", "labels-2"):
            self.assertEqual(self.labels(name)[1024:],
                             self.labels(name, other)[1024:])

    def test_a_killed_run_goes_on_with_its_labels(self):
        self.job["stages"][2]["epochs"] = 120
        self.job["checkpoint"] = {"every_steps": 8}
        run = self.start("run")
        run.wait_for("stage student-1 (3 of 5) begins")
        run.wait_for("checkpoint committed")
        run.kill()
        before = self.labels("labels-1")
        output = self.finish("run")
        self.assertNotIn("stage teacher (1 of 5) begins", output)
        self.assertEqual(self.labels("labels-1"), before)

    def test_what_cannot_label_is_refused_before_anything_is_trained(self):
        for change, sentence in (
                ({"label": {"known": 65}},
                 "known is 65, and there are 64 examples"),
                ({"input": {"stages": ["shuffle", {"relabel": "/nowhere"}]}},
                 "labels go by place")):
            self.setUp()
            self.job["stages"][1].update(change)
            run = self.start("run")
            self.assertEqual(run.wait(), 2, run.output)
            self.assertIn(f"stage 'labels-1': {sentence}", run.output)
            self.assertNotIn("stage teacher (1 of 5) begins", run.output)

    def test_labels_of_another_model_are_refused(self):
        self.finish("run")
        path = os.path.join(self.run_dir, "labels-1", "labels.records")
        with open(path, "wb") as file:
            file.write(self.labels("labels-2"))
        run = self.start("run")
        self.assertEqual(run.wait(), 2, run.output)
        self.assertIn(f"the labels '{path}' are of another model than",
                      run.output)
        os.remove(path)
        run = self.start("run")
        self.assertEqual(run.wait(), 2, run.output)
        self.assertIn(f"there is no file '{path}'", run.output)

    def test_what_cannot_be_is_refused_before_anything_is_trained(self):
        for stage, change, sentence in (
                (2, {"input": {"stages": [{"relabel": "stage:labels-3"}]}},
                 "input.stages[0].relabel.file: there is no earlier stage "
                 "'labels-3' that labels"),
                (2, {"input": {"stages": ["shuffle",
                                          {"relabel": "stage:labels-1"}]}},
                 "comes after a stage that shuffles or repeats"),
                (0, {"model": {"layers": ["flatten", {"dense": 12}]}},
                 "stage 'student-1': the labels of 'labels-1' are of 12 "
                 "classes, and this model gives 10 values"),
                (3, {"label": {"threshold": 3}},
                 "stages[3].label.threshold: must be at most 1"),
                (1, {"epochs": 2}, "stages[1].epochs: is for a stage that "
                 "trains, and this one labels"),
        ):
            self.job = copy.deepcopy(noisy(self.directory))
            self.job["stages"][stage].update(change)
            for command in ("run", "local"):
                run = self.start(command, run_dir=os.path.join(
                    self.directory, "refused"))
                self.assertEqual(run.wait(), 2, run.output)
                self.assertIn(sentence, run.output)


class TaughtTest(ChainCase):
    """Students that learn what a stage before them has labelled."""

    def setUp(self):
        super().setUp()
        self.job["stages"] = [
            {"name": "teacher",
             "input": {"stages": [{"take": 32, "on": "training"}, "shuffle"]}},
            {"name": "labels", "from": "teacher", "label": {}},
            {"name": "student", "distill": {
                "teachers": "stage:labels", "temperature": 2, "alpha": 0.9}},
            # Of fewer examples than were labelled.
            {"name": "own", "from": "student",
             "input": {"stages": [{"skip": 16, "on": "training"}, "shuffle"]},
             "distill": {"teachers": ["stage:labels", "stage:teacher"]}},
        ]

    def weights(self, name, run_dir=None):
        of_stage = os.path.join(run_dir or self.run_dir, name)
        return paramd.tensors(os.path.join(
            of_stage, "checkpoints", paramd.checkpoints(of_stage)[-1]))

    def test_a_cluster_has_the_same_bits(self):
        self.finish("run", "--accumulate=2")
        other = os.path.join(self.directory, "other")
        self.finish("local", "--servers=2", "--workers=2", run_dir=other)
        self.assertEqual(self.labels("labels")[1024:],
                         self.labels("labels", other)[1024:])
        for name in ("student", "own"):
            self.assertEqual(self.weights(name), self.weights(name, other))

    def test_a_killed_run_goes_on_with_its_labels(self):
        self.job["stages"][2]["epochs"] = 120
        self.job["checkpoint"] = {"every_steps": 8}
        run = self.start("run")
        run.wait_for("stage student (3 of 4) begins")
        run.wait_for("checkpoint committed")
        run.kill()
        before = self.labels("labels")
        output = self.finish("run")
        self.assertNotIn("stage teacher (1 of 4) begins", output)
        self.assertEqual(self.labels("labels"), before)

    def test_what_cannot_be_is_refused_before_anything_is_trained(self):
        for stage, change, sentence in (
                (1, {"label": {"threshold": 0.5}},
                 "stage 'student': distill.teachers: 'labels' leaves examples "
                 "out"),
                (1, {"input": {"stages": [{"take": 32}]}},
                 "stage 'student': distill.teachers: 'labels' says nothing of"),
                (1, {"input": {"stages": [{"skip": 32}]}},
                 "'labels' is of 32 examples, and here are 64"),
                (0, {"model": {"layers": ["flatten", {"dense": 12}]}},
                 "'labels' gives 12 values for an example, and this model 10"),
                (2, {"distill": {"teachers": "stage:label"}},
                 "there is no earlier stage 'label'"),
        ):
            self.setUp()
            self.job["stages"][stage].update(change)
            for command in ("run", "local"):
                run = self.start(command, run_dir=os.path.join(
                    self.directory, "refused"))
                self.assertEqual(run.wait(), 2, run.output)
                self.assertIn(sentence, run.output)
                self.assertNotIn("stage teacher (1 of 4) begins", run.output)


@unittest.skipUnless(os.path.isdir(paramd.DATA),
                     f"{paramd.DATA} is not installed")
class ExamplesTest(unittest.TestCase):
    """The job files of config/examples, on few images."""

    def train(self, name, few):
        """What the stages came to, and what was printed; `few` changes the job."""
        with open(f"config/examples/{name}.json", encoding="utf-8") as file:
            job = json.load(file)
        job["epochs"] = 1
        for stage in job["stages"]:
            if "epochs" in stage:
                stage["epochs"] = 1
        few(job)
        directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        path = os.path.join(directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        run_dir = os.path.join(directory, "run")
        run = paramd.Run("run", "--job", path, "--run_dir", run_dir,
                         directory=directory)
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 0, run.output)
        with open(os.path.join(run_dir, "stages.json"),
                  encoding="utf-8") as file:
            found = {stage["name"]: stage
                     for stage in json.load(file)["stages"]}
        self.assertEqual(list(found), [stage["name"]
                                       for stage in job["stages"]])
        return found

    def test_a_noisy_student(self):
        def few(job):
            take = {"take": 3000, "on": "training"}
            job["stages"][0]["epochs"] = 4  # After one it is sure of nothing.
            for stage in job["stages"][1:]:
                stage.setdefault("input", {"stages": ["shuffle"]})
                stage["input"]["stages"].insert(0, take)
                if "label" in stage:
                    stage["label"].update(threshold=0.2, per_class=50)

        found = self.train("noisy_student", few)
        for name in ("teacher", "student-1", "student-2"):
            self.assertGreater(found[name]["metrics"]["accuracy"], 0.2, name)
        self.assertGreater(found["labels-2"]["bytes"], 1024 + 1000 * 48)

    def test_several_teachers_in_two_stages(self):
        def few(job):
            for stage in job["stages"]:
                if stage["name"] == "general" or "label" in stage:
                    stage["input"]["stages"] = [
                        {"take": 6400, "on": "training"}, "shuffle"]

        found = self.train("tmkd", few)
        for name, stage in found.items():
            if "labels" in name:
                self.assertEqual(stage["bytes"], 1024 + 6400 * 48)
            else:
                self.assertGreater(stage["metrics"]["accuracy"], 0.4, name)


if __name__ == "__main__":
    unittest.main()
