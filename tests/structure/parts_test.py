"""Parts of a core do not include each other; no class grows too large."""

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

    def test_a_large_class_of_any_room_is_named(self):
        large = "class A {\n" + " void F();\n" * 31 + "};\n"
        for name in ("run.cc", "../../cli/run.h", "../../cli/a/b/run.cc"):
            self.assertIn("A has 31 methods",
                          self.violations_with(name, large)[0])
        for name in ("../../tests/sim/run.h", "../../cli/testing/run.h"):
            self.assertEqual([], self.violations_with(name, large))

    def test_an_exception_is_not_named_as_long_as_it_is_one(self):
        path = next(iter(parts.EXCEPTIONS))
        (name,) = parts.EXCEPTIONS[path]
        large = f"class {name} {{\n" + " void F();\n" * 31 + "};\n"
        self.assertEqual([], self.violations_with(f"../../{path}", large))
        self.assertIn(f"{name} is no exception any more", self.violations_with(
            f"../../{path}", f"class {name} {{}};\n")[0])

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

    def test_guarded_fields_and_arrays_are_fields(self):
        text = """
        class LOCKABLE("mutex") A {
          void F() ABSL_LOCKS_EXCLUDED(mutex_);
          bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
          std::vector<int> ints_ ABSL_GUARDED_BY(mutex_);
          char bytes_[kBytes];
        };
        """
        self.assertEqual([("A", 1, 3)], list(parts.class_sizes(text)))

    def test_classes_inside_of_others_count_by_themselves(self):
        text = """
        class B;
        class A
            : public C {
          class D {
            void F();
            int a_;
          };
          friend class E;
          void G();
        };
        """
        self.assertEqual([("A", 1, 0), ("D", 1, 1)],
                         list(parts.class_sizes(text)))


if __name__ == "__main__":
    unittest.main()
