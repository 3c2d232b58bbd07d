"""paramd checkpoint verify, diff and export, as typed; what an export contains
is read by programs that know nothing of paramd."""

import importlib.util
import json
import os
import pty
import shutil
import struct
import subprocess
import unittest

try:
    import numpy
    import safetensors
except ImportError:
    numpy = None

BINARY = os.path.abspath("cli/paramd")
BLOCK = 262144
SHAPES = {
    "embedding/kernel": (1280, 1024),
    "wide": (2, 1100000),
    'layer "ü"/bias': (10,),
    "scale": (),
}
NEEDS_LIBRARIES = unittest.skipIf(
    numpy is None, "needs safetensors and numpy from PyPI")


def paramd(*arguments):
    done = subprocess.run([BINARY, "checkpoint", *arguments],
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def masked(crc):
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(message):
    """(number, value) of each field of a protocol buffer."""
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        if tag & 7 == 0:
            value, at = varint(message, at)
        elif tag & 7 == 2:
            size, at = varint(message, at)
            value, at = message[at:at + size], at + size
        else:
            assert tag & 7 == 5, tag
            value, at = struct.unpack_from("<I", message, at)[0], at + 4
        yield tag >> 3, value


def table_block(data, handle):
    """The keys and values of a block of LevelDB's table format."""
    offset, at = varint(handle, 0)
    size, _ = varint(handle, at)
    block = data[offset:offset + size]
    assert data[offset + size] == 0, "not compressed"
    assert struct.unpack_from("<I", data, offset + size + 1)[0] == masked(
        crc32c(data[offset:offset + size + 1]))
    end = size - 4 - 4 * struct.unpack_from("<I", block, size - 4)[0]
    at, key = 0, b""
    while at < end:
        shared, at = varint(block, at)
        rest, at = varint(block, at)
        length, at = varint(block, at)
        key = key[:shared] + block[at:at + rest]
        yield key, block[at + rest:at + rest + length]
        at += rest + length


def read_table(path):
    with open(path, "rb") as file:
        data = file.read()
    footer = data[-48:]
    assert footer[40:] == bytes.fromhex("57fb808b247547db")
    _, at = varint(footer, 0)
    _, at = varint(footer, at)
    return [entry for _, handle in table_block(data, footer[at:])
            for entry in table_block(data, handle)]


class CheckpointCommandTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.work = os.path.join(os.environ["TEST_TMPDIR"], "checkpoint_command")
        shutil.rmtree(cls.work, ignore_errors=True)
        cls.runs = os.path.join(cls.work, "run")
        cls.full, cls.increment = subprocess.run(
            ["checkpoint/testing/write_sample",
             os.path.join(cls.runs, "checkpoints"), "increment"],
            check=True, capture_output=True, text=True).stdout.splitlines()

    def out(self):
        return os.path.join(self.work, self.id().split(".")[-1])

    # ---- verify ----

    def test_verify_says_that_nothing_is_wrong(self):
        code, out, errors = paramd("verify", self.runs)
        self.assertEqual((code, errors), (0, ""))
        lines = out.splitlines()
        self.assertEqual(len(lines), 2)
        self.assertRegex(
            lines[0], rf"^ok       {self.increment}: 3 files, [\d.]+ MB, base "
            rf"{os.path.basename(self.full)}$")
        self.assertRegex(lines[1], rf"^ok       {self.full}: 3 files, 28.1 MB$")
        self.assertEqual(paramd("verify", self.runs, "--newest"),
                         (0, lines[0] + "\n", ""))
        self.assertEqual(paramd("verify", self.full + "/"),
                         (0, lines[1] + "\n", ""))

    def test_verify_names_each_fault_and_exits_1(self):
        run = self.out()
        shutil.copytree(self.runs, run)
        full = os.path.join(run, "checkpoints", os.path.basename(self.full))
        first, second = (f"{full}/ps-0000{i}-of-00003.safetensors"
                         for i in (1, 2))
        with open(first, "r+b") as file:
            file.seek(5000)
            byte = file.read(1)[0]
            file.seek(5000)
            file.write(bytes([byte ^ 4]))
        os.truncate(second, 100)
        code, out, errors = paramd("verify", run)
        self.assertEqual((code, errors), (1, ""))
        increment = os.path.join(run, "checkpoints",
                                 os.path.basename(self.increment))
        lines = out.splitlines()
        self.assertEqual(len(lines), 6)
        self.assertEqual(lines[0], f"damaged  {increment}")
        self.assertIn("the base of 'ps-00001-of-00003.safetensors'", lines[1])
        self.assertIn("the base of 'ps-00002-of-00003.safetensors'", lines[2])
        self.assertEqual(lines[3], f"damaged  {full}")
        self.assertIn(f"'{first}' has the crc32c", lines[4])
        self.assertIn(f"'{second}' has 100 bytes; the manifest says", lines[5])

    def test_on_a_terminal_one_line_says_how_far_it_is(self):
        terminal, ours = pty.openpty()
        with os.fdopen(terminal, "rb") as screen:
            with subprocess.Popen(
                    [BINARY, "checkpoint", "verify", self.full], stdout=ours,
                    env={**os.environ, "TERM": "xterm"}) as process:
                os.close(ours)
                shown = b""
                try:
                    while piece := screen.read1(65536):
                        shown += piece
                except OSError:  # Nobody writes to the terminal any more.
                    pass
                self.assertEqual(process.wait(), 0)
        name = os.path.basename(self.full)
        lines = shown.decode().splitlines()
        self.assertRegex(lines[0], rf"^verifying {name}: \d+ % of 28.1 MB$")
        # In its place stands what was found.
        self.assertRegex(lines[-1], rf"^\x1b\[1F\x1b\[Jok       {self.full}: 3")

    def test_what_is_typed_wrongly_is_said_and_exits_2(self):
        nowhere = self.out()
        full = self.full
        for arguments, sentence in (
                (("verify",), "missing PATH, the directory of a run or a "
                 "checkpoint; 'paramd checkpoint verify --help' says"),
                (("verify", nowhere), nowhere),
                (("verify", full, "--newst"), "did you mean --newest?"),
                (("inspect", full, "--table=scale"),
                 "has no table 'scale' of rows by key; it has none"),
                (("inspect", full, "--table=scale", "--values"),
                 "--values is of all variables and --table of one"),
                (("inspect", full, "--format=json"),
                 "--format belongs to --table"),
                (("inspect", full, "--table=scale", "--format=xml"),
                 "--format is text or json, not 'xml'"),
                (("diff", full), "missing A and B"),
                (("diff", full, nowhere), nowhere),
                (("export", full), "missing --to OUT"),
                (("export", nowhere, "--to=x"), nowhere),
                (("export", full, "--to=x", "--format=gguf"),
                 "--format is safetensors, tensorbundle or onnx, not 'gguf'"),
                (("export", full, "--to=x", "--dtype=int8"),
                 "--dtype is fp32, fp16 or bf16, not 'int8'"),
                (("export", full, "--to=x", "--max_shard_size=much"),
                 "--max_shard_size: 'much' is not a size"),
                (("export", full, "--to", self.work), "exists")):
            code, out, errors = paramd(*arguments)
            self.assertEqual((code, out), (2, ""), arguments)
            self.assertIn(sentence, errors)
            self.assertEqual(errors.count("\n"), 1)

    # ---- a result that nobody gets ----

    def test_a_command_whose_output_cannot_be_written_fails(self):
        for command in (["checkpoint", "verify", self.full],
                        ["checkpoint", "inspect", self.full],
                        ["checkpoint", "list", self.runs],
                        ["checkpoint", "diff", self.full, self.full],
                        ["version"], ["completion", "bash"],
                        ["--help"], ["checkpoint", "verify", "--help"],
                        ["help", "run"], ["local", "--help"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([BINARY, *command], stdout=full, text=True,
                                      stderr=subprocess.PIPE, check=False)
            self.assertEqual(done.returncode, 1, command)
            self.assertIn("cannot be written", done.stderr)

    # ---- diff ----

    def test_diff_of_a_checkpoint_with_itself(self):
        code, out, errors = paramd("diff", self.full, self.full)
        self.assertEqual((code, errors), (0, ""))
        self.assertIn("every number is the same", out)

    def test_diff_counts_what_changed(self):
        code, out, errors = paramd("diff", self.full, self.increment)
        self.assertEqual((code, errors), (0, ""))
        self.assertRegex(out, r"\nembedding/kernel  1280x1024  20 %  +0\.99")
        self.assertRegex(out, r"\nscale +scalar +0 %  +0 ")
        self.assertNotIn("every number", out)

    def test_diff_as_json(self):
        code, out, errors = paramd("diff", self.full, self.runs, "--json",
                                   "--slots")
        self.assertEqual((code, errors), (0, ""))
        difference = json.loads(out)
        self.assertEqual(difference["a"], {
            "path": self.full, "snapshot": "1.5", "step": 9370})
        self.assertEqual(difference["b"]["step"], 9380)
        self.assertFalse(difference["same"])
        common = {both["name"]: both for both in difference["common"]}
        self.assertEqual(len(common), 8)
        wide = common["wide/slot:momentum"]
        self.assertEqual(wide["shape"], [2, 1100000])
        # Two numbers of a block may be the same by chance.
        self.assertAlmostEqual(wide["changed"], 2 * BLOCK, delta=100)
        self.assertEqual(common["scale"]["changed"], 0)

    # ---- export ----

    def whole(self, variable, slot=""):
        """A variable of the increment, put together from the manifest."""
        parts = {}
        with open(os.path.join(self.increment, "manifest.json"),
                  encoding="utf-8") as file:
            manifest = json.load(file)
        for file in manifest["files"]:
            own = os.path.join(self.increment, file["name"])
            base = os.path.join(os.path.dirname(self.increment),
                                file["base"]["directory"], file["base"]["name"])
            with safetensors.safe_open(own, framework="numpy") as changed, \
                    safetensors.safe_open(base, framework="numpy") as old:
                for part in file["slices"]:
                    if part["variable"] != variable:
                        continue

                    def tensor(saved):
                        return (saved["slot_tensors"][slot]
                                if slot else saved["values_tensor"])
                    values = old.get_tensor(tensor(part)).copy()
                    flat = values.reshape(-1)
                    for run in part.get("changed", []):
                        begin = run.get("first_block", 0) * BLOCK
                        numbers = changed.get_tensor(tensor(run))
                        flat[begin:begin + numbers.size] = numbers
                    parts[int(part.get("row_begin", 0))] = values
        if parts[0].shape == ():
            return parts[0]
        return numpy.concatenate([parts[row] for row in sorted(parts)])

    @NEEDS_LIBRARIES
    def test_the_safetensors_library_opens_an_export(self):
        out = self.out()
        code, printed, errors = paramd("export", self.runs, "--to", out)
        self.assertEqual((code, errors), (0, ""))
        self.assertEqual(printed,
                         f"{out}: 4 tensors, 14.0 MB, in\n  model.safetensors\n")
        with safetensors.safe_open(os.path.join(out, "model.safetensors"),
                                   framework="numpy") as file:
            self.assertEqual(file.metadata(), {"format": "pt"})
            self.assertEqual(set(file.keys()), set(SHAPES))
            for name, shape in SHAPES.items():
                values = file.get_tensor(name)
                self.assertEqual(values.shape, shape)
                self.assertEqual(values.dtype, numpy.float32)
                self.assertTrue((values == self.whole(name)).all(), name)

    @NEEDS_LIBRARIES
    def test_shards_of_half_precision_and_slots(self):
        out = self.out()
        code, _, errors = paramd("export", self.runs, "--to", out, "--slots",
                                 "--dtype=fp16", "--max_shard_size=4MB")
        self.assertEqual((code, errors), (0, ""))
        self.assertEqual(sorted(os.listdir(out)), [
            "model-00001-of-00003.safetensors",
            "model-00002-of-00003.safetensors",
            "model-00003-of-00003.safetensors",
            "model.safetensors.index.json",
            "optimizer-00001-of-00004.safetensors",
            "optimizer-00002-of-00004.safetensors",
            "optimizer-00003-of-00004.safetensors",
            "optimizer-00004-of-00004.safetensors",
            "optimizer.safetensors.index.json"])
        with open(os.path.join(out, "model.safetensors.index.json"),
                  encoding="utf-8") as file:
            index = json.load(file)
        self.assertEqual(set(index["weight_map"]), set(SHAPES))
        total = 0
        for name, file_name in index["weight_map"].items():
            with safetensors.safe_open(os.path.join(out, file_name),
                                       framework="numpy") as file:
                values = file.get_tensor(name)
            self.assertEqual(values.dtype, numpy.float16)
            self.assertTrue(
                (values == self.whole(name).astype(numpy.float16)).all(), name)
            total += values.nbytes
        self.assertEqual(index["metadata"]["total_size"], total)
        with safetensors.safe_open(
                os.path.join(out, "optimizer-00001-of-00004.safetensors"),
                framework="numpy") as file:
            self.assertEqual(sorted(file.keys()),
                             sorted(name + "/slot:step" for name in SHAPES))
            self.assertEqual(file.get_tensor("wide/slot:step").dtype,
                             numpy.int64)
        with safetensors.safe_open(
                os.path.join(out, "optimizer-00003-of-00004.safetensors"),
                framework="numpy") as file:
            self.assertEqual(list(file.keys()), ["wide/slot:momentum"])
            self.assertTrue((file.get_tensor("wide/slot:momentum")
                             == self.whole("wide", "momentum")).all())

    @NEEDS_LIBRARIES
    def test_bfloat16(self):
        out = self.out()
        code, _, errors = paramd("export", self.full, "--to", out,
                                 "--dtype=bf16")
        self.assertEqual((code, errors), (0, ""))
        with open(os.path.join(out, "model.safetensors"), "rb") as file:
            tensors = dict(safetensors.deserialize(file.read()))
        self.assertEqual({info["dtype"] for info in tensors.values()}, {"BF16"})
        with safetensors.safe_open(
                os.path.join(self.full, "ps-00001-of-00003.safetensors"),
                framework="numpy") as file:
            bits = file.get_tensor("embedding/kernel[0:1024]").view(
                numpy.uint32).reshape(-1)
        halves = numpy.frombuffer(bytes(tensors["embedding/kernel"]["data"]),
                                  numpy.uint16)[:bits.size]
        # To the nearest, ties to even: by the definition, of finite numbers.
        expected = (bits + 0x7fff + (bits >> 16 & 1)) >> 16
        self.assertTrue((halves == expected).all())

    @NEEDS_LIBRARIES
    @unittest.skipIf(importlib.util.find_spec("torch") is None,
                     "needs torch, which no script of ours installs")
    def test_torch_opens_an_export_as_the_transformers_library_does(self):
        import torch  # pylint: disable=import-outside-toplevel
        from safetensors.torch import load_file  # pylint: disable=import-outside-toplevel
        for dtype, name in ((torch.float32, "fp32"), (torch.bfloat16, "bf16"),
                            (torch.float16, "fp16")):
            out = f"{self.out()}-{name}"
            code, _, errors = paramd("export", self.runs, "--to", out,
                                     "--dtype", name, "--max_shard_size=4MB")
            self.assertEqual((code, errors), (0, ""))
            with open(os.path.join(out, "model.safetensors.index.json"),
                      encoding="utf-8") as file:
                weight_map = json.load(file)["weight_map"]
            state = {}
            for shard in sorted(set(weight_map.values())):
                state.update(load_file(os.path.join(out, shard)))
            self.assertEqual(set(state), set(SHAPES))
            for variable, values in state.items():
                whole = torch.from_numpy(numpy.array(self.whole(variable)))
                self.assertEqual(values.dtype, dtype)
                self.assertTrue(torch.equal(values, whole.to(dtype)), variable)

    @NEEDS_LIBRARIES
    def test_a_tensor_bundle(self):
        out = self.out()
        code, printed, errors = paramd("export", self.runs, "--to", out,
                                       "--format=tensorbundle", "--slots")
        self.assertEqual((code, errors), (0, ""))
        self.assertTrue(printed.startswith(f"{out}: 12 tensors, "), printed)
        with open(os.path.join(out, "checkpoint"), encoding="utf-8") as file:
            self.assertEqual(file.read(), 'model_checkpoint_path: "ckpt"\n'
                             'all_model_checkpoint_paths: "ckpt"\n')
        entries = read_table(os.path.join(out, "ckpt.index"))
        self.assertEqual(entries[0][0], b"")
        header = dict(fields(entries[0][1]))
        self.assertEqual(header, {1: 1, 3: b"\x08\x01"})
        names = [key.decode() for key, _ in entries[1:]]
        self.assertEqual(names, sorted(
            [*SHAPES, *(name + "/slot:momentum" for name in SHAPES),
             *(name + "/slot:step" for name in SHAPES)],
            key=str.encode))
        with open(os.path.join(out, "ckpt.data-00000-of-00001"), "rb") as file:
            data = file.read()
        for key, value in entries[1:]:
            name, _, slot = key.decode().partition("/slot:")
            entry = dict(fields(value))
            if slot == "step":
                self.assertEqual((entry[1], entry[5]), (9, 8))
                continue
            self.assertEqual(entry[1], 1)
            shape = tuple(dict(fields(size))[1]
                          for _, size in fields(entry[2]))
            self.assertEqual(shape, SHAPES[name])
            stored = data[entry[4]:entry[4] + entry[5]]
            self.assertEqual(stored, self.whole(name, slot).tobytes(), name)
            if len(stored) < 1000:
                self.assertEqual(entry[6], masked(crc32c(stored)))


if __name__ == "__main__":
    unittest.main()
