#!/bin/bash
# Shows that the simulator finds bugs: applies each patch of tests/sim/planted to
# a copy of the tree, one after the other, builds the simulator there and runs
# seeds from 1 on until one fails: of the workload that the first line of the
# patch names ("# workload: sync"), or the integers. Prints a table: the bug, and
# how many seeds it took. Ends with 1 if one was not found, does not apply or
# does not build.
#
#   tests/sim/find_planted.sh [WORD...]    only patches whose names have a WORD
#   tests/sim/find_planted.sh --slice=N    N patches, others with every commit, of
#                                          those that leave headers alone
#
# BAZEL: what to build with ("bazel"), BAZEL_OPTIONS: and how; SEEDS: how many to try
# (2000); COPY: where the copy lies (a temporary directory).
set -u
cd "$(dirname "$0")/../.." || exit 1
readonly bazel=${BAZEL:-bazel} seeds=${SEEDS:-2000}
readonly copy=${COPY:-$(mktemp -d)}
slice=
if [[ ${1:-} == --slice=* ]]; then
  slice=${1#--slice=}
  shift
fi
failed=0

# find_one PATCH: prints a line of the table.
find_one() {
  local name output status seed
  name=$(basename "$1" .patch)
  if ! (cd "$copy" && patch -s -p1 --dry-run) <"$1" >"$copy.log"; then
    printf '%-40s does not apply\n' "$name"
    return 1
  fi
  (cd "$copy" && patch -s -p1 --no-backup-if-mismatch) <"$1"
  (cd "$copy" && timeout 3600 $bazel build ${BAZEL_OPTIONS:-} //tests/sim) >"$copy.log" 2>&1
  status=$?
  (cd "$copy" && patch -s -p1 -R --no-backup-if-mismatch) <"$1"
  if [ $status -ne 0 ]; then
    printf '%-40s does not build: %s\n' "$name" "$copy.log"
    return 1
  fi
  local sim workload
  workload=$(sed -n '1s/^# workload: //p' "$1")
  sim=$(cd "$copy" && $bazel info bazel-bin 2>/dev/null)/tests/sim/sim
  output=$(timeout 3600 "$sim" --workload="${workload:-integers}" \
    --until_failure --seeds="$seeds" 2>&1)
  status=$?
  # Of a broken invariant the process dies, and names its seed too.
  seed=$(grep -oE -- '--seed=[0-9]+|^seed [0-9]+' <<<"$output" | head -1 |
    grep -o '[0-9]*')
  if [ $status -eq 0 ] || [ -z "$seed" ]; then
    printf '%-40s NOT FOUND in %s seeds\n' "$name" "$seeds"
    return 1
  fi
  printf '%-40s %5s  %s\n' "$name" "$seed" \
    "$(grep -m1 -o 'failed: .*\|CHECK.*\|[^ ]*\.cc:[0-9]*: .*' <<<"$output" |
      sed 's/^failed: //' | cut -c1-100)"
}

wanted() {
  [ $# -eq 1 ] && return 0
  local patch=$1 word
  shift
  for word; do [[ $(basename "$patch") == *$word* ]] && return 0; done
  return 1
}

# The number of this tree: of its commits, or of the day where it does not have
# them all.
number_of_tree() {
  if [ "$(git rev-parse --is-shallow-repository 2>/dev/null)" = false ]; then
    git rev-list --count HEAD
  else
    echo $(($(date +%s) / 86400))
  fi
}

copy_tree() {
  mkdir -p "$copy"
  if git ls-files --error-unmatch WORKSPACE >/dev/null 2>&1; then
    git ls-files -z
  else
    find . \( -path ./.bazel -o -path ./.git -o -path ./.venv -o -path ./runs \
      -o -path './bazel-*' \) -prune -o -type f -print0
  fi | xargs -0 cp --parents -t "$copy"
}

copy_tree || exit 1
all=()
for patch in tests/sim/planted/*.patch; do
  wanted "$patch" "$@" || continue
  # What includes the header would be compiled anew, and again behind it.
  [ -n "$slice" ] && grep -q '^+++ .*\.h\b' "$patch" && continue
  all+=("$patch")
done
patches=("${all[@]}")
if [ -n "$slice" ]; then
  # Far apart, and all of them one further on with the next number.
  patches=()
  number=$(number_of_tree)
  for ((i = 0; i < slice && i < ${#all[@]}; ++i)); do
    patches+=("${all[(number + i * ${#all[@]} / slice) % ${#all[@]}]}")
  done
fi
printf '%-40s %5s  %s\n' bug seeds "what was seen"
for patch in "${patches[@]}"; do
  find_one "$patch" || failed=1
done
exit $failed
