"""paramd checkpoint export --format onnx, as typed: onnxruntime, which knows nothing
of paramd, computes with each kind of layer what paramd predict computes."""

import json
import os
import struct
import subprocess
import tempfile
import unittest

try:
    import numpy
    import onnxruntime
except ImportError:
    onnxruntime = None

BINARY = os.path.abspath("cli/paramd")
NEEDS_RUNTIME = unittest.skipIf(
    onnxruntime is None, "needs onnxruntime and numpy from PyPI")
TRAIN, TEST = 400, 150
# Sums of some hundreds of terms in some ten layers, each term rounded by 2^-24 of
# the largest value at most.
ROUNDINGS = 1024 * 2.0 ** -24

CONV = {"filters": 8, "kernel": 3}
# Of each, its features (dims of float32, or how many integers below 30), and the
# model.
NETWORKS = {
    "dense": ({"x": (6,)}, {"layers": [
        {"dense": 16}, "relu", "batch_norm", {"dense": 8}, "gelu", {"cross": 2},
        {"dropout": 0.2}, "tanh", {"residual": {"layers": [{"dense": 8}]}},
        "sigmoid", {"dense": 3}]}),
    "images": ({"x": (9, 8, 4)}, {"layers": [
        {"conv2d": {**CONV, "stride": 2, "groups": 2}}, "batch_norm", "relu",
        {"max_pool": {"size": 2, "stride": 1, "padding": "same"}},
        {"residual": {"layers": [{"conv2d": {**CONV, "bias": False}}, "batch_norm",
                                 "relu", {"conv2d": CONV}],
                      "shortcut": [{"conv2d": {"filters": 8, "kernel": 1}}]}},
        {"average_pool": {"size": 3, "stride": 2, "padding": "same"}},
        {"conv2d": {"filters": 5, "kernel": 2, "padding": "valid"}},
        "global_average_pool", {"dense": 3}]}),
    "grey": ({"x": (12, 11)}, {"layers": [
        {"conv2d": CONV}, "relu", {"max_pool": 3}, {"average_pool": 2},
        {"conv2d": {**CONV, "stride": 3}}, "flatten", {"dense": 3}]}),
    "order": ({"x": (5, 6)}, {"layers": [
        {"reshape": {"dims": [5, 3, 2]}}, {"conv2d": CONV}, "gelu",
        {"reshape": {"dims": [15, 8]}}, {"dense": 4}, "global_max_pool",
        {"dense": 3}]}),
    "places": ({"x": (6, 8)}, {"layers": [
        "positional_embedding", {"recompute": ["layer_norm", {"attention": 2}]},
        {"residual": {"layers": ["layer_norm", {"dense": 16}, "gelu",
                                 {"dense": 8}], "drop_rate": 0.1}},
        {"attention": {"heads": 4, "causal": True}}, "batch_norm",
        {"select": {"begin": 1, "count": 4}}, "layer_norm", "flatten",
        {"dense": 3}]}),
    "text": ({"ids": 7}, {"label": "next", "layers": [
        {"embedding": 8}, "positional_embedding",
        {"attention": {"heads": 2, "causal": True}}, "layer_norm",
        {"dense": 30}]}),
    "fields": ({"padded": 5}, {"layers": [
        {"embedding": {"width": 6, "padding": True}},
        {"parallel": {"branches": [
            ["factorization_machine"], ["dot_interaction"], ["flatten"],
            [{"bag_pool": "sum"}], [{"bag_pool": "mean"}],
            [{"bag_pool": "sqrt_n"}], [{"bag_pool": "max"}],
            [{"attention_pool": 4}, "flatten"], ["global_sum_pool"],
            ["global_average_pool"], ["global_max_pool"]]}},
        {"dense": 3}]}),
    "tasks": ({"x": (6,), "ids": 7}, {"layers": [
        {"parallel": {"merge": "sum", "branches": [
            {"input": "x", "layers": [{"dense": 8}]},
            {"input": "ids", "layers": [
                {"select": {"begin": 2, "count": 3}},
                {"embedding": {"width": 4, "name": "one"}}, "flatten",
                {"dense": 8}]},
            {"input": "ids", "layers": [
                {"embedding": {"width": 4, "name": "one"}},
                "global_average_pool", {"dense": 8}]}]}},
        {"mixture": {"gates": 2, "experts": [
            [{"dense": 5}, "relu"], [{"dense": 5}, "tanh"], [{"dense": 5}]]}}],
        "outputs": [
            {"name": "click", "label": "click", "loss": "binary_cross_entropy",
             "layers": [{"select": {"count": 1}}, "flatten", {"dense": 1}]},
            {"name": "kind", "label": "label", "loss": "softmax_cross_entropy",
             "layers": [{"select": {"begin": 1}}, "flatten", {"dense": 3}]},
            {"name": "size", "label": "size", "loss": "mean_squared_error",
             "layers": ["flatten", {"dense": 2}]}]}),
}


def paramd(*arguments):
    done = subprocess.run([BINARY, *arguments], capture_output=True, text=True,
                          check=False)
    return done.returncode, done.stdout, done.stderr


def kinds(value):
    """The names of layers within a part of a model."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, list):
        return set().union(*map(kinds, value))
    if "layers" in value:
        return kinds(value["layers"])
    (name, settings), = value.items()
    found = {name}
    if isinstance(settings, list):
        found |= kinds(settings)
    if isinstance(settings, dict):
        for key in ("layers", "shortcut", "branches", "experts"):
            found |= kinds(settings.get(key, []))
    return found


def numbers(random, count, dims):
    """A feature's values in `count` examples."""
    if isinstance(dims, tuple):
        return random.normal(size=(count, *dims)).astype(numpy.float32)
    return random.integers(0, 30, size=(count, dims)).astype(numpy.int32)


class OnnxTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))

    def write_set(self, kind, count, features, seed):
        """What the test reads; {feature: values}."""
        random = numpy.random.default_rng(seed)
        values = {name: numbers(random, count, dims)
                  for name, dims in features.items()}
        for name in values:
            if name == "padded":
                values[name][random.random(values[name].shape) < 0.4] = -1
                values[name][0] = -1  # An example of nothing.
        first = next(iter(values.values())).reshape(count, -1).astype(float)
        pull = (first - first.mean()) @ numpy.cos(numpy.arange(first.shape[1]))
        labels = {
            "label": numpy.digitize(pull, numpy.quantile(pull, [0.33, 0.67])),
            "click": (pull > 0).astype(numpy.float32),
            "size": numpy.stack([pull, -pull / 2], 1).astype(numpy.float32),
            "next": values.get("ids")}
        for name, array in {**values, **labels}.items():
            if array is None:
                continue
            if array.dtype == numpy.int64:
                array = array.astype(numpy.int32)
            numpy.save(f"{self.directory}/{kind}-{name}.npy", array)
        return values

    def source(self, kind, features, model):
        wanted = {output["label"] for output in model.get("outputs", [])} or \
            {model.get("label", "label")}
        classes = {"label": 3, "next": 30}
        return {"directory": self.directory, "npy": {"arrays": [
            {"name": name, "file": f"{kind}-{name}.npy",
             **({} if isinstance(dims, tuple) else {"classes": 30})}
            for name, dims in features.items()] + [
                {"name": name, "file": f"{kind}-{name}.npy",
                 **({"classes": classes[name]} if name in classes else {})}
                for name in sorted(wanted)]}}

    def train(self, name, features, model, epochs=2):
        """(job file, run, test set) of a network that has been trained."""
        self.write_set("train", TRAIN, features, 1)
        test = self.write_set("test", TEST, features, 2)
        if "outputs" not in model:
            model = {"loss": "softmax_cross_entropy", **model}
        job = {"name": name, "epochs": epochs, "batch_per_replica": 20, "seed": 3,
               "input": {"train": self.source("train", features, model),
                         "test": self.source("test", features, model)},
               "model": model,
               "optimizer": {"adam": {}, "learning_rate": 0.01}}
        path, run = f"{self.directory}/job.json", f"{self.directory}/run"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        code, out, err = paramd("run", "--job", path, "--run_dir", run)
        self.assertEqual(0, code, out + err)
        return path, run, test

    def export(self, job, checkpoint, *flags, name="model.onnx"):
        path = f"{self.directory}/{name}"
        code, out, err = paramd("checkpoint", "export", checkpoint, "--job", job,
                                "--format", "onnx", "--to", path, *flags)
        self.assertEqual((0, ""), (code, err), out)
        return path, out

    def predict(self, job, checkpoint):
        path = f"{self.directory}/predicted.npy"
        code, out, err = paramd("predict", "--job", job, "--checkpoint",
                                checkpoint, "--format", "npy", "--output", path)
        self.assertEqual(0, code, out + err)
        predicted = numpy.load(path)
        return predicted.reshape(len(predicted), -1)

    @staticmethod
    def session(path):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        return onnxruntime.InferenceSession(path, options,
                                            ["CPUExecutionProvider"])

    def run_onnx(self, path, test, batch=None):
        """What onnxruntime says of the test set, `batch` examples at a time."""
        session = self.session(path)
        count = len(next(iter(test.values())))
        parts = []
        for begin in range(0, count, batch or count):
            end = begin + (batch or count)
            given = session.run(None, {name: values[begin:end]
                                       for name, values in test.items()})
            parts.append(numpy.concatenate(
                [output.reshape(len(output), -1) for output in given], 1))
        return numpy.concatenate(parts)


@NEEDS_RUNTIME
class FloatTest(OnnxTest):

    def test_every_kind_of_layer_is_in_a_network(self):
        covered = set()
        for _, model in NETWORKS.values():
            covered |= kinds(model["layers"])
            for output in model.get("outputs", []):
                covered |= kinds(output["layers"])
        with open("proto/paramd/v1/model.proto", encoding="utf-8") as file:
            text = file.read()
        oneof = text[text.index("oneof kind {"):]
        known = {line.split()[1] for line in oneof.splitlines()
                 if line.rstrip().endswith("[(setting) = {")}
        self.assertGreater(len(known), 25)
        self.assertEqual(known, covered)

    def test_onnxruntime_says_what_predict_says(self):
        for name, (features, model) in NETWORKS.items():
            with self.subTest(name=name):
                self.setUp()
                job, run, test = self.train(name, features, model)
                wanted = self.predict(job, run)
                most = ROUNDINGS * max(1, numpy.abs(wanted).max())
                self.assertGreater(wanted.std(0).max(), 100 * most)
                for opset in (13, 17):
                    path, _ = self.export(job, run, f"--opset={opset}",
                                          name=f"{opset}.onnx")
                    found = self.run_onnx(path, test)
                    self.assertEqual(wanted.shape, found.shape)
                    self.assertLessEqual(numpy.abs(found - wanted).max(), most)
                # Whatever the size of the batch.
                found = self.run_onnx(path, test, batch=7)
                self.assertLessEqual(numpy.abs(found - wanted).max(), most)

    def test_the_file_says_what_it_is(self):
        job, run, _ = self.train("named", *NETWORKS["dense"])
        path, out = self.export(job, run)
        self.assertRegex(out, r"^.*/model\.onnx: opset 13, [\d.]+ kB, "
                              r"x \[batch, 6\] to prediction \[batch, 3\]\n$")
        session = self.session(path)
        about = session.get_modelmeta()
        self.assertEqual("paramd", about.producer_name)
        self.assertEqual("named", about.graph_name)
        self.assertEqual(40, about.version)
        self.assertEqual(
            {"paramd.version", "paramd.job", "paramd.run", "paramd.step"},
            set(about.custom_metadata_map))
        self.assertEqual("40", about.custom_metadata_map["paramd.step"])
        given, = session.get_inputs()
        self.assertEqual(("x", ["batch", 6], "tensor(float)"),
                         (given.name, given.shape, given.type))
        again, _ = self.export(job, run, name="again.onnx")
        with open(path, "rb") as one, open(again, "rb") as other:
            self.assertEqual(one.read(), other.read())

    def test_names_of_classes_are_in_the_file(self):
        with open(f"{self.directory}/rows.csv", "w", encoding="utf-8") as file:
            file.write("a,b,kind\n")
            for i in range(60):
                file.write(f"{i % 7},{i % 5},{['cat', 'dög', 'eel'][i % 3]}\n")
        source = {"directory": self.directory, "csv": {
            "files": "rows.csv", "columns": ["a", "b"], "label": "kind",
            "class_names": ["cat", "dög", "eel"]}}
        job = {"name": "classes", "epochs": 1, "batch_per_replica": 10, "seed": 1,
               "input": {"train": source, "test": source},
               "model": {"layers": [{"dense": 3}],
                         "loss": "softmax_cross_entropy"},
               "optimizer": {"sgd": {}, "learning_rate": 0.01}}
        path, run = f"{self.directory}/job.json", f"{self.directory}/run"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        code, out, err = paramd("run", "--job", path, "--run_dir", run)
        self.assertEqual(0, code, out + err)
        made, _ = self.export(path, run)
        found = self.session(made).get_modelmeta().custom_metadata_map
        self.assertEqual(["cat", "dög", "eel"],
                         json.loads(found["paramd.classes"]))


SIDE, CLASSES, IMAGES, LEVELS = 12, 10, 3000, 8
QUANTIZED = {
    "dense": ["flatten", {"dense": 128}, "relu", {"dense": 64}, "relu",
              {"dense": CLASSES}],
    "cnn": [{"conv2d": CONV}, "relu",
            {"conv2d": {"filters": 16, "kernel": 3, "bias": False}}, "batch_norm",
            "relu", {"max_pool": 2}, {"conv2d": 16}, "relu", {"max_pool": 2},
            "flatten", {"dense": CLASSES}],
}


@NEEDS_RUNTIME
class QuantizedTest(OnnxTest):
    """Of each class a picture, under noise."""

    def train_on_pictures(self, name):
        pictures = numpy.random.default_rng(0).random((CLASSES, SIDE, SIDE))
        test = None
        for seed, kind in enumerate(("train", "test")):
            random = numpy.random.default_rng(seed + 1)
            labels = random.integers(0, CLASSES, IMAGES).astype(numpy.int32)
            images = (pictures[labels] + 0.5 * random.normal(
                size=(IMAGES, SIDE, SIDE))).astype(numpy.float32)
            numpy.save(f"{self.directory}/{kind}-x.npy", images)
            numpy.save(f"{self.directory}/{kind}-label.npy", labels)
            test = images, labels

        def source(kind):
            return {"directory": self.directory, "npy": {"arrays": [
                {"name": "x", "file": f"{kind}-x.npy"},
                {"name": "label", "file": f"{kind}-label.npy",
                 "classes": CLASSES}]}}
        job = {"name": name, "epochs": 3, "batch_per_replica": 50, "seed": 1,
               "input": {"train": source("train"), "test": source("test")},
               "model": {"layers": QUANTIZED[name],
                         "loss": "softmax_cross_entropy"},
               "optimizer": {"adam": {}, "learning_rate": 0.003}}
        path, run = f"{self.directory}/job.json", f"{self.directory}/run"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        code, out, err = paramd("run", "--job", path, "--run_dir", run)
        self.assertEqual(0, code, out + err)
        return path, run, *test

    def quantize(self, job, run, *flags):
        made = tempfile.mktemp(dir=self.directory)
        code, out, err = paramd("quantize", run, "--job", job, "--output", made,
                                *flags)
        self.assertEqual(0, code, out + err)
        return made

    @staticmethod
    def level(made):
        """What one level of an input of the last layer adds to an output, at
        most."""
        with open(f"{made}/quantized.safetensors", "rb") as file:
            header = json.loads(file.read(*struct.unpack("<Q", file.read(8))))
            data = file.read()
        about = json.loads(header["__metadata__"]["paramd.quantization"])
        layer = about["layers"][-1]
        begin, end = header[layer["name"] + "/kernel/scales"]["data_offsets"]
        scales = numpy.frombuffer(data[begin:end], numpy.float32)
        return layer["input_scale"] * 127 * float(scales.max())

    def test_static_integers_say_what_predict_says(self):
        for name in QUANTIZED:
            self.setUp()
            job, run, images, labels = self.train_on_pictures(name)
            for flags in ((), ("--per_tensor",), ("--weight_bits=7",)):
                with self.subTest(name=name, flags=flags):
                    made = self.quantize(job, run, "--calibrate=train", *flags)
                    path, _ = self.export(job, made,
                                          name=f"{os.path.basename(made)}.onnx")
                    self.assertLess(os.path.getsize(path), 0.5 * os.path.getsize(
                        self.export(job, run, name=f"{path[-9:]}-f")[0]))
                    wanted = self.predict(job, made)
                    found = self.run_onnx(path, {"x": images})
                    # Halves may fall to either side, and a bias is rounded: what
                    # is added to a logit is of some levels of the last input.
                    logits = [numpy.log(numpy.maximum(p, 1e-30))
                              for p in (wanted, found)]
                    apart = logits[0] - logits[1]
                    apart -= apart.mean(1, keepdims=True)
                    likely = numpy.minimum(wanted, found) > 1e-20
                    self.assertLessEqual(numpy.abs(apart[likely]).max(),
                                         LEVELS * self.level(made))
                    same = wanted.argmax(1) == found.argmax(1)
                    self.assertGreaterEqual(same.mean(), 0.999)
                    accuracies = [(p.argmax(1) == labels).mean()
                                  for p in (wanted, found)]
                    self.assertGreater(accuracies[0], 0.8)
                    self.assertLessEqual(abs(accuracies[0] - accuracies[1]),
                                         0.001 + 1e-9)

    def test_dynamic_integers_of_one_example_say_what_predict_says(self):
        job, run, images, labels = self.train_on_pictures("dense")
        made = self.quantize(job, run, "--mode=dynamic")
        path, _ = self.export(job, made)
        wanted = self.predict(job, made)
        alone = self.run_onnx(path, {"x": images[:300]}, batch=1)
        self.assertLessEqual(numpy.abs(alone - wanted[:300]).max(), 0.02)
        # The range is that of the batch: coarser, and as accurate.
        together = self.run_onnx(path, {"x": images})
        self.assertLessEqual(abs((together.argmax(1) == labels).mean() -
                                 (wanted.argmax(1) == labels).mean()), 0.005)

    def test_halves_say_what_predict_says(self):
        job, run, images, _ = self.train_on_pictures("cnn")
        size = os.path.getsize(self.export(job, run, name="float.onnx")[0])
        for mode in ("float16", "bfloat16"):
            made = self.quantize(job, run, f"--mode={mode}")
            path, _ = self.export(job, made, name=f"{mode}.onnx")
            self.assertLess(os.path.getsize(path), 0.65 * size)
            wanted = self.predict(job, made)
            self.assertLessEqual(
                numpy.abs(self.run_onnx(path, {"x": images}) - wanted).max(),
                ROUNDINGS)


class RefusalTest(OnnxTest):

    def write_job(self, layers, source, **model):
        job = {"name": "refused", "epochs": 1, "batch_per_replica": 10, "seed": 1,
               "input": {"train": source, "test": source},
               "model": {"layers": layers, "loss": "softmax_cross_entropy",
                         **model},
               "optimizer": {"sgd": {}, "learning_rate": 0.01}}
        path = f"{self.directory}/job.json"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        return path

    def refused(self, *arguments):
        path = f"{self.directory}/refused.onnx"
        code, out, err = paramd("checkpoint", "export", *arguments,
                                "--format=onnx", f"--to={path}")
        self.assertEqual((2, ""), (code, out), err)
        self.assertEqual(1, len(err.splitlines()), err)
        self.assertFalse(os.path.exists(path))
        self.assertFalse([name for name in os.listdir(self.directory)
                          if name.startswith(".")])
        return err

    def rows(self, **more):
        with open(f"{self.directory}/rows.csv", "w", encoding="utf-8") as file:
            file.write("a,b,kind\n")
            for i in range(60):
                file.write(f"{i % 7},{i % 5},{i % 3}\n")
        return {"directory": self.directory, "csv": {
            "files": "rows.csv", "columns": ["a", "b"], "label": "kind",
            "classes": 3, **more}}

    def test_what_is_wrong_is_one_sentence(self):
        job = self.write_job([{"dense": 3}], self.rows())
        run = f"{self.directory}/run"
        code, out, err = paramd("run", "--job", job, "--run_dir", run)
        self.assertEqual(0, code, out + err)
        for arguments, sentence in (
                ((run,), "--job FILE is missing"),
                ((run, f"--job={job}", "--slots"), "--slots: an ONNX file has"),
                ((run, f"--job={job}", "--dtype=bf16"),
                 "quantise the checkpoint first"),
                ((run, f"--job={job}", "--set",
                  "input.train.csv.columns=[\"b\", \"a\"]"), "csv.columns"),
                ((f"{self.directory}/nothing", f"--job={job}"), "nothing")):
            with self.subTest(arguments=arguments):
                self.assertIn(sentence, self.refused(*arguments))
        code, _, err = paramd("checkpoint", "export", run, f"--job={job}",
                              "--format=onnx", f"--to={self.directory}/x.onnx",
                              "--opset=12")
        self.assertEqual(2, code)
        self.assertIn("--opset", err)
        code, _, err = paramd("checkpoint", "export", run, f"--job={job}",
                              "--format=onnx", f"--to={job}")
        self.assertEqual(2, code)
        self.assertIn("exists; an export is a new file", err)
        code, _, err = paramd("checkpoint", "export", run,
                              f"--to={self.directory}/x", "--opset=14")
        self.assertEqual(2, code)
        self.assertIn("--opset belongs to --format onnx", err)

    def test_rows_by_key_are_refused_by_name(self):
        job = self.write_job(
            [{"embedding": {"width": 4, "sparse": True, "capacity": 100}},
             "flatten", {"dense": 3}], self.rows(hash_keys=True))
        run = f"{self.directory}/run"
        code, out, err = paramd("run", "--job", job, "--run_dir", run)
        self.assertEqual(0, code, out + err)
        self.assertIn("'embedding_1/table' has rows by key (capacity), which ONNX "
                      "can't look up: export it as safetensors",
                      self.refused(run, f"--job={job}"))


if __name__ == "__main__":
    unittest.main()
