"""paramd evaluate and predict, as typed, on a run's checkpoint."""

import json
import os
import struct
import subprocess
import tempfile
import unittest

BINARY = os.path.abspath("cli/paramd")
EXAMPLES = 20


def paramd(*arguments):
    done = subprocess.run([BINARY, *arguments], capture_output=True, text=True,
                          check=False)
    return done.returncode, done.stdout, done.stderr


def write_idx(path, shape, content):
    with open(path, "wb") as file:
        file.write(bytes([0, 0, 8, len(shape)]))
        file.write(b"".join(struct.pack(">I", size) for size in shape))
        file.write(bytes(content))


class EvaluateTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        for kind in ("train", "test"):
            write_idx(f"{cls.directory}/{kind}-images", (EXAMPLES, 2, 2),
                      [(i * 37) % 256 for i in range(4 * EXAMPLES)])
            write_idx(f"{cls.directory}/{kind}-labels", (EXAMPLES,),
                      [i % 3 for i in range(EXAMPLES)])
        job = {
            "name": "small", "epochs": 2, "batch_per_replica": 4, "seed": 1,
            "input": {"format": "idx", "directory": cls.directory,
                      "train_images": "train-images",
                      "train_labels": "train-labels",
                      "test_images": "test-images",
                      "test_labels": "test-labels"},
            "model": {"layers": ["flatten", {"dense": 3}],
                      "loss": "softmax_cross_entropy"},
            "optimizer": {"sgd": {}, "learning_rate": 0.1},
        }
        cls.job = f"{cls.directory}/job.json"
        with open(cls.job, "w", encoding="utf-8") as file:
            json.dump(job, file)
        cls.run_dir = f"{cls.directory}/run"
        code, out, err = paramd("run", "--job", cls.job, "--run_dir",
                                cls.run_dir)
        assert code == 0, out + err

    def use(self, command, *arguments):
        return paramd(command, "--job", self.job, "--checkpoint", self.run_dir,
                      *arguments)

    def test_an_evaluation_is_that_of_the_run_itself(self):
        code, out, err = self.use("evaluate", "--json")
        self.assertEqual(0, code, err)
        found = json.loads(out)
        with open(f"{self.run_dir}/result.json", encoding="utf-8") as file:
            result = json.load(file)
        self.assertEqual(EXAMPLES, found["examples"])
        self.assertEqual(10, found["step"])
        self.assertIn(self.run_dir, found["checkpoint"])
        evaluation = result["evaluation"]
        self.assertAlmostEqual(
            evaluation["metrics"]["accuracy"], found["metrics"]["accuracy"],
            places=9)
        self.assertAlmostEqual(evaluation["loss"], found["metrics"]["loss"],
                               places=9)

    def test_threads_change_no_number(self):
        alone = self.use("evaluate", "--json")
        self.assertEqual(0, alone[0], alone[2])
        self.assertEqual(alone, self.use("evaluate", "--json", "--threads=3"))
        self.assertEqual(self.use("predict"),
                         self.use("predict", "--threads=3"))

    def test_a_test_set_that_a_filter_empties_is_said(self):
        for command in ("evaluate", "predict"):
            code, out, err = self.use(
                command, "--set",
                'input.stages=[{"filter": {"feature": "label", "max": -1}}]')
            self.assertEqual((2, ""), (code, out), err)
            self.assertIn("stage 1 of the input, filter: keeps none of the "
                          f"{EXAMPLES} examples", err)

    def test_every_strategys_job_evaluates_and_predicts_the_same(self):
        evaluated, predicted = (self.use("evaluate", "--json"),
                                self.use("predict"))
        for strategy, replicas in (
                ("one_device", 1), ("mirrored", 2), ("central_storage", 2),
                ("parameter_server", 2), ("multi_worker_mirrored", 1)):
            with self.subTest(strategy=strategy):
                flags = (f"--strategy={strategy}", f"--replicas={replicas}")
                self.assertEqual(evaluated,
                                 self.use("evaluate", "--json", *flags))
                self.assertEqual(predicted, self.use("predict", *flags))

    def test_the_text_names_checkpoint_and_metrics(self):
        code, out, err = self.use("evaluate")
        self.assertEqual(0, code, err)
        self.assertIn(f"step 10, {EXAMPLES} examples", out)
        self.assertRegex(out, r"(?m)^  loss +\d")
        self.assertRegex(out, r"(?m)^  accuracy +\d")

    def test_predictions_are_in_the_order_of_the_input_in_each_format(self):
        code, out, err = self.use("predict")
        self.assertEqual(0, code, err)
        lines = out.splitlines()
        self.assertEqual("prediction_0,prediction_1,prediction_2", lines[0])
        rows = [[float(value) for value in line.split(",")]
                for line in lines[1:]]
        self.assertEqual(EXAMPLES, len(rows))
        for row in rows:
            self.assertAlmostEqual(1, sum(row), places=5)
        right = sum(row.index(max(row)) == i % 3 for i, row in enumerate(rows))
        _, out, _ = self.use("evaluate", "--json")
        self.assertAlmostEqual(json.loads(out)["metrics"]["accuracy"],
                               right / EXAMPLES)
        code, out, err = self.use("predict", "--format", "jsonl")
        self.assertEqual(0, code, err)
        self.assertEqual(rows, [json.loads(line)["prediction"]
                                for line in out.splitlines()])
        path = f"{self.directory}/predictions.npy"
        code, out, err = self.use("predict", "--format", "npy", "--output", path)
        self.assertEqual((0, ""), (code, out), err)
        with open(path, "rb") as file:
            file.seek(192)
            values = struct.unpack(f"<{3 * EXAMPLES}f", file.read())
        for a, b in zip(values, [value for row in rows for value in row]):
            self.assertAlmostEqual(a, b, places=6)

    def train(self, name, **changes):
        """Runs the job with these changes. Returns its evaluation."""
        with open(self.job, encoding="utf-8") as file:
            job = json.load(file)
        job.update(name=name, **changes)
        path = f"{self.directory}/{name}.json"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        code, out, err = paramd("run", "--job", path, "--run_dir",
                                f"{self.directory}/{name}")
        self.assertEqual(0, code, out + err)
        with open(f"{self.directory}/{name}/result.json",
                  encoding="utf-8") as file:
            return json.load(file)["evaluation"]

    def test_a_model_of_numbers_has_no_accuracy(self):
        evaluation = self.train("numbers", model={
            "input": "image", "label": "image",
            "layers": ["flatten", {"dense": 4}],
            "loss": "mean_squared_error", "metrics": ["mse"]})
        self.assertEqual(["mse"], list(evaluation["metrics"]))
        self.assertAlmostEqual(evaluation["loss"], evaluation["metrics"]["mse"])

    def test_the_accuracy_of_a_sequence_is_that_of_its_labels(self):
        path = f"{self.directory}/sequences.bin"
        with open(path, "wb") as file:
            file.write(struct.pack("<8i", *[1, 2, 1, 2, 2, 1, 2, 1]) * EXAMPLES)
        source = {"records": {"files": [path], "features": [
            {"name": name, "type": "int32", "dims": [4], "classes": 3}
            for name in ("token", "label")]}}
        evaluation = self.train(
            "sequences", input={"train": source, "test": source},
            epochs=20, optimizer={"adam": {}, "learning_rate": 0.1},
            model={"layers": [{"embedding": {"rows": 3, "width": 4}},
                              {"dense": 3}],
                   "loss": "softmax_cross_entropy",
                   "metrics": ["accuracy", "perplexity"]})
        self.assertEqual(EXAMPLES, evaluation["examples"])
        self.assertEqual(4 * EXAMPLES, evaluation["labels"])
        self.assertEqual(1, evaluation["metrics"]["accuracy"])
        self.assertLess(evaluation["metrics"]["perplexity"], 1.2)

    def csv_job(self, name, **changes):
        """A job file over CSV files of the test's own: y is 2 a - b. Its path,
        and the directory of its run, which has ended."""
        directory = f"{self.directory}/{name}"
        os.makedirs(directory)
        rows = [(i % 5, i % 3) for i in range(15)]
        with open(f"{directory}/train.csv", "w", encoding="utf-8") as file:
            file.write("a,b,y\n" + "".join(
                f"{a},{b},{2 * a - b}\n" for a, b in rows))
        with open(f"{directory}/turned.csv", "w", encoding="utf-8") as file:
            file.write("id,b,a\n" + "".join(f"7,{b},{a}\n" for a, b in rows))
        csv = {"files": "train.csv", "label": "y"}
        job = {"name": name, "epochs": 60, "batch_per_replica": 5, "seed": 1,
               "input": {"train": {"directory": directory, "csv": csv}},
               "model": {"layers": [{"dense": 1}],
                         "loss": "mean_squared_error"},
               "optimizer": {"sgd": {}, "learning_rate": 0.05}}
        job.update(changes)
        path = f"{directory}/job.json"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        code, out, err = paramd("run", "--job", path, "--run_dir",
                                f"{directory}/run")
        self.assertEqual(0, code, out + err)
        return path, f"{directory}/run", [2 * a - b for a, b in rows]

    def graded_job(self, name):
        """Arguments for a model of 2,100 examples in groups that has ended."""
        directory = f"{self.directory}/{name}-data"
        os.makedirs(directory)
        with open(f"{directory}/all.csv", "w", encoding="utf-8") as file:
            file.write("a,b,who,y\n" + "".join(
                f"{i * 37 % 101 / 7},{i * 11 % 13},{i % 6},{i * i % 7 % 2}\n"
                for i in range(2100)))
        source = {"directory": directory,
                  "csv": {"files": "all.csv", "label": "y",
                          "group": "who"}}
        job, run, _ = self.csv_job(
            name, epochs=1, batch_per_replica=50,
            input={"train": source, "test": source},
            model={"layers": [{"dense": 4}, "relu", {"dense": 1}],
                   "loss": "binary_cross_entropy",
                   "metrics": ["accuracy", "auc", "group_auc",
                               "normalised_entropy", "calibration"]})
        return "--job", job, "--checkpoint", run

    def merge(self, files, *arguments):
        return paramd("evaluate", "--merge", *files, *arguments)

    def evaluate_parts(self, count, *arguments):
        """The files of all parts."""
        files = []
        for index in range(count):
            code, out, err = paramd("evaluate", *arguments, "--json",
                                    f"--shard={index}/{count}")
            self.assertEqual((0, ""), (code, err))
            files.append(f"{self.directory}/part-{index}-of-{count}.json")
            with open(files[-1], "w", encoding="utf-8") as file:
                file.write(out)
        return files

    def test_the_parts_of_an_evaluation_merged_are_the_whole(self):
        use = self.graded_job("parts")
        whole = paramd("evaluate", *use, "--json")
        self.assertEqual(0, whole[0], whole[2])
        self.assertEqual(2100, json.loads(whole[1])["examples"])
        (of_label,) = json.loads(whole[1])["calibration_buckets"]
        self.assertEqual(2100, sum(bucket["count"]
                                   for bucket in of_label["buckets"]))
        # 2,100 examples are 5 batches: of 7 parts two are empty.
        for count in (1, 2, 3, 7):
            with self.subTest(count=count):
                files = self.evaluate_parts(count, *use)
                self.assertEqual(whole, self.merge(files, "--json"))
                self.assertEqual(whole, self.merge(files[::-1], "--json"))
                counted = []
                for path in files:
                    with open(path, encoding="utf-8") as file:
                        counted.append(json.load(file)["examples"])
                self.assertEqual(2100, sum(counted))
        text = paramd("evaluate", *use)
        self.assertRegex(text[1], r"\nprobability +examples +predicted +observed"
                         r"\n  0\.\d to \d\.\d +\d+  ")
        self.assertEqual(text, self.merge(files))
        code, out, err = paramd("evaluate", *use, "--shard", "1/3")
        self.assertEqual(0, code, err)
        self.assertIn("part 1/3, 1000 examples\n  loss", out)
        code, out, err = paramd("evaluate", *use, "--shard", "2/7",
                                "--threads=2")
        self.assertEqual(0, code, err)
        self.assertIn("part 2/7, 500 examples", out)

    def test_parts_that_are_not_of_one_evaluation_are_refused(self):
        use = self.graded_job("mixed")
        files = self.evaluate_parts(3, *use)
        others = self.evaluate_parts(2, *use)
        code, out, err = self.merge(files[:2], "--json")
        self.assertEqual((2, ""), (code, out))
        self.assertIn("part 2/3 is missing", err)
        code, out, err = self.merge([*files, files[1]])
        self.assertEqual((2, ""), (code, out))
        self.assertIn("is part 1/3, as", err)
        code, out, err = self.merge([files[0], others[1], files[2]])
        self.assertEqual((2, ""), (code, out))
        self.assertIn(f"'{others[1]}' is part 1/2", err)
        code, out, err = self.merge([self.job])
        self.assertEqual((2, ""), (code, out))
        self.assertIn("is not a part of an evaluation", err)
        # Another checkpoint of the same job, and other examples.
        job, run = use[1], f"{self.directory}/mixed-again"
        code, out, err = paramd("run", "--job", job, "--run_dir", run)
        self.assertEqual(0, code, err)
        for changed, sentence in (
                (("--job", job, "--checkpoint", run), "of another checkpoint"),
                ((*use, "--set", "epochs=2"), "of another job"),
                ((*use, "--set", 'input.test.csv.files=["some.csv"]'),
                 "of another")):
            with open(f"{os.path.dirname(job)}-data/all.csv",
                      encoding="utf-8") as file:
                lines = file.read().splitlines()
            with open(f"{os.path.dirname(job)}-data/some.csv", "w",
                      encoding="utf-8") as file:
                file.write("\n".join([lines[0], *lines[:0:-1]]) + "\n")
            code, out, err = paramd("evaluate", *changed, "--json",
                                    "--shard=1/3")
            self.assertEqual(0, code, err)
            with open(f"{self.directory}/changed.json", "w",
                      encoding="utf-8") as file:
                file.write(out)
            code, out, err = self.merge(
                [files[0], f"{self.directory}/changed.json", files[2]])
            self.assertEqual((2, ""), (code, out))
            self.assertIn(f"changed.json' is {sentence}", err)

    def test_the_parts_of_predictions_are_the_whole_file(self):
        use = self.graded_job("predicted")
        for form in ("csv", "jsonl"):
            whole = paramd("predict", *use, "--format", form)
            self.assertEqual((0, ""), (whole[0], whole[2]))
            for count in (2, 7):
                parts = [paramd("predict", *use, "--format", form,
                                f"--shard={index}/{count}")
                         for index in range(count)]
                self.assertEqual([(0, "")] * count,
                                 [(code, err) for code, _, err in parts])
                self.assertEqual(whole[1], "".join(out for _, out, _ in parts))
        arrays = []
        for shard in ("", "0/7", "1/7", "2/7", "3/7", "4/7", "5/7", "6/7"):
            path = f"{self.directory}/shard.npy"
            code, out, err = paramd("predict", *use, "--format=npy",
                                    f"--output={path}",
                                    *([f"--shard={shard}"] if shard else []))
            self.assertEqual((0, ""), (code, out), err)
            with open(path, "rb") as file:
                header, values = file.read(192), file.read()
            self.assertIn(f"'shape': ({len(values) // 4}, 1,)".encode(), header)
            arrays.append(values)
        self.assertEqual(2100 * 4, len(arrays[0]))
        self.assertEqual(arrays[0], b"".join(arrays[1:]))

    def test_a_first_part_that_is_emptied_has_the_line_of_names(self):
        job, run, _ = self.csv_job("emptied")
        test = {"directory": os.path.dirname(job),
                "csv": {"files": "broken.csv", "label": "y"}}
        with open(f"{os.path.dirname(job)}/broken.csv", "w",
                  encoding="utf-8") as file:
            file.write("a,b,y\n" + "x,1,1\n" * 500 + "1,2,0\n" * 3)
        use = ("--job", job, "--checkpoint", run, "--set",
               f"input.test={json.dumps(test)}", "--set",
               "input.on_error=skip")
        whole = paramd("predict", *use)
        self.assertEqual(0, whole[0], whole[2])
        self.assertEqual(4, len(whole[1].splitlines()))
        parts = [paramd("predict", *use, f"--shard={index}/2")
                 for index in (0, 1)]
        self.assertEqual(whole[1], parts[0][1] + parts[1][1])
        self.assertEqual("prediction\n", parts[0][1])

    def test_predict_needs_no_labels(self):
        job, run, expected = self.csv_job("unlabelled")
        directory = os.path.dirname(job)
        for label in ({}, {"label": "y"}):
            test = {"directory": directory,
                    "csv": {"files": "turned.csv", **label}}
            arguments = ("--job", job, "--checkpoint", run, "--set",
                         f"input.test={json.dumps(test)}")
            code, out, err = paramd("predict", *arguments)
            self.assertEqual(0, code, err)
            for value, line in zip(expected, out.splitlines()[1:]):
                self.assertAlmostEqual(value, float(line), places=2)
            self.assertEqual(len(expected) + 1, len(out.splitlines()))
            code, _, err = paramd("evaluate", *arguments)
            self.assertEqual(2, code, err)

    def test_idx_images_are_predicted_without_their_labels(self):
        expected = self.use("predict")
        self.assertEqual(0, expected[0])
        self.assertEqual(expected, self.use(
            "predict", "--set", "input.test_labels=nowhere"))

    def test_what_a_checkpoint_was_trained_on_is_read_alike_or_refused(self):
        job, run, _ = self.csv_job("alike")
        directory = os.path.dirname(job)
        turned = f"{directory}/both.csv"
        with open(f"{directory}/train.csv", encoding="utf-8") as file:
            rows = [line.strip().split(",") for line in file]
        with open(turned, "w", encoding="utf-8") as file:
            file.write("".join(f"{y},{b},{a}\n" for a, b, y in rows))
        use = ("--job", job, "--checkpoint", run)
        code, out, err = paramd("evaluate", *use)
        self.assertEqual(0, code, err)
        test = {"directory": directory,
                "csv": {"files": "both.csv", "label": "y"}}
        by_name = paramd("evaluate", *use, "--set",
                         f"input.test={json.dumps(test)}")
        self.assertEqual((0, out), by_name[:2], by_name[2])
        # Whatever the test set, the training data say the order.
        for setting, difference in (
                ('input.train.csv.columns=["b", "a"]',
                 "csv.columns b, a, not a, b"),
                ("input.train.csv.files=both.csv",
                 "csv.columns b, a, not a, b"),
                ('input.stages=[{"normalise": {"feature": "features", '
                 '"mean": 1}}]',
                 "stages of 'features' normalise mean 1 deviation 1, not none")):
            for command in ("evaluate", "predict"):
                code, out, err = paramd(command, *use, "--set", setting)
                self.assertEqual((2, ""), (code, out), err)
                self.assertIn("read differently from what checkpoint", err)
                self.assertIn(difference, err)

    def test_an_evaluation_on_what_was_trained_on_says_so(self):
        job, run, _ = self.csv_job("alone")
        use = ("evaluate", "--job", job, "--checkpoint", run, "--json")
        code, out, err = paramd(*use)
        self.assertEqual(0, code, err)
        self.assertEqual(err, "paramd: the job has no input.test, so this "
                         "evaluates on what it is trained on\n")
        test = {"directory": os.path.dirname(job),
                "csv": {"files": "train.csv", "label": "y"}}
        self.assertEqual(paramd(*use, "--set", f"input.test={json.dumps(test)}"),
                         (0, out, ""))
        stages = [{"skip": 5, "on": "evaluation"}, "shuffle"]
        code, _, err = paramd(*use, "--set",
                              f"input.stages={json.dumps(stages)}")
        self.assertEqual((0, ""), (code, err))
        held_out = {**test, "stages": [{"skip": 5, "on": "evaluation"}]}
        sources = {"sample_from": {"sources": [held_out, test]}}
        code, _, err = paramd(*use, "--set",
                              f"input.train={json.dumps(sources)}")
        self.assertEqual((0, ""), (code, err))

    def test_a_model_that_was_not_trained_so_is_refused(self):
        for command in ("evaluate", "predict"):
            code, out, err = self.use(
                command, "--set",
                'model.layers=["flatten", {"dense": 3}, "tanh"]')
            self.assertEqual((2, ""), (code, out), err)
            self.assertIn("the job's model is not the one that checkpoint '",
                          err)
            self.assertIn("was trained for: model.layers[1].tanh is {}, was "
                          "not there", err)
            # What training alone does may be another.
            self.assertEqual(self.use(command)[:2], self.use(
                command, "--set",
                'model.layers=["flatten", {"dropout": 0.5}, {"dense": 3}]')[:2])

    def test_what_is_wrong_is_said_in_a_sentence(self):
        for arguments, sentence in (
                (["evaluate", "--job", self.job], "--checkpoint PATH is missing"),
                (["evaluate", "--job", self.job, "--checkpoint", self.run_dir,
                  "--live", "127.0.0.1:2222"],
                 "--checkpoint and --live are both given"),
                (["evaluate", "--job", self.job, "--checkpoint", self.run_dir,
                  "--tls_dir", "tls"], "--tls_dir belongs to --live ADDRESS"),
                (["evaluate", "--job", self.job, "--live", "nowhere"],
                 "--live: "),
                (["evaluate", "--job", self.job, "--checkpoint", self.run_dir,
                  "--shard", "4/4"],
                 "--shard is I/N, part I of N, the first of 4 is 0/4 and the "
                 "last 3/4; not '4/4'"),
                (["predict", "--job", self.job, "--checkpoint", self.run_dir,
                  "--shard=1"], "--shard is I/N"),
                (["evaluate", "--job", self.job, "--live", "127.0.0.1:2222",
                  "--shard=0/2"], "--shard belongs to --checkpoint"),
                (["evaluate", "--job", self.job, "--merge", "a.json"],
                 "--merge takes files alone"),
                (["evaluate", "--merge"], "--merge needs files"),
                (["evaluate", self.job, "--checkpoint", self.run_dir],
                 "job.json' is one argument too many; --job FILE"),
                (["evaluate", "--merge", "/nowhere.json"],
                 "'/nowhere.json' can't be read"),
                (["predict", "--job", self.job, "--checkpoint", self.run_dir,
                  "--format", "npy"], "--format npy needs --output FILE"),
                (["predict", "--job", self.job, "--checkpoint", self.run_dir,
                  "--format", "xml"], "--format is csv, jsonl or npy"),
                (["run", "--job", self.job, "--run_dir",
                  f"{self.directory}/other", "--set",
                  "checkpoint.best_metric=perplexity"],
                 "checkpoint.best_metric is perplexity; the model counts "
                 "accuracy and the loss")):
            code, _, err = paramd(*arguments)
            self.assertEqual(2, code, arguments)
            self.assertIn(sentence, err)
        code, _, err = paramd("evaluate", "--job", self.job, "--checkpoint",
                              "/nowhere")
        self.assertNotEqual(0, code)
        self.assertIn("/nowhere", err)
        code, _, err = self.use("evaluate", "--set", "model.layers.1.dense=4")
        self.assertNotEqual(0, code)
        self.assertIn("dense_1", err)


if __name__ == "__main__":
    unittest.main()
