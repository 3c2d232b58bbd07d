"""A job with a backup that is killed whole goes on by itself; then it is gone."""

import json
import os
import shutil
import signal
import tempfile
import unittest

from tests.cluster import paramd

PS = ["local", "--workers=2", "--servers=2", "--staleness=sync"]
ONE_PS = ["local", "--workers=1", "--servers=1"]
COPIES = ["local", "--strategy=multi_worker_mirrored", "--workers=2"]
ONE_DEVICE = ["run", "--strategy=one_device"]
MIRRORED = ["run", "--strategy=mirrored", "--replicas=2"]
CENTRAL = ["run", "--strategy=central_storage", "--replicas=2"]

EPOCHS = 20  # Of a job that is not disturbed,
MANY_EPOCHS = 400  # of one that is killed in the middle, in one process,
SOME_EPOCHS = 60  # and in several.
STEPS_PER_EPOCH = 16  # On one device: 64 examples in fours.


class BackupTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.backup = os.path.join(self.directory, "backup")
        self.run_dir = os.path.join(self.directory, "run")
        self.write_job({"directory": self.backup})

    def write_job(self, backup):
        self.job = os.path.join(self.directory, "job.json")
        job = {**paramd.tiny_job(self.directory), "batch_per_replica": 4,
               "optimizer": {"adam": {}, "learning_rate": 0.01,
                             "schedule": "cosine"},
               "epochs": EPOCHS, "evaluate_every_epochs": 0,
               "backup_and_restore": backup}
        with open(self.job, "w", encoding="utf-8") as file:
            json.dump(job, file)

    def start(self, command, *flags, run_dir=None):
        run = paramd.Run(*command, "--job", self.job,
                         f"--run_dir={run_dir or self.run_dir}", *flags)
        self.addCleanup(run.kill)
        return run

    def train(self, command, *flags, run_dir=None):
        run = self.start(command, *flags, run_dir=run_dir)
        self.assertEqual(run.wait(), 0, run.output)
        return run

    def kill_all(self, run):
        """kill -9 of every process of the job at once."""
        run.signal(signal.SIGKILL)
        for pid in paramd.processes_that_mention(self.run_dir):
            if pid != os.getpid():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        run.wait()

    def kill_with_a_backup(self, command, last_step, *flags):
        """Starts it and kills it once there is a backup. That one's step."""
        for _ in range(20):
            run = self.start(command, *flags)
            self.wait_for_backups(run)
            self.kill_all(run)
            found = paramd.checkpoints(self.backup)
            step = int(found[-1].rsplit("-", 1)[1]) if found else last_step
            if step < last_step:
                return step
            # It was quicker than the disk: once more.
            shutil.rmtree(self.backup, ignore_errors=True)
            shutil.rmtree(self.run_dir)
        return self.fail(f"never killed before the end\n{run.output}")

    def wait_for_backups(self, run):
        for _ in range(2):
            if run.process.args[1] == "run":
                run.wait_for("checkpoint committed at step")
                continue
            before = paramd.checkpoints(self.backup)
            while (paramd.checkpoints(self.backup) in ([], before)
                   and run.process.poll() is None):
                pass

    def tensors(self, state):
        (newest,) = paramd.checkpoints(state)
        return paramd.tensors(os.path.join(state, "checkpoints", newest))

    def undisturbed(self, command, *flags):
        run_dir = os.path.join(self.directory, "undisturbed")
        self.train(command, *flags, "--set=backup_and_restore.directory=",
                   run_dir=run_dir)
        # Without a backup the start of a run of several copies is kept too.
        return paramd.tensors(os.path.join(run_dir, "checkpoints",
                                           paramd.checkpoints(run_dir)[-1]))

    def result(self, name="run"):
        path = os.path.join(self.directory, name, "result.json")
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def log(self, run):
        """What the chief has logged since its last start."""
        if run.process.args[1] == "run":
            return run.output
        path = os.path.join(self.run_dir, "logs", "worker-0.log")
        with open(path, encoding="utf-8") as file:
            return file.read()

    def check_goes_on(self, command):
        epochs = SOME_EPOCHS if command[0] == "local" else MANY_EPOCHS
        longer = f"--epochs={epochs}"
        expected = self.undisturbed(command, longer)
        last_step = int(self.result("undisturbed")["global_step"])
        step = self.kill_with_a_backup(command, last_step, longer)
        run = self.train(command, longer)
        self.assertIn(f".step-{step}", self.log(run))
        self.assertEqual(int(self.result()["global_step"]), last_step)
        self.assertTrue(self.tensors(self.run_dir) == expected)
        self.assertFalse(os.path.exists(self.backup))
        self.assertTrue(os.path.isdir(self.result()["checkpoint_path"]))

    def test_servers_in_sync_go_on_to_the_same_bits(self):
        self.check_goes_on(PS)

    def test_one_worker_with_a_server_goes_on_to_the_same_bits(self):
        self.check_goes_on(ONE_PS)

    def test_one_device_goes_on_to_the_same_bits(self):
        self.check_goes_on(ONE_DEVICE)

    def test_mirrored_goes_on_to_the_same_bits(self):
        self.check_goes_on(MIRRORED)

    def test_central_storage_goes_on_to_the_same_bits(self):
        self.check_goes_on(CENTRAL)

    def test_multi_worker_mirrored_goes_on_to_the_same_bits(self):
        self.check_goes_on(COPIES)
        # Nothing is left to do, for each of the workers.
        before = paramd.checkpoints(self.run_dir)
        self.train(COPIES, f"--epochs={SOME_EPOCHS}")
        self.assertEqual(paramd.checkpoints(self.run_dir), before)

    def test_a_copy_that_is_lost_alone_comes_back_beside_the_backup(self):
        longer = f"--epochs={MANY_EPOCHS}"
        expected = self.undisturbed(COPIES, longer)
        for victim in ("worker-0", "worker-1"):
            run_dir = os.path.join(self.directory, "without-" + victim)
            run = self.train(COPIES, longer, f"--kill={victim}@epoch=5",
                             run_dir=run_dir)
            self.assertIn(f"{victim} is back", run.output)
            self.assertTrue(self.tensors(run_dir) == expected)
            self.assertFalse(os.path.exists(self.backup))

    def test_by_steps_there_is_one_and_a_lost_run_dir_does_not_matter(self):
        self.write_job({"directory": self.backup, "every_steps": 500})
        longer = f"--epochs={MANY_EPOCHS}"
        expected = self.undisturbed(ONE_DEVICE, longer)
        run = self.start(ONE_DEVICE, longer)
        run.wait_for("checkpoint committed at step")
        self.kill_all(run)
        first = run.output.split(".step-", 1)[1]
        self.assertGreaterEqual(int(first.split()[0]), 500)
        shutil.rmtree(self.run_dir)
        self.train(ONE_DEVICE, longer, "--set=backup_and_restore.every_steps=700")
        self.assertTrue(self.tensors(self.run_dir) == expected)
        changed = [change["name"] for change in self.result()["changed"]]
        self.assertIn("backup_and_restore.every_steps", changed)

    def test_a_finished_job_has_nothing_left_to_do(self):
        self.train(ONE_DEVICE)
        before = paramd.checkpoints(self.run_dir)
        self.train(ONE_DEVICE)
        self.assertEqual(paramd.checkpoints(self.run_dir), before)
        longer = self.train(ONE_DEVICE, f"--epochs={EPOCHS + 1}")
        self.assertIn("goes on in its own directory", longer.output)
        self.assertFalse(os.path.exists(self.backup))

    def test_a_cluster_that_has_no_backup_yet_begins_anew(self):
        os.makedirs(os.path.join(self.run_dir, "logs"))
        self.train(ONE_PS, "--epochs=1")
        self.train(ONE_PS, "--epochs=2")
        self.assertFalse(os.path.exists(self.backup))

    def test_a_backup_that_cannot_be_moved_stays(self):
        in_the_way = os.path.join(self.run_dir, "checkpoints")
        os.makedirs(self.run_dir)
        with open(in_the_way, "w", encoding="utf-8"):
            pass
        run = self.train(ONE_DEVICE)
        self.assertIn("the backup stays", run.output)
        self.assertEqual(len(paramd.checkpoints(self.backup)), 1)
        os.remove(in_the_way)
        self.train(ONE_DEVICE)
        self.assertTrue(os.path.isdir(self.result()["checkpoint_path"]))
        self.assertFalse(os.path.exists(self.backup))

    def test_a_backup_that_stays_goes_on_for_more_epochs(self):
        self.write_job({"directory": self.backup, "delete_at_success": False})
        self.train(ONE_DEVICE)
        finished = paramd.checkpoints(self.backup)
        self.train(ONE_DEVICE)
        self.assertEqual(paramd.checkpoints(self.backup), finished)
        self.train(ONE_DEVICE, f"--epochs={EPOCHS + 1}")
        (newest,) = paramd.checkpoints(self.backup)
        self.assertTrue(newest.endswith(f"step-{(EPOCHS + 1) * STEPS_PER_EPOCH}"), newest)
        self.assertEqual(paramd.checkpoints(self.run_dir), [])

    def refused(self, code, *flags, run_dir=None):
        run = self.start(ONE_DEVICE, *flags, run_dir=run_dir)
        self.assertEqual(run.wait(), code, run.output)
        return run.output

    def test_what_is_there_and_cannot_be_gone_on_from_is_named(self):
        self.kill_with_a_backup(ONE_DEVICE, STEPS_PER_EPOCH * MANY_EPOCHS,
                                f"--epochs={MANY_EPOCHS}")
        self.assertIn('name is "other", was "tiny"',
                      self.refused(2, "--name=other"))
        newest = paramd.checkpoints(self.backup)[-1]
        for name in paramd.checkpoints(self.backup):
            manifest = os.path.join(self.backup, "checkpoints", name,
                                    "manifest.json")
            os.truncate(manifest, os.path.getsize(manifest) // 2)
        output = self.refused(1, f"--epochs={MANY_EPOCHS}")
        self.assertIn("no checkpoint in", output)
        self.assertIn(newest, output)

    def test_a_backup_that_is_not_mounted_is_waited_for(self):
        longer = f"--epochs={MANY_EPOCHS}"
        self.kill_with_a_backup(ONE_DEVICE, STEPS_PER_EPOCH * MANY_EPOCHS,
                                longer)
        elsewhere = self.backup + ".not_mounted"
        os.rename(self.backup, elsewhere)
        self.assertIn("is it mounted", self.refused(138, longer))
        shutil.rmtree(self.backup)
        os.rename(elsewhere, self.backup)
        self.train(ONE_DEVICE, longer)

    def test_an_evaluator_needs_a_backup_that_stays(self):
        ps, worker, evaluator = paramd.draw_addresses(3)
        run = paramd.Run(
            "run", "--job", self.job, f"--run_dir={self.run_dir}",
            environment={"TF_CONFIG": json.dumps({
                "cluster": {"ps": [ps], "worker": [worker],
                            "evaluator": [evaluator]},
                "task": {"type": "evaluator", "index": 0}})})
        self.assertEqual(run.wait(), 2, run.output)
        self.assertIn("delete_at_success: would take", run.output)

    def test_a_directory_that_cannot_be_used_is_named(self):
        with open(self.backup, "w", encoding="utf-8"):
            pass
        self.assertIn(self.backup, self.refused(2))
        self.assertIn("makes no sense together with backup_and_restore",
                      self.refused(2, "--set=checkpoint.keep=2"))
        self.assertIn("is run_dir", self.refused(2, run_dir=self.backup))


if __name__ == "__main__":
    unittest.main()
