"""Parts of a core do not include each other and stay small."""

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
        with open(os.path.join(root, CORE, name), "w",
                  encoding="utf-8") as file:
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

    def test_the_dispatcher_has_the_size_of_a_part_and_includes_them(self):
        self.assertEqual([], self.violations_with(
            "dispatcher.cc", f'#include "{CORE}/ending.h"\n'))
        self.assertTrue(self.violations_with("dispatcher.h", "\n" * 151))

    def test_a_part_that_includes_the_dispatcher_is_named(self):
        self.assertTrue(self.violations_with(
            "ending.cc", f'#include "{CORE}/dispatcher.h"\n'))

    def test_a_long_header_is_named(self):
        self.assertEqual([], self.violations_with("ending.h", "\n" * 150))
        self.assertIn("151 lines",
                      self.violations_with("ending.h", "\n" * 151)[0])

    def test_a_large_class_is_named(self):
        self.assertIn("A has 31 methods", self.violations_with(
            "ending.h", "class A {\n" + " void F();\n" * 31 + "};\n")[0])
        self.assertIn("A has 21 fields", self.violations_with(
            "ending.h", "class A {\n" + " int f_ = 0;\n" * 21 + "};\n")[0])

    def test_a_part_that_is_gone_is_named(self):
        with tempfile.TemporaryDirectory() as root:
            self.assertIn("no such part", parts.violations(root)[0])


class ClassSizeTest(unittest.TestCase):

    def test_methods_and_fields_are_told_apart(self):
        text = """
        class A : public B {
         public:
          struct Inner { int a = 0; void F(); };
          using C = int;
          enum class D { kOne };
          explicit A(int a) : a_(a) {}  // It says f();
          int a() const { return a_; }
          virtual void G(const std::map<int, int>& m = {}) const = 0;
          static constexpr int kMost = 1;
         private:
          void On(
              int a);
          const int a_;
          std::map<int, std::vector<int>> b_{};
          std::function<void(int)> c_;
          Time at_ = Time::Never();
        };
        """
        self.assertEqual([("A", 4, 4)], list(parts.class_sizes(text)))


if __name__ == "__main__":
    unittest.main()
