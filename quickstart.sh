#!/bin/bash
# Installs what paramd needs, builds it and trains Fashion-MNIST on a cluster of
# four processes of this machine. See ./quickstart.sh --help.
set -Eeuo pipefail

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
trap 'say_where "$0" "$LINENO" "$BASH_COMMAND"' ERR

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

# What the build has done and how long the rest takes at its pace, of Bazel's last
# "[40 / 150] ..." in the log; nothing before it compiles.
progress() {
  local count done of
  count=$(grep -aoE '^\[[0-9,]+ / [0-9,]+\]' "$LOG" | tail -n 1 | tr -d '[],') || return 0
  read -r done _ of <<<"$count"
  if [ "$done" -ge 10 ] && [ "$done" -lt "$of" ]; then
    echo "  $done of $of actions, about" \
      "$(clock $(($1 * (of - done) / done))) left"
  fi
}

# tick TITLE BEGIN: shows how far it is, on a terminal each second, else each
# minute.
tick() {
  local passed
  while sleep 1; do
    passed=$((SECONDS - $2))
    if [ -t 1 ]; then
      printf '\r%-52s %6s\e[K' "$1$(progress "$passed")" "$(clock "$passed")"
    elif [ $((passed % 60)) = 0 ]; then
      echo "$1: $(clock "$passed")$(progress "$passed")"
    fi
  done
}

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
  [ -t 1 ] || echo "$title"
  echo "== $title" >>"$LOG"
  tick "$title" "$begin" &
  ticker=$!
  "$@" >>"$LOG" 2>&1 </dev/null || code=$?
  stop_ticker
  [ ! -t 1 ] || printf '\r\e[K'
  if [ "$code" != 0 ]; then
    printf '%-52s failed after %s\n\n' "$title" "$(clock $((SECONDS - begin)))"
    echo "The last lines of $PWD/$LOG:"
    tail -n 20 "$LOG" | sed 's/^/  /'
    exit "$code"
  fi
  printf '%-52s %6s\n' "$title" "$(clock $((SECONDS - begin)))"
}

# The command whose build ends with bazel-bin/cli/paramd; then Bazel's server
# goes, and its memory is free for training.
build() {
  build_paramd --curses=no --show_progress_rate_limit=5 &&
    bazel_here shutdown &&
    ln -sfn bazel-bin/cli/paramd paramd
}

# Says what will be done, and asks if that changes the machine.
announce() {
  local size number download disk
  echo "paramd quickstart"
  if [ ${#missing[@]} = 0 ]; then
    echo "  1. install  nothing: all packages are there"
  elif ! $install; then
    echo "  1. install  nothing (--no-install), though these are missing:" \
      "${missing[*]}"
  else
    size=$(installation_size "${missing[@]}") || true
    read -r number download disk <<<"${size:-191 314 1026}"
    echo "  1. install  $([ -n "$size" ] || echo "about ")$number packages with" \
      "apt: $download MB to download, $disk MB on disk"
    echo "              ${missing[*]}" | fold -s -w 76 | sed '2,$s/^/              /'
  fi
  echo "  2. build    paramd with Bazel, downloading nothing"
  echo "  3. train    Fashion-MNIST, 5 epochs, on 2 ps and 2 workers on loopback;"
  echo "              in the third epoch worker-1 is killed with kill -9"
  echo "The build shows how much time is left, on $(nproc) cores, once it compiles."
  echo "Nothing outside this folder and apt is touched."
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
