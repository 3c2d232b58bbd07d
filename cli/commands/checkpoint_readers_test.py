"""No command gives a wrong answer out of a checkpoint that is damaged.

Each command is in one of the tables below: with how it reads a checkpoint, or among
those that read none. Of those that read one, each is run once with every damage.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from tests.cluster import paramd

# As typed; CHECKPOINT stands for a run with one checkpoint, JOB for its job file,
# OUT for something new.
READ_ALL = {
    "checkpoint verify": [["CHECKPOINT"]],
    "checkpoint diff": [["CHECKPOINT", "PRISTINE"], ["PRISTINE", "CHECKPOINT"],
                        ["CHECKPOINT", "PRISTINE", "--slots", "--json"]],
    "checkpoint export": [["CHECKPOINT", "--to", "OUT"],
                          ["CHECKPOINT", "--to", "OUT", "--dtype=bf16",
                           "--slots"],
                          ["CHECKPOINT", "--to", "OUT",
                           "--format=tensorbundle"],
                          ["CHECKPOINT", "--to", "OUT", "--format=onnx",
                           "--job", "JOB"]],
    "checkpoint inspect": [["CHECKPOINT", "--values"]],
    "evaluate": [["--job", "JOB", "--checkpoint", "CHECKPOINT", "--json"],
                 ["--job", "JOB", "--checkpoint", "CHECKPOINT"]],
    "predict": [["--job", "JOB", "--checkpoint", "CHECKPOINT"]],
    "label": [["--job", "JOB", "--checkpoint", "CHECKPOINT", "--to", "OUT"]],
    "quantize": [["CHECKPOINT", "--job", "JOB", "--calibrate", "train",
                  "--output", "OUT"],
                 ["CHECKPOINT", "--job", "JOB", "--mode", "float16",
                  "--output", "OUT"]],
    "shrink": [["CHECKPOINT", "--job", "JOB", "--to", "OUT"]],
    # To begin with its weights, to go on with it, to evaluate it.
    "run": [["--job", "JOB", "--run_dir", "OUT", "--set",
             "warm_start.path=CHECKPOINT"],
            ["--job", "JOB", "--run_dir", "CHECKPOINT", "--epochs", "3"]],
    "local": [["--job", "JOB", "--workers=1", "--servers=2", "--run_dir", "OUT",
               "--set", "warm_start.path=CHECKPOINT"]],
}
# What they print comes out of manifests; numbers and headers may say what they like.
READ_MANIFESTS = {
    "checkpoint list": [["CHECKPOINT"]],
    "checkpoint inspect": [["CHECKPOINT"]],
}
READ_NONE = {
    "checkpoint now", "config check", "config print", "model print", "plan",
    "input bench", "input convert", "status", "top", "set", "drain", "scale",
    "stop", "profile", "trace", "tls init", "tls renew", "completion",
    "version",
}


def call(*arguments, environment=None):
    inherited = {name: value for name, value in os.environ.items()
                 if not name.startswith("PARAMD_") and name != "TF_CONFIG"}
    return subprocess.run([paramd.BINARY, *arguments], capture_output=True,
                          text=True, check=False,
                          env={**inherited, **(environment or {})})


def flip(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << at % 8
    path.write_bytes(content)


def damages(checkpoint):
    """(name, file, byte) of bits that are turned."""
    files = sorted(checkpoint.glob("*.safetensors"))
    for i, file in enumerate(files):
        size = file.stat().st_size
        header = 8 + int.from_bytes(file.read_bytes()[:8], "little")
        for where, at in (("length", 0), ("header", header // 2),
                          ("numbers", header + 3), ("last number", size - 1)):
            yield f"{where} of file {i}", file.name, at
    for name in ("manifest.json", "manifest.crc32c"):
        size = (checkpoint / name).stat().st_size
        for at in (0, size // 2, size - 2):
            yield f"byte {at} of {name}", name, at


class CheckpointReadersTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        job = paramd.tiny_job(cls.directory)
        job["epochs"] = 1
        # Of the hidden units half are pruned.
        job["model"]["layers"] = ["flatten", {"dense": 6}, "relu",
                                  {"dense": 10}]
        job["staleness"] = "sync"
        job["optimizer"] = {
            "adam": {}, "learning_rate": 0.01,
            "pruning": [{"variables": "dense_1/*", "structure": "channels",
                         "sparsity": 0.5, "end_step": 1}]}
        cls.job = os.path.join(cls.directory, "job.json")
        with open(cls.job, "w", encoding="utf-8") as file:
            json.dump(job, file)
        cls.pristine = os.path.join(cls.directory, "pristine")
        done = call("run", "--job", cls.job, "--run_dir", cls.pristine)
        assert done.returncode == 0, done.stderr
        cls.outs = 0

    def call(self, command, arguments, run):
        """Also what stands for OUT."""
        type(self).outs += 1
        out = os.path.join(self.directory, f"out-{self.outs}")
        words = []
        for word in arguments:
            for name, path in (("CHECKPOINT", run), ("PRISTINE", self.pristine),
                               ("JOB", self.job), ("OUT", out)):
                word = word.replace(name, path)
            words.append(word)
        return call(*command.split(), *words), out

    def damaged(self, name, at):
        """A copy of the run; one bit of its newest checkpoint is turned."""
        run = os.path.join(self.directory, "damaged")
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(self.pristine, run, symlinks=True)
        flip(self.checkpoint(run) / name, at)
        return run

    @staticmethod
    def checkpoint(run):
        (found,) = pathlib.Path(run, "checkpoints").glob("[0-9]*.step-*")
        return found

    def test_every_command_is_in_a_table(self):
        commands = set(re.findall(r"^  (\w+(?: \w+)?)  +\S",
                                  call("--help").stdout, re.MULTILINE))
        self.assertEqual(commands,
                         READ_ALL.keys() | READ_MANIFESTS.keys() | READ_NONE)

    def test_undamaged_all_of_them_succeed(self):
        for table in (READ_ALL, READ_MANIFESTS):
            for command, usages in table.items():
                for arguments in usages:
                    with self.subTest(command=command, arguments=arguments):
                        run = os.path.join(self.directory, "whole")
                        shutil.rmtree(run, ignore_errors=True)
                        shutil.copytree(self.pristine, run, symlinks=True)
                        done, _ = self.call(command, arguments, run)
                        self.assertEqual(done.returncode, 0, done.stderr)

    def test_who_reads_numbers_names_the_damage_and_fails(self):
        for damage, name, at in damages(self.checkpoint(self.pristine)):
            for command, usages in READ_ALL.items():
                for arguments in usages:
                    run = self.damaged(name, at)
                    with self.subTest(damage=damage, command=command,
                                      arguments=arguments):
                        done, out = self.call(command, arguments, run)
                        said = done.stdout + done.stderr
                        self.assertNotEqual(done.returncode, 0, said)
                        self.assertGreater(done.returncode, 0, said)
                        self.assertIn(str(self.checkpoint(run)), said)
                        if command in ("evaluate", "predict", "checkpoint diff"):
                            self.assertEqual(done.stdout, "")
                        if command in ("checkpoint export", "quantize",
                                       "label", "shrink"):
                            self.assertFalse(os.path.exists(out))

    def quantised(self):
        """A quantised checkpoint, made new."""
        done, out = self.call("quantize", READ_ALL["quantize"][0],
                              self.pristine)
        self.assertEqual(done.returncode, 0, done.stderr)
        return out

    def test_of_a_quantised_one_each_reads_float_or_says_why_it_does_not(self):
        refused = {"quantize": "is quantised already",
                   "shrink": "is quantised; shrink the checkpoint that it was "
                             "made of",
                   "--run_dir CHECKPOINT": "is quantised, and nothing can be "
                                           "trained on from it"}
        for table in (READ_ALL, READ_MANIFESTS):
            for command, usages in table.items():
                for arguments in usages:
                    if "--slots" in arguments and "diff" in command:
                        continue  # It has none.
                    made = self.quantised()
                    with self.subTest(command=command, arguments=arguments):
                        done, out = self.call(command, arguments, made)
                        said = [sentence for words, sentence in refused.items()
                                if words in f"{command} {' '.join(arguments)}"]
                        if said:
                            self.assertEqual(done.returncode, 2, done.stderr)
                            self.assertIn(said[0], done.stderr)
                        else:
                            self.assertEqual(done.returncode, 0, done.stderr)

    def test_who_reads_a_quantised_one_names_its_damage(self):
        pristine = pathlib.Path(self.quantised())
        readers = {command: usages for command, usages in READ_ALL.items()
                   if command not in ("quantize", "shrink", "run", "local")}
        for damage, name, at in damages(pristine):
            for command, usages in readers.items():
                for arguments in usages:
                    if "--slots" in arguments and "diff" in command:
                        continue
                    made = os.path.join(self.directory, "damaged-quantised")
                    shutil.rmtree(made, ignore_errors=True)
                    shutil.copytree(pristine, made)
                    flip(pathlib.Path(made, name), at)
                    with self.subTest(damage=damage, command=command,
                                      arguments=arguments):
                        done, _ = self.call(command, arguments, made)
                        said = done.stdout + done.stderr
                        self.assertGreater(done.returncode, 0, said)
                        self.assertIn(made, said)

    def test_who_reads_manifests_says_what_was_written_or_fails(self):
        for damage, name, at in damages(self.checkpoint(self.pristine)):
            for command, usages in READ_MANIFESTS.items():
                for arguments in usages:
                    run = os.path.join(self.directory, "damaged")
                    shutil.rmtree(run, ignore_errors=True)
                    shutil.copytree(self.pristine, run, symlinks=True)
                    before, _ = self.call(command, arguments, run)
                    run = self.damaged(name, at)
                    with self.subTest(damage=damage, command=command):
                        done, _ = self.call(command, arguments, run)
                        if done.returncode == 0:
                            self.assertEqual(done.stdout, before.stdout)
                            self.assertNotIn("manifest", name)
                        else:
                            self.assertIn(name.split(".")[0],
                                          done.stdout + done.stderr)

    def test_an_evaluator_fails_if_the_jobs_last_checkpoint_is_damaged(self):
        for damage, name, at in damages(self.checkpoint(self.pristine)):
            # Without its manifest nobody knows that it was the last.
            if "manifest" in name:
                continue
            with self.subTest(damage=damage):
                run = self.damaged(name, at)
                done = call(
                    "run", "--job", self.job, "--run_dir", run,
                    environment={"TF_CONFIG": json.dumps(
                        {"task": {"type": "evaluator", "index": 0}})})
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(str(self.checkpoint(run)), done.stderr)
                self.assertIn("is damaged", done.stderr)
                log = pathlib.Path(run, "evaluation.jsonl")
                self.assertEqual(log.read_text() if log.exists() else "", "")


if __name__ == "__main__":
    unittest.main()
