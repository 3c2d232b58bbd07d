#!/bin/bash
# Packs paramd for Linux machines of other distributions. See pack.sh --help.
set -euo pipefail
trap 'echo "pack.sh: line $LINENO failed" >&2' ERR

usage() {
  cat <<'END'
usage: pack.sh [--binary FILE] ARCHIVE.tar.gz

Writes the folder paramd-VERSION to ARCHIVE: paramd, every library that it loads and
their loader, so that it runs on any Linux of this processor's kind. Runs on the
distribution that the binary was built on.

  --binary FILE  this paramd; without it Bazel builds one
END
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
binary="" archive=""
while [ $# -gt 0 ]; do
  case $1 in
    --binary) binary=$2; shift ;;
    --help | -h) usage; exit 0 ;;
    -*) echo "unknown option $1" >&2; usage >&2; exit 2 ;;
    *) archive=$(realpath "$1") ;;
  esac
  shift
done
if [ -z "$archive" ]; then
  usage >&2
  exit 2
fi
if [ -z "$binary" ]; then
  (cd "$root" && . third_party/packages.sh && build_paramd)
  binary=$root/bazel-bin/cli/paramd
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$root/deploy/image/collect.sh" "$binary" "$work/image"
version=$("$binary" version | sed -n '1s/^paramd \([^ ]*\).*/\1/p')
folder=$work/paramd-$version
mkdir -p "$folder/bin" "$folder/lib"
find "$work/image/usr/lib" "$work/image/usr/lib64" -type f \
  -exec mv -t "$folder/lib" {} +
mv "$work/image/usr/bin/paramd" "$folder/bin/"
mv "$work/image/usr/share/doc" "$folder/"
install -m 0755 "$root/deploy/portable/paramd" "$folder/paramd"
tar --owner=root --group=root -czf "$archive" -C "$work" "$(basename "$folder")"
echo "$(basename "$folder"), $(du -sm "$folder" | cut -f1) MB unpacked," \
  "$(du -m "$archive" | cut -f1) MB as $archive"
