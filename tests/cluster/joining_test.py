"""Workers that TF_CONFIG does not name join a job, and leave at will."""

import json
import os
import signal
import subprocess
import unittest

from tests.cluster import paramd

STEPS_AN_EPOCH = 8
EPOCHS = 8000  # So long that processes come and go meanwhile.
# Long enough for workers that are alive on a busy machine.
SHORT_LEASE = ("--lease_ms=2000", "--heartbeat_ms=100")


def command(*arguments):
    """Exit code and all that it prints."""
    done = subprocess.run([paramd.BINARY, *arguments], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


class JoiningTest(unittest.TestCase):

    def cluster(self, servers=2, workers=2):
        cluster = paramd.Cluster(servers, workers)
        with open(cluster.job, encoding="utf-8") as file:
            job = json.load(file)
        job.update({"epochs": EPOCHS, "evaluate_every_epochs": 0})
        with open(cluster.job, "w", encoding="utf-8") as file:
            json.dump(job, file)
        return cluster

    def start(self, cluster, task, *flags):
        run = cluster.start(task, "--max_joined_workers=2", *flags)
        self.addCleanup(run.kill)
        return run

    def start_all(self, cluster, *flags):
        return {task: self.start(cluster, task, *flags)
                for task in cluster.tasks}

    def join(self, cluster, *flags, environment=None):
        run = paramd.Run("run", "--job", cluster.job, "--join",
                         cluster.address("worker-0"), *flags,
                         directory=cluster.directory, environment=environment)
        self.addCleanup(run.kill)
        return run

    def check_result(self, cluster):
        """No push is lost or in twice. Returns how many there were."""
        with open(os.path.join(cluster.run_directory, "result.json"),
                  encoding="utf-8") as file:
            result = json.load(file)
        self.assertEqual(
            (int(result["pushes_lost"]), int(result["pushes_doubled"])), (0, 0))
        return int(result["global_step"])

    def check_all_end(self, runs):
        for task, run in runs.items():
            self.assertEqual(run.wait(), 0, f"{task}: {run.output}")

    def test_Promise1_one_comes_and_leaves_and_each_batch_is_in_once(self):
        cluster = self.cluster()
        runs = self.start_all(cluster)
        joined = self.join(cluster)
        joined.wait_for("first push of generation")
        joined.signal(signal.SIGTERM)
        self.assertEqual(joined.wait(), 143, joined.output)
        self.assertIn("worker-2", joined.output)
        runs["again"] = self.join(cluster)  # And stays to the end.
        self.check_all_end(runs)
        self.assertIn("worker-2 joined as generation", runs["worker-0"].output)
        self.assertEqual(self.check_result(cluster), EPOCHS * STEPS_AN_EPOCH)

    def test_one_is_killed_and_a_second_goes_on_and_a_third_takes_its_index(
            self):
        cluster = self.cluster()
        runs = self.start_all(cluster, *SHORT_LEASE)
        killed = self.join(cluster, *SHORT_LEASE)
        killed.wait_for("first push of generation")
        runs["second"] = self.join(cluster, *SHORT_LEASE)
        runs["second"].wait_for("first push of generation")
        code, output = command("status", cluster.address("worker-0"))
        self.assertEqual(code, 0, output)
        self.assertIn("2 workers, 2 of at most 2 joined", output)
        self.assertRegex(output, r"worker-3 \(joined\) +alive")

        third = self.join(cluster, *SHORT_LEASE)
        self.assertEqual(third.wait(), 2, third.output)
        self.assertIn("max_joined_workers of its chief is 2", third.output)

        killed.signal(signal.SIGKILL)
        killed.wait()
        runs["worker-0"].wait_for("worker-2 (process ")
        runs["third"] = self.join(cluster, *SHORT_LEASE)
        self.check_all_end(runs)
        # What the killed one had pushed of its portion others push again.
        self.assertGreaterEqual(self.check_result(cluster),
                                EPOCHS * STEPS_AN_EPOCH)

    def test_one_that_fails_before_it_joins_keeps_no_index(self):
        cluster = self.cluster()
        runs = self.start_all(cluster)
        for _ in range(3):
            failed = self.join(cluster, "--trace=/nonexistent/trace.json")
            self.assertNotEqual(failed.wait(), 0, failed.output)
        runs["joined"] = self.join(cluster)
        runs["joined"].wait_for("first push of generation")
        self.assertIn("worker-2", runs["joined"].output)
        runs["worker-0"].wait_for("does not join: its index is free")

    def test_it_answers_where_it_listens(self):
        cluster = self.cluster()
        self.start_all(cluster)
        (address,) = paramd.draw_addresses(1)
        joined = self.join(cluster, f"--listen={address}")
        joined.wait_for("first push of generation")
        code, output = command("status", address, "--format", "json")
        self.assertEqual(code, 0, output)
        report = json.loads(output)
        self.assertEqual(report["job"]["joined_workers"], 1)
        self.assertEqual(report["job"]["members"][-1]["address"], address)
        self.assertTrue(report["job"]["members"][-1]["joined"])
        self.assertEqual(report["processes"][-1]["name"], "worker-2")
        self.assertIn("worker", report["processes"][-1]["status"])

    def test_with_certificates_each_has_the_index_that_its_own_names(self):
        cluster = self.cluster()
        tls = os.path.join(cluster.directory, "tls")
        code, output = command("tls", "init", "--job", "tiny", "--dir", tls,
                               "--servers", "2", "--workers", "4")
        self.assertEqual(code, 0, output)
        self.start_all(cluster, f"--tls_dir={tls}")
        joined = self.join(cluster, f"--tls_dir={tls}/worker-3")
        joined.wait_for("first push of generation")
        self.assertIn("worker-3", joined.output)
        for name, sentence in (
                ("worker-1", "the certificate is that of worker-1; those that "
                             "join have worker-2 to worker-3"),
                ("ps-0", "to join job 'tiny' takes one of its workers"),
                ("", "has no tls.crt")):
            with self.subTest(name):
                refused = self.join(cluster, f"--tls_dir={tls}/{name}")
                self.assertEqual(refused.wait(), 2, refused.output)
                self.assertIn(sentence, refused.output)

    def test_who_may_not_join_is_told_in_one_sentence(self):
        cluster = self.cluster()
        chief = cluster.start("worker-0")
        self.addCleanup(chief.kill)
        chief.wait_for("ready")
        as_ps = {"TF_CONFIG": json.dumps(
            {"cluster": cluster.cluster, "task": {"type": "ps", "index": 0}})}
        for flags, environment, sentence in (
                ((), None, "job 'tiny' takes no workers beside the 2 that its "
                           "cluster names: give its chief max_joined_workers"),
                (("--name=other",), None, "job_name differs"),
                (("--set=optimizer.learning_rate=0.5",), None,
                 "optimizer.learning_rate differs"),
                ((), as_ps, "TF_CONFIG says that it is ps-0")):
            with self.subTest(sentence):
                refused = self.join(cluster, *flags, environment=environment)
                self.assertEqual(refused.wait(), 2, refused.output)
                self.assertIn(sentence, refused.output)
        # A chief that is not there may come.
        alone = paramd.Cluster(servers=1, workers=1)
        refused = self.join(alone, "--start_timeout_ms=300")
        self.assertEqual(refused.wait(), 138, refused.output)
        self.assertIn("the chief gave no index within", refused.output)


if __name__ == "__main__":
    unittest.main()
