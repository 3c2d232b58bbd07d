"""What a job goes on from: never a damaged checkpoint, never another run's."""

import json
import os
import shutil
import unittest

from tests.cluster import paramd

EPOCHS = 400  # Enough to be in the middle of.


class RestoreTest(unittest.TestCase):

    def setUp(self):
        self.cluster = paramd.Cluster(servers=2, workers=1)
        self.runs = {}

    def set(self, **settings):
        with open(self.cluster.job, encoding="utf-8") as file:
            job = json.load(file)
        job.update(settings)
        with open(self.cluster.job, "w", encoding="utf-8") as file:
            json.dump(job, file)

    def start_all(self):
        for task in self.cluster.tasks:
            self.runs[task] = self.cluster.start(task)
            self.addCleanup(self.runs[task].kill)

    def damage(self, directory, file):
        """Turns a bit of the last number of that file."""
        path = os.path.join(directory, file)
        with open(path, "r+b") as content:
            content.seek(-3, os.SEEK_END)
            byte = content.read(1)[0]
            content.seek(-3, os.SEEK_END)
            content.write(bytes([byte ^ 4]))

    def interrupted(self):
        """Kills a job behind its third checkpoint; the paths of those there."""
        self.set(epochs=EPOCHS, evaluate_every_epochs=0,
                 checkpoint={"every_steps": 40, "keep": 10})
        self.start_all()
        for _ in range(3):
            self.runs["worker-0"].wait_for("checkpoint committed")
        for run in self.runs.values():
            run.kill()
        root = os.path.join(self.cluster.run_directory, "checkpoints")
        return [os.path.join(root, name)
                for name in paramd.checkpoints(self.cluster.run_directory)]

    def finish(self):
        for task, run in self.runs.items():
            self.assertEqual(run.wait(), 0, f"{task}: {run.output}")
        return self.runs["worker-0"].output

    def test_Promise3_a_flipped_bit_is_found_and_an_older_one_taken(self):
        older, newest = self.interrupted()[-2:]
        self.damage(newest, "ps-00002-of-00002.safetensors")
        self.start_all()
        output = self.finish()
        self.assertIn(f"checkpoint {newest} is passed over: ps-1: ps-1 could "
                      f"not restore '{newest}': '{newest}/ps-00002-of-00002"
                      ".safetensors' has the crc32c ", output)
        self.assertIn(f"going on from checkpoint {older}", output)

    def start_with_part_of(self, checkpoints, gone):
        """Starts all; ps-1 sees the checkpoints elsewhere, where its files of
        those in `gone` are missing."""
        elsewhere = os.path.join(self.cluster.run_directory, "elsewhere")
        shutil.copytree(os.path.dirname(checkpoints[0]), elsewhere)
        for directory in gone:
            os.remove(os.path.join(elsewhere, os.path.basename(directory),
                                   "ps-00002-of-00002.safetensors"))
        for task in self.cluster.tasks:
            own = ["--set", f"checkpoint.directory={elsewhere}"]
            self.runs[task] = self.cluster.start(
                task, *(own if task == "ps-1" else []))
            self.addCleanup(self.runs[task].kill)
        return elsewhere

    def test_Promise3_what_a_server_cannot_read_is_passed_over(self):
        checkpoints = self.interrupted()
        older, newest = checkpoints[-2:]
        elsewhere = self.start_with_part_of(checkpoints, [newest])
        output = self.finish()
        self.assertIn(f"checkpoint {newest} is passed over: ps-1: ps-1 could "
                      f"not restore '{newest}': cannot open '{elsewhere}/"
                      f"{os.path.basename(newest)}/ps-00002-of-00002"
                      ".safetensors': no such file or directory", output)
        self.assertIn(f"going on from checkpoint {older}", output)

    def test_Promise3_where_a_server_can_read_none_nothing_begins_anew(self):
        checkpoints = self.interrupted()
        self.start_with_part_of(checkpoints, checkpoints)
        chief = self.runs["worker-0"]
        self.assertEqual(chief.wait(), 1, chief.output)
        root = os.path.dirname(checkpoints[0])
        for directory in checkpoints:
            self.assertIn(f"checkpoint {directory} is passed over: ps-1: ",
                          chief.output)
        self.assertIn(f"no checkpoint in '{root}' verifies; of the newest: ",
                      chief.output)
        self.assertIn(f"(`paramd checkpoint verify {root}` names everything "
                      "that is wrong: repair it, or move the directory away to "
                      "begin the run anew)", chief.output)
        self.assertEqual(paramd.checkpoints(self.cluster.run_directory),
                         [os.path.basename(path) for path in checkpoints])

    def test_Promise3_a_directory_that_is_gone_is_no_fresh_start(self):
        checkpoints = self.interrupted()
        root = os.path.dirname(checkpoints[0])
        os.rename(root, root + ".elsewhere")
        self.start_all()
        chief = self.runs["worker-0"]
        self.assertEqual(chief.wait(), 138, chief.output)
        self.assertIn(f"no checkpoint is found in '{root}', though this run has "
                      f"committed some in '{root}'", chief.output)
        for run in self.runs.values():
            run.kill()
        # It was not mounted for a while, and nobody made it meanwhile.
        os.rename(root + ".elsewhere", root)
        self.start_all()
        self.assertIn(f"going on from checkpoint {checkpoints[-1]}",
                      self.finish())


class NewWorkersTest(unittest.TestCase):

    def start_all(self, cluster):
        # Not more often: what the chief says must fit into a pipe.
        runs = [cluster.start(
            task, "--set=staleness=sync",
            "--set=optimizer={\"adam\": {}, \"learning_rate\": 0.01}",
            "--set=checkpoint.every_steps=40", f"--set=epochs={EPOCHS}")
                for task in cluster.tasks]
        for run in runs:
            self.addCleanup(run.kill)
        return runs

    def trained(self, cluster):
        for run in self.start_all(cluster):
            self.assertEqual(run.wait(), 0, run.output)
        root = os.path.join(cluster.run_directory, "checkpoints")
        newest = paramd.checkpoints(cluster.run_directory)[-1]
        return paramd.tensors(os.path.join(root, newest))

    def test_Promise3_new_workers_go_on_as_the_old_ones_would_have(self):
        calm = self.trained(paramd.Cluster(servers=2, workers=3))
        cut_off = paramd.Cluster(servers=2, workers=3)
        for lives in range(3):
            runs = self.start_all(cut_off)
            if lives > 0:
                runs[-3].wait_for("going on from checkpoint")
            for _ in range(2):
                runs[-3].wait_for("checkpoint committed")
            for run in runs:
                run.kill()
        self.assertEqual(self.trained(cut_off), calm)


class OtherVariablesTest(unittest.TestCase):
    """A run whose job gets another last layer."""

    def setUp(self):
        self.cluster = paramd.Cluster(servers=2, workers=1)
        self.before = self.interrupted()

    def start(self, task, units, *flags):
        run = self.cluster.start(
            task, "--set", f"epochs={EPOCHS}", "--set",
            "checkpoint.every_steps=40", "--set", "checkpoint.keep=10",
            "--set", "model.layers=[\"flatten\",{\"dense\":8},{\"dense\":"
            f"{units}}}]", *flags)
        self.addCleanup(run.kill)
        return run

    def start_all(self, units, *flags):
        runs = [self.start(task, units, *flags) for task in self.cluster.tasks]
        return runs[-1], runs[:-1]

    def interrupted(self):
        """The newest checkpoint of a killed job."""
        chief, servers = self.start_all(10)
        chief.wait_for("checkpoint committed")
        for run in [chief, *servers]:
            run.kill()
        return self.committed()[-1]

    def committed(self):
        root = os.path.join(self.cluster.run_directory, "checkpoints")
        return [os.path.join(root, name)
                for name in paramd.checkpoints(self.cluster.run_directory)]

    def refused(self, units, *flags):
        """What the chief says when it ends with 2."""
        chief, servers = self.start_all(units, *flags)
        self.assertEqual(chief.wait(), 2, chief.output)
        for run in servers:
            run.kill()
        self.assertEqual(self.committed()[-1], self.before)
        return chief.output

    def finish(self, units, *flags):
        chief, servers = self.start_all(units, *flags)
        for run in [chief, *servers]:
            self.assertEqual(run.wait(), 0, run.output)
        return chief.output

    def test_what_is_missing_is_named_and_only_allowed_by_its_name(self):
        self.assertRegex(self.refused(12), r"is of another job: "
                         r"model\.layers\[\d\]\.dense\.units is 12, was 10")
        output = self.refused(12, "--set", "checkpoint.allow_missing=*/bias")
        self.assertIn("'dense_2/kernel' has the shape 8x10 there and 8x12 here",
                      output)
        self.assertNotIn("'dense_2/bias'", output)
        # Neither keeps the job as it was from going on.
        old = paramd.tensors(self.before)
        chief, servers = self.start_all(10)
        chief.wait_for(f"going on from checkpoint {self.before}")
        for run in [chief, *servers]:
            run.kill()
        # With a rate of next to nothing the other layer stays as it was.
        changed = ("--set", "checkpoint.allow_missing=dense_2/*",
                   "--set", "optimizer.learning_rate=1e-30")
        self.before = self.committed()[-1]
        old = paramd.tensors(self.before)
        output = self.finish(12, *changed)
        self.assertIn(f"going on with values and input of checkpoint "
                      f"{self.before}; slots and counts begin anew", output)
        self.assertIn("'dense_2/bias' has the shape 10 there and 12 here",
                      output)
        new = paramd.tensors(self.committed()[-1])
        self.assertEqual(new["dense_1/kernel"], old["dense_1/kernel"])
        self.assertEqual(new["dense_1/bias"], old["dense_1/bias"])
        self.assertEqual(len(new["dense_2/kernel"]), 8 * 12 * 4)
        # Nothing that was trained on before is trained on again.
        left = 8 * EPOCHS - int(self.before.rsplit("-", 1)[1])
        self.assertTrue(self.committed()[-1].endswith(f".step-{left}"))


class OneRunTest(unittest.TestCase):
    """A run that is started again: in one process, in the same directory."""

    def setUp(self):
        self.cluster = paramd.Cluster(servers=1, workers=1)

    def start(self, *flags):
        run = paramd.Run("run", "--job", self.cluster.job, "--run_dir",
                         self.cluster.run_directory, *flags)
        self.addCleanup(run.kill)
        return run

    def result(self):
        with open(os.path.join(self.cluster.run_directory, "result.json"),
                  encoding="utf-8") as file:
            return json.load(file)

    def test_it_goes_on_for_more_epochs_though_it_has_ended(self):
        first = self.start()
        self.assertEqual(first.wait(), 0, first.output)
        self.assertEqual(self.result()["global_step"], 8)
        second = self.start("--epochs", "3")
        self.assertEqual(second.wait(), 0, second.output)
        self.assertIn("goes on with other settings: epochs is 3, was 1",
                      second.output)
        self.assertEqual(self.result()["global_step"], 24)
        self.assertEqual(self.result()["changed"],
                         [{"name": "epochs", "before": "1", "now": "3"}])
        other = self.start("--epochs", "3", "--seed", "9")
        self.assertEqual(other.wait(), 2, other.output)
        self.assertIn("is of another job: seed is 9, was 1", other.output)

    def test_its_chief_refuses_a_second_one_while_it_lives(self):
        first = self.start("--epochs", "100000")
        first.wait_for("ready")
        for _ in range(2):
            second = self.start("--epochs", "100000")
            self.assertEqual(second.wait(), 2, second.output)
            self.assertIn(f"is process {first.process.pid} on ", second.output)
        self.assertIsNone(first.process.poll())
        first.kill()
        after = self.start("--epochs", "100000")
        after.wait_for("ready")


class AnotherRunTest(unittest.TestCase):

    def test_its_checkpoints_are_refused_in_a_sentence(self):
        directory = os.path.join(os.environ["TEST_TMPDIR"], "shared")
        cluster = paramd.Cluster(servers=1, workers=1)
        arguments = ["local", "--job", cluster.job, "--servers", "1",
                     "--workers", "1",
                     f"--set=checkpoint.directory={directory}"]
        first = paramd.Run(*arguments)
        self.addCleanup(first.kill)
        self.assertEqual(first.wait(), 0, first.output)
        before = sorted(os.listdir(directory))
        self.assertEqual(before[0], ".run")
        self.assertEqual(len(before), 2)

        second = paramd.Run(*arguments, directory=first.directory)
        self.addCleanup(second.kill)
        self.assertEqual(second.wait(), 2, second.output)
        log = second.log("worker-0")
        self.assertRegex(log, r"is of run tiny-[0-9a-f]+, and this is run "
                              r"tiny-[0-9a-f]+: go on with that run in its own "
                              r"run_dir \(--resume\), or give this one another "
                              r"checkpoint.directory")
        self.assertEqual(sorted(os.listdir(directory)), before)

        # The first one's own directory goes on as ever: it is finished.
        third = paramd.Run(*arguments, "--resume", "--run_dir",
                           os.path.join(first.directory, "runs", "tiny-1"),
                           directory=first.directory)
        self.addCleanup(third.kill)
        self.assertEqual(third.wait(), 0, third.output)


if __name__ == "__main__":
    unittest.main()
