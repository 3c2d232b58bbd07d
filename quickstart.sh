#!/bin/bash
# Installs what paramd needs, builds it and trains Fashion-MNIST on a cluster of
# four processes of this machine. See ./quickstart.sh --help.
set -euo pipefail

usage() {
  cat <<'END'
usage: ./quickstart.sh [--yes] [--no-install] [--resume]

Installs packages, builds paramd and trains Fashion-MNIST on 2 ps and 2 worker
processes on this machine, one of which is killed on the way (kill -9). A run is a
new one unless told otherwise.

  --yes         don't ask before packages are installed
  --no-install  install nothing; go on with what is there
  --resume      go on with the last run
END
}

started_in=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")"
. third_party/packages.sh

readonly LOG=quickstart.log
yes=false
install=true
resume=()
for argument in "$@"; do
  case $argument in
    --yes) yes=true ;;
    --no-install) install=false ;;
    --resume) resume=(--resume) ;;
    --help | -h) usage; exit 0 ;;
    *) echo "unknown option $argument" >&2; usage >&2; exit 2 ;;
  esac
done

# "1:05" of 65 seconds.
clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

ticker=
stop_ticker() {
  if [ -n "$ticker" ]; then
    kill "$ticker" 2>/dev/null || true
    wait "$ticker" 2>/dev/null || true
    ticker=
  fi
}
trap stop_ticker EXIT

# phase NUMBER TITLE COMMAND...: runs the command with its output in the log; if
# it fails, shows the log's end and leaves with its exit code.
phase() {
  local title="[$1/3] $2" begin=$SECONDS code=0
  shift 2
  if [ -t 1 ]; then
    (while :; do
       printf '\r%-58s %6s' "$title" "$(clock $((SECONDS - begin)))"
       sleep 1
     done) &
    ticker=$!
  else
    echo "$title"
  fi
  echo "== $title" >>"$LOG"
  "$@" >>"$LOG" 2>&1 </dev/null || code=$?
  stop_ticker
  if [ "$code" != 0 ]; then
    printf '\r%-58s failed after %s\n\n' "$title" \
      "$(clock $((SECONDS - begin)))"
    echo "The last lines of $PWD/$LOG:"
    tail -n 20 "$LOG" | sed 's/^/  /'
    exit "$code"
  fi
  printf '\r%-58s %6s\n' "$title" "$(clock $((SECONDS - begin)))"
}

# The command whose build ends with bazel-bin/cli/paramd; then Bazel's server
# goes, and its memory is free for training.
build() {
  bazel_here build --noshow_progress \
    --embed_label="$(git rev-parse --short HEAD 2>/dev/null)" //cli:paramd &&
    bazel_here shutdown &&
    ln -sfn bazel-bin/cli/paramd paramd
}

# Says what will be done, and asks if that changes the machine.
announce() {
  # On 2 cores: 1 minute to install, 4 to build and 1 to train.
  local size number download disk minutes=1
  [ -x bazel-bin/cli/paramd ] || minutes=$((1 + (8 + $(nproc) - 1) / $(nproc)))
  echo "paramd quickstart"
  if [ ${#missing[@]} = 0 ]; then
    echo "  1. install  nothing: all packages are there"
  elif ! $install; then
    echo "  1. install  nothing (--no-install), though these are missing:" \
      "${missing[*]}"
  else
    size=$(installation_size "${missing[@]}") || true
    read -r number download disk <<<"${size:-191 314 1026}"
    minutes=$((minutes + 1))
    echo "  1. install  $([ -n "$size" ] || echo "about ")$number packages with" \
      "apt: $download MB to download, $disk MB on disk"
    echo "              ${missing[*]}" | fold -s -w 76 | sed '2,$s/^/              /'
  fi
  echo "  2. build    paramd with Bazel, downloading nothing"
  echo "  3. train    Fashion-MNIST, 5 epochs, on 2 ps and 2 workers on loopback;"
  echo "              in the third epoch worker-1 is killed with kill -9"
  echo "About $minutes min. Nothing outside this folder and apt is touched."
  echo
}

ask() {
  if [ ${#missing[@]} = 0 ] || ! $install || $yes; then
    return
  fi
  if [ ! -t 0 ]; then
    echo "Nobody to ask: to agree, run ./quickstart.sh --yes" >&2
    exit 2
  fi
  local answer
  read -r -p "Go on? [Y/n] " answer
  case $answer in
    '' | [yY]*) echo ;;
    *) exit 130 ;;
  esac
}

missing=()
if command -v dpkg-query >/dev/null; then
  mapfile -t missing < <(
    missing_packages "${BUILD_PACKAGES[@]}" "${DATA_PACKAGES[@]}")
elif $install; then
  echo "Packages can be installed on Debian 12 only; elsewhere: --no-install" >&2
  exit 2
fi
announce
ask
: >"$LOG"

if [ ${#missing[@]} -gt 0 ] && $install; then
  if [ "$(id -u)" != 0 ] && command -v sudo >/dev/null; then
    sudo -v # asks for the password while it can be seen
  fi
  phase 1 "install ${#missing[@]} packages and what they need" \
    install_packages "${missing[@]}"
else
  phase 1 "install: nothing to do" true
fi
phase 2 "build" build
echo "[3/3] train"
echo
if [ "$started_in" != "$PWD" ]; then
  echo "(commands below are for this folder: cd $PWD)"
fi
./paramd local --job config/examples/fashion_mnist.json --servers 2 \
  --workers 2 --kill worker-1@epoch=3 "${resume[@]}"
echo
echo "[3/3] train: done; $(clock $SECONDS) in all"
