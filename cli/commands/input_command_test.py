"""paramd input bench and paramd input convert, as typed."""

import copy
import json
import os
import resource
import signal
import subprocess
import tempfile
import unittest

from tests.cluster import paramd


class InputBenchTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])

    def bench(self, stages, *arguments):
        job = paramd.tiny_job(self.directory)
        job["input"]["stages"] = stages
        return self.bench_job(job, *arguments)

    def bench_job(self, job, *arguments):
        path = os.path.join(self.directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        done = subprocess.run(
            ["cli/paramd", "input", "bench", "--job", path, *arguments],
            env={}, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_each_stage_the_queue_and_what_limits_are_shown(self):
        code, out, errors = self.bench(
            ["shuffle", {"resize": {"height": 200, "width": 200}},
             {"prefetch": 3}], "--steps=50")
        self.assertEqual((code, errors), (0, ""))
        lines = out.splitlines()
        self.assertRegex(lines[0], r"^400 examples in [0-9.]+ s: [0-9,]+ a "
                         r"second, [0-9.]+ batches of 8 a second$")
        self.assertRegex(lines[2], r"^stage +calls +µs each +share$")
        self.assertEqual([line.split()[0] for line in lines[3:7]],
                         ["read", "shuffle", "resize", "batch"])
        shares = [float(line.split()[3][:-1]) for line in lines[3:7]]
        self.assertAlmostEqual(sum(shares), 100, delta=0.3)
        self.assertRegex(lines[8], r"^threads: 1, idle \d+% of the time$")
        self.assertRegex(lines[9], r"^queue: [0-2]\.\d of 2 batches ready "
                         r"after the one taken; \d+ of 50 takes waited$")
        self.assertRegex(lines[10], r" limits: ")

    def test_the_trace_is_what_perfetto_reads(self):
        trace = os.path.join(self.directory, "trace.json")
        code, _, errors = self.bench(["shuffle"], "--steps=4",
                                     "--trace", trace)
        self.assertEqual((code, errors), (0, ""))
        with open(trace, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        lanes = {event["tid"]: event["args"]["name"] for event in events
                 if event["name"] == "thread_name"}
        found = {}
        for event in events:
            if event["ph"] == "M":
                continue
            self.assertEqual(event["ph"], "X")
            self.assertGreaterEqual(event["ts"], 0)
            self.assertGreaterEqual(event["dur"], 0)
            found.setdefault(lanes[event["tid"]], set()).add(event["name"])
        self.assertEqual(found, {"disk": {"read"}, "CPU": {"shuffle", "batch"},
                                 "compute": {"wait for a batch"}})

    def test_a_batch_may_be_larger_than_many_epochs(self):
        code, out, errors = self.bench(
            [{"take": {"examples": 4}}], "--steps=20",
            "--set=batch_per_replica=2000")
        self.assertEqual((code, errors), (0, ""))
        self.assertRegex(out, "^80 examples in ")

    def test_a_trace_that_cannot_be_written_is_one_sentence(self):
        code, out, errors = self.bench(["shuffle"], "--steps=4",
                                       "--trace", "/nowhere/trace.json")
        self.assertEqual((code, out), (2, ""))
        self.assertEqual(errors, "paramd: --trace: '/nowhere/trace.json': No such file "
                         "or directory\n")

    def test_what_is_wrong_with_the_input_is_said(self):
        code, out, errors = self.bench([{"skip": 64}])
        self.assertEqual((code, out), (2, ""))
        self.assertRegex(errors, "^paramd: .*skip")

    def test_a_topic_is_refused(self):
        with open("config/examples/clicks_kafka.json", encoding="utf-8") as file:
            code, out, errors = self.bench_job(json.load(file))
        self.assertEqual((code, out), (2, ""))
        self.assertRegex(errors, "^paramd: input bench reads files; the messages "
                         "of input.train.kafka are read by a job that runs: [^\n]*\n$")


COLUMNS = "click,price,age,user,item,history,shown"


def click_row(i, item=""):
    """A row of every kind of column; some have no text."""
    age = "" if i % 9 == 0 else i % 70
    return (f"{i * 7 % 5 % 2},{i * 0.37:.3f},{age},user{i % 23},"
            f"{item or i % 31:x},{i % 3:x}|{i % 31:x},{1 + i % 4}")


def click_job(directory):
    """A job that learns such rows, as JSON."""
    csv = {"label": "click", "weight": "shown", "group": "user", "features": [
        {"name": "numbers", "columns": ["price", "age"], "missing": 0},
        {"name": "keys", "columns": ["user", "item"], "hash_keys": True},
        {"name": "history", "columns": ["item", "history"], "hash_buckets": 64,
         "list_column": "history", "list_of": "item", "list_length": 3}]}
    return {
        "name": "clicks", "seed": 5, "epochs": 3, "batch_per_replica": 16,
        "input": {
            "train": {"directory": directory,
                      "csv": {**csv, "files": ["train-*.csv"]}},
            "test": {"directory": directory,
                     "csv": copy.deepcopy({**csv, "files": "test.csv"})},
            "stages": ["shuffle", {"log": "numbers"}]},
        "model": {
            "layers": [
                {"parallel": {"branches": [
                    {"input": "numbers", "layers": [{"dense": 4}]},
                    {"input": "keys", "layers": [
                        {"embedding": {"width": 4, "sparse": True,
                                       "capacity": 1000}}, "flatten"]},
                    {"input": "history", "layers": [
                        {"embedding": {"width": 2, "padding": True}},
                        "flatten"]}]}},
                {"dense": 1}],
            "example_weight": "weight",
            "loss": "binary_cross_entropy", "metrics": ["auc", "group_auc"]},
        "optimizer": {"adagrad": {}, "learning_rate": 0.05},
    }


class InputConvertTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.out = os.path.join(self.directory, "out")
        for name, rows in (("train-0", range(100)), ("train-1", range(100, 340)),
                           ("test", range(400, 470))):
            self.write(f"{name}.csv", COLUMNS + "\n" + "".join(
                click_row(i) + "\n" for i in rows))
        self.job = click_job(self.directory)

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def convert(self, *arguments, to=None, **options):
        """Exit code, the input that is printed or None, and stderr."""
        path = self.write("job.json", json.dumps(self.job))
        done = subprocess.run(
            ["cli/paramd", "input", "convert", "--job", path,
             f"--to={to or self.out}", *arguments],
            env={}, capture_output=True, text=True, check=False, **options)
        printed = json.loads(done.stdout)["input"] if done.stdout else None
        return done.returncode, printed, done.stderr

    def refusal(self, *arguments, **options):
        """The sentence; nothing was written."""
        code, printed, errors = self.convert(*arguments, **options)
        self.assertEqual((code, printed), (2, None), errors)
        self.assertFalse(os.path.exists(self.out))
        self.assertRegex(errors, r"\Aparamd: [^\n]*\n\Z")
        return errors

    def train(self, inputs):
        """The bytes of all that is trained, and the evaluation."""
        job = {**self.job, "input": inputs}
        run = paramd.Run("run", "--job", self.write("run.json", json.dumps(job)))
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 0, run.output)
        return run.tensors(), run.result()["evaluation"]

    def check_same_bits(self):
        """The input that was printed."""
        code, printed, errors = self.convert()
        self.assertEqual(code, 0, errors)
        weights, evaluation = self.train(self.job["input"])
        converted, again = self.train(printed)
        self.assertGreater(len(weights), 1)
        self.assertEqual(converted.keys(), weights.keys())
        for name, content in weights.items():
            self.assertEqual(converted[name], content, name)
        self.assertEqual(again["metrics"], evaluation["metrics"])
        return printed

    def test_what_is_trained_on_the_records_has_the_same_bits(self):
        printed = self.check_same_bits()
        self.assertEqual(printed["stages"], [{"shuffle": {}},
                                             {"log": {"feature": "numbers"}}])
        self.assertEqual(printed["train"], {
            "directory": self.out,
            "records": {"files": ["train-*.records"], "features": [
                {"name": "numbers", "dims": [2]},
                {"name": "keys", "type": "int64", "dims": [2]},
                {"name": "history", "type": "int32", "dims": [4], "classes": 64},
                {"name": "label"}, {"name": "group", "type": "int64"},
                {"name": "weight"}]}})
        self.assertEqual(sorted(os.listdir(self.out)),
                         ["test-000000.records", "train-000000.records"])
        self.assertEqual(os.path.getsize(f"{self.out}/train-000000.records"),
                         340 * (8 + 16 + 16 + 4 + 8 + 4))

    def test_stages_before_the_shuffle_are_done_once(self):
        self.job["input"]["stages"] = [
            {"filter": {"feature": "weight", "max": 3}}, {"log": "numbers"},
            {"shuffle": 50}]
        self.job["input"]["train"]["stages"] = [{"skip": 3}]
        self.job["input"]["test"]["stages"] = [{"take": 60}]
        printed = self.check_same_bits()
        self.assertEqual(printed["stages"], [{"shuffle": {"buffer": 50}}])
        self.assertNotIn("stages", printed["train"])
        self.assertNotIn("stages", printed["test"])

    def test_stages_that_go_by_files_find_the_same_files(self):
        self.job["input"]["stages"] = [
            {"shuffle": {"files": True}},
            {"interleave": {"cycle_length": 2, "block_length": 7}}]
        self.check_same_bits()
        self.assertEqual(sorted(os.listdir(self.out)), [
            "test-000000.records", "train-000000.records", "train-000001.records"])

    def test_images_and_what_is_drawn_for_them_stay_the_same(self):
        self.job = paramd.tiny_job(self.directory)
        self.job["epochs"] = 3
        self.job["input"]["stages"] = [
            {"skip": 3}, "shuffle", "flip",
            {"random_crop": {"height": 4, "width": 4, "padding": 1}}]
        printed = self.check_same_bits()
        self.assertEqual(len(printed["stages"]), 4)
        self.assertEqual(set(printed), {"train", "test", "stages"})

    def test_files_hold_as_much_as_is_wanted(self):
        code, printed, errors = self.convert("--part_size=5kB")
        self.assertEqual(code, 0, errors)
        sizes = [os.path.getsize(os.path.join(self.out, name))
                 for name in sorted(os.listdir(self.out))
                 if name.startswith("train")]
        # Of 56 bytes each, as many as fit.
        self.assertEqual(sizes, [89 * 56] * 3 + [(340 - 3 * 89) * 56])
        self.assertRegex(errors, "train: 340 examples of 56 B, 19.0 kB in 4 files\n")
        self.train(printed)

    def test_stages_of_train_and_test_themselves_stay_alike(self):
        self.job["input"]["stages"] = []
        self.job["input"]["train"]["stages"] = [{"skip": 3}, "shuffle",
                                                {"log": "numbers"}]
        self.job["input"]["test"]["stages"] = [{"take": 60}, {"log": "numbers"}]
        printed = self.check_same_bits()
        self.assertEqual(printed["train"]["stages"],
                         [{"shuffle": {}}, {"log": {"feature": "numbers"}}])
        self.assertEqual(printed["test"]["stages"],
                         [{"log": {"feature": "numbers"}}])

    def test_test_data_alone_would_be_refused_and_so_are_before(self):
        self.job["input"]["stages"] = ["shuffle", {"log": {"feature": "numbers"},
                                                   "on": "training"}]
        self.job["input"]["test"]["stages"] = [{"log": "numbers"}]
        self.assertIn("a job would refuse these records: those of input.test would "
                      "have stages of 'numbers' none, not log", self.refusal())

    def test_a_job_without_test_data_is_converted(self):
        del self.job["input"]["test"]
        self.job["input"]["train"]["stages"] = [{"skip": 3}, {"log": "numbers"},
                                                "shuffle"]
        self.job["input"]["stages"] = []
        printed = self.check_same_bits()
        self.assertEqual(set(printed), {"train"})
        self.assertEqual(os.listdir(self.out), ["train-000000.records"])

    def test_what_makes_no_sense_is_refused(self):
        self.assertIn("--part_size: ", self.refusal("--part_size=many"))
        self.job["input"]["train"]["csv"]["label"] = "bought"
        self.assertIn("has no column 'bought'", self.refusal())

    def test_test_data_that_are_read_in_another_way_are_refused(self):
        self.job["input"]["test"]["csv"]["features"][2]["hash_buckets"] = 32
        self.assertIn("hash_buckets of 'history' 32, not 64", self.refusal())

    def test_input_that_grows_is_refused(self):
        self.job["input"].update({"follow": {"end_file": "END"},
                                  "stages": ["shuffle"]})
        self.assertIn("input.follow brings examples while the job runs",
                      self.refusal())

    def test_a_topic_is_refused(self):
        with open("config/examples/clicks_kafka.json", encoding="utf-8") as file:
            self.job = json.load(file)
        self.assertIn("input.train.kafka brings examples while the job runs",
                      self.refusal())

    def test_a_directory_that_holds_something_is_not_touched(self):
        os.makedirs(f"{self.out}/mine")
        code, printed, errors = self.convert()
        self.assertEqual((code, printed), (2, None))
        self.assertIn(f"--to: '{self.out}' is something else than an empty "
                      "directory", errors)
        self.assertEqual(os.listdir(self.out), ["mine"])
        os.rmdir(f"{self.out}/mine")
        code, _, errors = self.convert()
        self.assertEqual(code, 0, errors)

    def test_a_link_is_not_replaced(self):
        os.makedirs(f"{self.directory}/there")
        os.symlink(f"{self.directory}/there", self.out)
        code, printed, errors = self.convert()
        self.assertEqual((code, printed), (2, None))
        self.assertIn("is something else than an empty directory", errors)
        self.assertTrue(os.path.islink(self.out))

    def test_a_row_that_cannot_be_read_is_named_and_nothing_is_left(self):
        self.write("train-1.csv", f"{COLUMNS}\n{click_row(1)}\n0,one,2,u,1,2,3\n")
        code, printed, errors = self.convert()
        self.assertEqual((code, printed), (1, None))
        self.assertIn("train-1.csv' line 3: column 'price' needs a number", errors)
        self.assertFalse(any("out" in name for name in os.listdir(self.directory)))
        self.job["input"]["on_error"] = "skip"
        code, printed, errors = self.convert()
        self.assertEqual(code, 0, errors)
        self.assertIn("train: 101 examples", errors)
        self.assertIn("train: 1 examples that could not be read are left out",
                      errors)
        self.train(printed)

    def test_a_disk_that_is_full_is_one_sentence_and_leaves_nothing(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        code, printed, errors = self.convert(restore_signals=False,
                                             preexec_fn=limit)
        self.assertIn(code, (1, 2), errors)
        self.assertIsNone(printed)
        self.assertRegex(errors, r"\Aparamd: cannot write '[^\n]*': file too "
                         r"large\n\Z")
        self.assertFalse(any("out" in name for name in os.listdir(self.directory)))


if __name__ == "__main__":
    unittest.main()
