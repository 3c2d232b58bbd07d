"""Runs the unittest cases of one file and reports each to Bazel's test.xml.

Usage: run_unittest.py FILE [ARGUMENT...]; the file sees ARGUMENT... in sys.argv.
Exits 1 if a case failed or if the file holds none.
"""

import importlib.util
import os
import sys
import time
import types
import unittest
import xml.etree.ElementTree as ElementTree


class Result(unittest.TextTestResult):
    """What came of each case, in the order in which they ran."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.cases = []  # (test id, seconds, element name or None, text)
        self._outcome = (None, "")
        self._start = 0.0

    def startTest(self, test):
        super().startTest(test)
        self._outcome = (None, "")
        self._start = time.monotonic()

    def stopTest(self, test):
        super().stopTest(test)
        seconds = time.monotonic() - self._start
        self.cases.append((test.id(), seconds, *self._outcome))

    def _note(self, test, kind, text):
        if isinstance(test, unittest.TestCase) and self._start:
            self._outcome = (kind, text)
        else:  # setUpClass or setUpModule: no case was started
            self.cases.append((str(test), 0.0, kind, text))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._note(test, "failure", self._exc_info_to_string(err, test))

    def addError(self, test, err):
        super().addError(test, err)
        self._note(test, "error", self._exc_info_to_string(err, test))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            text = self._exc_info_to_string(err, test)
            self._note(test, "failure", f"{subtest}\n{text}")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._note(test, "failure", "succeeded, and is marked as failing")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._note(test, "skipped", reason)


def write_xml(path, suite, cases):
    count = lambda kind: str(sum(case[2] == kind for case in cases))
    top = ElementTree.Element("testsuites")
    element = ElementTree.SubElement(
        top, "testsuite", name=suite, tests=str(len(cases)),
        failures=count("failure"), errors=count("error"),
        skipped=count("skipped"))
    for name, seconds, kind, text in cases:
        group, _, method = name.rpartition(".")
        case = ElementTree.SubElement(
            element, "testcase", name=method, classname=group,
            time=f"{seconds:.3f}")
        if kind:
            ElementTree.SubElement(
                case, kind, message=text.strip().splitlines()[-1]
                if text.strip() else "").text = text
    ElementTree.ElementTree(top).write(
        path, encoding="utf-8", xml_declaration=True)


def put_folders_before_installed_packages():
    """Makes `proto` the folder, not some package that is installed as proto."""
    for entry in os.scandir("."):
        if entry.is_dir() and entry.name.isidentifier():
            package = types.ModuleType(entry.name)
            package.__path__ = [os.path.abspath(entry.path)]
            sys.modules.setdefault(entry.name, package)


def main():
    path = sys.argv.pop(1)
    put_folders_before_installed_packages()
    sys.argv[0] = path
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except unittest.SkipTest as reason:
        cases, ok = [(name, 0.0, "skipped", str(reason))], True
        print(f"skipped: {reason}")
    else:
        suite = unittest.defaultTestLoader.loadTestsFromModule(module)
        result = unittest.TextTestRunner(
            resultclass=Result, verbosity=2).run(suite)
        cases = result.cases
        ok = result.wasSuccessful() and bool(cases)
        if not cases:
            print(f"{path} holds no test case", file=sys.stderr)
    if "XML_OUTPUT_FILE" in os.environ:
        write_xml(os.environ["XML_OUTPUT_FILE"], path, cases)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
