"""Libraries and tests whose sources are compiled several at a time.

    load("//third_party/bazel:units.bzl", "unit_library", "unit_tests")

    unit_library(
        name = "core",
        srcs = ["epochs.cc", "portions.cc"],
        hdrs = ["epochs.h", "portions.h"],
        deps = ["//base"],
    )

    unit_tests(
        name = "tests",
        srcs = ["epochs_test.cc", "portions_test.cc"],
        deps = [":core", "//third_party:gtest_main"],
    )

Two thirds of what a source takes to compile are headers, and a test of its own has
to be linked besides: so some twelve sources are one unit of compilation, and all
tests of a package are one program, or, with device_tests, one for each device.
Sources of a package share their anonymous namespace. With `--define=units=single` each source of a library is compiled by
itself, which shows whether it includes what it needs. Precompiled headers saved a
tenth of the time and took a configuration of their own; one unit for a package would
leave the largest one compiling alone at the end. To run some of the cases:

    bazel test //coordinator/core:tests --test_filter='Portions*'
"""

_FILES_PER_UNIT = 12

def _units(name, srcs, ending, **kwargs):
    """Names of generated sources, each of which includes some of `srcs`."""
    units = []
    for first in range(0, len(srcs), _FILES_PER_UNIT):
        unit = "%s_%d" % (name, len(units) + 1)
        lines = [
            '#include "%s/%s"' % (native.package_name(), source)
            for source in srcs[first:first + _FILES_PER_UNIT]
        ]
        native.genrule(
            name = unit,
            outs = [unit + ending],
            cmd = "printf '%s\\n'" + " '{}' >$@".format("' '".join(lines)),
            visibility = ["//visibility:private"],
            **kwargs
        )
        units.append(unit + ending)
    return units

def unit_library(name, srcs, hdrs = [], deps = [], **kwargs):
    """A cc_library, several of whose sources are compiled as one.

    Args:
      name: the library. `<name>_unit_<number>.cc` are its units.
      srcs: .cc files, and headers that nobody else includes.
      hdrs: as of a cc_library.
      deps: as of a cc_library.
      **kwargs: as of a cc_library.
    """
    sources = [s for s in srcs if s.endswith(".cc")]
    native.cc_library(
        name = name + "_sources",
        testonly = kwargs.get("testonly"),
        textual_hdrs = sources,
        visibility = ["//visibility:private"],
    )
    units = _units(
        name + "_unit",
        sources,
        ".cc",
        testonly = kwargs.get("testonly"),
    )
    native.cc_library(
        name = name,
        srcs = [s for s in srcs if s not in sources] + select({
            "//third_party/bazel:single_units": sources,
            "//conditions:default": units,
        }),
        hdrs = hdrs,
        deps = deps + [":%s_sources" % name],
        **kwargs
    )

def unit_tests(name, srcs, deps, **kwargs):
    """A cc_test of many files, several of which are compiled as one.

    Args:
      name: the target. `<name>_<number>_test.cc` are its units.
      srcs: files named *_test.cc.
      deps: of all of them.
      **kwargs: as of a cc_test.
    """
    native.cc_library(
        name = name + "_sources",
        testonly = True,
        textual_hdrs = srcs,
        visibility = ["//visibility:private"],
        deps = deps,
    )
    native.cc_test(
        name = name,
        srcs = _units(name, srcs, "_test.cc", testonly = True),
        deps = [":" + name + "_sources"] + deps,
        **kwargs
    )

def device_tests(name, srcs, deps, devices, data = [], size = "small"):
    """Tests that run on several kinds of devices, compiled once.

    Args:
      name: of the library of the tests.
      srcs: files named *_test.cc, which take their device from
        compute/device/testing/test_device.h.
      deps: of all of them.
      devices: (test, device, tags): a cc_test, the library in
        //compute/device/testing that it is linked with, and its tags.
      data: as of a cc_test.
      size: as of a cc_test.
    """
    native.cc_library(
        name = name,
        testonly = True,
        srcs = srcs,
        data = data,
        visibility = ["//visibility:private"],
        deps = deps + ["//compute/device/testing:test_device"],
        # The tests register themselves.
        alwayslink = True,
    )
    for test, device, tags in devices:
        native.cc_test(
            name = test,
            size = size,
            tags = tags,
            deps = [
                ":" + name,
                "//third_party:gtest_main",
                "//compute/device/testing:" + device,
            ],
        )
