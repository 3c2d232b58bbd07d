#!/bin/bash
# Installs what the tests need, runs them, and ends with the line
# "N passed, N failed". See ./test.sh --help.
set -Eeuo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
. third_party/packages.sh
trap 'say_where "$0" "$LINENO" "$BASH_COMMAND"' ERR

all=false
install=true
for argument in "$@"; do
  case $argument in
    --all) all=true ;;
    --no-install | --help | -h) install=false ;;
  esac
done

# Prints the count of a run whose tests could not be started.
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
  echo "installing ${missing[*]}"
  mkdir -p .bazel
  if ! install_packages "${missing[@]}" >.bazel/install.log 2>&1; then
    tail -n 20 .bazel/install.log
    return 1
  fi
}

if $install && command -v dpkg-query >/dev/null; then
  wanted=("${BUILD_PACKAGES[@]}" "${DATA_PACKAGES[@]}" "${TEST_PACKAGES[@]}")
  if $all; then
    wanted+=("${CLANG_PACKAGES[@]}")
  fi
  install_missing "${wanted[@]}" || give_up "packages could not be installed"
  if $all; then
    install_missing "${CHART_PACKAGES[@]}" || echo "going on without them"
    install_missing "${IMAGE_PACKAGES[@]}" || echo "going on without them"
  fi
fi
for program in python3 bazel; do
  command -v "$program" >/dev/null || give_up "there is no $program"
done
exec python3 .ci/driver.py "$@"
