"""A model that is trained with a part of it frozen, and then as a whole. Skipped by
name where there is no PyTorch."""

import os
import pathlib
import sys
import unittest

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]

from torch_cases import (  # pylint: disable=wrong-import-position
    F, LoopCase, np, plain, torch)

# One worker of a phase: script, phase, the directory of both runs.
SCRIPT = """
import os, sys
sys.path.insert(0, %r)
from torch_cases import F, SGD, blobs, plain
import paramd.torch as ps

phase, directory = sys.argv[1:]
model = plain()
model[0].requires_grad_(phase == "all")
if phase == "all":
    ps.load(model, directory + "/head")
worker = ps.Worker(model, optimizer=SGD, run_dir=f"{directory}/{phase}")
for epoch in worker.epochs(2):
    for x, y in epoch.batches(blobs(), 16):
        worker.step(F.cross_entropy(model(x), y))
"""


class PhasesTest(LoopCase):

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(self.run_dir).parent

    def saved(self, phase):
        import paramd
        return paramd.load(self.directory / phase)

    def check(self):
        """The first layer moved in the second phase alone, from what it began with,
        the last in both."""
        initial = {name: value.numpy() for name, value in plain().state_dict().items()}
        head, whole = self.saved("head"), self.saved("all")
        for name, value in initial.items():
            is_first = name.startswith("0.")
            self.assertEqual(np.array_equal(head[name], value), is_first, name)
            self.assertFalse(np.array_equal(whole[name], head[name]), name)
        # It began with the trained head and not anew.
        self.assertLess(abs(whole["2.weight"] - head["2.weight"]).max(),
                        abs(whole["2.weight"] - initial["2.weight"]).max())

    def test_in_one_process_another_worker_goes_on_with_the_model(self):
        model = plain()
        for phase in ("head", "all"):
            model[0].requires_grad_(phase == "all")
            self.run_dir = str(self.directory / phase)
            losses, _ = self.train(model)
            self.assertLess(losses[-1], losses[0])
        self.check()

    def test_in_a_cluster_each_phase_has_servers_of_its_own(self):
        from paramd.cluster import Local
        script = self.directory / "train.py"
        script.write_text(SCRIPT % os.path.dirname(os.path.abspath(__file__)))
        for phase in ("head", "all"):
            with Local(2, [[str(script), phase, str(self.directory)]] * 2,
                       directory=self.directory / f"logs-{phase}") as cluster:
                cluster.wait(100)
        self.check()

    def test_a_layer_that_is_unfrozen_within_a_job_is_told_where_to_go(self):
        import paramd
        model = plain()
        model[0].requires_grad_(False)
        worker = self.worker(model)
        with self.assertRaisesRegex(paramd.InvalidArgument,
                                    r"is trained, but was not .*\(Freezing, in docs"):
            for epoch in worker.epochs(2):
                for x, y in epoch.batches(self.data, 32):
                    worker.step(F.cross_entropy(model(x), y))
                model[0].requires_grad_(True)


if __name__ == "__main__":
    unittest.main()
