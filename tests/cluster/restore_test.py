"""What a job goes on from: never a damaged checkpoint, never another run's."""

import json
import os
import unittest

from tests.cluster import paramd

EPOCHS = 200  # Enough to be in the middle of.


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
        self.assertEqual(len(before), 1)

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
