#!/bin/sh
# collect.sh BINARY FOLDER: makes FOLDER the root file system of a container: the
# binary as /usr/bin/paramd, the libraries that it loads, who may run it and how
# names are found. No shell, no package manager. Runs on the distribution that the
# binary was built on.
set -eu
binary=$1 root=$2
mkdir -p "$root/usr/bin" "$root/usr/lib" "$root/usr/lib64" "$root/etc/paramd" \
  "$root/train" "$root/dev" "$root/proc" "$root/sys" "$root/tmp" \
  "$root/usr/share/doc"
ln -s usr/lib "$root/lib"
ln -s usr/lib64 "$root/lib64"
install -m 0755 "$binary" "$root/usr/bin/paramd"
strip --strip-debug "$root/usr/bin/paramd" 2>/dev/null || true

ldd "$binary" >"$root/libraries"
if grep 'not found' "$root/libraries"; then
  exit 1
fi
libc=$(sed -n 's/.*libc\.so\.6 => \(\/[^ ]*\) .*/\1/p' "$root/libraries")
{
  # "libz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x...)", and the loader's own line.
  sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) (.*/\1/p' \
    "$root/libraries"
  # Parts of glibc that a GPU's driver and libraries ask for by these names.
  for name in libdl.so.2 libpthread.so.0 librt.so.1; do
    echo "$(dirname "$libc")/$name"
  done
} | sort -u | while read -r library; do
  # The file itself, under the name that is asked for: alternatives are links.
  # /lib is /usr/lib.
  folder=$(dirname "$library")
  target=$root/usr${folder#/usr}
  mkdir -p "$target"
  real=$(readlink -f "$library")
  install -m 0755 "$real" "$target/$(basename "$library")"
  # What its licence asks for. Packages call /usr/lib/... /lib/..., as it once was.
  package=$(dpkg-query -S "$real" 2>/dev/null || dpkg-query -S "${real#/usr}")
  package=${package%%:*}
  if [ -e "/usr/share/doc/$package/copyright" ]; then
    mkdir -p "$root/usr/share/doc/$package"
    cp -L "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/"
  fi
done
rm "$root/libraries"

cat >"$root/etc/passwd" <<'END'
root:x:0:0:root:/:/nonexistent
paramd:x:65532:65532:paramd:/train:/nonexistent
END
cat >"$root/etc/group" <<'END'
root:x:0:
paramd:x:65532:
END
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
chmod 1777 "$root/tmp"
