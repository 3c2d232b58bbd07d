"""The example notebook: its cells, one after the other."""

import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

NOTEBOOK = pathlib.Path("examples/local_cluster.ipynb")
ENVIRONMENT = {"LIBPARAMD": os.path.abspath("program/libparamd.so"),
               "PARAMD": os.path.abspath("cli/paramd"), "OMP_NUM_THREADS": "1",
               "PYTHONPATH": os.path.abspath("python")}
DATA = "/usr/share/datasets/fashion-mnist"

sys.path.insert(0, ENVIRONMENT["PYTHONPATH"])


def can_import(*modules):
    return subprocess.run([sys.executable, "-c", f"import {', '.join(modules)}"],
                          capture_output=True, check=False).returncode == 0


def without_matplotlib():
    """Axes that take whatever is drawn, in place of its."""
    pyplot = types.ModuleType("matplotlib.pyplot")
    pyplot.subplots = lambda *_, **__: (mock.Mock(), [mock.Mock() for _ in range(3)])
    return mock.patch.dict(sys.modules, {
        "matplotlib": types.ModuleType("matplotlib"), "matplotlib.pyplot": pyplot})


class NotebookTest(unittest.TestCase):

    def setUp(self):
        self.notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
        self.code = [cell for cell in self.notebook["cells"]
                     if cell["cell_type"] == "code"]
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        patch = mock.patch.dict(os.environ, ENVIRONMENT, TMPDIR=directory.name)
        patch.start()
        self.addCleanup(patch.stop)

    def check_it_learns(self, said):
        found = [float(value) for value in re.findall(r"accuracy (\S+)", said)]
        self.assertEqual(len(found), 2)
        self.assertGreater(min(found), 0.78)

    def test_it_is_without_outputs(self):
        for cell in self.code:
            self.assertEqual((cell["outputs"], cell["execution_count"]), ([], None))

    @unittest.skipUnless(can_import("numpy") and os.path.isdir(DATA),
                         "needs NumPy and the data")
    def test_its_cells_run_in_order(self):
        said, names = io.StringIO(), {"__name__": "__main__"}
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.redirect_stdout(said))
            stack.enter_context(mock.patch("tempfile.tempdir", None))  # Of TMPDIR.
            if not can_import("matplotlib"):
                stack.enter_context(without_matplotlib())
            for cell in self.code:
                exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
        self.check_it_learns(said.getvalue())
        self.assertGreater(len(names["cluster"].history), 0)

    @unittest.skipUnless(can_import("numpy", "matplotlib", "tqdm", "ipywidgets",
                                    "nbformat", "nbclient", "ipykernel")
                         and os.path.isdir(DATA), "needs Jupyter")
    def test_in_jupyter_the_bar_is_a_widget(self):
        import nbclient
        import nbformat
        notebook = nbformat.reads(NOTEBOOK.read_text(encoding="utf-8"), 4)
        nbformat.validate(notebook)
        nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
        outputs = [output for cell in notebook.cells
                   for output in cell.get("outputs", ())]
        shown = {kind for output in outputs for kind in output.get("data", ())}
        self.assertLessEqual({"application/vnd.jupyter.widget-view+json", "image/png"},
                             shown)
        self.check_it_learns("".join(output.get("text", "") for output in outputs))


if __name__ == "__main__":
    unittest.main()
