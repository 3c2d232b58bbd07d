#!/bin/bash
# Installs what the tests need, runs them, and ends with the line
# "N passed, N failed". See ./test.sh --help.
set -euo pipefail

usage() {
  cat <<'END'
usage: ./test.sh [--all] [--no-cache] [--no-install]

Runs the suite. Above the last line, "N passed, N failed", stands what was
skipped and why. Exits 0 if nothing failed.

  --all         also slow tests, a few of the bugs planted for the simulator,
                clang's thread-safety analysis, AddressSanitizer with
                UndefinedBehaviorSanitizer and ThreadSanitizer, until an hour is
                over. Of slow tests and of the sanitizers first what the newest
                commits change, then the rest, with every commit from another
                test on
  --no-cache    begin from nothing. Else what any clone of this tree has built and
                tested before is taken from ~/.cache/paramd ($XDG_CACHE_HOME),
                which grows to 20 GB and then forgets what is longest unused
  --no-install  install nothing; go on with what is there
END
}

cd "$(dirname "${BASH_SOURCE[0]}")"
. third_party/packages.sh

readonly EVENTS=.bazel/test-events
# The tests that are neither slow nor with a sanitizer have so long under --all.
# No slow test is begun after the first number of seconds, and none goes on after the
# second. Whatever else runs is interrupted after the budget: the sum stays below what
# a run may take, however the tree grows.
readonly PLAIN_SECONDS=$((80 * 60))
readonly SLOW_SECONDS=$((40 * 60)) SLOW_END_SECONDS=$((48 * 60))
readonly BUDGET_SECONDS=$((60 * 60))
# Of the simulator's planted bugs so many are looked for under --all, and none of
# them is begun after so many seconds but the first.
readonly PLANTED_BUGS=5 PLANTED_SECONDS=150
# So many tests are run at a time: with a sanitizer, and slow ones.
readonly BATCH=30 SLOW_BATCH=2
# Of the cache, at the beginning of a run.
readonly CACHE_BYTES=20000000000
# What asks for -O3: see precompile_headers.
readonly AT_O3='(optimizers[/:][a-z_]*|optimizer_kernels|gradient_sum|number_format|apply_benchmark)[.]cc$'
# Whose sources speak of the tree's own messages.
readonly WITH_MESSAGES='^(//)?(checkpoint|client|config|coordinator|program|server|tests/sim|worker/(core|evaluator|input|model|program|rendezvous|strategy)|cli/(commands|observe))[/:].*[.]cc$'
# Packages without threads: ThreadSanitizer has nothing to look for there.
readonly SINGLE_THREADED=(
  bench checkpoint client/core config coordinator/core proto server/core tensor
  tests/sim worker/core
)
BAZEL_SECONDS= # bazel_here is interrupted after so many; empty: never
progress=--noshow_progress
if [ -t 2 ]; then
  progress=--show_progress
fi
all=false
use_cache=true
install=true
for argument in "$@"; do
  case $argument in
    --all) all=true ;;
    --no-cache) use_cache=false ;;
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

# install_missing PACKAGE...: fails if they can't be had.
install_missing() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
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
    return 1
  fi
}

install_what_is_missing() {
  local wanted=("${BUILD_PACKAGES[@]}" "${DATA_PACKAGES[@]}"
    "${TEST_PACKAGES[@]}")
  if $all; then
    wanted+=("${CLANG_PACKAGES[@]}")
  fi
  command -v dpkg-query >/dev/null || return 0
  install_missing "${wanted[@]}" || give_up "packages could not be installed"
  if $all; then
    install_missing "${CHART_PACKAGES[@]}" || echo "going on without them"
    install_missing "${IMAGE_PACKAGES[@]}" || echo "going on without them"
  fi
}

# Sets cache, the folder for what is made outside of Bazel, and cached, the options
# by which Bazel finds what it has built before.
open_cache() {
  local folder=${XDG_CACHE_HOME:-${HOME:-$PWD/.bazel}/.cache}/paramd
  cache=$PWD/.bazel/cache
  cached=()
  if ! $use_cache; then
    return
  fi
  if [[ $folder == *[,@]* ]] || ! mkdir -p "$folder"; then
    echo "going on without a cache: it can't be in $folder"
    return
  fi
  cache=$folder/$(toolchain_name)
  mkdir -p "$cache/bazel" && touch "$cache"
  cached=("--disk_cache=$cache/bazel")
  # Of packages that are not installed any more.
  find "$folder" -mindepth 1 -maxdepth 1 -type d -mtime +14 -exec rm -rf {} +
  find "$cache/bazel" -type f -printf '%A@ %s %p\n' | sort -rn |
    awk -v most="$CACHE_BYTES" '{ sum += $2 }
      sum > most { sub("^[^ ]* [^ ]* ", ""); print }' | xargs -rd '\n' rm -f
}

# Makes a Python where packages of PyPI lie beside those of the distribution.
# Without it the tests that need them skip themselves. A later tensorboard wants a
# protobuf that the code of the distribution's protoc does not work with.
make_python() {
  local folder=$cache/python
  if $install && ! "$folder/bin/python" -c \
    'import kubernetes_validate, mypy, safetensors.numpy, tensorboard' \
    2>/dev/null; then
    echo "installing safetensors, tensorboard, kubernetes-validate and mypy in" \
      "$folder"
    if ! { /usr/bin/python3 -m venv --system-site-packages "$folder" &&
      "$folder/bin/python" -m pip install --quiet 'safetensors>=0.4' \
        'numpy>=1.24' 'tensorboard==2.19.*' kubernetes-validate 'mypy>=1.8'
    } >.bazel/pip.log 2>&1; then
      tail -n 5 .bazel/pip.log
      echo "going on without them"
    fi
  fi
  PARAMD_PYTHON=/usr/bin/python3
  if [ -x "$folder/bin/python" ]; then
    PARAMD_PYTHON=$folder/bin/python
  fi
}

# Puts promtool beside that Python, out of Debian's package prometheus: the package
# itself would bring a daemon, its user and 300 MB. Without it two tests skip
# themselves.
fetch_promtool() {
  local programs=$cache/python/bin folder=.bazel/prometheus
  if ! $install || ! [ -d "$programs" ] || [ -x "$programs/promtool" ] ||
    command -v promtool >/dev/null || ! command -v apt-get >/dev/null; then
    return
  fi
  echo "fetching promtool to $programs"
  rm -rf "$folder"
  mkdir -p "$folder"
  if ! (cd "$folder" &&
    { apt-get download prometheus ||
      { as_root apt-get update && apt-get download prometheus; }; } &&
    dpkg-deb --fsys-tarfile prometheus_*.deb | tar --extract ./usr/bin/promtool &&
    mv usr/bin/promtool "$programs") >.bazel/promtool.log 2>&1; then
    tail -n 5 .bazel/promtool.log
    echo "going on without it"
  fi
  rm -rf "$folder"
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

# Precompiles headers for configuration $1, with the options of sources that use
# Protobuf, and puts what makes its compilations read them into options: without
# them it only takes longer. Tests and most packages read the tree's own messages too.
# gcc 12 crashes where the level of optimisation is not the headers', so what asks for
# -O3 does without. That every source includes what it needs shows `bazel build //...`.
precompile_headers() {
  local library messages test root
  options=()
  if [[ $cache == *[,@]* ]] ||
    ! bazel_here build --config="$1" "$progress" "${cached[@]}" \
      //proto/paramd/v1/... 2>>"$EVENTS/query.log" ||
    ! root=$(bazel_here info execution_root 2>>"$EVENTS/query.log") ||
    ! bazel_here aquery --config="$1" --output=jsonproto --noshow_progress \
      'mnemonic("CppCompile", //proto:refusal + //proto:tests)' \
      2>>"$EVENTS/query.log" |
    python3 .ci/precompile.py "$cache/precompiled" "$root" >"$EVENTS/headers"; then
    echo "$1: going on without precompiled headers"
    return
  fi
  { read -r library && read -r messages && read -r test; } <"$EVENTS/headers"
  options=(
    "--per_file_copt=_test[.]cc\$,-tests/sim@-include,$test"
    "--per_file_copt=$WITH_MESSAGES,-_test[.]cc\$,-$AT_O3@-include,$messages"
    "--per_file_copt=[.]cc\$,-$WITH_MESSAGES,-(_test|pb)[.]cc\$,-$AT_O3@-include,$library"
    "--per_file_copt=tests/sim.*_test[.]cc\$@-include,$messages")
}

# Interrupts Bazel when this script has run for so many seconds.
limit_time() {
  if $all; then
    BAZEL_SECONDS=$((SECONDS < $1 ? $1 - SECONDS : 1))
  fi
}

# run_tests NAME CONFIGURATION OPTION... -- PATTERN...: builds and runs tests and
# leaves what came as NAME for .ci/results.py. Fails if the time was up.
run_tests() {
  local name=$1 configuration=$2 code=0
  shift 2
  rm -f "$EVENTS/events"
  bazel_here test --config="$configuration" --keep_going "$progress" \
    "${cached[@]}" --build_event_json_file="$EVENTS/events" \
    --test_env=PARAMD_PYTHON="$PARAMD_PYTHON" --test_env=PARAMD_PJRT_PLUGIN \
    "${options[@]}" "$@" || code=$?
  cat "$EVENTS/events" >>"$EVENTS/$name.json" || true
  case $code in
    0 | 3) ;; # 3: all is built and some tests failed, which their results say
    8) give_up "interrupted" ;;
    124 | 137) return 1 ;;
    *) echo "$name: not everything could be built (Bazel's exit code $code)" \
      >>"$EVENTS/failed" ;;
  esac
}

# Without slow tests; under --all it builds whatever there is.
run_plain() {
  local filter=(--test_tag_filters=-slow)
  tests_tagged slow >"$EVENTS/slow" || true
  grep -vxFf "$EVENTS/slow" "$EVENTS/labels" >"$EVENTS/plain.expected" || true
  if ! $all; then
    filter+=(--build_tests_only)
    sed 's/$/ plain slow/' "$EVENTS/slow" >>"$EVENTS/skipped"
  fi
  echo "== plain: $(wc -l <"$EVENTS/plain.expected") test targets"
  precompile_headers plain
  limit_time "$PLAIN_SECONDS"
  run_tests plain plain "${filter[@]}" -- //... ||
    echo "plain: the time was up" >>"$EVENTS/failed"
}

# Makes of NAME.expected the list NAME.wanted of what runs if there is time, in
# the order in which it does: what the newest commits change, then the rest, each
# from another test on with every commit.
put_in_turn() {
  local name=$1 count
  count=$(wc -l <"$EVENTS/$name.expected")
  awk -v from="$((0x$(git rev-parse --short=6 HEAD 2>/dev/null || echo 0) %
    (count + 1)))" '
    NR > from { print } NR <= from { first[NR] = $0 }
    END { for (i = 1; i <= from && i <= NR; ++i) print first[i] }' \
    "$EVENTS/$name.expected" >"$EVENTS/turn"
  {
    grep -xFf "$EVENTS/changed" "$EVENTS/turn" || true
    grep -vxFf "$EVENTS/changed" "$EVENTS/turn" || true
  } >"$EVENTS/$name.wanted"
  rm "$EVENTS/$name.expected" "$EVENTS/turn"
  echo "== $name: $(grep -cxFf "$EVENTS/changed" "$EVENTS/$name.wanted") of" \
    "$count test targets are changed and come first"
}

# Runs slow tests, a few at a time, until the time for them is used.
run_slow() {
  local from tests
  cp "$EVENTS/slow" "$EVENTS/slow.expected"
  put_in_turn slow
  for ((from = 1; SECONDS < SLOW_SECONDS; from += SLOW_BATCH)); do
    mapfile -t tests < <(sed -n "$from,$((from + SLOW_BATCH - 1))p" \
      "$EVENTS/slow.wanted")
    if [ ${#tests[@]} = 0 ]; then
      return
    fi
    limit_time "$SLOW_END_SECONDS"
    run_tests slow plain -- "${tests[@]}" || return 0
  done
}

# Puts the tests of sanitizer NAME in their turn.
list_sanitized() {
  local name=$1 tag package
  cp "$EVENTS/labels" "$EVENTS/$name.expected"
  for tag in slow "no_$name"; do
    tests_tagged "$tag" >"$EVENTS/tagged" || true
    leave_out "$name" "$tag"
  done
  if [ "$name" = tsan ]; then
    for package in "${SINGLE_THREADED[@]}"; do
      grep "^//${package}[/:]" "$EVENTS/$name.expected" >"$EVENTS/tagged" || true
      leave_out "$name" single-threaded
    done
  fi
  put_in_turn "$name"
}

# Lists in changed the tests that depend on what the newest commits change: those
# that the upstream branch does not have, or else those of the last day before HEAD.
list_changed() {
  local base
  : >"$EVENTS/changed"
  base=$(git rev-parse --quiet --verify '@{upstream}' 2>/dev/null) || base=
  if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then
    base=$(git rev-list -1 --before="$(($(git log -1 --format=%ct) - 86400))" \
      HEAD) || base=
  fi
  if [ -z "$base" ]; then
    return # Without a history all is equal.
  fi
  git diff --name-only "$base" HEAD | python3 .ci/labels_of.py \
    >"$EVENTS/changed_sources"
  bazel_here query --noshow_progress --keep_going \
    "tests(rdeps(//..., set($(tr '\n' ' ' <"$EVENTS/changed_sources"))))" \
    >"$EVENTS/changed" 2>>"$EVENTS/query.log" || true
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
  if [ "$SECONDS" -ge "$BUDGET_SECONDS" ]; then
    echo "planted bugs: the time for them was up" >>"$EVENTS/left_out"
    return
  fi
  local base
  limit_time "$BUDGET_SECONDS"
  base=$(bazel_here info output_base 2>>"$EVENTS/query.log") || base=
  if [ -z "$base" ]; then
    echo "planted bugs: Bazel does not say where its outputs are" \
      >>"$EVENTS/failed"
    return
  fi
  printf 'build %s\n' --config=plain "${cached[@]}" "${options[@]}" \
    >"$EVENTS/bazelrc"
  BAZEL="bazel --bazelrc=$PWD/$EVENTS/bazelrc --output_user_root=$PWD/.bazel
    --output_base=$base" \
    COPY=$PWD/.bazel/planted \
    BUDGET=$PLANTED_SECONDS LIMIT=$BAZEL_SECONDS RESULTS=$EVENTS \
    tests/sim/find_planted.sh --slice="$PLANTED_BUGS" || true
  [ -s "$EVENTS/planted" ] ||
    echo "planted bugs: none was looked for" >>"$EVENTS/failed"
}

# Runs the tests of both sanitizers, batch by batch, until the budget is used.
run_sanitized() {
  local name from batch
  for name in asan tsan; do
    list_sanitized "$name"
  done
  for ((from = 1; ; from += BATCH)); do
    batch=
    for name in asan tsan; do
      mapfile -t tests < <(sed -n "$from,$((from + BATCH - 1))p" \
        "$EVENTS/$name.wanted")
      if [ ${#tests[@]} = 0 ]; then
        continue
      fi
      if [ "$SECONDS" -ge "$BUDGET_SECONDS" ]; then
        return
      fi
      batch=$from
      echo "== $name: $from to $((from + ${#tests[@]} - 1))"
      precompile_headers "$name"
      if [ "$name" = tsan ]; then
        mapfile -t -O ${#options[@]} options < <(tsan_options)
      fi
      limit_time "$BUDGET_SECONDS"
      run_tests "$name" "$name" --build_tests_only -- "${tests[@]}" || return 0
    done
    if [ -z "$batch" ]; then
      return
    fi
  done
}

analyse_with_clang() {
  echo "== clang: thread-safety analysis"
  local code=0
  # Where there are locks: what has a mutex or uses a class that has one. That
  # clang compiles the rest says `bazel build --config=clang //...`.
  bazel_here query --noshow_progress \
    'kind("cc_(library|binary) rule", rdeps(//..., //base:mutex, 2))' \
    >"$EVENTS/clang.targets" 2>>"$EVENTS/query.log" || code=$?
  limit_time "$BUDGET_SECONDS"
  # Only compiled: the analysis needs no program.
  bazel_here build --config=clang --output_groups=compilation_outputs \
    "${cached[@]}" --keep_going "$progress" \
    --target_pattern_file="$EVENTS/clang.targets" || code=$?
  case $code in
    0) ;;
    8) give_up "interrupted" ;;
    124 | 137) echo "clang: the time for it was up" >>"$EVENTS/left_out" ;;
    *) echo "clang: not everything could be built (Bazel's exit code $code)" \
      >>"$EVENTS/failed" ;;
  esac
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
open_cache
make_python
if $all; then
  fetch_promtool
fi
tests_tagged "" >"$EVENTS/labels" ||
  echo "some packages could not be loaded: $(grep -m1 ERROR "$EVENTS/query.log")" \
    >>"$EVENTS/failed"

run_plain
if $all; then
  list_changed
  run_slow
  find_planted_bugs
  analyse_with_clang
  run_sanitized
else
  echo "asan, tsan, clang's analysis and planted bugs: only with --all" \
    >"$EVENTS/left_out"
fi
python3 .ci/results.py "$EVENTS"
