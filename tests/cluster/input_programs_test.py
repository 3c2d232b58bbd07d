"""Input programs: whatever the strategy, a job trains on the same examples in the
same batches, goes on with them, and what can't be is refused before it begins."""

import json
import os
import tempfile
import unittest

from tests.cluster import input_files as files
from tests.cluster import paramd

OF_ONE = {
    "one_device": ["run", "--strategy=one_device"],
    "mirrored": ["run", "--strategy=mirrored"],
    "async": ["run", "--staleness=async"],
    "sync": ["run", "--staleness=sync"],
    "with a server": ["local", "--servers=1", "--workers=1"],
}
OF_TWO = {
    "central_storage": ["run", "--strategy=central_storage", "--replicas=2"],
    "async": ["run", "--staleness=async", "--replicas=2"],
    "sync": ["local", "--servers=2", "--workers=2", "--staleness=sync"],
    "multi_worker_mirrored": ["local", "--strategy=multi_worker_mirrored",
                              "--workers=2"],
}
BATCH = 4
A = {"csv": {"files": "a.csv", "label": "kind"}}
B = {"csv": {"files": "b.csv", "label": "kind"}}
SAMPLED = {"sample_from": {
    "sources": [{**A, "stages": ["shuffle", {"repeat": 2}]},
                {**B, "stages": [{"shuffle": {"reshuffle": False}}]}],
    "weights": [1, 2], "stop_on_empty": True}}
ZIPPED = {"zip": {"sources": [
    {**A, "stages": ["shuffle"]},
    {"csv": {"files": "b.csv", "columns": ["y"], "name": "other"}}]}}
# Source, stages, and how many steps an epoch of one replica has, if that is known.
PROGRAMS = {
    "drop_remainder": (A, ["shuffle", {"batch": {"drop_remainder": True}}], 5),
    "sample_from": (SAMPLED, ["shuffle"], None),
    "zip": (ZIPPED, [{"skip": 1}], 4),
    "window": (A, [{"window": {"size": 3, "shift": 1, "drop_remainder": True,
                               "last": ["label"]}}, "shuffle"], 6),
    "buckets": (A, ["shuffle", {"bucket_by_length": {
        "feature": "label", "boundaries": [3, 7], "drop_remainder": True}}], 5),
}


class InputProgramsTest(unittest.TestCase):

    def setUp(self):
        self.data = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.write("a.csv", 23)
        self.write("b.csv", 17)

    def write(self, name, rows):
        files.write(self.data, name, files.csv(files.csv_rows(rows)))

    def job(self, source, stages, **more):
        """The path of a job file."""
        job = files.job(self.data, source, stages)
        path = os.path.join(self.data, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**job, "batch_per_replica": BATCH, "epochs": 2,
                       "evaluate_every_epochs": 0,
                       "model": {"layers": ["flatten", {"dense": 1}],
                                 "input": "features",
                                 "loss": "mean_squared_error"},
                       "optimizer": {"adam": {}, "learning_rate": 0.05},
                       **more}, file)
        return path

    def run_job(self, command, path, **more):
        run = paramd.Run(*command, "--job", path, **more)
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 0, run.output)
        return run

    def test_every_strategy_trains_on_the_same_batches(self):
        for name, (source, stages, steps) in PROGRAMS.items():
            path = self.job(source, stages)
            for commands in (OF_ONE, OF_TWO):
                wanted = None
                for strategy, command in commands.items():
                    with self.subTest(program=name, strategy=strategy):
                        run = self.run_job(command, path)
                        wanted = wanted or run.tensors()
                        self.assertEqual(run.tensors(), wanted)
                        if steps is not None and commands is OF_ONE:
                            self.assertEqual(int(run.result()["global_step"]),
                                             2 * steps)

    def test_a_run_goes_on_with_the_batches_that_are_left(self):
        for name, (source, stages, _) in PROGRAMS.items():
            with self.subTest(program=name):
                whole = self.run_job(OF_ONE["sync"], self.job(source, stages))
                first = self.run_job(OF_ONE["sync"],
                                     self.job(source, stages, epochs=1))
                again = self.run_job(
                    [*OF_ONE["sync"], "--run_dir", first.run_directory()],
                    self.job(source, stages), directory=first.directory)
                self.assertEqual(again.tensors(), whole.tensors())

    def test_what_is_dropped_is_as_what_is_not_there(self):
        self.write("short.csv", 20)
        short = {"csv": {**A["csv"], "files": "short.csv"}}
        for commands in (OF_ONE, OF_TWO):
            for strategy, command in commands.items():
                with self.subTest(strategy=strategy):
                    wanted = self.run_job(command,
                                          self.job(short, [{"prefetch": 2}]))
                    found = self.run_job(command, self.job(
                        A, [{"batch": {"drop_remainder": True}}]))
                    self.assertEqual(found.tensors(), wanted.tensors())

    def test_a_cache_stays_for_the_next_run(self):
        cache = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        stages = [{"cache": {"directory": cache, "keep": True}}, "shuffle"]
        wanted = self.run_job(OF_ONE["sync"], self.job(A, ["shuffle"]))
        found = []
        for command in (OF_ONE["sync"], OF_TWO["sync"], OF_ONE["async"]):
            run = self.run_job(command, self.job(A, stages))
            found.append(run.tensors())
        self.assertEqual(found[0], wanted.tensors())
        self.assertEqual(found[2], wanted.tensors())
        # What is trained on and what is evaluated on: a file each, of the
        # first run.
        kept = [os.listdir(os.path.join(cache, name))
                for name in os.listdir(cache)]
        self.assertEqual([len(names) for names in kept], [1, 1])

    def test_what_cannot_be_is_refused_by_check_and_by_run(self):
        refused = [
            (A, [{"batch": {"drop_remainder": True}}], {"batch_per_replica": 99},
             "with drop_remainder no example is left"),
            ({"sample_from": {"sources": [A, B], "weights": [1]}}, ["shuffle"],
             {}, "sample_from has 1 weights for 2 sources"),
            ({"sample_from": {"sources": [A, {"csv": {
                **B["csv"], "label": "x"}}]}}, ["shuffle"], {},
             "source 2 of sample_from: "),
            ({"zip": {"sources": [A, B]}}, ["shuffle"], {},
             "zip: source 2 has a feature 'features'"),
            (A, [{"interleave": {"parallelism": 3}}], {},
             "input.parallelism gives 1 thread in all"),
            (A, [{"window": 3}], {},
             "the last 1 of 8 windows have fewer than 3 examples"),
            (A, [{"bucket_by_length": {"feature": "label",
                                       "boundaries": [7, 3]}}], {},
             "boundaries must ascend; found 7, 3"),
            (A, [{"cache": {"keep": True}}], {},
             "with keep needs a directory"),
        ]
        for source, stages, more, sentence in refused:
            path = self.job(source, stages, **more)
            for command in (["config", "check"], OF_ONE["one_device"]):
                with self.subTest(sentence=sentence, command=command):
                    run = paramd.Run(*command, "--job", path)
                    self.addCleanup(run.kill)
                    self.assertEqual(run.wait(), 2, run.output)
                    self.assertIn(sentence, run.output)


if __name__ == "__main__":
    unittest.main()
