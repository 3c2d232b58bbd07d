"""What is built to be handed on says of which commit it is."""

import os
import re
import subprocess
import tempfile
import unittest

LABEL = "org.opencontainers.image.revision"
DOCKERFILES = ["deploy/image/Dockerfile", "deploy/image/Dockerfile.gpu"]
BUILDERS = DOCKERFILES + ["deploy/image/build.sh", "deploy/portable/pack.sh"]


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class BuildTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.program("bazel", 'printf "%s\\n" "$@"')

    def program(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(path, 0o755)

    def build(self, **environment):
        """What Bazel is told."""
        packages = os.path.abspath("third_party/packages.sh")
        return subprocess.run(
            ["bash", "-ec", f". {packages}; build_paramd --define=gpu=all"],
            cwd=self.directory, check=True, capture_output=True, text=True,
            env={"PATH": f"{self.directory}:/usr/bin:/bin", **environment}
        ).stdout.splitlines()[1:]

    def test_a_build_names_the_commit_that_git_knows(self):
        self.program("git", '[ "$*" = "rev-parse --short HEAD" ] && echo 1a2b')
        self.assertEqual(self.build(), ["build", "--embed_label=1a2b",
                                        "--define=gpu=all", "//cli:paramd"])

    def test_a_build_without_git_names_the_commit_that_it_is_told(self):
        self.program("git", "exit 127")
        self.assertIn("--embed_label=", self.build())
        self.assertIn("--embed_label=3c4d", self.build(BUILD_COMMIT="3c4d"))

    def test_whatever_builds_to_hand_on_builds_so(self):
        for path in BUILDERS:
            with self.subTest(path):
                self.assertIn("build_paramd", read(path))
                self.assertNotIn("bazel_here", read(path))

    def test_images_have_the_commit_as_their_label(self):
        self.assertIn(f'--label {LABEL}="$commit"',
                      read("deploy/image/build.sh"))
        for path in DOCKERFILES:
            with self.subTest(path):
                build, *_, image = re.split(r"^FROM .*$", read(path),
                                            flags=re.MULTILINE)[1:]
                for stage in (build, image):
                    self.assertIn("\nARG BUILD_COMMIT", stage)
                self.assertIn(f"\nLABEL {LABEL}=$BUILD_COMMIT\n", image)


if __name__ == "__main__":
    unittest.main()
