"""Shards and streams, by themselves and leased by a cluster."""

import collections
import json
import os
import pathlib
import re
import sys
import tempfile
import time
import unittest
import unittest.mock

try:
    import numpy as np
except ImportError:
    np = None

SCRIPT = os.path.abspath("python/tests/line_worker.py")
os.environ["LIBPARAMD"] = os.path.abspath("program/libparamd.so")
os.environ["PARAMD"] = os.path.abspath("cli/paramd")
os.environ["PYTHONPATH"] = os.path.abspath("python")
sys.path.insert(0, os.path.abspath("python"))

# Of 8 shards of line_worker.py, whose examples are numbers.
EXAMPLES, EPOCHS = 64, 200


@unittest.skipIf(np is None, "needs NumPy")
class ShardsTest(unittest.TestCase):

    def setUp(self):
        self.opened = []

    def read(self, shard, begin=0):
        self.opened.append((shard, begin))
        return ((shard, i) for i in range(begin, {"a": 3, "b": 0, "c": 5}[shard]))

    def shards(self, **options):
        import paramd
        return paramd.Shards("abc", self.read, **options)

    def test_they_are_counted_unless_it_is_said(self):
        self.assertEqual(self.shards().counts, [3, 0, 5])
        self.assertEqual(len(self.opened), 3)
        self.assertEqual(self.shards(examples=[3, 0, 5]).examples, 8)
        self.assertEqual(len(self.opened), 3)

    def test_each_example_comes_once_an_epoch_whoever_reads(self):
        orders = set()
        for epoch in range(1, 6):
            readers = [self.shards(examples=[3, 0, 5]) for _ in range(2)]
            found = [example for begin in range(0, 8, 2)
                     for example in readers[begin // 2 % 2].read(
                         epoch, np.arange(begin, begin + 2))]
            self.assertEqual(sorted(found), [("a", i) for i in range(3)]
                             + [("c", i) for i in range(5)])
            for shard in "ac":  # In the shard's order.
                of_it = [i for s, i in found if s == shard]
                self.assertEqual(of_it, sorted(of_it))
            orders.add(found[0][0])
        self.assertEqual(orders, {"a", "c"})

    def test_a_shard_is_opened_once_for_whoever_reads_on(self):
        shards = self.shards(examples=[3, 0, 5], shuffle=False)
        found = [e for b in range(0, 8, 2) for e in shards.read(1, np.arange(b, b + 2))]
        self.assertEqual("".join(s for s, _ in found), "aaaccccc")
        self.assertEqual(self.opened, [("a", 0), ("c", 0)])
        self.assertEqual(shards.read(1, np.arange(1, 3)), [("a", 1), ("a", 2)])

    def test_one_that_seeks_begins_where_it_is_told(self):
        shards = self.shards(examples=[3, 0, 5], shuffle=False, seeks=True)
        self.assertEqual(shards.read(1, np.array([6])), [("c", 3)])
        self.assertEqual(self.opened, [("c", 3)])

    def test_what_comes_between_is_dropped_however_often(self):
        import paramd
        shards = paramd.Shards([200_000], range, examples=[200_000])
        for begin in range(0, 200_000, 2):
            self.assertEqual(shards.read(1, np.array([begin])), [begin])

    def test_a_shard_of_another_size_is_named(self):
        import paramd
        for counts, said in (([3, 0, 6], "'c' has fewer than the 6"),
                             ([3, 0, 4], "'c' has more than the 4")):
            with self.assertRaisesRegex(paramd.InvalidArgument, said):
                self.shards(examples=counts, shuffle=False).read(
                    1, np.arange(3, sum(counts)))

    def test_what_makes_no_sense_is_refused(self):
        import paramd
        with self.assertRaisesRegex(paramd.InvalidArgument, "2 numbers; .* 3 shards"):
            self.shards(examples=[1, 2])
        with self.assertRaisesRegex(paramd.InvalidArgument, "no examples"):
            self.shards(examples=[0, 0, 0])
        with self.assertRaisesRegex(paramd.InvalidArgument, "without shuffle"):
            self.shards().read(1, np.array([3, 1]))

    def test_a_portion_is_a_mean_shard(self):
        job = {"batch_per_replica": 2}
        self.shards().settings(job)
        self.assertEqual(job["portion_batches"], 2)
        self.shards().settings(job := {"portion_batches": 7, "input": {}})
        self.assertEqual(job, {"portion_batches": 7, "input": {}})


@unittest.skipIf(np is None, "needs NumPy")
class StreamTest(unittest.TestCase):

    def of(self, index, number, source, **task):
        import paramd
        cluster = {"chief": ["a:1"], "worker": ["b:1"] * (number - 1)}
        task = {"type": "worker", "index": index - 1} if index else {"type": "chief"}
        self.enterContext(unittest.mock.patch.dict(os.environ, TF_CONFIG=json.dumps(
            {"cluster": cluster, "task": task})))
        return paramd.Stream(source, examples=9)

    def test_workers_share_what_is_the_same_for_all(self):
        for index in range(3):
            stream = self.of(index, 3, range(7))
            self.assertEqual(stream.read(1, range(2)), [index, index + 3])

    def test_a_function_says_what_a_workers_is(self):
        stream = self.of(1, 3, lambda i, n: iter([(i, n)] * 2))
        self.assertEqual(stream.read(1, range(3)), [(1, 3)] * 3)

    def test_one_that_ends_begins_again(self):
        stream = self.of(0, 1, [1, 2, 3])
        self.assertEqual(stream.read(1, range(2)), [1, 2])
        self.assertEqual(stream.read(2, range(6)), [3, 1, 2, 3, 1, 2])

    def test_what_makes_no_sense_is_refused(self):
        import paramd
        with self.assertRaisesRegex(paramd.InvalidArgument, "can't begin again"):
            paramd.Stream(iter([1]), examples=2)
        with self.assertRaisesRegex(paramd.InvalidArgument, "float can't be iterated"):
            paramd.Stream(1.5, examples=2)
        with self.assertRaisesRegex(paramd.InvalidArgument, "above 0; found 0"):
            paramd.Stream([1], examples=0)
        with self.assertRaisesRegex(paramd.InvalidArgument, "no example in"):
            self.of(2, 3, [1]).read(1, range(1))


@unittest.skipIf(np is None, "needs NumPy")
class LeasedTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.run_dir = str(self.directory / "run")

    def steps(self, task):
        log = (self.directory / "logs" / f"{task}.log").read_text()
        return [tuple(int(number) for number in line.split()[1:])
                for line in re.findall("^step .*[0-9]\n", log, re.MULTILINE)]

    def result(self):
        path = self.directory / "run" / "result.json"
        found = json.loads(path.read_text())
        return tuple(int(found[key]) for key in
                     ("pushes_lost", "pushes_doubled", "global_step"))

    def test_promise4_a_shard_of_a_killed_worker_is_read_on_by_others(self):
        import paramd
        command = [SCRIPT, self.run_dir, f"epochs={EPOCHS}", "shards=8", "slowly=2",
                   "lease_ms=1500", "heartbeat_ms=300", "together=3"]
        with paramd.local(2, [command] * 3, directory=self.directory / "logs") as job:
            deadline = time.monotonic() + 60
            while len(self.steps("worker-2")) < 20:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)
            job.processes["worker-2"].kill()
            job.processes["worker-2"].wait()
            job.start("worker-2")
            job.wait(120, progress=False)
        # Two batches of 4 a shard of 8: whole runs, but for the killed worker's.
        lost, doubled, global_step = self.result()
        self.assertEqual((lost, doubled), (0, 0))
        # What it had told of, of two runs at most, comes on top.
        self.assertIn(global_step - EPOCHS * EXAMPLES // 4, range(2 * 2 + 1))
        seen = collections.Counter(
            example for task in range(3) for step in self.steps(f"worker-{task}")
            for example in step)
        again = {example: count - EPOCHS for example, count in seen.items()}
        self.assertEqual(len(again), EXAMPLES)
        self.assertGreaterEqual(min(again.values()), 0)
        # What it had not reported: of the run that it held, and of the next one.
        self.assertLessEqual(sum(again.values()), 2 * 8)

    def test_each_worker_reads_its_own_stream_and_the_cluster_counts(self):
        import paramd
        command = [SCRIPT, self.run_dir, "epochs=3", "stream=true", "together=2",
                   "portion_batches=1"]
        with paramd.local(1, [command] * 2, directory=self.directory / "logs") as job:
            job.wait(60, progress=False)
        self.assertEqual(self.result(), (0, 0, 3 * EXAMPLES // 8))
        for task in range(2):
            read = [example for step in self.steps(f"worker-{task}")
                    for example in step]
            self.assertTrue(read)
            self.assertEqual(read, [(2 * i + task) % EXAMPLES
                                    for i in range(len(read))])


if __name__ == "__main__":
    unittest.main()
