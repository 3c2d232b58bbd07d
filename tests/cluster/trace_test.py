"""--trace: what each worker did when, as Perfetto reads it."""

import collections
import json
import os
import unittest

from tests.cluster import paramd

KINDS = {"disk", "CPU", "compute", "push", "pull"}


def read(path):
    """The events of each lane, by process and name of the lane."""
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    processes, lanes = {}, {}
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for event in events:
        lane = (event["pid"], event["tid"])
        if event["name"] == "process_name":
            processes[event["pid"]] = event["args"]["name"]
        elif event["name"] == "thread_name":
            lanes[lane] = event["args"]["name"]
        else:
            found[processes[event["pid"]]][lanes[lane]].append(event)
    return found


def times(event):
    return event["ts"], event["ts"] + event["dur"]


class TraceTest(unittest.TestCase):

    def setUp(self):
        self.cluster = paramd.Cluster(servers=1, workers=2)
        self.trace = os.path.join(self.cluster.directory, "trace.json")

    def local(self, *flags):
        run = paramd.Run("local", "--job", self.cluster.job, "--servers=1",
                         "--epochs=20", f"--trace={self.trace}", *flags,
                         directory=self.cluster.directory)
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 0, run.output)
        self.assertIn(f"trace of the workers: {self.trace}", run.output)
        return read(self.trace)

    def check_kinds(self, lanes):
        self.assertLessEqual(KINDS, {name.split()[0] for name in lanes})

    def check_lanes(self, lanes):
        """Nothing in a lane overlaps but what is in something else."""
        for name, events in lanes.items():
            open_until = []
            for event in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
                self.assertGreaterEqual(event["dur"], 0)
                begin, end = times(event)
                while open_until and open_until[-1] <= begin:
                    open_until.pop()
                if open_until:
                    # A microsecond has three digits in the file.
                    self.assertLessEqual(end, open_until[-1] + 0.002,
                                         f"{name}: {event}")
                open_until.append(end)

    def check_steps(self, lanes):
        steps = [times(e) for e in lanes["compute"] if e["name"] == "step"]
        waits = [times(e) for e in lanes["compute"]
                 if e["name"] == "wait for a batch"]
        self.assertEqual(len(steps), len(waits))
        for begin, end in waits:
            self.assertTrue(any(b - 0.002 <= begin and end <= e + 0.002
                                for b, e in steps))
        if not lanes["push"]:
            return
        # A push begins when its gradient is there.
        pushes = sorted(map(times, lanes["push"]))
        self.assertLessEqual(len(pushes), len(steps))
        self.assertGreaterEqual(pushes[0][0], min(steps)[0])
        # Weights come before the first step.
        pulls = sorted(map(times, lanes["pull"]))
        self.assertLessEqual(pulls[0][1], min(steps)[0])

    def test_local_joins_those_of_its_workers(self):
        found = self.local("--workers=2")
        self.assertIn("worker-0", found)
        for lanes in found.values():
            self.check_lanes(lanes)
            self.check_steps(lanes)
        # One of them may have come when little was left to do.
        self.check_kinds(max(found.values(), key=lambda lanes:
                             len(lanes["push"])))
        pushes = sum(len(lanes["push"]) for lanes in found.values())
        self.assertEqual(20 * 8, pushes)
        self.assertIn("evaluate", found["worker-0"])
        self.assertEqual([], [name for name in os.listdir(
            self.cluster.directory) if name.startswith("trace.json.")])

    def test_in_sync_mode_too(self):
        found = self.local("--workers=2", "--staleness=sync")
        for lanes in found.values():
            self.check_kinds(lanes)
            self.check_lanes(lanes)
        self.assertEqual(20 * 4, len(found["worker-1"]["push"]))

    def test_a_process_of_a_cluster_writes_its_own(self):
        runs = {task: self.cluster.start(task, f"--trace={self.trace}.{task}")
                for task in self.cluster.tasks}
        for task, run in runs.items():
            self.addCleanup(run.kill)
            self.assertEqual(run.wait(), 0, run.output)
        self.assertEqual(["worker-0"], list(read(f"{self.trace}.worker-0")))
        self.assertFalse(os.path.exists(f"{self.trace}.ps-0"))
        self.assertIn("--trace is for workers", runs["ps-0"].output)

    def test_a_job_in_one_process_has_one(self):
        run = paramd.Run("run", "--job", self.cluster.job, "--epochs=20",
                         f"--trace={self.trace}",
                         directory=self.cluster.directory)
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 0, run.output)
        lanes = read(self.trace)["worker-0"]
        self.check_kinds(lanes)
        self.check_lanes(lanes)

    def test_where_it_cannot_be_written_is_said_at_the_start(self):
        run = paramd.Run("run", "--job", self.cluster.job,
                         "--trace=/nowhere/trace.json",
                         directory=self.cluster.directory)
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 2, run.output)
        self.assertIn("--trace: '/nowhere/trace.json' cannot be written",
                      run.output)


if __name__ == "__main__":
    unittest.main()
