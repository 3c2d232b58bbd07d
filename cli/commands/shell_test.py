"""Help wherever it is asked for, and completion in the shells themselves."""

import os
import re
import shutil
import subprocess
import unittest

BINARY = os.path.abspath("cli/paramd")


def paramd(*arguments):
    done = subprocess.run([BINARY, *arguments], capture_output=True, text=True,
                          check=False)
    return done.returncode, done.stdout, done.stderr


def printed(*arguments):
    code, out, errors = paramd(*arguments)
    if code != 0 or errors:
        raise AssertionError((code, errors))
    return out


class HelpTest(unittest.TestCase):

    def test_help_is_found_wherever_it_is_asked_for(self):
        self.assertEqual(printed("help", "run"), printed("run", "--help"))
        self.assertEqual(printed("help", "checkpoint", "list"),
                         printed("checkpoint", "list", "--help"))
        self.assertEqual(printed("--version"), printed("version"))
        first, second = printed("version").splitlines()
        self.assertRegex(first, r"^paramd \S+ \(commit \S+\)$")
        self.assertRegex(second, r"^(built without CUDA|CUDA \d+\.\d+; )")
        for words in (("checkpoint", "--help"), ("help", "checkpoint"),
                      ("checkpoint", "help")):
            self.assertIn("checkpoint verify", printed(*words))
            self.assertNotIn("status", printed(*words))
        code, out, errors = paramd("checkpoint")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("checkpoint verify", errors)
        self.assertEqual(paramd("checkpoint", "lisst")[0], 2)


class BashTest(unittest.TestCase):

    def complete(self, *words):
        """What bash would offer for the last of these words."""
        quoted = " ".join(f"'{word}'" for word in words)
        script = (f"{self.script}\nCOMP_WORDS=({quoted})\n"
                  f"COMP_CWORD={len(words) - 1}\n_paramd\n"
                  "printf '%s\\n' \"${COMPREPLY[@]}\"")
        done = subprocess.run(["bash", "--norc", "-c", script],
                              capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def setUp(self):
        self.script = printed("completion", "bash")

    def test_words_of_commands(self):
        first = self.complete("paramd", "")
        self.assertLess({"run", "local", "checkpoint", "status"},
                        set(first))
        self.assertEqual(self.complete("paramd", "ch"), ["checkpoint"])
        self.assertEqual(self.complete("paramd", "checkpoint", ""),
                         ["diff", "export", "inspect", "list", "now",
                          "verify"])
        self.assertEqual(self.complete("paramd", "completion", ""),
                         ["bash", "zsh"])

    def test_flags_of_the_command(self):
        self.assertEqual(self.complete("paramd", "run", "--insec"),
                         ["--insecure"])
        self.assertEqual(self.complete("paramd", "local", "--insec"), [])
        self.assertEqual(self.complete("paramd", "local", "--serv"),
                         ["--servers"])
        self.assertEqual(self.complete("paramd", "local", "--resume", "--wor"),
                         ["--workers"])
        self.assertEqual(
            self.complete("paramd", "checkpoint", "list", "--"), ["--help"])
        self.assertEqual(
            self.complete("paramd", "checkpoint", "export", "runs/x", "--")[:8],
            ["--help", "--to", "--format", "--dtype", "--max_shard_size",
             "--slots", "--opset", "--job"])
        self.assertEqual(
            self.complete("paramd", "status", "host:1", "--form"), ["--format"])

    def test_values(self):
        levels = ["debug", "info", "warning", "error"]
        self.assertEqual(self.complete("paramd", "run", "--log_level", ""),
                         levels)
        self.assertEqual(self.complete("paramd", "run", "--log_level", "="),
                         levels)
        self.assertEqual(
            self.complete("paramd", "run", "--log_level", "=", "w"),
            ["warning"])
        self.assertEqual(
            self.complete("paramd", "config", "print", "--format", "j"),
            ["json"])
        self.assertEqual(
            self.complete("paramd", "checkpoint", "export", "runs/x",
                          "--format", ""),
            ["safetensors", "tensorbundle", "onnx"])
        self.assertIn("optimizer.learning_rate=", self.complete(
            "paramd", "run", "--set", "optimizer."))

    def test_where_nothing_is_known_bash_offers_files(self):
        self.assertEqual(self.complete("paramd", "run", "--job", ""), [])
        self.assertIn("complete -o default -F _paramd paramd", self.script)


@unittest.skipUnless(shutil.which("zsh"), "needs zsh")
class ZshTest(unittest.TestCase):

    def complete(self, *words):
        quoted = " ".join(f"'{word}'" for word in words)
        script = ("compdef() {}\ncompset() { word=${word#*=} }\n"
                  "_files() { print FILES }\n"
                  "compadd() { shift; [[ $1 == -- ]] && shift;"
                  " print -l -- $@ }\n"
                  f"{printed('completion', 'zsh')}\n"
                  f"words=({quoted}); CURRENT={len(words)}; _paramd")
        done = subprocess.run(["zsh", "-f", "-c", script],
                              capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_the_same_as_in_bash(self):
        self.assertEqual(self.complete("paramd", "checkpoint", ""),
                         ["diff", "export", "inspect", "list",
                          "verify"])
        self.assertIn("--insecure", self.complete("paramd", "run", "--"))
        self.assertNotIn("--insecure", self.complete("paramd", "local", "--"))
        self.assertEqual(self.complete("paramd", "run", "--log_format=j"),
                         ["text", "json"])
        self.assertEqual(self.complete("paramd", "run", "--job", ""),
                         ["FILES"])


class CompletionCommandTest(unittest.TestCase):

    def test_another_shell_is_refused(self):
        code, _, errors = paramd("completion", "fish")
        self.assertEqual(code, 2)
        self.assertEqual(errors,
                         "paramd: the shell is bash or zsh, not 'fish'\n")


if __name__ == "__main__":
    unittest.main()
