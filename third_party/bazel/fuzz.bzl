"""Fuzz targets: functions of bytes that CHECK what holds for any input.

    load("//third_party/bazel:fuzz.bzl", "fuzz_target")

    fuzz_target(
        name = "idx",
        deps = ["//input"],
    )

`idx_target.cc` defines LLVMFuzzerTestOneInput, and `corpus/idx/` has inputs.
`idx_corpus_test` is an ordinary test: it goes through these and through mutations
of them that are the same in every run. `idx_fuzz` is libFuzzer's program, which
only clang can build: see tests/fuzz.
"""

def fuzz_target(name, deps, mutations = 1000, **kwargs):
    """A target, the test of its corpus, and its program.

    Args:
      name: of the target.
      deps: of <name>_target.cc. //base/fuzz is there.
      mutations: how many of them the test makes. Ten times as many take less
        than ten seconds.
      **kwargs: tags, size: as of a cc_test.
    """
    native.cc_library(
        name = name + "_target",
        testonly = True,
        srcs = [name + "_target.cc"],
        deps = deps + ["//base/fuzz"],
        # Nobody names the function.
        alwayslink = True,
    )
    native.cc_test(
        name = name + "_corpus_test",
        size = kwargs.pop("size", "medium"),
        args = [
            native.package_name() + "/corpus/" + name,
            str(mutations),
        ],
        data = native.glob(["corpus/%s/*" % name]),
        tags = kwargs.pop("tags", []) + ["fuzz"],
        deps = [
            ":%s_target" % name,
            "//base/fuzz:corpus_test",
        ],
    )
    native.cc_binary(
        name = name + "_fuzz",
        testonly = True,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = [":%s_target" % name],
    )
