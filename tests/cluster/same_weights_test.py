"""With one worker neither network nor number of servers changes a bit."""

import os
import unittest

from tests.cluster import paramd


def setUpModule():
    paramd.need_data()


def final_tensors(run):
    root = run.run_directory()
    newest = paramd.checkpoints(root)[-1]
    return paramd.tensors(os.path.join(root, "checkpoints", newest))


class SameWeightsTest(unittest.TestCase):

    def check(self, job, *flags):
        alone = paramd.Run("run", "--job", job, *flags)
        self.assertEqual(alone.wait(), 0, alone.output)
        expected = final_tensors(alone)
        self.assertGreater(len(expected), 3)
        for servers in (1, 3):
            run = paramd.Run("local", "--job", job, "--workers=1",
                             f"--servers={servers}", *flags)
            self.assertEqual(run.wait(), 0, run.output)
            found = final_tensors(run)
            self.assertEqual(sorted(found), sorted(expected))
            for name, values in expected.items():
                self.assertEqual(found[name], values,
                                 f"{name} with {servers} servers")

    def test_sgd(self):
        self.check(paramd.SMALL_JOB)

    def test_adam_and_its_slots(self):
        self.check(paramd.JOB, "--epochs=1")

    def test_another_seed_gives_other_weights(self):
        runs = [paramd.Run("run", "--job", paramd.SMALL_JOB, f"--seed={seed}")
                for seed in (1, 2)]
        for run in runs:
            self.assertEqual(run.wait(), 0, run.output)
        self.assertNotEqual(final_tensors(runs[0]), final_tensors(runs[1]))


if __name__ == "__main__":
    unittest.main()
