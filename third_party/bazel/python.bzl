"""Tests in Python: unittest cases, run by the interpreter in $PARAMD_PYTHON.

    load("//third_party/bazel:python.bzl", "python_test")

    python_test(
        name = "wire_test",
        size = "medium",
        src = "wire_test.py",
        data = ["//cli:paramd", "//proto/paramd/v1:v1_py_proto"],
    )

./test.sh sets PARAMD_PYTHON to the virtual environment it made; without it
/usr/bin/python3 is used. The working folder is the top of the tree as the test
sees it, which is on the module path too. Each case counts by itself in test.xml.
"""

def python_test(name, src, data = [], **kwargs):
    """A test target that runs the unittest cases of one file.

    Args:
      name: the target.
      src: a .py file of this package with unittest.TestCase classes.
      data: what the test reads or runs.
      **kwargs: size, tags, args, timeout, visibility: as of an sh_test. Every
        test needs a size.
    """
    native.sh_test(
        name = name,
        srcs = ["//third_party/bazel:python_test.sh"],
        args = ["$(rootpath %s)" % src] + kwargs.pop("args", []),
        data = [src, "//third_party/bazel:run_unittest.py"] + data,
        **kwargs
    )
