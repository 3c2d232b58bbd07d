#!/bin/bash
# Installs what the tests need, runs them, and ends with the line
# "N passed, N failed". See ./test.sh --help.
set -euo pipefail

usage() {
  cat <<'END'
usage: ./test.sh [--all] [--no-install]

Runs the suite. Above the last line, "N passed, N failed", stands what was
skipped and why. Exits 0 if nothing failed.

  --all         also slow tests, AddressSanitizer with UndefinedBehaviorSanitizer,
                ThreadSanitizer, clang's thread-safety analysis and a few of the
                bugs planted for the simulator. What AddressSanitizer runs is
                run without it only where that may differ
  --no-install  install nothing; go on with what is there
END
}

cd "$(dirname "${BASH_SOURCE[0]}")"
. third_party/packages.sh

readonly EVENTS=.bazel/test-events
# For all that Bazel does under --all. It takes less than two thirds of it on two
# idle cores; the rest is for busy ones.
readonly ALL_SECONDS=$((84 * 60))
# Of the simulator's planted bugs so many are looked for under --all, and none of
# them is begun after so many seconds but the first.
readonly PLANTED_BUGS=5 PLANTED_SECONDS=150
# Under --all a test that AddressSanitizer runs is not also built plain, except
# where -O2 may change what comes out, where a sanitizer leaves seeds out, and what
# runs paramd itself and costs no compiling.
readonly PLAIN_TOO="
  //base/... + //net/... + //tensor/... + //tests/... + //worker/device/... +
  //worker/model/... + //server/core:gradient_rms_test +
  //server/core:gradient_sum_test + //server/core:optimizer_test +
  //server/core:shard_numbers_test + kind('sh_test rule', //...)"
# Packages without threads: ThreadSanitizer has nothing to look for there.
readonly SINGLE_THREADED=(
  bench checkpoint client/core config coordinator/core proto server/core tensor
  tests/sim worker/core worker/device worker/model
)
BAZEL_SECONDS= # bazel_here is interrupted after so many; empty: never
progress=--noshow_progress
if [ -t 2 ]; then
  progress=--show_progress
fi
all=false
install=true
for argument in "$@"; do
  case $argument in
    --all) all=true ;;
    --no-install) install=false ;;
    --help | -h) usage; exit 0 ;;
    *) echo "unknown option $argument" >&2; usage >&2; exit 2 ;;
  esac
done

# Ends a run whose tests could not be started.
give_up() {
  echo "FAILED: $*"
  echo "0 passed, 1 failed"
  exit 1
}

install_what_is_missing() {
  local wanted=("${BUILD_PACKAGES[@]}" "${DATA_PACKAGES[@]}"
    "${TEST_PACKAGES[@]}")
  if $all; then
    wanted+=("${CLANG_PACKAGES[@]}")
  fi
  command -v dpkg-query >/dev/null || return 0
  local missing
  mapfile -t missing < <(missing_packages "${wanted[@]}")
  if [ ${#missing[@]} = 0 ]; then
    return
  fi
  if ! $install; then
    echo "not installed, and --no-install: ${missing[*]}"
    return
  fi
  echo "installing ${missing[*]}"
  mkdir -p .bazel
  if ! install_packages "${missing[@]}" >.bazel/install.log 2>&1; then
    tail -n 20 .bazel/install.log
    give_up "packages could not be installed"
  fi
}

# Makes .venv, where `safetensors` and `tensorboard` of PyPI lie beside the
# distribution's Python packages. Without it the tests that need them skip
# themselves. A later tensorboard wants a protobuf that the code of the
# distribution's protoc does not work with.
make_python() {
  if $install && ! .venv/bin/python -c \
    'import safetensors.numpy, tensorboard' 2>/dev/null; then
    echo "installing safetensors, numpy and tensorboard from PyPI in .venv"
    if ! { /usr/bin/python3 -m venv --system-site-packages .venv &&
      .venv/bin/python -m pip install --quiet 'safetensors>=0.4' \
        'numpy>=1.24' 'tensorboard==2.19.*'; } >.bazel/pip.log 2>&1; then
      tail -n 5 .bazel/pip.log
      echo "going on without them"
    fi
  fi
  PARAMD_PYTHON=/usr/bin/python3
  if [ -x .venv/bin/python ]; then
    PARAMD_PYTHON=$PWD/.venv/bin/python
  fi
}

# Prints the labels of the tests with the tag $1; of all, if $1 is empty.
tests_tagged() {
  bazel_here query --noshow_progress --keep_going \
    "attr(tags, '[\[ ]$1${1:+[,\]]}', tests(//...)) except
     attr(tags, '[\[ ]manual[,\]]', tests(//...))" 2>>"$EVENTS/query.log"
}

# leave_out NAME WHY: the tests listed in tagged are not expected of NAME.
leave_out() {
  sed "s/\$/ $1 $2/" "$EVENTS/tagged" >>"$EVENTS/skipped"
  { grep -vxFf "$EVENTS/tagged" "$EVENTS/$1.expected" || true; } \
    >"$EVENTS/rest"
  mv "$EVENTS/rest" "$EVENTS/$1.expected"
}

# Lists in tagged what AddressSanitizer runs and need not run plain besides. Call
# it after run_tests asan.
list_sanitized_only() {
  bazel_here query --noshow_progress "tests($PLAIN_TOO)" \
    >"$EVENTS/plain_too" 2>>"$EVENTS/query.log" ||
    echo "the tests that run plain too: $(grep -m1 ERROR "$EVENTS/query.log")" \
      >>"$EVENTS/failed"
  grep -vxFf "$EVENTS/plain_too" "$EVENTS/asan.expected" >"$EVENTS/tagged" ||
    true
}

# Precompiles headers for configuration $1, with the options of sources that use
# Protobuf, and puts what makes its compilations read them into options: without
# them it only takes longer. -O1 is for libraries that ask for -O3: gcc 12 crashes
# where the level differs from the headers'. The plain configuration does without:
# it notices an include that is missing.
precompile_headers() {
  local folder=$PWD/.bazel/precompiled/$1
  local library=-O1,-include,$folder/library.h
  options=()
  if [[ $folder != *[,@]* ]] && bazel_here aquery --config="$1" \
    --output=jsonproto --noshow_progress \
    'mnemonic("CppCompile", //proto:refusal + //proto:refusal_test)' \
    2>>"$EVENTS/query.log" | python3 .ci/precompile.py "$folder"; then
    options=(
      "--per_file_copt=_test[.]cc\$,-tests/sim@-include,$folder/test.h"
      "--per_file_copt=[.]cc\$,-_test[.]cc\$@$library"
      "--per_file_copt=tests/sim.*_test[.]cc\$@$library")
  else
    echo "$1: going on without precompiled headers"
  fi
}

# run_tests NAME EXCLUDED_TAGS OPTION...: runs all tests without the tags and
# leaves what should have come and what came for .ci/results.py.
run_tests() {
  local name=$1 excluded=$2 tag package patterns=(//...) code=0
  shift 2
  cp "$EVENTS/labels" "$EVENTS/$name.expected"
  for tag in ${excluded//,/ }; do
    tests_tagged "$tag" >"$EVENTS/tagged" || true
    leave_out "$name" "$tag"
  done
  if [ "$name" = tsan ]; then
    for package in "${SINGLE_THREADED[@]}"; do
      patterns+=("-//$package/...")
      grep "^//${package}[/:]" "$EVENTS/$name.expected" >"$EVENTS/tagged" || true
      leave_out "$name" single-threaded
    done
  elif $all && [ "$name" = plain ]; then
    list_sanitized_only
    mapfile -t -O 1 patterns < <(sed 's/^/-/' "$EVENTS/tagged")
    leave_out "$name" sanitized
  fi
  echo "== $name: $(wc -l <"$EVENTS/$name.expected") test targets"
  limit_time
  bazel_here test --keep_going "$progress" \
    --test_tag_filters="${excluded:+-}${excluded//,/,-}" \
    --build_event_json_file="$EVENTS/$name.json" \
    --test_env=PARAMD_PYTHON="$PARAMD_PYTHON" "$@" -- "${patterns[@]}" ||
    code=$?
  case $code in
    0 | 3) ;; # 3: all is built and some tests failed, which their results say
    8) give_up "interrupted" ;;
    124 | 137) echo "$name: the time was up" >>"$EVENTS/failed" ;;
    *) echo "$name: not everything could be built (Bazel's exit code $code)" \
      >>"$EVENTS/failed" ;;
  esac
}

# Under --all Bazel is interrupted when the time is over; what has not run by
# then counts as failed.
limit_time() {
  if $all; then
    BAZEL_SECONDS=$((SECONDS < ALL_SECONDS ? ALL_SECONDS - SECONDS : 1))
  fi
}

# Shows that the simulator finds bugs: a few of those planted for it, others with
# every commit. The copy of the tree that they are put into is built with the
# outputs of the plain run, so that only what they change is compiled.
find_planted_bugs() {
  echo "== planted bugs: $PLANTED_BUGS, others with every commit"
  command -v patch >/dev/null || {
    echo "planted bugs: there is no program patch" >>"$EVENTS/left_out"
    return
  }
  local base
  limit_time
  base=$(bazel_here info output_base 2>>"$EVENTS/query.log") || base=
  if [ -z "$base" ]; then
    echo "planted bugs: Bazel does not say where its outputs are" \
      >>"$EVENTS/failed"
    return
  fi
  BAZEL="bazel --output_user_root=$PWD/.bazel --output_base=$base" \
    COPY=$PWD/.bazel/planted \
    BUDGET=$PLANTED_SECONDS LIMIT=$BAZEL_SECONDS RESULTS=$EVENTS \
    tests/sim/find_planted.sh --slice="$PLANTED_BUGS" || true
  [ -s "$EVENTS/planted" ] ||
    echo "planted bugs: none was looked for" >>"$EVENTS/failed"
}

analyse_with_clang() {
  echo "== clang: thread-safety analysis"
  local code=0
  # Where there are locks: what has a mutex or uses a class that has one. That
  # clang compiles the rest says `bazel build --config=clang //...`.
  bazel_here query --noshow_progress \
    'kind("cc_(library|binary) rule", rdeps(//..., //base:mutex, 2))' \
    >"$EVENTS/clang.targets" 2>>"$EVENTS/query.log" || code=$?
  limit_time
  # Only compiled: the analysis needs no program.
  bazel_here build --config=clang --output_groups=compilation_outputs \
    --keep_going "$progress" --target_pattern_file="$EVENTS/clang.targets" ||
    code=$?
  if [ "$code" = 8 ]; then
    give_up "interrupted"
  elif [ "$code" != 0 ]; then
    echo "clang: not everything could be built, or the time was up (Bazel's" \
      "exit code $code)" >>"$EVENTS/failed"
  fi
}

# ThreadSanitizer of gcc 12 finds no place for its memory where the kernel
# randomises more than 28 bits.
tsan_options() {
  local bits
  bits=$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 28)
  if [ "$bits" -gt 28 ]; then
    echo "--run_under=setarch -R"
  fi
}

install_what_is_missing
command -v bazel >/dev/null || give_up "there is no bazel"
rm -rf "$EVENTS"
mkdir -p "$EVENTS"
touch "$EVENTS/skipped" "$EVENTS/failed"
make_python
tests_tagged "" >"$EVENTS/labels" ||
  echo "some packages could not be loaded: $(grep -m1 ERROR "$EVENTS/query.log")" \
    >>"$EVENTS/failed"

if $all; then
  precompile_headers asan
  run_tests asan slow,no_asan --config=asan --build_tests_only "${options[@]}"
  run_tests plain ""
  find_planted_bugs
  precompile_headers tsan
  mapfile -t -O ${#options[@]} options < <(tsan_options)
  run_tests tsan slow,no_tsan --config=tsan --build_tests_only "${options[@]}"
  analyse_with_clang
else
  run_tests plain slow
  echo "asan, tsan, clang's analysis and planted bugs: only with --all" \
    >"$EVENTS/left_out"
fi
python3 .ci/results.py "$EVENTS"
