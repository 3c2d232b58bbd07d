"""A second C++ toolchain, clang 14, beside the default one.

Naming it by --crosstool_top instead of setting CC keeps Bazel from configuring
the compiler again, and rebuilding everything, at each change of configuration.
"""

load("@bazel_tools//tools/cpp:cc_configure.bzl", "cc_autoconf_impl")

_NO_CLANG = """
fail("--config=clang needs clang-14 on the PATH (apt-get install clang-14)")
"""

def _clang_configure_impl(ctx):
    clang = ctx.which("clang-14")
    if clang == None:
        ctx.file("BUILD", _NO_CLANG)
    else:
        cc_autoconf_impl(ctx, {"gcc": str(clang)})

clang_configure = repository_rule(
    implementation = _clang_configure_impl,
    environ = ["PATH"],
    configure = True,
    local = True,
)
