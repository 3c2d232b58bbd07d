"""paramd config check and print, as typed."""

import json
import os
import re
import subprocess
import tempfile
import unittest

from tests.cluster import input_files as files
from tests.cluster import paramd

JOB = "config/examples/fashion_mnist.json"


def config(*arguments, **environment):
    done = subprocess.run(["cli/paramd", "config", *arguments],
                          env=environment, capture_output=True, text=True,
                          check=False)
    return done.returncode, done.stdout, done.stderr


class ConfigCheckTest(unittest.TestCase):

    def test_all_mistakes_are_said_at_once_and_nothing_starts(self):
        code, out, errors = config(
            "check", "--job", JOB, "--epochs=x",
            "--set", "optimizer.learning_rat=1",
            TF_CONFIG='{"cluster": {"worker": ["a:1"], "ps": ["b:2"]},'
                      ' "task": {"type": "worker", "index": 7}}')
        self.assertEqual(code, 2, errors)
        self.assertEqual(out, "")
        self.assertIn("epochs: wants a whole number", errors)
        self.assertIn("did you mean 'learning_rate'?", errors)
        self.assertIn("TF_CONFIG: task.index: is 7", errors)

    def test_a_job_file_is_needed(self):
        code, _, errors = config("check")
        self.assertEqual(code, 2)
        self.assertIn("--job FILE is missing", errors)

    def test_a_host_that_is_no_task_of_the_cluster_is_one_sentence(self):
        code, _, errors = config(
            "check", "--job", JOB, "--task_from_hostname",
            "--cluster=chief=a-0:1;ps=b-{0..1}:1")
        self.assertEqual(code, 2, errors)
        self.assertRegex(errors, "^paramd: --task_from_hostname: host name "
                         '".*": .*is that of no task of the cluster; its hosts '
                         'are called as in "a-0:1"\n$')


class ConfigCheckDataTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])

    def check(self, layers, *arguments, **environment):
        job = paramd.tiny_job(self.directory)
        job["model"]["layers"] = layers
        path = os.path.join(self.directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        return config("check", "--job", path, *arguments, **environment)

    def test_a_model_that_does_not_fit_the_data_is_found(self):
        code, out, errors = self.check([{"dense": 10}])
        self.assertEqual(code, 2, out)
        self.assertIn("the last layer 'dense_1' gives 4x10", errors)
        self.assertIn('put "flatten" before it', errors)
        code, out, errors = self.check(["flatten", {"dense": 9}])
        self.assertEqual(code, 2, out)
        self.assertIn("gives 9 values; the input has 10 classes", errors)

    def test_what_was_not_checked_is_said(self):
        code, out, errors = self.check(["flatten", {"dense": 10}],
                                       PARAMD_EPOCH="3")
        self.assertEqual(code, 0, errors)
        self.assertIn("nothing is wrong", out)
        self.assertIn("not checked: whether what the job writes", out)
        self.assertIn("PARAMD_EPOCH", errors)
        code, out, errors = self.check(
            [{"dense": 10}], "--task_type=ps", "--task_index=0",
            "--cluster=ps=127.0.0.1:22;worker=127.0.0.3:22")
        self.assertEqual(code, 0, errors)
        self.assertIn("not checked: the data, and whether the model fits it "
                      "(ps-0 reads none); whether its variables fit into its "
                      "memory; whether the other tasks", out)


class SameRefusalsTest(unittest.TestCase):
    """What `run` refuses before it trains, `config check` refuses too: with the
    same exit code and the same sentences."""

    CHIEF = {"type": "worker", "index": 0}
    SERVER = {"type": "ps", "index": 0}
    EVALUATOR = {"type": "evaluator", "index": 0}
    TABLE = [{"embedding": {"width": 4, "sparse": True}}, "flatten",
             {"dense": 4}]

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.tiny = paramd.tiny_job(self.directory)
        host = paramd.draw_addresses(3)[0].rsplit(":", 1)[0]
        self.cluster = {"ps": [f"{host}:2222"],
                        "worker": [f"{host}:2223", f"{host}:2224"],
                        "evaluator": [f"{host}:2225"]}
        self.own = self.cluster["worker"][0]

    def outcomes(self, task, flags, changes):
        """Of both: the exit code and what was said."""
        path = os.path.join(self.directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**self.tiny, **changes}, file)
        environment = dict(os.environ)
        if task is not None:
            environment["TF_CONFIG"] = json.dumps({"cluster": self.cluster,
                                                   "task": task})
        found = []
        for words in (["run"], ["config", "check"]):
            done = subprocess.run(
                [paramd.BINARY, *words, "--job", path, *flags],
                cwd=tempfile.mkdtemp(dir=self.directory), env=environment,
                capture_output=True, text=True, check=False)
            found.append((done.returncode,
                          re.search(r"^paramd: (.*?)(?=^\d{4}-|\Z)",
                                    done.stderr, re.MULTILINE | re.DOTALL)))
            self.assertIsNotNone(found[-1][1], f"{words}\n{done.stderr}")
        return [(code, said.group(1)) for code, said in found]

    def embedding(self, **settings):
        features = [{"name": "ids", "type": "int32", "dims": [3],
                     "classes": 50},
                    {"name": "label", "type": "int32", "classes": 4}]
        return {"input": {"train": {"synthetic": {"examples": 40,
                                                  "features": features}}},
                "model": {"layers": self.TABLE,
                          "loss": "softmax_cross_entropy"}, **settings}

    def table(self):
        """Name, task or None, flags, what the job has besides, and the code."""
        run = ["--run_dir=run"]
        return [
            ("both securities", self.CHIEF,
             [*run, "--insecure", "--tls_dir=x"], {}, 2),
            ("no certificates", self.CHIEF, [*run, "--tls_dir=x"], {}, 2),
            ("a process called wrongly", self.CHIEF,
             [*run, "--incarnation=xyz"], {}, 2),
            ("a chief without run_dir", self.CHIEF, [], {}, 2),
            ("an evaluator without run_dir", self.EVALUATOR, [], {}, 2),
            ("an evaluator whose backup goes", self.EVALUATOR, run,
             {"backup_and_restore": {"directory": "backup"}}, 2),
            ("too many backup workers", self.CHIEF, run,
             {"staleness": "sync", "backup_workers": 2}, 2),
            ("contributions that are not held", self.CHIEF, run,
             {"staleness": "sync", "backup_workers": 1,
              "sync_park_bytes": 65536,
              "model": {"layers": ["flatten", {"dense": 5000}, "relu",
                                   {"dense": 10}],
                        "loss": "softmax_cross_entropy"}}, 2),
            ("metrics for everybody", None,
             ["--metrics_address=192.0.2.1:9090"], {}, 2),
            ("a probe for everybody", self.CHIEF,
             [*run, "--health_address=192.0.2.1:9090"], {}, 2),
            ("metrics at the own address", self.CHIEF,
             [*run, f"--metrics_address={self.own}"], {}, 2),
            ("a probe at the metrics' address", self.CHIEF,
             [*run, "--metrics_address=127.0.0.1:9",
              "--health_address=127.0.0.1:9"], {}, 2),
            ("a disk that is not there", self.SERVER,
             ["--disk_directory=not/there"], {}, 2),
            ("keyed or sparse rows and equal copies", None, [],
             self.embedding(strategy="mirrored", replicas=2), 2),
            ("no room for the variables", None, [],
             {"memory_limit_bytes": 500}, 2),
            ("a warm start that is not there", None, [],
             {"warm_start": {"path": os.path.join(self.directory, "gone")}}, 2),
            ("a warm start of something else", None, [],
             {"warm_start": {"path": self.directory}}, 2),
            ("a model that does not fit", None, [],
             {"model": {"layers": [{"dense": 10}],
                        "loss": "softmax_cross_entropy"}}, 2),
            ("data that is not there", None, [],
             {"input": {"format": "idx", "directory": "not/there"}}, 2),
            ("an unknown key", None, [], {"modle": {}}, 2),
        ]

    def test_each_start_that_is_refused_is_refused_alike(self):
        for name, task, flags, changes, code in self.table():
            with self.subTest(name):
                run, check = self.outcomes(task, flags, changes)
                self.assertEqual(run, check)
                self.assertEqual(run[0], code)

    def test_an_address_that_others_reach(self):
        self.cluster["worker"][0] = "192.0.2.1:2223"
        run, check = self.outcomes(self.CHIEF, ["--run_dir=run"], {})
        self.assertEqual(run, check)
        self.assertEqual(run[0], 2)
        self.assertIn("192.0.2.1", run[1])

    def test_a_cluster_whose_servers_have_no_room(self):
        # They say so themselves, to the chief.
        changes = {"memory_limit_bytes": 500}
        path = os.path.join(self.directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**self.tiny, **changes}, file)
        cluster = {"ps": self.cluster["ps"],
                   "worker": self.cluster["worker"][:1]}
        run_dir = os.path.join(self.directory, "run")
        runs = []
        for kind in ("ps", "worker"):
            runs.append(paramd.Run(
                "run", "--job", path, "--run_dir", run_dir,
                environment={"TF_CONFIG": json.dumps(
                    {"cluster": cluster,
                     "task": {"type": kind, "index": 0}})}))
            self.addCleanup(runs[-1].kill)
        for run in runs:
            self.assertEqual(run.wait(), 2, run.output)
            self.assertIn("the variables do not fit", run.output)
        self.cluster = cluster
        code, _, errors = config(
            "check", "--job", path, "--run_dir", run_dir + "-2",
            TF_CONFIG=json.dumps({"cluster": cluster, "task": self.CHIEF}))
        self.assertEqual(code, 2, errors)
        self.assertIn("the variables do not fit", errors)

    def write_rows(self, count):
        """All but the eleventh can be read."""
        rows = files.csv_rows(count)
        rows[10] = "1,2"
        files.write(self.directory, "train.csv", files.csv(rows))
        return files.job(self.directory, files.CSV)

    def test_a_row_that_can_not_be_read(self):
        run, check = self.outcomes(None, [], self.write_rows(40))
        self.assertEqual(run[0], 1, run[1])
        self.assertIn("train.csv' line 12: ", run[1])
        self.assertEqual(run, check)

    def test_rows_that_are_too_many_to_be_read_are_said(self):
        path = os.path.join(self.directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.write_rows(20000), file)
        code, out, errors = config("check", "--job", path)
        if code == 0:  # It is not among those that are read.
            self.assertIn("not checked: examples of the training set beyond "
                          "10000 of its 20000; ", out)
        else:
            self.assertEqual(code, 1, errors)
            self.assertIn("train.csv' line 12: ", errors)


class ConfigPrintTest(unittest.TestCase):

    def test_json_says_where_each_value_came_from_and_who_this_is(self):
        code, out, errors = config(
            "print", "--format=json", "--job", JOB, "--epochs=3",
            "--cluster=ps=127.0.0.{1..2}:22;worker=127.0.0.3:22",
            "--task_type=ps", PARAMD_SEED="9", JOB_COMPLETION_INDEX="1")
        self.assertEqual(code, 0, errors)
        printed = json.loads(out)
        text = json.dumps(printed)
        self.assertIn("JOB_COMPLETION_INDEX", text)
        self.assertIn("127.0.0.2:22", text)
        self.assertIn("PARAMD_SEED", text)
        self.assertIn("--epochs", text)

    def test_an_unknown_format_is_refused(self):
        code, _, errors = config("print", "--format=xml", "--job", JOB)
        self.assertEqual(code, 2)
        self.assertIn("xml", errors)


if __name__ == "__main__":
    unittest.main()
