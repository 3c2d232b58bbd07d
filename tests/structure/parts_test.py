"""Parts of a core do not include each other."""

import os
import tempfile
import unittest

from tests.structure import parts

CORE = "coordinator/core"


def source_root():
    """The tree itself: the test's files are links into it."""
    return os.path.dirname(os.path.realpath("WORKSPACE"))


class PartsTest(unittest.TestCase):

    def test_the_parts_keep_to_the_rules(self):
        found = parts.violations(source_root())
        self.assertFalse(found, "\n" + "\n".join(found))


class PlantedPartTest(unittest.TestCase):
    """Each case plants one line too many in parts that are correct."""

    def violations_with(self, name, text):
        with tempfile.TemporaryDirectory() as root:
            for core in parts.PARTS:
                os.makedirs(os.path.join(root, core))
                for part in parts.PARTS[core] + parts.DISPATCHERS[core]:
                    self.write(root, f"../../{core}/{part}.h",
                               "class A {\n int a_;\n};\n")
            self.write(root, name, text)
            return parts.violations(root)

    @staticmethod
    def write(root, name, text):
        path = os.path.normpath(os.path.join(root, CORE, name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def test_what_keeps_to_the_rules_is_not_named(self):
        self.assertEqual([], self.violations_with(
            "ending.cc", f'#include "{CORE}/ending.h"\n'
            f'#include "{CORE}/turn.h"\n'))

    def test_a_part_that_includes_another_is_named(self):
        for name in ("ending.h", "ending.cc"):
            found = self.violations_with(
                name, f'#include "{CORE}/leaving.h"\n')
            self.assertEqual(1, len(found), found)
            self.assertIn(f"{CORE}/{name}: includes {CORE}/leaving.h", found[0])

    def test_a_part_may_be_made_of_others(self):
        include = f'#include "{CORE}/step_ledger.h"\n'
        self.assertEqual([], self.violations_with("input_ledger.h", include))
        self.assertTrue(self.violations_with("joins.h", include))

    def test_the_dispatcher_includes_parts(self):
        self.assertEqual([], self.violations_with(
            "dispatcher.cc", f'#include "{CORE}/ending.h"\n'))

    def test_a_part_that_includes_the_dispatcher_is_named(self):
        self.assertTrue(self.violations_with(
            "ending.cc", f'#include "{CORE}/dispatcher.h"\n'))

    def test_a_part_that_is_gone_is_named(self):
        with tempfile.TemporaryDirectory() as root:
            self.assertIn("no such part", parts.violations(root)[0])


if __name__ == "__main__":
    unittest.main()
