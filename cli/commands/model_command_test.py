"""paramd model print, as typed."""

import json
import os
import subprocess
import tempfile
import unittest

from tests.cluster import paramd


class ModelPrintTest(unittest.TestCase):

    def print_model(self, layers, *arguments):
        directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        job = paramd.tiny_job(directory)
        job["model"]["layers"] = layers
        path = os.path.join(directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        done = subprocess.run(
            ["cli/paramd", "model", "print", "--job", path, *arguments],
            env={}, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def rows(self, layers):
        code, out, errors = self.print_model(layers)
        self.assertEqual(code, 0, errors)
        return [line.split() for line in out.splitlines()]

    def test_layers_have_shapes_and_costs_for_one_example(self):
        rows = self.rows(["flatten", {"dense": 1000}, "relu", {"dense": 10}])
        self.assertEqual(rows[0][:2], ["layer", "output"])
        width = int(rows[1][1])
        self.assertEqual(rows[1], ["flatten_1", str(width), "0", "0", "0"])
        self.assertEqual(
            rows[2], ["dense_1", "1000", f"{1000 * (width + 1):,}",
                      f"{1000 * (2 * width + 1):,}", "4,000"])
        self.assertEqual(rows[3], ["relu_1", "1000", "0", "1,000", "4,000"])
        self.assertEqual(rows[4], ["dense_2", "10", "10,010", "20,010", "40"])
        self.assertEqual(
            rows[5], ["all", f"{1000 * (width + 1) + 10010:,}",
                      f"{1000 * (2 * width + 1) + 21010:,}", "8,040"])

    def test_what_a_residual_layer_holds_stands_below_it(self):
        code, out, errors = self.print_model(
            ["flatten", {"dense": 8},
             {"residual": {"layers": [{"dense": 8}, "tanh"]}}, {"dense": 10}])
        self.assertEqual(code, 0, errors)
        lines = out.splitlines()
        self.assertRegex(lines[3], r"^residual_1 +8 +72 ")
        self.assertRegex(lines[4], r"^  dense_2 +8 +72 ")
        self.assertRegex(lines[5], r"^  tanh_1 +8 +0 ")
        self.assertRegex(lines[6], r"^dense_3 +10 +90 ")

    def test_what_is_computed_again_costs_operations_and_no_activations(self):
        block = [{"dense": 1000}, "relu", {"dense": 16}]
        without = self.rows(["flatten", *block, *block, {"dense": 10}])
        rows = self.rows(["flatten", {"recompute": block}, {"recompute": block},
                          {"dense": 10}])
        self.assertEqual([row[0] for row in rows],
                         ["layer", "flatten_1", "recompute_1", "dense_1",
                          "relu_1", "dense_2", "recompute_2", "dense_3",
                          "relu_2", "dense_4", "dense_5", "all"])
        self.assertEqual([rows[2][4], rows[3][4]], ["64", "4,000"])
        parameters, operations, kept = rows[-1][-3:]
        self.assertEqual(parameters, without[-1][-3])
        width = int(rows[1][1])
        # But for the last layers of both blocks.
        again = 1000 * (2 * width + 1) + 1000 + 1000 * 33 + 1000
        self.assertEqual(int(operations.replace(",", "")),
                         int(without[-1][-2].replace(",", "")) + again)
        self.assertEqual(without[-1][-1], "16,168")
        # Outputs, and what one block keeps, in pieces of 64 bytes.
        self.assertEqual(kept, f"{64 + 64 + 40 + 2 * 4032:,}")

    def test_what_a_budget_has_computed_again_is_shown(self):
        layers = ["flatten", *8 * [{"dense": 100}, "tanh"], {"dense": 10}]
        batch = "--set=batch_per_replica=10"
        code, out, errors = self.print_model(
            layers, batch, "--set=memory.activation_budget_bytes=50000")
        self.assertEqual(code, 0, errors)
        rows = [line.split() for line in out.splitlines()]
        again = [row[0] for row in rows
                 if row and row[0].startswith("recomputed_")]
        chosen = rows[-1]
        self.assertEqual(chosen[:5], ["0", "1", "x", "10", "50,000"])
        without, taken = (int(number.replace(",", ""))
                          for number in chosen[5:7])
        # 16 outputs of 100 and two gradients at least.
        self.assertGreater(without, 10 * 4 * (16 * 100 + 2 * 100))
        self.assertLessEqual(taken, 50000)
        self.assertRegex(out, r"\+\d+\.\d % +(dense|tanh)_\d to (dense|tanh)")
        self.assertEqual(len(again), out.count(" to "))
        # Without a budget nothing is said, and with enough nothing is chosen.
        code, out, errors = self.print_model(layers, batch)
        self.assertNotIn("memory", out)
        code, out, errors = self.print_model(
            layers, batch, "--set=memory.activation_budget_bytes=10000000")
        self.assertRegex(out, r"\+0\.0 % +nothing\n$")
        code, out, errors = self.print_model(
            layers, batch, "--set=memory.activation_budget_bytes=1000")
        self.assertEqual((code, out), (2, ""))
        self.assertRegex(
            errors, "^paramd: memory.activation_budget_bytes is 1000; "
            "activations of 10 examples need \\d+ at least, and \\d+ if no "
            "layer is computed again; the largest layer, '\\w+', needs "
            "\\d+ alone, more than there is: give a smaller "
            "batch_per_replica\n$")

    def test_layers_that_do_not_fit_are_one_sentence(self):
        code, out, errors = self.print_model(
            ["flatten", {"residual": {"layers": [{"dense": 7}]}}])
        self.assertEqual((code, out), (2, ""))
        self.assertRegex(errors, "^paramd: residual layer 'residual_1' adds 7 "
                         'of its layers to \\d+ of its input: give it a '
                         '"shortcut" that changes the one to the other\n$')

    def test_a_job_file_is_needed(self):
        done = subprocess.run(["cli/paramd", "model", "print"], env={},
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--job FILE is missing", done.stderr)


if __name__ == "__main__":
    unittest.main()
