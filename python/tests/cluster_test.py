"""Workers in Python in a cluster of processes."""

import collections
import json
import os
import pathlib
import sys
import tempfile
import time
import unittest
import unittest.mock

try:
    import numpy as np
except ImportError:
    np = None

LIBRARY = os.path.abspath("program/libparamd.so")
PROGRAM = os.path.abspath("cli/paramd")
SCRIPT = os.path.abspath("python/tests/line_worker.py")
os.environ["LIBPARAMD"] = LIBRARY
os.environ["PARAMD"] = PROGRAM
os.environ["PYTHONPATH"] = os.path.abspath("python")
sys.path.insert(0, os.path.abspath("python"))


# So soon somebody who is gone is no longer waited for.
PATIENCE = ("lease_ms=3000", "heartbeat_ms=300")


@unittest.skipIf(np is None, "needs NumPy")
class ClusterTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.run_dir = str(self.directory / "run")

    def cluster(self, workers, settings=(), servers=2):
        from paramd.cluster import Local
        cluster = Local(servers,
                        [[SCRIPT, self.run_dir, *PATIENCE, *settings]] * workers,
                        directory=self.directory / "logs")
        self.addCleanup(cluster.close)
        return cluster

    def log(self, task):
        return (self.directory / "logs" / f"{task}.log").read_text()

    def steps(self, task):
        """The examples of each step that the worker was given."""
        return [[int(word) for word in line.split()[1:]]
                for line in self.log(task).splitlines()
                if line.startswith("step ")]

    def wait(self, cluster):
        try:
            cluster.wait(100)
        except Exception as error:
            logs = "".join(f"== {task}\n{self.log(task)[-2000:]}"
                           for task in cluster.processes)
            raise AssertionError(f"{error}\n{logs}") from error

    def test_where_no_port_is_free_nobody_looks_for_ever(self):
        import paramd
        from paramd.cluster import _addresses
        with unittest.mock.patch("socket.socket.bind", side_effect=OSError("in use")):
            with self.assertRaisesRegex(paramd.Error, "has 2 free ports from .*: in use"):
                _addresses(2)
        with self.assertRaisesRegex(paramd.InvalidArgument, "of 50000 processes"):
            _addresses(50000)

    def test_a_running_cluster_says_how_it_is_and_takes_settings(self):
        import paramd
        from paramd.cluster import _addresses
        address = _addresses(1)[0]
        cluster = self.cluster(1, ["epochs=100000", f'metrics_address="{address}"'],
                               servers=1)
        client = paramd.Client(cluster.address("worker-0"))
        deadline = time.monotonic() + 60
        while not self.steps("worker-0") and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertIn("job", client.status())
        metrics = client.metrics(address)
        self.assertEqual(metrics['paramd_task_info{type="worker",index="0"}'], 1)
        with self.assertRaisesRegex(paramd.Unavailable, "speaks no HTTP"):
            client.metrics(cluster.address("ps-0"))
        with self.assertRaisesRegex(paramd.Unavailable, "refused"):
            client.metrics(_addresses(1)[0])
        client.set("staleness", 4, run_dir=self.run_dir)
        paramd.Client(client.address, tls_dir="/not/asked/for").set(
            "staleness", 4, run_dir=self.run_dir)
        with self.assertRaisesRegex(paramd.InvalidArgument, "staleness"):
            client.set("staleness", "often", run_dir=self.run_dir)
        for ask in (lambda: client.set("staleness", 4), client.checkpoint):
            with self.assertRaisesRegex(paramd.InvalidArgument, "give run_dir"):
                ask()
        self.check_pull(client)
        self.check_checkpoint(client)
        chief = cluster.processes["worker-0"]
        chief.terminate()
        self.assertEqual(chief.wait(60), 143)
        # What it had is saved.
        self.assertEqual(set(paramd.load(self.run_dir)), {"w", "b"})
        for ask in (client.status, client.pull):
            with self.assertRaises(paramd.Unavailable):
                ask()

    def test_the_chief_alone_sets_the_scale_of_learning_rates(self):
        import paramd
        # Each takes some steps, whoever is first.
        cluster = self.cluster(2, ["scale=0.5", "together=2", "epochs=40"])
        self.wait(cluster)
        refused = "Error: learning_rate_scale is the chief's, worker 0, to set; this is "
        self.assertNotIn("Error", self.log("worker-0"))
        self.assertIn(f"{refused}worker 1", self.log("worker-1"))
        (manifest,) = pathlib.Path(self.run_dir, "checkpoints").glob(
            "[0-9]*/manifest.json")
        self.assertEqual(json.loads(manifest.read_text())["learning_rate_scale"], 0.5)
        self.assertAlmostEqual(float(paramd.load(self.run_dir)["w"]), 3, delta=0.2)

    def check_pull(self, client):
        import paramd
        weights = client.pull()
        self.assertEqual({name: (value.shape, value.dtype)
                          for name, value in weights.items()},
                         {"w": ((), np.float32), "b": ((), np.float32)})
        self.assertLessEqual(0, weights.least_step)
        self.assertLessEqual(weights.least_step, weights.most_step)
        self.assertEqual(list(client.pull(["b"])), ["b"])
        self.assertEqual(client.pull([]), {})
        with self.assertRaisesRegex(paramd.InvalidArgument, "no variable 'v'"):
            client.pull(["w", "v"])
        with self.assertRaisesRegex(paramd.InvalidArgument, "named twice"):
            client.pull(["w", "w"])

    def check_checkpoint(self, client):
        import asyncio
        import paramd
        first = client.checkpoint(run_dir=self.run_dir)
        pushed = client.pull().least_step
        again = paramd.AsyncClient(client.address)

        async def ask():
            return await asyncio.gather(again.checkpoint(run_dir=self.run_dir),
                                        again.pull(["w"]), again.status())

        second, weights, status = asyncio.run(ask())
        self.assertGreaterEqual(second.step, first.step)
        self.assertGreaterEqual(second.step, pushed)
        self.assertEqual(set(paramd.load(second.path)), {"w", "b"})
        self.assertEqual(list(weights), ["w"])
        self.assertIn("job", status)
        with self.assertRaises(paramd.InvalidArgument):
            client.checkpoint(run_dir=str(self.directory))

    def test_servers_without_a_job_or_a_disk_serve_two_workers(self):
        self.wait(self.cluster(2, ["together=2"]))
        import paramd
        self.assertAlmostEqual(float(paramd.load(self.run_dir)["w"]), 3,
                               delta=0.2)
        given = collections.Counter(
            example for worker in range(2)
            for step in self.steps(f"worker-{worker}") for example in step)
        # Each example once in each epoch, whoever had it.
        self.assertEqual(set(given.values()), {20})
        self.assertIn("does not see", self.log("ps-0") + self.log("ps-1"))

    def test_sync_workers_have_the_weights_of_one_that_accumulates(self):
        import paramd
        self.wait(self.cluster(2, ['staleness="sync"', "epochs=3"]))
        together = paramd.load(self.run_dir)
        self.run_dir = str(self.directory / "alone")
        self.wait(self.cluster(1, ['staleness="sync"', "epochs=3",
                                   "accumulate=2"], servers=1))
        alone = paramd.load(self.run_dir)
        for name, value in together.items():
            np.testing.assert_allclose(value, alone[name], atol=1e-6)

    def test_a_second_job_in_the_same_processes_is_refused_at_once(self):
        # Whoever waited for servers that have ended would do so for ten minutes. A
        # run that is finished needs none either, and is refused as another one is.
        others = json.dumps([self.run_dir + "-2", self.run_dir])
        cluster = self.cluster(2, ["again=" + others])
        self.wait(cluster)
        for task in ("worker-0", "worker-1"):
            said = [line for line in self.log(task).splitlines()
                    if line.startswith("again: ")]
            self.assertEqual(len(said), 2, self.log(task))
            for line in said:
                self.assertRegex(
                    line, "^again: Error: the server at 127.* has ended with the job "
                    "that .*: run the script once for each job")
        self.assertFalse(os.path.exists(self.run_dir + "-2"))

    def test_a_worker_with_another_model_is_refused_by_name(self):
        from paramd.cluster import Local
        for number, (b, said) in enumerate((
                ('"c": 0.5}', "'c'"),
                ('"b": np.float32(0.5)}', "'b' of one number, the chief's is 'b' of "
                 "one number, computed in float64"))):
            script = self.directory / "other.py"
            text = pathlib.Path(SCRIPT).read_text()
            self.assertIn('"b": 0.5}', text)
            script.write_text(text.replace('"b": 0.5}', b))
            endless = [f"{self.run_dir}-{number}", *PATIENCE, "epochs=1000000"]
            with Local(1, [[SCRIPT, *endless], [str(script), *endless]],
                       directory=self.directory / "logs") as cluster:
                self.assertEqual(cluster.processes["worker-1"].wait(100), 1)
            self.assertIn(f"is not the chief's: its variable 2 is {said}",
                          self.log("worker-1"))

    def test_whoever_waits_is_told_who_failed_meanwhile(self):
        from paramd import Error
        from paramd.cluster import Local
        script = self.directory / "broken.py"
        script.write_text("import nothing_of_this_name\n")
        chief = [SCRIPT, self.run_dir, *PATIENCE, "finish_timeout_ms=200"]
        with Local(1, [chief, [str(script)]],
                   directory=self.directory / "logs") as cluster:
            with self.assertWarnsRegex(
                    RuntimeWarning, "worker-1 ended with 1 .*nothing_of_this"
                    r".*; start\('worker-1'\) starts it again"):
                with self.assertRaisesRegex(Error, "ended: worker-1 with 1 "):
                    cluster.wait(100)
        self.assertIn('"w": ', self.log("worker-0"))

    def test_nobody_waits_for_a_chief_whose_script_fails(self):
        from paramd import Error
        from paramd.cluster import Local
        script = self.directory / "broken.py"
        script.write_text("import nothing_of_this_name\n")
        with Local(1, [[str(script)], [SCRIPT, self.run_dir]],
                   directory=self.directory / "logs") as cluster:
            with self.assertRaisesRegex(
                    Error, "ended: worker-0 with 1 .*worker-0.log: "
                    "ModuleNotFoundError: .*nothing_of_this_name"):
                cluster.wait(100)
            self.assertIsNone(cluster.processes["ps-0"].poll())

    def test_a_killed_worker_costs_no_example(self):
        cluster = self.cluster(2, ["together=2", "epochs=300",
                                   "portion_batches=2"])
        killed = 0
        for _ in range(3):
            before = len(self.steps("worker-1")) if killed else 0
            deadline = time.monotonic() + 60
            while (len(self.steps("worker-1")) <= before + 5
                   and time.monotonic() < deadline
                   and cluster.processes["worker-1"].poll() is None):
                time.sleep(0.02)
            if cluster.processes["worker-1"].poll() is not None:
                break  # The job was quicker.
            cluster.processes["worker-1"].kill()
            cluster.processes["worker-1"].wait()
            killed += 1
            cluster.start("worker-1")
        self.wait(cluster)
        self.assertGreater(killed, 0)
        with open(self.run_dir + "/result.json", encoding="utf-8") as file:
            result = json.load(file)
        self.assertEqual(int(result["pushes_lost"]), 0)
        self.assertEqual(int(result["pushes_doubled"]), 0)


if __name__ == "__main__":
    unittest.main()
