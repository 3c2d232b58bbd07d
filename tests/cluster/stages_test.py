"""A job with stages: teacher, student, pruned, integers, in one run."""

import copy
import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

from tests.cluster import paramd

_NAMES = ["teacher", "student", "pruned", "int8", "onnx"]


def chain(directory):
    """A job of five stages on the examples of a tiny one."""
    job = paramd.tiny_job(directory)
    job.update(
        name="chain", epochs=4, staleness="sync",
        model={"layers": ["flatten", {"dense": 12}, "relu", {"dense": 10}],
               "loss": "softmax_cross_entropy"},
        stages=[
            {"name": "teacher", "epochs": 6, "model": {
                "layers": ["flatten", {"dense": 32}, "relu", {"dense": 10}]}},
            {"name": "student", "distill": {
                "teachers": "stage:teacher", "alpha": 0.9}},
            {"name": "pruned", "from": "student", "optimizer": {
                "learning_rate": 0.05, "pruning": [
                    {"variables": "*/kernel", "sparsity": 0.75,
                     "begin_step": 1, "end_step": 16}]}},
            {"name": "int8", "from": "pruned", "quantize": "static"},
            {"name": "onnx", "from": "int8", "export": "onnx"},
        ])
    return job


class StagesTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.job = chain(self.directory)
        self.run_dir = os.path.join(self.directory, "run")

    def write(self, job=None):
        path = os.path.join(self.directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job or self.job, file)
        return path

    def start(self, *command, run_dir=None):
        run = paramd.Run(command[0], "--job", self.write(), "--run_dir",
                         run_dir or self.run_dir, *command[1:],
                         directory=self.directory)
        self.addCleanup(run.kill)
        return run

    def finish(self, *command, run_dir=None):
        run = self.start(*command, run_dir=run_dir)
        self.assertEqual(run.wait(), 0, run.output)
        return run.output

    def page(self, run_dir=None):
        path = os.path.join(run_dir or self.run_dir, "stages.json")
        with open(path, encoding="utf-8") as file:
            page = json.load(file)
        self.assertEqual(page["job"], "chain")
        return {stage["name"]: stage for stage in page["stages"]}

    def weights(self, name, run_dir=None):
        stage = os.path.join(run_dir or self.run_dir, name)
        return paramd.tensors(os.path.join(stage, "checkpoints",
                                           paramd.checkpoints(stage)[-1]))

    def evaluated(self, name):
        done = subprocess.run(
            [paramd.BINARY, "evaluate", "--json", "--job", self.write(),
             "--stage", name, "--checkpoint",
             os.path.join(self.run_dir, name)],
            check=False, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        return json.loads(done.stdout)["metrics"]

    def test_a_chain_has_one_page_of_what_each_stage_came_to(self):
        output = self.finish("local", "--servers=1", "--workers=2")
        stages = self.page()
        self.assertEqual(list(stages), _NAMES)
        floats = 4 * (16 * 12 + 12 + 12 * 10 + 10)
        self.assertEqual(stages["student"]["bytes"], floats)
        self.assertEqual(stages["pruned"]["bytes"], floats)
        self.assertEqual(stages["teacher"]["bytes"],
                         4 * (16 * 32 + 32 + 32 * 10 + 10))
        # Of each kernel three quarters.
        zeros = (16 * 12 + 12 * 10) * 3 / 4 / (floats / 4)
        self.assertAlmostEqual(stages["pruned"]["zeros"], zeros, delta=0.01)
        self.assertGreaterEqual(stages["int8"]["zeros"], zeros - 0.01)
        self.assertLess(stages["pruned"]["compressed_bytes"],
                        stages["student"]["compressed_bytes"])
        for name in _NAMES[:4]:
            self.assertGreater(stages[name]["examples_per_second"], 0, name)
            self.assertEqual(stages[name]["examples"], 64, name)
            self.assertEqual(self.evaluated(name), stages[name]["metrics"],
                             name)
        self.assertIsNone(stages["onnx"]["examples_per_second"])
        with open(stages["onnx"]["result"], "rb") as file:
            self.assertEqual(len(file.read()), stages["onnx"]["bytes"])
        for name in _NAMES:
            self.assertRegex(output, rf"(?m)^{name} ")
        with open(os.path.join(self.run_dir, "stages.svg"),
                  encoding="utf-8") as file:
            svg = file.read()
        for name in _NAMES:
            self.assertIn(f">{name}</text>", svg)
        # What is finished stays as it is.
        again = self.finish("local", "--servers=1", "--workers=2", "--resume")
        self.assertNotIn("stage teacher (1 of 5) begins", again)
        self.assertEqual(self.page(), stages)

    def test_a_student_begins_where_its_teacher_says_and_a_start_where_from_says(
            self):
        self.job["stages"] = [
            {"name": "base"},
            {"name": "same", "from": "base", "epochs": 1,
             "optimizer": {"learning_rate": 1e-30}},
            {"name": "first", "epochs": 1,
             "from": {"stage": "base", "variables": "dense_1/*"},
             "optimizer": {"learning_rate": 1e-30}},
            {"name": "fresh", "epochs": 1, "optimizer": {"learning_rate": 1e-30}},
        ]
        self.finish("run")
        base, same, first, fresh = (
            self.weights(stage["name"]) for stage in self.job["stages"])
        for name in ("dense_1/kernel", "dense_2/kernel"):
            self.assertEqual(same[name], base[name])
            self.assertNotEqual(fresh[name], base[name])
        self.assertEqual(first["dense_1/kernel"], base["dense_1/kernel"])
        self.assertEqual(first["dense_2/kernel"], fresh["dense_2/kernel"])

    def test_a_killed_run_goes_on_with_the_stage_that_was_under_way(self):
        whole = os.path.join(self.directory, "whole")
        self.job["stages"][1]["epochs"] = 60
        self.job["checkpoint"] = {"every_steps": 8, "keep": 100}
        self.finish("run", run_dir=whole)
        run = self.start("run")
        run.wait_for("stage student (2 of 5) begins")
        for _ in range(3):
            run.wait_for("checkpoint committed")
        run.kill()
        teacher = os.path.join(self.run_dir, "teacher")
        before = {name: os.stat(os.path.join(teacher, name)).st_mtime_ns
                  for name in ("result.json", "stage.json")}
        student = os.path.join(self.run_dir, "student")
        self.assertFalse(os.path.exists(os.path.join(student, "stage.json")))
        output = self.finish("run")
        self.assertNotIn("stage teacher (1 of 5) begins", output)
        self.assertIn("going on from checkpoint " + student, output)
        for name, time in before.items():
            self.assertEqual(os.stat(os.path.join(teacher, name)).st_mtime_ns,
                             time)
        for name in _NAMES[:4]:
            self.assertEqual(self.weights(name), self.weights(name, whole),
                             name)

    def test_integers_that_are_made_again_are_the_only_ones(self):
        self.finish("run")
        stage = os.path.join(self.run_dir, "int8")
        (name,) = paramd.checkpoints(stage)
        directory = os.path.join(stage, "checkpoints")
        # As if they had been made of a model that was trained for longer.
        os.rename(os.path.join(directory, name),
                  os.path.join(directory, "000009-00000009.step-999"))
        os.remove(os.path.join(stage, "stage.json"))
        output = self.finish("run")
        self.assertNotIn("stage teacher (1 of 5) begins", output)
        self.assertEqual(paramd.checkpoints(stage), [name])
        self.assertEqual(self.page()["int8"]["result"],
                         os.path.join(directory, name))

    def test_integers_of_another_run_are_not_removed(self):
        self.finish("run")
        stage = os.path.join(self.run_dir, "int8")
        teacher = os.path.join(self.run_dir, "teacher")
        other = os.path.join(stage, "checkpoints", "000009-00000009.step-999")
        shutil.copytree(os.path.join(teacher, "checkpoints",
                                     paramd.checkpoints(teacher)[-1]), other)
        os.remove(os.path.join(stage, "stage.json"))
        before = paramd.checkpoints(stage)
        run = self.start("run")
        self.assertEqual(run.wait(), 2, run.output)
        self.assertIn(f"checkpoint '{other}' is of run chain-", run.output)
        self.assertEqual(paramd.checkpoints(stage), before)

    def test_a_student_of_a_teacher_that_is_gone_is_refused(self):
        self.finish("run")
        shutil.rmtree(os.path.join(self.run_dir, "teacher"))
        run = self.start("run")
        self.assertEqual(run.wait(), 2, run.output)
        student = os.path.join(self.run_dir, "student")
        self.assertIn(f"the stage 'student' in '{student}' was made of an "
                      "earlier 'teacher'", run.output)

    def test_a_run_that_is_told_to_stop_goes_on_too(self):
        self.job["stages"][1]["epochs"] = 600
        self.job["checkpoint"] = {"every_steps": 8}
        run = self.start("run")
        run.wait_for("stage student (2 of 5) begins")
        run.wait_for("checkpoint committed")
        run.signal(signal.SIGTERM)
        self.assertEqual(run.wait(), 143, run.output)
        self.assertEqual(list(self.page()), ["teacher"])
        output = self.finish("run")
        self.assertNotIn("stage teacher (1 of 5) begins", output)
        self.assertEqual(list(self.page()), _NAMES)

    def test_the_launcher_goes_on_where_it_was_killed(self):
        self.job["stages"][2]["epochs"] = 200
        run = self.start("local", "--servers=1", "--workers=1")
        run.wait_for("stage pruned (3 of 5) begins")
        run.kill()
        code = self.start("local", "--servers=1", "--workers=1")
        self.assertEqual(code.wait(), 2, code.output)
        self.assertIn("is not empty; --resume goes on", code.output)
        self.job["stages"][2]["epochs"] = 4
        output = self.finish("local", "--servers=1", "--workers=1", "--resume")
        self.assertNotIn("stage student (2 of 5) begins", output)
        self.assertIn("stage pruned (3 of 5) begins", output)
        self.assertEqual(list(self.page()), _NAMES)

    def test_a_finished_stage_that_is_told_something_else_is_refused(self):
        self.finish("run")
        self.job["stages"][0]["optimizer"] = {"learning_rate": 0.5}
        run = self.start("run")
        self.assertEqual(run.wait(), 2, run.output)
        self.assertIn(
            f"paramd: the stage 'teacher' is finished in '{self.run_dir}/"
            "teacher' and was told something else: optimizer.learning_rate is "
            "0.5, was 0.1; give another run_dir, or what it was told",
            run.output)

    def test_one_stage_runs_by_itself_once_those_before_it_have(self):
        done = self.start("run", "--stage", "student")
        self.assertEqual(done.wait(), 2, done.output)
        self.assertIn("distill.teachers: ", done.output)
        self.finish("run", "--stage", "teacher")
        self.finish("run", "--stage", "student")
        output = self.finish("run")
        self.assertNotIn("stage student (2 of 5) begins", output)
        self.assertIn("stage student (2 of 5) is finished", output)
        self.assertEqual(list(self.page()), _NAMES)

    def test_what_can_not_be_a_chain_is_refused_in_a_sentence(self):
        wider = {"layers": ["flatten", {"dense": 9}, "relu", {"dense": 10}]}
        more = {"layers": ["flatten", {"dense": 12}]}
        for stage, change, sentence in (
                (2, {"from": "studnet"},
                 "stages[2].from.stage: there is no earlier stage 'studnet'; "
                 "did you mean 'student'?"),
                (2, {"model": wider},
                 "stage 'pruned': from: 'student' has 'dense_1/kernel' with "
                 "the shape 16x12, and 'dense_1/kernel' has 16x9"),
                (2, {"model": {"layers": [
                    "flatten", {"dense": 12}, "relu", {"dense": 12},
                    {"dense": 10}]}},
                 "stage 'pruned': from: 'student' has 'dense_2/kernel' with "
                 "the shape 12x10, and 'dense_2/kernel' has 12x12"),
                (0, {"model": more},
                 "stage 'student': distill.teachers: 'teacher' gives 12 "
                 "values for an example, and this model 10"),
                (3, {"epochs": 2},
                 "stages[3].epochs: is for a stage that trains, and this one "
                 "quantises; leave it out"),
                (3, {"quantize": {"observer": "percent"}},
                 "stages[3].quantize.observer: must be one of"),
                (1, {"run_dir": "x"}, "stages[1].run_dir: can't differ"),
        ):
            job = copy.deepcopy(self.job)
            job["stages"][stage].update(change)
            path = self.write(job)
            for command in (["run"], ["local"], ["config", "check"]):
                done = subprocess.run(
                    [paramd.BINARY, *command, "--job", path, "--run_dir",
                     os.path.join(self.directory, "refused")],
                    check=False, text=True, cwd=self.directory,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                self.assertEqual(done.returncode, 2, done.stdout)
                said = [line for line in done.stdout.splitlines()
                        if line.startswith("paramd: ")]
                self.assertEqual(len(said), 1, done.stdout)
                self.assertIn(sentence, said[0])

    def test_a_chain_is_checked_as_a_whole(self):
        done = subprocess.run(
            [paramd.BINARY, "config", "check", "--job", self.write()],
            check=False, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("nothing is wrong (job chain, stages teacher, student, "
                      "pruned, int8, onnx)", done.stdout)


class StagesOfAClusterTest(unittest.TestCase):
    """Each process goes from stage to stage by itself."""

    def setUp(self):
        self.cluster = paramd.Cluster(servers=1, workers=2)
        self.write(chain(self.cluster.directory))
        self.runs = {}

    def write(self, job):
        with open(self.cluster.job, "w", encoding="utf-8") as file:
            json.dump(job, file)

    def start(self, task):
        self.runs[task] = self.cluster.start(task)
        self.addCleanup(self.runs[task].kill)

    def finish(self):
        for task, run in self.runs.items():
            self.assertEqual(run.wait(), 0, f"{task}: {run.output}")
        path = os.path.join(self.cluster.run_directory, "stages.json")
        with open(path, encoding="utf-8") as file:
            stages = json.load(file)["stages"]
        self.assertEqual([stage["name"] for stage in stages], _NAMES)

    def test_all_go_through_all_stages(self):
        for task in self.cluster.tasks:
            self.start(task)
        self.finish()
        self.assertIn("\npruned ", self.runs["worker-0"].output)

    def test_each_that_is_killed_comes_back_to_the_stage_that_is_under_way(
            self):
        job = chain(self.cluster.directory)
        job["stages"][1]["epochs"] = 300
        job["staleness"] = "async"
        job["checkpoint"] = {"every_steps": 40}
        self.write(job)
        for task in self.cluster.tasks:
            self.start(task)
        for task in self.cluster.tasks:
            self.runs["worker-0"].wait_for("checkpoint committed")
            self.runs["worker-0"].wait_for("checkpoint committed")
            self.runs[task].kill()
            self.start(task)
        self.finish()

    def test_without_a_directory_that_all_share_it_does_not_begin(self):
        cluster = {"cluster": self.cluster.cluster,
                   "task": {"type": "worker", "index": 0}}
        run = paramd.Run("run", "--job", self.cluster.job,
                         directory=self.cluster.directory,
                         environment={"TF_CONFIG": json.dumps(cluster)})
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 2, run.output)
        self.assertIn("paramd: run_dir: is missing; the processes of a job "
                      "with stages meet in one directory", run.output)


if __name__ == "__main__":
    unittest.main()
