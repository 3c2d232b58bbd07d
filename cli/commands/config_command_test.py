"""paramd config check and print, as typed."""

import json
import os
import subprocess
import tempfile
import unittest

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
                      "(ps-0 reads none); whether the other tasks", out)


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
