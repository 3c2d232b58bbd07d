"""An embedding whose rows are named by keys, in real processes."""

import copy
import json
import os
import re
import subprocess
import tempfile
import unittest

from tests.cluster import paramd
from tests.cluster.keyed_job import TABLE, WIDTH, KeyedCase, by_key, job, rows_of


class KeyedTest(KeyedCase):

    def test_keys_that_number_rows_give_what_rows_give(self):
        numbered = self.train(job(keyed=False), "run").tensors()
        tensors = self.train(job(), "run").tensors()
        for slot in ("", "/slot:accumulator"):
            rows = rows_of(tensors, slot)
            # Of 640 examples of six keys each.
            self.assertGreater(len(rows), 3000)
            size = WIDTH * 4
            for key, values in rows.items():
                expected = numbered[TABLE + slot][key * size:(key + 1) * size]
                self.assertEqual(values, expected, f"key {key} {slot}")
        self.assertTrue(tensors["dense_1/kernel"] == numbered["dense_1/kernel"])

    def test_keyed_gradients_are_in_the_norm_of_all(self):
        def clipped(**settings):
            settings = job("sgd", **settings)
            settings["optimizer"]["clip_global_norm"] = 0.01
            return settings

        numbered = self.train(clipped(keyed=False), "run").tensors()
        tensors = self.train(clipped(), "run").tensors()
        for key, values in rows_of(tensors).items():
            size = WIDTH * 4
            self.assertEqual(values, numbered[TABLE][key * size:(key + 1) * size],
                             f"key {key}")
        self.assertTrue(tensors["dense_1/kernel"] == numbered["dense_1/kernel"])

    def test_no_transport_and_no_number_of_servers_changes_a_bit(self):
        # Of 1,024 rows many are evicted.
        late = {"admit_after": 2, "expire_after": 20}
        for settings in (job("adam"), job("adam", capacity=1024),
                         job("adam", policy=late, epochs=3)):
            alone = by_key(self.train(settings, "run").tensors())
            self.assertEqual(
                len(alone[TABLE]) == 1024,
                settings["model"]["layers"][0]["embedding"]["capacity"] == 1024)
            for servers in (1, 3):
                over_grpc = self.train(settings, "local", "--workers=1",
                                       f"--servers={servers}").tensors()
                self.assert_same(by_key(over_grpc), alone, f"{servers} servers")

    def test_who_is_ignored_gets_no_row(self):
        def keys(examples, when_full):
            settings = job(capacity=1024, examples=examples)
            table = settings["model"]["layers"][0]["embedding"]
            table["when_full"] = when_full
            settings["input"]["stages"] = [{"prefetch": 2}]  # In order.
            run = self.train(settings, "local", "--workers=1", "--servers=1")
            return set(rows_of(run.tensors()))

        first = keys(160, "ignore")  # Fewer than there are rows.
        self.assertLess(len(first), 1024)
        self.assertEqual(first, keys(160, "evict"))
        ignoring = keys(640, "ignore")
        evicting = keys(640, "evict")
        self.assertEqual((len(ignoring), len(evicting)), (1024, 1024))
        self.assertTrue(first <= ignoring, "who came first keeps its row")
        self.assertLess(len(first & evicting), len(first) / 10)

    def test_a_table_that_is_too_small_says_which_capacity_would_do(self):
        def warnings(run):
            return [warning for warning in run.result()["warnings"]
                    if "too small" in warning]

        # About 3,770 keys.
        for when_full, what in (("evict", "were taken from other keys"),
                                ("ignore", "gradients of keys for which no row "
                                           "was left were dropped")):
            settings = job(capacity=1024, policy={"when_full": when_full})
            run = self.train(settings, "local", "--workers=1", "--servers=2")
            (warning,) = warnings(run)
            self.assertIn(what, warning)
            self.assertIn(f"the table {TABLE} is too small", run.output)
            keys, capacity = (int(number) for number in re.search(
                r"about (\d+) asked for a row: give its layer a capacity of "
                r"(\d+) \(the job can be resumed with another one\)$",
                warning).groups())
            self.assertTrue(3300 < keys < 4200, warning)
            self.assertGreater(capacity, keys)
            settings = job(capacity=capacity, policy={"when_full": when_full})
            self.assertEqual(warnings(self.train(
                settings, "local", "--workers=1", "--servers=2")), [])

    def test_who_is_named_once_gets_no_row(self):
        counts = {}
        for after in (1, 2):
            settings = job(policy={"admit_after": after}, seed=3)
            run = self.train(settings, "local", "--workers=1", "--servers=1")
            counts[after] = rows_of(run.tensors())
        # Of 3,840 keys out of 100,000, some 70 come twice.
        self.assertTrue(set(counts[2]) < set(counts[1]))
        self.assertLess(len(counts[2]), len(counts[1]) / 10)
        self.assertGreater(len(counts[2]), 20)

    def test_promise6_sync_workers_give_what_one_that_accumulates_gives(self):
        settings = job(staleness="sync")
        three = self.train(settings, "local", "--workers=3",
                           "--servers=2").tensors()
        alone = copy.deepcopy(settings)
        alone["accumulate"] = 3
        one = self.train(alone, "local", "--workers=1",
                         "--servers=1").tensors()
        self.assert_same(by_key(three), by_key(one), "of three workers")

    def on_disk(self, settings):
        """The same job, with a thousand of its rows in memory."""
        settings = copy.deepcopy(settings)
        settings["disk_directory"] = tempfile.mkdtemp(
            dir=os.environ["TEST_TMPDIR"])
        table = settings["model"]["layers"][0]["embedding"]
        table["memory_rows"] = 1000
        return settings

    def test_rows_of_bf16_are_half_as_large_and_learn_as_well(self):
        wide = self.train(job("adam", epochs=3), "run")
        settings = job("adam", epochs=3, policy={"row_format": "bf16"})
        alone = self.train(settings, "run")
        self.assertEqual(2 * len(alone.tensors()[TABLE]),
                         len(wide.tensors()[TABLE]))
        self.assertEqual(len(alone.tensors()[TABLE + "/slot:momentum"]),
                         len(wide.tensors()[TABLE + "/slot:momentum"]))
        self.assertAlmostEqual(alone.result()["evaluation"]["loss"],
                               wide.result()["evaluation"]["loss"], delta=0.05)
        tensors = by_key(alone.tensors())
        for servers in (1, 3):
            over_grpc = self.train(settings, "local", "--workers=1",
                                   f"--servers={servers}").tensors()
            self.assert_same(by_key(over_grpc), tensors, f"{servers} servers")
        on_disk = self.train(self.on_disk(settings), "run").tensors()
        self.assert_same(by_key(on_disk), tensors, "on disk")

    def test_a_run_goes_on_with_rows_in_another_format(self):
        def formatted(name, **settings):
            return job("adam", staleness="sync", policy={"row_format": name},
                       **settings)

        processes = ("--workers=2", "--servers=2")
        alone = self.train(formatted("bf16", epochs=2), "local",
                           *processes).tensors()
        run = self.train(formatted("bf16"), "local", *processes)
        again = self.resume(run, formatted("bf16", epochs=2), *processes)
        self.assertEqual(again.wait(), 0, again.output)
        self.assert_same(by_key(again.tensors()), by_key(alone), "resumed")
        wide = self.resume(run, formatted("fp32", epochs=3), *processes)
        self.assertEqual(wide.wait(), 0, wide.output)
        self.assertIn({"name": "model.layers[0].embedding.row_format",
                       "before": '"bf16"', "now": '"fp32"'},
                      wide.result()["changed"])
        self.assertEqual(2 * len(alone[TABLE]), len(wide.tensors()[TABLE]))
        for command in ("verify", "inspect"):
            subprocess.check_output([paramd.BINARY, "checkpoint", command,
                                     run.run_directory()])

    def test_rows_on_disk_hold_what_rows_in_memory_hold(self):
        settings = job("adam")
        alone = by_key(self.train(settings, "run").tensors())
        settings = self.on_disk(settings)
        for command in (["run"], ["local", "--workers=1", "--servers=2"]):
            run = self.train(settings, *command)
            self.assert_same(by_key(run.tensors()), alone, f"{command}")
            self.assertEqual(os.listdir(settings["disk_directory"]), [],
                             "the file has no name")

    def test_rows_on_disk_need_a_directory(self):
        settings = self.on_disk(job())
        del settings["disk_directory"]
        run = self.start(settings, "run")
        self.assertEqual(run.wait(), 2, run.output)
        self.assertIn("disk_directory of this server is empty", run.output)
        settings["disk_directory"] = "/does/not/exist"
        run = self.start(settings, "run")
        self.assertEqual(run.wait(), 2, run.output)
        self.assertIn("no file can be made in disk_directory", run.output)

    def test_promise5_processes_that_are_killed_change_no_bit_of_sync(self):
        settings = job(examples=16000, staleness="sync", lease_ms=5000,
                       policy={"admit_after": 2, "expire_after": 150},
                       heartbeat_ms=100, checkpoint={"every_steps": 100})
        # Which rows expire when depends on their places.
        for where, killed in (("in memory", settings),
                              ("on disk", self.on_disk(settings))):
            undisturbed = self.train(killed, "local", "--workers=2",
                                     "--servers=2").tensors()
            run = self.start(killed, "local", "--workers=2", "--servers=2")
            run.wait_for("checkpoint committed at step")
            run.kill_task("worker-1")
            run.kill_task("ps-1")
            self.assertEqual(run.wait(), 0, run.output)
            self.assert_same(by_key(run.tensors()), by_key(undisturbed), where)

    def test_a_run_goes_on_with_any_capacity_that_has_room(self):
        def adam(**settings):
            return job("adam", staleness="sync", **settings)

        processes = ("--workers=1", "--servers=2")
        alone = by_key(self.train(adam(epochs=3), "local",
                                  *processes).tensors())
        run = self.train(adam(capacity=60000), "local", *processes)
        larger = self.resume(run, adam(capacity=200000, epochs=2), *processes)
        self.assertEqual(larger.wait(), 0, larger.output)
        self.assertIn({"name": "model.layers[0].embedding.capacity",
                       "before": "60000", "now": "200000"},
                      larger.result()["changed"])
        rows = len(rows_of(larger.tensors()))
        small = self.resume(run, adam(capacity=1000, epochs=3), *processes)
        self.assertEqual(small.wait(), 2, small.output)
        self.assertIn(f"'{TABLE}' has {rows} rows with a key; variable "
                      f"'{TABLE}' has room for 1000: give it a capacity of "
                      f"{rows}", small.output)
        # Nearly full.
        smaller = self.resume(run, adam(capacity=rows + 50, epochs=3),
                              *processes)
        self.assertEqual(smaller.wait(), 0, smaller.output)
        self.assert_same(by_key(smaller.tensors()), alone,
                         "in tables of three sizes")
        # Who evaluates needs no room.
        with open(run.job, "w", encoding="utf-8") as file:
            json.dump(adam(capacity=1000), file)
        evaluated = json.loads(subprocess.check_output(
            [paramd.BINARY, "evaluate", "--job", run.job, "--json",
             "--checkpoint", run.run_directory()], text=True))
        self.assertAlmostEqual(
            evaluated["metrics"]["loss"],
            smaller.result()["evaluation"]["loss"], places=6)

    def test_promise5_a_server_returns_with_rows_of_another_capacity(self):
        processes = ("--workers=2", "--servers=2")
        settings = dict(examples=16000, staleness="sync", lease_ms=5000,
                        heartbeat_ms=100)
        undisturbed = by_key(self.train(job(epochs=2, **settings), "local",
                                        *processes).tensors())
        run = self.train(job(capacity=70000, **settings), "local", *processes)
        before = paramd.checkpoints(run.run_directory())
        resumed = self.resume(run, job(capacity=140000, epochs=2, **settings),
                              *processes)
        resumed.wait_for("all 2 servers are filled")
        self.assertEqual(paramd.checkpoints(run.run_directory()), before,
                         "what it restores has the other capacity")
        resumed.kill_task("ps-1")
        self.assertEqual(resumed.wait(), 0, resumed.output)
        self.assert_same(by_key(resumed.tensors()), undisturbed,
                         "in tables of two sizes")

    def test_promise1_a_killed_worker_loses_and_doubles_nothing(self):
        run = self.start(job(examples=40000, lease_ms=1000, heartbeat_ms=100,
                             checkpoint={"every_steps": 300}), "local")
        run.wait_for("checkpoint committed at step")
        run.kill_task("worker-1")
        self.assertEqual(run.wait(), 0, run.output)
        result = run.result()
        self.assertEqual(
            (result["pushes_lost"], result["pushes_doubled"]), (0, 0))

    def test_a_checkpoint_is_evaluated_by_its_keys(self):
        run = self.train(job(examples=160), "local", "--workers=1",
                         "--servers=2")
        evaluated = json.loads(subprocess.check_output(
            [paramd.BINARY, "evaluate", "--job", run.job, "--json",
             "--checkpoint", run.run_directory()], text=True))
        # Most of the test set's keys have no row.
        evaluation = run.result()["evaluation"]
        self.assertEqual(evaluated["examples"], 32)
        self.assertAlmostEqual(evaluated["metrics"]["loss"],
                               evaluation["loss"], places=6)
        predicted = subprocess.check_output(
            [paramd.BINARY, "predict", "--job", run.job,
             "--checkpoint", run.run_directory()], text=True)
        self.assertGreaterEqual(len(predicted.splitlines()), 32)


if __name__ == "__main__":
    unittest.main()
