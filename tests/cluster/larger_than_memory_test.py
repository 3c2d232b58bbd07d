"""Training on a file that is larger than the memory a process may have."""

import json
import os
import tempfile
import unittest

from tests.cluster import input_files as files
from tests.cluster import paramd

# Of memory that the process writes, stacks included.
LIMIT_KB = 1_000_000
VALUES = 2 ** 16
EXAMPLES = 3 * 2 ** 14  # 3 GiB of values.


class LargerThanMemoryTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])

    def write(self, name, header, size):
        """Zeros behind the header, which take no place on the disk."""
        path = files.write(self.directory, name, header)
        os.truncate(path, len(header) + size)
        self.addCleanup(os.remove, path)
        return path

    def npy(self, shape):
        header = (f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, "
                  "}").ljust(117) + "\n"
        return b"\x93NUMPY\x01\x00" + bytes([len(header), 0]) + header.encode()

    def train(self, source):
        job = files.job(self.directory, source, [
            "shuffle", {"take": {"examples": 64}},
            {"cast": {"feature": "x", "type": "float32"}}])
        path = os.path.join(self.directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        # What a process takes for itself grows with the cores of the machine.
        run = paramd.Run(
            "run", "--job", path, directory=self.directory,
            environment={"MALLOC_ARENA_MAX": "2", "OPENBLAS_NUM_THREADS": "1"},
            under=["sh", "-c",
                   f'ulimit -s 1024 && ulimit -d {LIMIT_KB} && exec "$@"',
                   "sh"])
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 0, run.output)

    def test_records(self):
        path = self.write("a.bin", b"", EXAMPLES * (VALUES + 4))
        self.assertGreater(os.path.getsize(path), 2 * LIMIT_KB * 1000)
        self.train({"records": {
            "files": ["a.bin"],
            "features": [{"name": "label", "type": "int32", "classes": 10},
                         {"name": "x", "type": "uint8", "dims": [VALUES]}]}})

    def test_arrays(self):
        path = self.write("x.npy", self.npy((EXAMPLES, VALUES)),
                          EXAMPLES * VALUES)
        self.write("y.npy", self.npy((EXAMPLES,)), EXAMPLES)
        self.assertGreater(os.path.getsize(path), 2 * LIMIT_KB * 1000)
        self.train({"npy": {"arrays": [
            {"name": "x", "file": "x.npy"},
            {"name": "label", "file": "y.npy", "classes": 10}]}})


if __name__ == "__main__":
    unittest.main()
