"""What people read leaves the program by one function, which escapes it."""

import os
import re
import unittest

from tests.structure import rooms

# Functions and streams that write text as it is.
WRITES = re.compile(
    r"\b(?:printf|vprintf|puts|putchar|fprintf|vfprintf|fputs|fputc|fwrite|"
    r"perror)\s*\(|\bstd::c(?:out|err|log)\b")

# Who may, and why.
MAY = {
    "base/print.cc": "it is the function",
    "base/check.cc": "the sentences are the program's own",
    "process/terminal/console.cc": "it moves the cursor",
    "cli/commands/output_file.cc": "a file",
    "cli/commands/prediction_file.cc": "numbers, as a file",
    "cli/local/supervisor.cc": "a process's log file",
    "base/chrome_trace.cc": "a file",
    "config/print_docs.cc": "run by who builds paramd",
    "server/device/cuda_loops.cu": "the process ends with CUDA's own words",
}

# Of these only tests, tools and people's own programs are made.
NOT_SHIPPED = ("tests/", "bench/", "third_party/", "examples/")


def is_shipped(path):
    return (path.endswith((".cc", ".h", ".cu"))
            and not path.endswith(("_test.cc", "_benchmark.cc"))
            and not path.startswith(NOT_SHIPPED)
            and "/testing/" not in path and "/fuzz/" not in path)


def without_comments(text):
    return re.sub(r"//[^\n]*", "", text)


class OutputTest(unittest.TestCase):

    def setUp(self):
        root = os.path.dirname(os.path.realpath("WORKSPACE"))
        self.texts = {path: text for path, text in rooms.Tree(root).texts.items()
                      if is_shipped(path)}

    def test_sources_were_read(self):
        self.assertIn("cli/commands/command.cc", self.texts)
        self.assertGreater(len(self.texts), 300)

    def test_text_is_written_by_print_alone(self):
        found = {path for path, text in self.texts.items()
                 if WRITES.search(without_comments(text))}
        self.assertEqual(
            found - MAY.keys(), set(),
            "these write to a stream as it is; use Print (base/print.h)")
        self.assertEqual(MAY.keys() - found, set(), "these need no exception")


if __name__ == "__main__":
    unittest.main()
