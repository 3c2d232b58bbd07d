#!/bin/bash
# Builds the CPU image without a registry and without Docker: Debian 12 by
# debootstrap, the image by buildah. See build.sh --help.
set -euo pipefail
trap 'echo "build.sh: line $LINENO failed" >&2' ERR

usage() {
  cat <<'END'
usage: build.sh [--binary FILE] [--mirror URL] [--security URL] ARCHIVE

Writes the image paramd:VERSION to ARCHIVE, an OCI archive, which
`ctr -n k8s.io images import`, `docker load`, `podman load` and `skopeo copy` take.
Needs root, debootstrap and buildah, and Debian's packages from a mirror.

  --binary FILE  this paramd, built on Debian 12; without it Bazel builds one
  --mirror URL   of Debian 12; without it the one that this machine's apt uses
  --security URL of its security updates; the same
END
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
binary= archive= mirror= security=
while [ $# -gt 0 ]; do
  case $1 in
    --binary) binary=$2; shift ;;
    --mirror) mirror=$2; shift ;;
    --security) security=$2; shift ;;
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
PATH=$PATH:/usr/sbin:/sbin # debootstrap's place
for program in debootstrap buildah; do
  command -v "$program" >/dev/null || {
    echo "build.sh needs $program: apt-get install $program" >&2
    exit 1
  }
done
# address_of LABEL CODENAME: where this machine's apt has them from.
address_of() {
  apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' \
    "Label: $1" "Codename: $2" | head -n 1
}
mirror=${mirror:-$(address_of Debian bookworm)}
security=${security:-$(address_of Debian-Security bookworm-security)}
if [ -z "$mirror" ] || [ -z "$security" ]; then
  echo "apt has no sources of Debian 12 (apt-get update): give --mirror and" \
    "--security" >&2
  exit 1
fi
if [ -z "$binary" ]; then
  (cd "$root" && . third_party/packages.sh && build_paramd)
  binary=$root/bazel-bin/cli/paramd
fi
binary=$(realpath "$binary")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The packages of the libraries that the binary asks for, by their names here.
mapfile -t packages < <(ldd "$binary" |
  sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | while read -r library; do
    real=$(readlink -f "$library")
    # Packages call /usr/lib/... /lib/..., as it once was.
    dpkg-query -S "$real" 2>/dev/null || dpkg-query -S "${real#/usr}"
  done | sed 's/:.*//' | sort -u)
echo "Debian 12 with ${packages[*]}"
install_debian() {
  # Nobody needs what is half written after a crash.
  mkdir -p "$work/debian/etc/dpkg/dpkg.cfg.d"
  echo force-unsafe-io >"$work/debian/etc/dpkg/dpkg.cfg.d/unsafe-io"
  debootstrap --variant=minbase \
    --include="$(IFS=,; echo "${packages[*]}"),binutils,ca-certificates" \
    bookworm "$work/debian" "$mirror"
  echo "deb $security bookworm-security main" \
    >>"$work/debian/etc/apt/sources.list"
  chroot "$work/debian" apt-get update --quiet
  chroot "$work/debian" env DEBIAN_FRONTEND=noninteractive \
    apt-get upgrade --yes --quiet
}
# In a subshell of its own, for set -e to hold in it.
(install_debian) >"$work/debian.log" 2>&1 &
wait $! || {
  tail -n 20 "$work/debian.log" >&2
  exit 1
}
cp "$binary" "$work/debian/paramd"
cp "$root/deploy/image/collect.sh" "$work/debian/collect.sh"
chroot "$work/debian" /collect.sh /paramd /image

store=(--root "$work/store" --runroot "$work/run" --storage-driver vfs)
container=$(buildah "${store[@]}" from scratch)
buildah "${store[@]}" copy --quiet "$container" "$work/debian/image" / >/dev/null
version=$("$binary" version | sed -n '1s/^paramd \([^ ]*\).*/\1/p')
commit=$("$binary" version | sed -n '1s/.*(commit \(.*\))$/\1/p')
buildah "${store[@]}" config --user 65532:65532 --workingdir /train \
  --label org.opencontainers.image.version="$version" \
  --label org.opencontainers.image.revision="$commit" \
  --env OPENBLAS_NUM_THREADS=1 \
  --entrypoint '["/usr/bin/paramd"]' "$container"
rm -f "$archive"
buildah "${store[@]}" commit --quiet "$container" \
  "oci-archive:$archive:paramd:$version" >/dev/null
echo "paramd:$version of commit $commit, $(du -sm "$work/debian/image" |
  cut -f1) MB unpacked, $(du -m "$archive" | cut -f1) MB as $archive"
