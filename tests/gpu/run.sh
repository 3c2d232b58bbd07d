#!/bin/bash
# run.sh RESULT.json: on a machine with a GPU, runs the tests and the benchmark
# that pack.sh has put beside this script, builds nothing, and leaves one JSON
# object, which is written anew after each program: the GPUs, of each test program
# what GoogleTest reports and the end of what it said, and the lines of the
# benchmark. Where there is no GPU it says so at once.
#
# A test program that dies or hangs goes on behind the test that it was at, a
# failed test is run again alone (one that breaks a GPU's context takes those
# behind it along), and nothing runs longer than its limit: a test program
# $TEST_SECONDS (60), a part of the benchmark $PART_SECONDS (40), whole jobs
# $WHOLE_SECONDS (120), the check of memory $CHECK_SECONDS (90), all of it
# $SECONDS_IN_ALL (330).
#
# Exits 0 if all ran and none failed; 1 if something failed or did not run; 2 if
# it was called wrongly; 3 if there is no GPU. Tests that were skipped are listed
# by name in "skipped".
set -uo pipefail

if [ $# != 1 ]; then
  echo "usage: run.sh RESULT.json" >&2
  exit 2
fi
result=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
deadline=$((SECONDS + ${SECONDS_IN_ALL:-330}))
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tests" "$work/bench" "$work/packed"
if [ -f "$here/packed.tar.gz" ]; then
  tar xzf "$here/packed.tar.gz" -C "$work/packed" || exit 1
  packed=$work/packed
else
  packed=$here
fi
code=0
gpus=
why=

# The lines of stdin, without what JSON has no place for, as its strings.
strings() {
  LC_ALL=C tr -cd '\11\12\40-\176' |
    sed 's/\\/\\\\/g; s/"/\\"/g; s/\t/ /g; s/.*/"&"/' | paste -sd, -
}

# The programs are given the carried libraries, CUDA's and the driver's. Others,
# as python3, are not.
library_path() {
  local folder path=$packed/lib
  for folder in /usr/local/cuda/lib64 /usr/local/cuda/lib \
    /usr/local/cuda/targets/x86_64-linux/lib /usr/local/nvidia/lib64; do
    if [ -d "$folder" ]; then path=$path:$folder; fi
  done
  path=$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  # What came with a Python package, perhaps.
  local name found
  for name in libcublas.so.13 libnccl.so.2; do
    if ldconfig -p 2>/dev/null | grep -qF "$name" ||
      ls ${path//:/ } 2>/dev/null | grep -qF "$name"; then
      continue
    fi
    found=$(timeout 20 find /usr/local /usr/lib /opt -name "$name" -print -quit \
      2>/dev/null)
    if [ -n "$found" ]; then path=$path:$(dirname "$found"); fi
  done
  # GCC's library of C++ where the machine has none, or an older one.
  if LD_LIBRARY_PATH=$path ldd "$packed"/tests/* 2>&1 |
    grep -qE '(libstdc|libgcc_s|GLIBCXX|CXXABI).* not found'; then
    path=$packed/gcc:$path
  fi
  echo "$path"
}
programs_path=$(library_path)
library_path=$programs_path

# limited SECONDS COMMAND...: until then at most, and the deadline.
limited() {
  local seconds=$1 left=$((deadline - SECONDS))
  shift
  if [ "$left" -lt 2 ]; then return 124; fi
  if [ "$left" -lt "$seconds" ]; then seconds=$left; fi
  (cd "$work" && LD_LIBRARY_PATH=$library_path timeout -k 5 "$seconds" "$@")
}

# Joins files of JSON, with commas.
join() {
  local separator= file
  for file in "$@"; do
    if [ ! -s "$file" ]; then continue; fi
    printf '%s\n  ' "$separator"
    cat "$file"
    separator=,
  done
}

write_result() {
  {
    printf '{"gpus": [%s],\n "why": [%s],\n' "$gpus" "$why"
    printf ' "tests": {%s},\n' "$(join "$work"/tests/*.entry)"
    printf ' "skipped": [%s],\n' "$(sort -u "$work"/tests/*.skipped \
      2>/dev/null | strings)"
    printf ' "bench_parts": {%s},\n' "$(join "$work"/bench/*.entry)"
    printf ' "bench": [%s],\n' "$(cat "$work"/bench/*.lines 2>/dev/null |
      paste -sd, -)"
    printf ' "seconds": %d, "finished": %s, "exit": %d}\n' "$SECONDS" "$1" \
      "$code"
  } >"$work/result"
  cp "$work/result" "$result.new" && mv "$result.new" "$result"
}

# names HOW LOG: the tests that a program's log has such a line about.
names() {
  sed -n "s/^\[$1\] \([A-Za-z0-9_/]*\.[A-Za-z0-9_/]*\).*/\1/p" "$2" | sort -u
}

# Runs a test program, again without those that have run if it dies.
run_test() {
  local program=$1 name=$2 limit=$3 at=$SECONDS try status filter='*'
  local own=$work/tests/$name
  : >"$own.log"
  for try in 1 2 3 4; do
    limited "$limit" "$program" --gtest_filter="$filter" \
      --gtest_output="json:$own.$try.json" >>"$own.log" 2>&1
    status=$?
    # 0 and 1: it has reached its end.
    if [ $status -le 1 ] && [ -s "$own.$try.json" ]; then break; fi
    echo "[  ENDED   ] with $status" >>"$own.log"
    filter="*-$(names ' RUN      ' "$own.log" | paste -sd: -)"
    if [ "$((deadline - SECONDS))" -lt 2 ]; then break; fi
  done
  names '  SKIPPED ' "$own.log" >"$own.skipped"
  names '  FAILED  ' "$own.log" >"$own.failed"
  # What began and did not end.
  comm -23 <(names ' RUN      ' "$own.log") \
    <(cat <(names '       OK ' "$own.log") "$own.failed" "$own.skipped" |
      sort -u) >>"$own.failed"
  if [ -s "$own.failed" ] || [ $status != 0 ]; then
    code=1
    tail -n 30 "$own.log" >&2
  fi
  local alone= test
  for test in $(head -n 8 "$own.failed"); do
    limited "$limit" "$program" --gtest_filter="$test" >"$own.alone.log" 2>&1
    alone=$alone${alone:+, }"\"$test\": $?"
    tail -n 30 "$own.alone.log" >>"$own.log"
  done
  {
    printf '"%s": {"exit": %d, "runs": %d, "seconds": %d,\n' "$name" $status \
      "$try" $((SECONDS - at))
    printf '   "failed": [%s],\n   "alone": {%s},\n' \
      "$(strings <"$own.failed")" "$alone"
    printf '   "log": [%s],\n   "reports": [%s]}' \
      "$(if [ -s "$own.failed" ] || [ $status != 0 ]; then
        tail -n 200 "$own.log" | strings
      fi)" "$(join "$own".[0-9].json)"
  } >"$own.entry"
}

# run_bench PART SECONDS COMMAND...
run_bench() {
  local part=$1 limit=$2 at=$SECONDS own=$work/bench/$1
  shift 2
  limited "$limit" "$@" >"$own.lines" 2>"$own.log"
  local status=$?
  # What is no line of the benchmark, or was being written when it ended.
  grep -v '^{.*}$' "$own.lines" >>"$own.log"
  sed -i '/^{.*}$/!d' "$own.lines"
  if [ $status != 0 ]; then
    code=1
    tail -n 5 "$own.log" >&2
  fi
  printf '"%s": {"exit": %d, "seconds": %d, "log": [%s]}' "$part" $status \
    $((SECONDS - at)) "$(tail -n 20 "$own.log" | strings)" >"$own.entry"
}

why=$(limited 60 "$packed/bench/gpu" --json --only=probe 2>&1)
probed=$?
why=$(strings <<<"$why")
if [ $probed != 0 ]; then
  code=$((probed == 3 ? 3 : 1))
  write_result true
  echo "run.sh: nothing is run: $why" >&2
  exit $code
fi
PATH=$PATH:/usr/local/nvidia/bin
gpus=$(nvidia-smi --query-gpu=name,driver_version,memory.total,pcie.link.gen.max,pcie.link.width.max \
  --format=csv,noheader 2>/dev/null | strings) || gpus=
write_result false

for test in "$packed"/tests/*; do
  echo "run.sh: $(basename "$test")" >&2
  run_test "$test" "$(basename "$test")" "${TEST_SECONDS:-60}"
  write_result false
done
for part in copies products overlap recordings formats layers losses rows apply sums; do
  echo "run.sh: bench/gpu $part" >&2
  run_bench "$part" "${PART_SECONDS:-40}" "$packed/bench/gpu" --json \
    --only="$part"
  write_result false
done
# Whole jobs, whose gradients a server applies.
if timeout 30 python3 -c 'import json' 2>"$work/python.log"; then
  library_path=${LD_LIBRARY_PATH:-}
  run_bench whole_steps "${WHOLE_SECONDS:-120}" python3 "$here/whole_steps.py" \
    "$packed/bench/paramd" --libraries="$programs_path"
else
  echo '"whole_steps": {"skipped": ["there is no Python"]}' \
    >"$work/bench/whole_steps.entry"
fi
write_result false
# What stands beside the layers, where there is PyTorch.
if timeout 30 python3 -c 'import torch' 2>"$work/torch.log"; then
  library_path=${LD_LIBRARY_PATH:-}
  run_bench torch "${PART_SECONDS:-40}" python3 "$here/torch_layer.py"
else
  printf '"torch": {"skipped": [%s]}' "$(tail -n 1 "$work/torch.log" | strings)" \
    >"$work/bench/torch.entry"
  echo "run.sh: PyTorch's layers are skipped: it is not there" >&2
fi
write_result false
# Kernels that read or write beside their memory.
sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer)
if [ -n "$sanitizer" ]; then
  library_path=$programs_path
  run_bench memcheck "${CHECK_SECONDS:-90}" "$sanitizer" --error-exitcode 9 \
    "$packed/tests/gpu_device_test" --gtest_brief=1
else
  printf '"memcheck": {"skipped": ["there is no compute-sanitizer"]}' \
    >"$work/bench/memcheck.entry"
fi
write_result true
if [ $code = 0 ]; then
  echo "run.sh: all passed in $SECONDS s" >&2
else
  echo "run.sh: something failed; $result says what" >&2
fi
exit $code
