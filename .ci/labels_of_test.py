"""Which targets a changed file belongs to."""

import importlib.util
import pathlib
import tempfile
import unittest

_SPEC = importlib.util.spec_from_file_location("labels_of", ".ci/labels_of.py")
labels_of = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(labels_of)


class LabelsOfTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for path in ("BUILD", "a/BUILD", "a/b.cc", "a/deep/c.txt", "d/e.md"):
            (self.root / path).parent.mkdir(exist_ok=True)
            (self.root / path).touch()

    def label(self, path):
        return labels_of.label_of(path, self.root)

    def test_a_file_is_a_target_of_the_package_around_it(self):
        self.assertEqual("//a:b.cc", self.label("a/b.cc"))
        self.assertEqual("//a:deep/c.txt", self.label("a/deep/c.txt"))
        self.assertEqual("//:d/e.md", self.label("d/e.md"))

    def test_a_build_file_and_a_file_that_is_gone_mean_their_package(self):
        self.assertEqual("//a:all", self.label("a/BUILD"))
        self.assertEqual("//a:all", self.label("a/gone.cc"))
        self.assertEqual("//a:all", self.label("a/gone/too/far.cc"))

    def test_what_the_whole_build_reads_means_everything(self):
        self.assertEqual("//...", self.label(".bazelrc"))
        self.assertEqual("//...", self.label("third_party/BUILD"))


if __name__ == "__main__":
    unittest.main()
