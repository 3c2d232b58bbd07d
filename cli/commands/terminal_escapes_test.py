"""No command lets a terminal obey what came from outside.

Names in a manifest, of files and directories, in a job file and on the command line
hold escape sequences, a bell, C1 controls and a line of their own.
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

POISON = "\x1b]0;owned\x07\x1b[2J\u009b31m\x7f\r\nFORGED\tx"
# With `checkpoint_readers_test`: whatever command there is has a line here. RUN is
# the directory of a poisoned run, JOB its job file, OUT something new.
USES = {
    "run": [["--job", "JOB", "--run_dir", "RUN"],
            ["--job", "JOB", "--run_dir", "OUT", "--set",
             "warm_start.path=RUN"]],
    "local": [["--job", "JOB", "--run_dir", "OUT", "--workers=1", "--servers=1",
               "--set", "warm_start.path=RUN"]],
    "checkpoint list": [["RUN"]],
    "checkpoint inspect": [["RUN"], ["RUN", "--values"],
                           ["RUN", "--table", "RUN"]],
    "checkpoint verify": [["RUN"]],
    "checkpoint diff": [["RUN", "PRISTINE"], ["RUN", "PRISTINE", "--json"],
                        ["RUN", "RUN"]],
    "checkpoint export": [["RUN", "--to", "OUT"],
                          ["RUN", "--to", "OUT", "--max_shard_size", "1kB"],
                          ["RUN", "--to", "OUT", "--format=onnx", "--job",
                           "JOB"]],
    "checkpoint now": [["--run_dir", "RUN"]],
    "config check": [["--job", "JOB"]],
    "config print": [["--job", "JOB"], ["--job", "JOB", "--format=json"]],
    "model print": [["--job", "JOB"]],
    "plan": [["--job", "JOB"], ["--job", "JOB", "--set=pipeline.stages=2"]],
    "input bench": [["--job", "JOB"]],
    "input convert": [["--job", "JOB", "--to", "OUT"],
                      ["--job", "JOB", "--to", "RUN"]],
    "evaluate": [["--job", "JOB", "--checkpoint", "RUN"],
                 ["--job", "JOB", "--checkpoint", "PRISTINE"],
                 ["--job", "JOB", "--checkpoint", "PRISTINE", "--json"]],
    "predict": [["--job", "JOB", "--checkpoint", "RUN"],
                ["--job", "JOB", "--checkpoint", "PRISTINE"]],
    "label": [["--job", "JOB", "--checkpoint", "RUN", "--to", "OUT"],
              ["--job", "JOB", "--checkpoint", "PRISTINE", "--to", "OUT"]],
    "quantize": [["RUN", "--job", "JOB", "--calibrate=train", "--output", "OUT"],
                 ["PRISTINE", "--job", "JOB", "--output", "OUT"]],
    "shrink": [["RUN", "--job", "JOB", "--to", "OUT"],
               ["PRISTINE", "--job", "JOB", "--to", "OUT"]],
    "status": [["--address", "RUN"], ["RUN"]],
    "top": [["RUN"], ["127.0.0.1:1", "--sort=RUN"]],
    "set": [["--run_dir", "RUN", "RUN=1"]],
    "drain": [["RUN"], ["ps-0", "RUN"], ["ps-0", "--run_dir", "RUN"]],
    "scale": [["RUN"], ["RUN", "--servers=2"], ["--servers=RUN"]],
    "stop": [["RUN"], ["--run_dir", "RUN"]],
    "profile": [["RUN"], ["RUN", "--output=RUN"], ["10.0.0.7:2222RUN"]],
    "trace": [["RUN"], ["--run_dir", "RUN"], ["RUN", "--to=RUN"]],
    "tls init": [["--dir", "OUT", "--job", "JOB"], ["--dir", "OUT"]],
    "tls renew": [["--dir", "RUN"]],
    "completion": [["bash"], ["zsh"]],
    "version": [[]],
}


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def call(*arguments):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("PARAMD_") and name != "TF_CONFIG"}
    return subprocess.run([paramd.BINARY, *arguments], capture_output=True,
                          check=False, env=environment)


def commands():
    return set(re.findall(r"^  (\w+(?: \w+)?)  +\S",
                          call("--help").stdout.decode(), re.MULTILINE))


def poison(run):
    """A manifest that is whole, with such names wherever a name stands."""
    (checkpoint,) = pathlib.Path(run, "checkpoints").glob("[0-9]*.step-*")
    path = checkpoint / "manifest.json"
    manifest = json.loads(path.read_text())
    for key in ("job_name", "run_id", "created"):
        manifest[key] = str(manifest.get(key, "")) + POISON
    names = {}
    for variable in manifest["variables"]:
        names[variable["name"]] = variable["name"] + POISON
        variable["name"] = names[variable["name"]]
    for file in manifest["files"]:
        name = POISON + file["name"]
        (checkpoint / file["name"]).rename(checkpoint / name)
        file["name"] = name
        for part in file["slices"]:
            part["variable"] = names[part["variable"]]
    text = json.dumps(manifest).encode()
    path.write_bytes(text)
    (checkpoint / "manifest.crc32c").write_text(f"{crc32c(text):08x}\n")


class TerminalEscapesTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        job = paramd.tiny_job(cls.directory)
        job["epochs"] = 1
        clean = os.path.join(cls.directory, "clean.json")
        with open(clean, "w", encoding="utf-8") as file:
            json.dump(job, file)
        run = os.path.join(cls.directory, "run")
        done = call("run", "--job", clean, "--run_dir", run)
        assert done.returncode == 0, done.stderr
        cls.pristine = os.path.join(cls.directory, "pristine" + POISON)
        shutil.copytree(run, cls.pristine, symlinks=True)
        cls.run_dir = os.path.join(cls.directory, "run" + POISON)
        poison(run)
        os.rename(run, cls.run_dir)
        cls.job = os.path.join(cls.directory, "job" + POISON)
        with open(cls.job, "w", encoding="utf-8") as file:
            json.dump(job, file)
        cls.outs = 0

    def words(self, arguments):
        type(self).outs += 1
        for word in arguments:
            for name, path in (
                    ("PRISTINE", self.pristine), ("RUN", self.run_dir),
                    ("JOB", self.job),
                    ("OUT", f"{self.directory}/out-{self.outs}{POISON}")):
                word = word.replace(name, path)
            yield word

    def check(self, done):
        for output in (done.stdout, done.stderr):
            text = output.decode("utf-8")
            self.assertEqual(re.findall("[^\n\t\x20-\x7e\xa0-\U0010ffff]", text),
                             [], text)

    def test_every_command_has_a_line(self):
        self.assertEqual(commands(), USES.keys())

    def test_no_output_holds_what_a_terminal_obeys(self):
        for command, uses in USES.items():
            for arguments in uses:
                with self.subTest(command=command, arguments=arguments):
                    done = call(*command.split(), *self.words(arguments))
                    self.check(done)

    def test_what_is_typed_is_escaped_too(self):
        for command in ["", *USES]:
            for word in (POISON, "--" + POISON, "--job=" + POISON,
                         "--set=" + POISON):
                with self.subTest(command=command, word=word):
                    self.check(call(*command.split(), word))

    def test_a_name_makes_no_row_of_a_table(self):
        for arguments in (["checkpoint", "list", "RUN"],
                          ["checkpoint", "inspect", "RUN", "--values"],
                          ["checkpoint", "verify", "RUN"],
                          ["checkpoint", "diff", "RUN", "PRISTINE"],
                          ["checkpoint", "export", "RUN", "--to", "OUT"]):
            with self.subTest(arguments=arguments):
                done = call(*self.words(arguments))
                # The index for other tools names the files as they were.
                self.assertIn(done.returncode, (0, 1), done.stderr)
                self.assertNotIn("\nFORGED", done.stdout.decode())
                self.assertIn("FORGED", done.stdout.decode())


if __name__ == "__main__":
    unittest.main()
