"""The schema of the job file, judged by the jsonschema library."""

import glob
import json
import unittest

try:
    import jsonschema
except ImportError:
    jsonschema = None


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


@unittest.skipIf(jsonschema is None, "the Python package jsonschema is missing")
class JobSchemaTest(unittest.TestCase):

    def setUp(self):
        self.schema = read("config/job.schema.json")
        self.validator = jsonschema.Draft7Validator(self.schema)

    def test_it_is_a_schema(self):
        jsonschema.Draft7Validator.check_schema(self.schema)

    def test_every_example_keeps_to_it(self):
        paths = glob.glob("config/examples/*.json")
        self.assertGreaterEqual(len(paths), 4)
        for path in paths:
            self.assertEqual([], list(self.validator.iter_errors(read(path))),
                             path)

    def test_a_misspelt_key_is_seen(self):
        job = read("config/examples/fashion_mnist.json")
        job["epoch"] = 5
        self.assertFalse(self.validator.is_valid(job))


if __name__ == "__main__":
    unittest.main()
