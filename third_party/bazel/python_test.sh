#!/bin/sh
# Runs one file of unittest cases: python_test.sh FILE [ARGUMENT...]
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$PWD"
exec "${PARAMD_PYTHON:-/usr/bin/python3}" third_party/bazel/run_unittest.py "$@"
