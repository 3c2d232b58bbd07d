"""Bazel's native Python rules under the names that rules_python gives them."""

py_binary = native.py_binary
py_library = native.py_library
py_runtime = native.py_runtime
py_test = native.py_test
