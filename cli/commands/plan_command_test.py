"""`paramd plan` cuts a model by what its layers take."""

import json
import os
import re
import subprocess
import tempfile
import unittest

from tests.cluster import paramd


class PlanTest(unittest.TestCase):

    def plan(self, *flags, layers, **changes):
        directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        job = paramd.tiny_job(directory)
        job["model"]["layers"] = layers
        job["batch_per_replica"] = 64
        job.update(changes)
        path = os.path.join(directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        done = subprocess.run([paramd.BINARY, "plan", "--job", path, *flags],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_a_large_layer_is_a_stage_of_its_own(self):
        # The second product takes some 100 times as long as the others.
        layers = ["flatten", {"dense": 1024}, {"dense": 1024}, {"dense": 8},
                  {"dense": 8}, {"dense": 10}]
        code, out, err = self.plan("--set=pipeline.stages=3", layers=layers)
        self.assertEqual((0, ""), (code, err))
        rows = [line.split() for line in out.splitlines()[1:4]]
        self.assertEqual(["0", "1", "2"], [row[0] for row in rows])
        self.assertEqual("dense_2", rows[1][1])
        self.assertRegex(out, r"devices wait \d+ % of the time")
        if "Do not cut this model" in out:
            return  # On a machine where that layer is no slower than others.
        setting = json.loads("{" + re.search(r'"pipeline".*', out)[0] + "}")
        self.assertEqual(["dense_2", "dense_3"],
                         setting["pipeline"]["begin_at"])
        # What it prints is a setting that it takes.
        flags = [f"--set=pipeline.{key}={json.dumps(value)}"
                 for key, value in setting["pipeline"].items()]
        code, out, err = self.plan(*flags, layers=layers)
        self.assertEqual((0, ""), (code, err))
        self.assertIn(
            f"in {setting['pipeline']['micro_batches']} micro-batches", out)

    def test_without_a_flush_there_is_more_to_keep(self):
        layers = ["flatten", *4 * [{"dense": 256}, "tanh"], {"dense": 10}]
        kept = {}
        for schedule in ("1f1b", "2bw"):
            code, out, err = self.plan(
                "--set=pipeline.stages=2", "--set=pipeline.micro_batches=2",
                f"--set=pipeline.schedule={schedule}", layers=layers)
            self.assertEqual((0, ""), (code, err))
            kept[schedule] = re.findall(r"^\d .* (\d+) +\d+ KiB +\d+ KiB", out,
                                        re.MULTILINE)
        self.assertEqual({"1f1b": ["2", "1"], "2bw": ["4", "2"]}, kept)

    def test_gradients_that_are_put_off_are_kept(self):
        layers = ["flatten", *4 * [{"dense": 256}, "tanh"], {"dense": 10}]
        activations = {}
        for schedule in ("gpipe", "zero_bubble"):
            drawing = os.path.join(os.environ["TEST_TMPDIR"], "plan.svg")
            code, out, err = self.plan(
                "--set=pipeline.stages=2", "--set=pipeline.micro_batches=2",
                f"--set=pipeline.schedule={schedule}", f"--svg={drawing}",
                "--set=pipeline.begin_at=[\"dense_3\"]", layers=layers)
            self.assertEqual((0, ""), (code, err))
            activations[schedule] = [int(kib) for kib in re.findall(
                r"^\d .* 2 +(\d+) KiB +\d+ KiB", out, re.MULTILINE)]
            if "Do not cut this model" not in out:  # Measured on a busy machine.
                self.assertIn(f'"schedule": "{schedule}"', out)
            with open(drawing, encoding="utf-8") as file:
                svg = file.read()
            self.assertEqual("zero_bubble" == schedule,
                             "gradient of the variables of" in svg)
        self.assertEqual(activations["gpipe"][0], activations["zero_bubble"][0])
        self.assertLess(activations["gpipe"][1], activations["zero_bubble"][1])

    def test_what_ran_is_drawn_beside_the_plan(self):
        layers = ["flatten", *4 * [{"dense": 256}, "tanh"], {"dense": 10}]
        drawings = [os.path.join(os.environ["TEST_TMPDIR"], name)
                    for name in ("planned.svg", "ran.svg")]
        code, out, err = self.plan(
            "--set=pipeline.stages=3", "--set=pipeline.micro_batches=4",
            f"--svg={drawings[0]}", f"--run_svg={drawings[1]}", layers=layers)
        self.assertEqual((0, ""), (code, err))
        self.assertRegex(out, r"on this processor, all at once: \d+\.\d+ ms;"
                              r"\nthey waited \d+ % of the time\n")
        bars = []
        for drawing in drawings:
            with open(drawing, encoding="utf-8") as file:
                svg = file.read()
            self.assertRegex(svg, r"<title>stage 0 computes \d+ % of the time, "
                                  r"stage 1 \d+ %, stage 2 \d+ %</title>")
            bars.append(sorted(re.findall(
                r"<title>(\w+ of micro-batch \d on stage \d), ", svg)))
        self.assertEqual(bars[0], bars[1])
        self.assertEqual(3 * 4 * 2, len(bars[1]))
        code, out, err = self.plan(
            "--set=pipeline.stages=2", "--set=pipeline.schedule=2bw",
            f"--run_svg={drawings[1]}", layers=layers)
        self.assertEqual((2, ""), (code, out))
        self.assertIn("several are under way", err)

    def test_a_budget_is_planned_in_one_piece_and_in_stages(self):
        layers = ["flatten", *8 * [{"dense": 64}, "tanh"], {"dense": 10}]
        budget = "--set=memory.activation_budget_bytes=250000"
        code, out, err = self.plan(budget, layers=layers)
        self.assertEqual((0, ""), (code, err))
        self.assertRegex(out, r"0      1 x 64 .*\+\d+\.\d % +\w+ to \w+")
        code, out, err = self.plan(budget, "--set=pipeline.stages=2",
                                   "--set=pipeline.micro_batches=4",
                                   layers=layers)
        self.assertEqual((0, ""), (code, err))
        self.assertRegex(out, r"\n0      2 x 16 .*\n1      1 x 16 ")
        code, out, err = self.plan(
            "--set=memory.activation_budget_bytes=9", layers=layers)
        self.assertEqual((2, ""), (code, out))
        self.assertIn("memory.activation_budget_bytes is 9; ", err)

    def test_a_stage_fits_its_device(self):
        # A wide layer has 2 MiB of weights and gradients: no two fit in 3 MiB.
        layers = ["flatten", {"dense": 512}, {"dense": 512}, {"dense": 512},
                  {"dense": 10}]
        flags = ["--set=pipeline.stages=3", "--set=pipeline.micro_batches=4"]

        def memory_of(out):
            line = re.search(r"^Memory of each device: (.*)$", out,
                             re.MULTILINE)
            return [int(one.removesuffix(" KiB"))
                    for one in line[1].split(", ")]

        code, out, err = self.plan(*flags, "--device_mib=3", layers=layers)
        self.assertEqual((0, ""), (code, err))
        self.assertEqual(3, len(memory_of(out)))
        self.assertLessEqual(max(memory_of(out)), 3 * 1024)
        # What a stage hands on, of 16 examples.
        self.assertRegex(out, r"(?m)^0 .* 32 KiB$")
        self.assertRegex(out, r"(?m)^2 .* -$")
        # The two slots of Adam are as large, and there are no servers for them.
        code, with_slots, err = self.plan(
            *flags, layers=layers, strategy="one_device",
            optimizer={"adam": {}, "learning_rate": 0.1})
        self.assertEqual((0, ""), (code, err))
        self.assertIn("weights, gradients, slots", with_slots)
        self.assertGreater(sum(memory_of(with_slots)),
                           1.5 * sum(memory_of(out)))
        code, out, err = self.plan(*flags, "--device_mib=1", layers=layers)
        self.assertEqual((2, ""), (code, out))
        self.assertRegex(err, r"the layer 'dense_\d' alone needs \d MiB; a "
                         "device has 1 MiB")
        code, out, err = self.plan(
            *flags, "--device_mib=3",
            "--set=pipeline.begin_at=[\"dense_1\", \"dense_4\"]", layers=layers)
        self.assertEqual((2, ""), (code, out))
        self.assertRegex(err, r"device 1 needs \d+ KiB; --device_mib gives it "
                         "3072 KiB: leave begin_at out")

    def test_what_has_no_plan_is_said(self):
        layers = ["flatten", {"dense": 10}]
        code, _, err = self.plan(layers=layers)
        self.assertEqual(2, code)
        self.assertIn("give --set pipeline.stages=N", err)
        code, _, err = self.plan("--set=pipeline.stages=5", layers=layers)
        self.assertEqual(2, code)
        self.assertIn("the model has 2 layers that can be cut", err)
        for flags, sentence in (
                (["--set=pipeline.stages=2", "--svg=/does/not/exist"],
                 "--svg: '/does/not/exist': No such file or directory"),
                (["--set=memory.activation_budget_bytes=1000000",
                  "--svg=plan.svg"], "give --set pipeline.stages=N")):
            code, out, err = self.plan(*flags, layers=layers)
            self.assertEqual((2, ""), (code, out))
            self.assertIn(sentence, err)


if __name__ == "__main__":
    unittest.main()
