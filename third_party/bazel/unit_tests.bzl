"""Tests of a package as one program.

    load("//third_party/bazel:unit_tests.bzl", "unit_tests")

    unit_tests(
        name = "tests",
        srcs = ["epochs_test.cc", "portions_test.cc"],
        deps = [":portions", "//third_party:gtest_main"],
    )

Two thirds of what a test takes to compile are headers and the templates of
GoogleTest, and a program for each file has to be linked: so a few files are
compiled as one unit, and all units are one program. Files of one unit share their
anonymous namespace. To run some of the cases:

    bazel test //coordinator/core:tests --test_filter='Portions*'
"""

def unit_tests(name, srcs, deps, files_per_unit = 6, **kwargs):
    """A cc_test of many files, several of which are one unit of compilation.

    Args:
      name: the target. `<name>_<number>_test.cc` are its units.
      srcs: files named *_test.cc.
      deps: of all of them.
      files_per_unit: so many at most, in the order of `srcs`.
      **kwargs: as of a cc_test.
    """
    native.cc_library(
        name = name + "_sources",
        testonly = True,
        textual_hdrs = srcs,
        visibility = ["//visibility:private"],
        deps = deps,
    )
    units = []
    for first in range(0, len(srcs), files_per_unit):
        unit = "%s_%d" % (name, len(units) + 1)
        native.genrule(
            name = unit,
            testonly = True,
            srcs = srcs[first:first + files_per_unit],
            outs = [unit + "_test.cc"],
            cmd = "printf '#include \"%s\"\\n' $(SRCS) >$@",
            visibility = ["//visibility:private"],
        )
        units.append(unit + "_test.cc")
    native.cc_test(
        name = name,
        srcs = units,
        deps = [":" + name + "_sources"] + deps,
        **kwargs
    )
