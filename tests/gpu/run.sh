#!/bin/bash
# run.sh RESULT.json: on a machine with a GPU, runs the tests and the benchmark
# that pack.sh has put beside this script, builds nothing, and leaves one JSON
# object: the GPUs, of each test program its result and the report of GoogleTest,
# and the lines of the benchmark. cuBLAS is looked for in LD_LIBRARY_PATH and
# /usr/local/cuda. Exits 0 if all ran and passed and nothing was skipped, 1 if
# something failed, 3 if there is no GPU.
set -uo pipefail

if [ $# != 1 ]; then
  echo "usage: run.sh RESULT.json" >&2
  exit 2
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
path=$here/lib
for folder in /usr/local/cuda/lib64 /usr/local/cuda/lib; do
  if [ -d "$folder" ]; then path=$path:$folder; fi
done
export LD_LIBRARY_PATH=$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

gpus=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader \
  2>/dev/null | sed 's/["\\]//g; s/.*/"&"/' | paste -sd, -) || gpus=
code=0
if [ -z "$gpus" ]; then code=3; fi

{
  printf '{"gpus": [%s],\n "tests": {' "$gpus"
  separator=
  for test in "$here"/tests/*; do
    name=$(basename "$test")
    echo "$name" >&2
    (cd "$work" && timeout 600 "$test" --gtest_output="json:$work/$name.json" \
      >"$work/$name.log" 2>&1)
    result=$?
    if [ $result != 0 ]; then
      tail -n 30 "$work/$name.log" >&2
      code=1
    elif [ $code = 0 ] && grep -q '\[  SKIPPED \]' "$work/$name.log"; then
      code=3
    fi
    printf '%s\n  "%s": {"exit": %d, "report": ' "$separator" "$name" $result
    cat "$work/$name.json" 2>/dev/null || printf null
    printf '}'
    separator=,
  done
  printf '},\n "bench": ['
  timeout 600 "$here/bench/gpu" --json >"$work/bench" 2>"$work/bench.log" ||
    { cat "$work/bench.log" >&2; code=1; }
  paste -sd, "$work/bench"
  printf '],\n "exit": %d}\n' $code
} >"$1"
if [ $code = 3 ]; then
  echo "no GPU could be used: nothing is shown" >&2
fi
exit $code
