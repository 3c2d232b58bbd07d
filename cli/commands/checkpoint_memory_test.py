"""paramd checkpoint on checkpoints that are far larger than what it may take of
memory. Their files are all zeros and on disk all holes."""

import json
import os
import shutil
import struct
import subprocess
import sys
import unittest

BINARY = os.path.abspath("cli/paramd")
MIB = 1 << 20
# Runs what it is told. Small itself: a process counts as its own what the one
# that began it had at that moment.
MEASURE = """
import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
print(usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def table():
    entries = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
        entries.append(crc)
    return entries


TABLE = table()


def times(matrix, vector):
    """Over two elements; a matrix is its columns."""
    out = 0
    for column in matrix:
        if vector & 1:
            out ^= column
        vector >>= 1
    return out


def crc32c(data, zeros=0):
    """Of the bytes and so many zeros behind them."""
    crc = 0xffffffff
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    # What a zero does to a register is linear, and squared what two do.
    step = [TABLE[(1 << i) & 255] ^ (1 << i) >> 8 for i in range(32)]
    while zeros:
        if zeros & 1:
            crc = times(step, crc)
        step = [times(step, column) for column in step]
        zeros >>= 1
    return crc ^ 0xffffffff


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def write_checkpoint(root, counter, rows, row_elements, rows_at_once,
                     servers=2, sums=True, keyed=False):
    """A variable of zeros, in slices of so many rows. Without `sums` those of
    its files are wrong. A keyed one has no key in any row."""
    slots = ("key", "used") if keyed else ()
    path = os.path.join(root, f"000001-{counter:08}.step-{counter}")
    os.makedirs(path)
    files, weight_map = [], {}
    row_bytes = 4 * row_elements
    for server in range(servers):
        first, last = rows * server // servers, rows * (server + 1) // servers
        header, slices, end = {"__metadata__": {"format": "pt"}}, [], 0
        for begin in range(first, last, rows_at_once):
            stop = min(begin + rows_at_once, last)
            name = f"big[{begin}:{stop}]"
            size = (stop - begin) * row_bytes
            header[name] = {"dtype": "F32", "data_offsets": [end, end + size],
                            "shape": [stop - begin, row_elements]}
            end += size
            saved = {}
            for slot in slots:
                saved[slot] = f"big/slot:{slot}[{begin}:{stop}]"
                size = 8 * (stop - begin)
                header[saved[slot]] = {
                    "dtype": "I64", "data_offsets": [end, end + size],
                    "shape": [stop - begin]}
                end += size
            slices.append({"variable": "big", "row_begin": begin,
                           "row_end": stop, "values_tensor": name,
                           "slot_tensors": saved,
                           "applied": [{"applied": 10, "blocks": 4}]})
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        head = struct.pack("<Q", len(text)) + text
        file = f"ps-{server + 1:05}-of-{servers:05}.safetensors"
        weight_map.update((s["values_tensor"], file) for s in slices)
        with open(os.path.join(path, file), "wb") as out:
            out.write(head)
            out.truncate(len(head) + end)
        files.append({"name": file, "server": server, "slices": slices,
                      "bytes": len(head) + end,
                      "crc32c": crc32c(head, end) if sums else 0})
    manifest = json.dumps({
        "format": 1, "min_reader": 1, "job_name": "big", "run_id": "big-1",
        "snapshot": {"term": 1, "counter": counter}, "global_step": counter,
        "variables": [{"name": "big", "dtype": "FLOAT32",
                       "shape": [rows, row_elements],
                       "sparse": keyed, "keyed": keyed}],
        "slots": slots, "files": files})
    write(os.path.join(path, "manifest.json"), manifest)
    write(os.path.join(path, "manifest.crc32c"),
          f"{crc32c(manifest.encode()):08x}\n")
    index = {"metadata": {"total_size": rows * row_bytes},
             "weight_map": weight_map}
    write(os.path.join(path, "model.safetensors.index.json"),
          json.dumps(index, indent=2, sort_keys=True) + "\n")
    return path


def on_disk(path):
    return sum(512 * os.stat(os.path.join(path, name)).st_blocks
               for name in os.listdir(path))


@unittest.skipIf("PARAMD_SANITIZER" in os.environ,
                 "a sanitizer takes memory of its own")
class CheckpointMemoryTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.work = os.path.join(os.environ["TEST_TMPDIR"], "checkpoint_memory")
        shutil.rmtree(cls.work, ignore_errors=True)
        cls.addClassCleanup(shutil.rmtree, cls.work, ignore_errors=True)

    def run_within(self, most_mib, *arguments):
        """What paramd prints, and says how much memory it had at most."""
        done = subprocess.run(
            [sys.executable, "-S", "-c", MEASURE, BINARY, "checkpoint",
             *arguments], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        resident, seconds = (float(word) for word in done.stderr.split())
        print(f"{arguments[0]}: {resident:.0f} MiB, {seconds:.2f} s of CPU")
        self.assertLess(resident, most_mib, arguments)
        return done.stdout

    def test_list_and_inspect_read_no_numbers(self):
        root = os.path.join(self.work, "huge")
        for counter in (1, 2):
            path = write_checkpoint(root, counter, rows=1 << 24,
                                    row_elements=1024, rows_at_once=1024,
                                    servers=4, sums=False)
            self.assertLess(on_disk(path), 32 * MIB)
        out = self.run_within(100, "list", root)
        self.assertEqual(out.count(" 68.7 GB "), 2, out)
        self.assertEqual(out.count(" ok\n"), 2, out)
        out = self.run_within(100, "inspect", root)
        self.assertRegex(out, r"\nbig +16777216x1024 +16384 +-\n")

    def test_what_reads_numbers_does_so_a_piece_at_a_time(self):
        # Rows of 6 MB, so that no piece is as long as the one before.
        root = os.path.join(self.work, "large")
        a, b = (write_checkpoint(root, counter, rows=96, row_elements=1500001,
                                 rows_at_once=1) for counter in (1, 2))
        self.assertLess(on_disk(a), MIB)
        self.assertEqual(self.run_within(64, "verify", root).count("ok  "), 2)
        self.assertIn("0 %", self.run_within(96, "diff", a, b))
        self.assertRegex(self.run_within(64, "inspect", a, "--values"),
                         r"\nbig +96x1500001 +96 +- +0 +0 +0 +100.0 % *\n")
        # 4 M rows by key: 335 MB.
        path = write_checkpoint(os.path.join(self.work, "keyed"), 1,
                                rows=1 << 22, row_elements=16,
                                rows_at_once=1 << 16, keyed=True)
        report = json.loads(self.run_within(64, "inspect", path, "--table=big",
                                            "--format=json"))
        self.assertEqual(report["capacity"], 1 << 22)
        self.assertEqual(report["rows"], 0)
        self.assertEqual(report["buckets"]["by_tenth_of_fill"],
                         [256] + [0] * 9)
        to = os.path.join(self.work, "export")
        self.run_within(64, "export", a, "--to", to, "--dtype", "bf16")
        self.assertGreater(os.path.getsize(to + "/model.safetensors"),
                           2 * 96 * 1500001)


if __name__ == "__main__":
    unittest.main()
