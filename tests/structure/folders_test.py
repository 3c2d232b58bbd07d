"""Folders that the driver of the tests names are there, and as it says."""

import importlib.util
import pathlib
import re
import unittest

from tests.structure import rooms

_THREADS = re.compile(
    r"\bstd::(?:j?thread|async|atomic)\b|base/(?:mutex|worker_thread)\.h")


def source_root():
    """The tree itself: the test's files are links into it."""
    return pathlib.Path("WORKSPACE").resolve().parent


def load_driver():
    spec = importlib.util.spec_from_file_location(
        "driver", source_root() / ".ci/driver.py")
    driver = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(driver)
    return driver


class FoldersTest(unittest.TestCase):

    def setUp(self):
        self.driver = load_driver()

    def test_each_folder_that_is_named_is_there(self):
        for folder in (*self.driver.COMPUTING, *self.driver.SINGLE_THREADED,
                       *self.driver.FRAMEWORK_FOLDERS):
            with self.subTest(folder):
                self.assertTrue((source_root() / folder).is_dir())

    def test_all_rooms_that_compute_run_as_other_processors(self):
        named = {folder.split("/")[0] for folder in self.driver.COMPUTING}
        above = rooms.closure("program") - rooms.closure("coordinator")
        self.assertEqual(set(), above - named)

    def test_what_has_no_threads_has_none(self):
        for folder in self.driver.SINGLE_THREADED:
            for path in (source_root() / folder).rglob("*"):
                if path.suffix in (".cc", ".h"):
                    with self.subTest(path):
                        self.assertNotRegex(path.read_text(encoding="utf-8"),
                                            _THREADS)

    def test_the_cores_need_no_thread_sanitizer(self):
        self.assertEqual(set(),
                         set(rooms.CORES) - set(self.driver.SINGLE_THREADED))


if __name__ == "__main__":
    unittest.main()
