"""A cluster whose processes show certificates."""

import json
import os
import signal
import subprocess
import time
import unittest

from tests.cluster import paramd


def command(*arguments):
    """Exit code and all that it prints."""
    done = subprocess.run([paramd.BINARY, *arguments], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


class TlsTest(unittest.TestCase):

    def cluster(self, servers=2, workers=2, epochs=1):
        cluster = paramd.Cluster(servers, workers)
        with open(cluster.job, encoding="utf-8") as file:
            job = json.load(file)
        job.update({"epochs": epochs, "evaluate_every_epochs": 0})
        with open(cluster.job, "w", encoding="utf-8") as file:
            json.dump(job, file)
        return cluster

    def certificates(self, cluster, name="tls", job="tiny"):
        directory = os.path.join(cluster.directory, name)
        code, output = command("tls", "init", "--job", job, "--dir", directory,
                               "--servers", "2", "--workers", "2",
                               "--operators", "2")
        self.assertEqual(code, 0, output)
        self.assertIn("6 certificates of job 'tiny'" if job == "tiny" else
                      "6 certificates", output)
        return directory

    def start(self, cluster, task, *flags):
        run = cluster.start(task, *flags)
        self.addCleanup(run.kill)
        return run

    def test_a_job_trains_while_its_certificates_are_renewed(self):
        cluster = self.cluster(epochs=1000)
        tls = self.certificates(cluster)
        flag = f"--tls_dir={tls}"
        runs = {task: self.start(cluster, task, flag)
                for task in cluster.tasks}
        runs["worker-1"].wait_for("first push of generation")

        # Before and after it the operator asks with a certificate of its own.
        code, output = command("status", cluster.address("worker-0"), flag)
        self.assertEqual(code, 0, output)
        self.assertIn("tiny", output)
        for own in (tls, os.path.join(tls, "operator-1")):
            code, output = command("checkpoint", "now", "--chief",
                                   cluster.address("worker-0"),
                                   f"--tls_dir={own}")
            self.assertEqual(code, 0, output)
            self.assertRegex(output, r"^step \d+: ")
        self.check_live_weights(cluster, tls)
        with open(os.path.join(tls, "ps-0", "tls.crt"),
                  encoding="utf-8") as file:
            before = file.read()
        code, output = command("tls", "renew", "--dir", tls)
        self.assertEqual(code, 0, output)
        with open(os.path.join(tls, "ps-0", "tls.crt"),
                  encoding="utf-8") as file:
            self.assertNotEqual(file.read(), before)

        # A worker that comes back makes its connections with the new ones.
        runs["worker-1"].signal(signal.SIGKILL)
        runs["worker-1"].wait()
        runs["worker-1"] = self.start(cluster, "worker-1", flag)
        for task, run in runs.items():
            self.assertEqual(run.wait(), 0, f"{task}: {run.output}")
        self.assertTrue(paramd.checkpoints(cluster.run_directory))

    def check_live_weights(self, cluster, tls):
        """Whoever has a certificate of the job may read its weights."""
        live = ["evaluate", "--job", cluster.job, "--live",
                cluster.address("worker-0")]
        for directory in (tls, os.path.join(tls, "worker-1")):
            code, output = command(*live, f"--tls_dir={directory}")
            self.assertEqual(code, 0, output)
            self.assertIn("64 examples", output)
        code, output = command(*live)
        self.assertEqual(code, 138, output)
        self.assertIn("if it speaks TLS, give this process --tls_dir", output)

    def test_who_has_no_certificate_of_the_job_is_told(self):
        cluster = self.cluster(servers=1, workers=2)
        tls = self.certificates(cluster)
        other = self.certificates(cluster, "other")
        self.start(cluster, "ps-0", f"--tls_dir={tls}").wait_for("ready")
        address = cluster.address("ps-0")

        code, output = command("status", address)
        self.assertEqual(code, 138, output)
        self.assertIn("if it speaks TLS, give this process --tls_dir", output)
        code, output = command("status", address, f"--tls_dir={other}")
        self.assertEqual(code, 138, output)
        self.assertIn("not of an authority in ca.crt", output)
        code, output = command("status", address, f"--tls_dir={tls}")
        self.assertEqual(code, 0, output)

        chief = self.start(cluster, "worker-0", f"--tls_dir={tls}")
        chief.wait_for("ready")
        address = cluster.address("worker-0")
        # A worker is no operator.
        code, output = command("set", "staleness=3", "--chief", address,
                               f"--tls_dir={tls}/worker-1")
        self.assertEqual(code, 2, output)
        self.assertIn("says it is operator/0; its certificate is that of "
                      "spiffe://paramd/tiny/worker/1", output)
        code, output = command("set", "staleness=3", "--chief", address)
        self.assertEqual(code, 2, output)
        self.assertIn("--chief and --tls_dir belong together", output)
        code, output = command("checkpoint", "now", "--chief", address,
                               f"--tls_dir={tls}/worker-1")
        self.assertEqual(code, 2, output)

    def audit(self, cluster, count):
        """The first lines of the audit log, as soon as there are so many."""
        path = os.path.join(cluster.run_directory, "audit.jsonl")
        lines = []
        while len(lines) < count:
            time.sleep(0.1)
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    lines = file.read().split("\n")[:-1]
        return [json.loads(line) for line in lines]

    def test_a_reader_looks_and_changes_nothing(self):
        cluster = self.cluster(servers=1, workers=1, epochs=1000000)
        tls = os.path.join(cluster.directory, "tls")
        code, output = command("tls", "init", "--job=tiny", f"--dir={tls}",
                               "--servers=1", "--workers=1", "--readers=1")
        self.assertEqual(code, 0, output)
        runs = [self.start(cluster, task, f"--tls_dir={tls}")
                for task in cluster.tasks]
        runs[1].wait_for("first push of generation")
        address = cluster.address("ps-0")
        reader = f"--tls_dir={tls}/reader-0"

        def report():
            code, output = command("status", "--format=json", address, reader)
            self.assertEqual(code, 0, output)
            return json.loads(output)

        before = report()["job"]
        refused = ("says it is operator/0; its certificate is that of "
                   "spiffe://paramd/tiny/reader/0")
        for words in (["set", "staleness=3"], ["stop"]):
            code, output = command(*words, address, reader)
            self.assertEqual(code, 2, output)
            self.assertRegex(output, rf"\Aparamd: [^\n]*{refused}[^\n]*\n\Z")

        # Nothing is different, and the job goes on.
        after = report()
        for key in ("state", "staleness", "stopping", "settings"):
            self.assertEqual(after["job"][key], before[key], key)
        self.assertEqual(after["job"]["state"], "RUNNING")
        while report()["job"]["global_step"] <= after["job"]["global_step"]:
            time.sleep(0.1)

        # Each was an attempt, by whom it was.
        lines = self.audit(cluster, 2)
        (chief,) = [process for process in after["processes"]
                    if process["name"] == "worker-0"]
        for calls in (lines, [{**call, "who": call["origin"]["who"]}
                              for call in chief["status"]["operator_calls"]]):
            self.assertEqual([(call["who"], call["call"]) for call in calls],
                             [("reader/0", "Set"), ("reader/0", "StopJob")])
            for call in calls:
                self.assertIn(refused, call["refused"])
        self.assertEqual({line["process"] for line in lines}, {"worker-0"})

        code, output = command("stop", address, f"--tls_dir={tls}")
        self.assertEqual(code, 0, output)
        for run in runs:
            self.assertEqual(run.wait(), 0, run.output)
        last = self.audit(cluster, 3)[-1]
        self.assertEqual((last["who"], last["call"], last["refused"]),
                         ("operator/0", "StopJob", ""))

    def test_what_can_not_be_used_is_said_at_the_start(self):
        cluster = self.cluster(servers=1, workers=1)
        tls = self.certificates(cluster)
        for flags, sentence in (
                ([f"--tls_dir={tls}/none"], "none/ca.crt' of tls_dir can't be read"),
                ([f"--tls_dir={tls}/ps-1"],
                 "is the certificate of spiffe://paramd/tiny/ps/1; this process "
                 "is spiffe://paramd/tiny/ps/0"),
                ([f"--tls_dir={tls}", "--insecure"],
                 "--insecure and --tls_dir contradict each other"),
        ):
            run = self.start(cluster, "ps-0", *flags)
            self.assertEqual(run.wait(), 2, run.output)
            self.assertIn(sentence, run.output)

    def test_a_local_cluster_speaks_tls(self):
        cluster = self.cluster()
        tls = self.certificates(cluster)
        run = paramd.Run("local", "--job", cluster.job, f"--tls_dir={tls}",
                         directory=cluster.directory)
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 0, run.output)
        for task in cluster.tasks:
            self.assertIn("TLS is on", run.log(task))


if __name__ == "__main__":
    unittest.main()
