"""The checkpoints of paramd as the safetensors library sees them."""

import json
import os
import subprocess
import unittest

try:
    import numpy
    import safetensors
except ImportError as missing:
    raise unittest.SkipTest(
        f"needs safetensors and numpy from PyPI: {missing}")

SHAPES = {
    "embedding/kernel": (1280, 1024),
    "wide": (2, 1100000),
    'layer "ü"/bias': (10,),
    "scale": (),
}


def first_row(name):
    """The first row of a tensor's name, `w`, `w[4:8]` or with `/slot:`."""
    return int(name[name.rindex("[") + 1:].split(":")[0]) if "]" in name else 0


class SafetensorsLibraryTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        root = os.path.join(os.environ["TEST_TMPDIR"], "checkpoints")
        cls.path = subprocess.run(
            ["checkpoint/testing/write_sample", root], check=True,
            capture_output=True, text=True).stdout.strip()
        cls.tensors = {}
        for name in sorted(os.listdir(cls.path)):
            if not name.endswith(".safetensors"):
                continue
            with safetensors.safe_open(
                    os.path.join(cls.path, name), framework="numpy") as file:
                assert file.metadata() == {"format": "pt"}
                for tensor in file.keys():
                    cls.tensors[tensor] = (name, file.get_tensor(tensor))

    def whole(self, variable, slot=""):
        name = variable + slot
        parts = [(first_row(tensor), values)
                 for tensor, (_, values) in self.tensors.items()
                 if tensor == name or tensor.startswith(name + "[")]
        parts.sort(key=lambda part: part[0])
        if parts[0][1].shape == ():
            return parts[0][1]
        return numpy.concatenate([values for _, values in parts])

    def test_every_variable_and_slot_is_there_whole(self):
        for variable, shape in SHAPES.items():
            for slot in ("", "/slot:momentum"):
                values = self.whole(variable, slot)
                self.assertEqual(values.shape, shape)
                self.assertEqual(values.dtype, numpy.float32)
                self.assertTrue((numpy.abs(values) <= 0.5).all())
                if values.size > 1:
                    self.assertGreater(values.std(), 0.2)

    def test_big_variables_are_in_parts_of_whole_rows(self):
        self.assertIn("embedding/kernel[0:1024]", self.tensors)
        self.assertIn("embedding/kernel[1024:1280]", self.tensors)
        self.assertIn("wide[0:1]", self.tensors)
        self.assertIn("scale", self.tensors)

    def test_the_index_names_the_file_of_every_tensor(self):
        with open(os.path.join(
                self.path, "model.safetensors.index.json")) as file:
            index = json.load(file)
        self.assertEqual(
            index["weight_map"],
            {tensor: name for tensor, (name, _) in self.tensors.items()})
        self.assertEqual(
            index["metadata"]["total_size"],
            sum(values.nbytes for _, values in self.tensors.values()))

    def test_the_manifest_is_json_with_its_format(self):
        with open(os.path.join(self.path, "manifest.json")) as file:
            manifest = json.load(file)
        self.assertEqual(manifest["format"], 1)
        self.assertEqual(manifest["min_reader"], 1)
        self.assertEqual(manifest["snapshot"], {"term": "1", "counter": "5"})
        self.assertEqual(
            [variable["name"] for variable in manifest["variables"]],
            list(SHAPES))


if __name__ == "__main__":
    unittest.main()
