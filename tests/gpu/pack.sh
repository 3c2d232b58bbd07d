#!/bin/bash
# pack.sh FOLDER: packs the built GPU tests and benchmark and the shared libraries
# that they need (but those of glibc, of the driver and of CUDA), without symbols,
# into FOLDER/packed.tar.gz, and copies the scripts beside it: to be carried to a
# machine that has a GPU and its driver. Says how large it is. Before it:
#   bazel build -c opt --define=gpu=all //compute/device:gpu_device_test \
#     //compute/device:gpu_ring_test //compute/device:gpu_sum_test \
#     //compute/model:layers_gpu_test //compute/model:network_gpu_test \
#     //server/device:gpu_apply_test //bench/gpu //cli:paramd
# (--define=gpu=all: for each generation; without it, for Hopper and, more slowly
# started, for what came after Turing).
set -euo pipefail

if [ $# != 1 ]; then
  echo "usage: tests/gpu/pack.sh FOLDER" >&2
  exit 2
fi
here=$(dirname "${BASH_SOURCE[0]}")
root=${PARAMD_BIN:-$here/../../bazel-bin}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tests" "$work/bench" "$work/lib" "$work/gcc" "$1"
cp -f "$root"/compute/device/gpu_device_test \
  "$root"/compute/device/gpu_ring_test "$root"/compute/device/gpu_sum_test \
  "$root"/compute/model/layers_gpu_test "$root"/compute/model/network_gpu_test \
  "$root"/server/device/gpu_apply_test "$work/tests/"
cp -f "$root/bench/gpu/gpu" "$root/cli/paramd" "$work/bench/"
own='/(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^/]*)\.so'
for binary in "$work"/tests/* "$work"/bench/*; do
  ldd "$binary" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }'
done | sort -u | grep -vE "$own" |
  while read -r library; do cp -fL "$library" "$work/lib/"; done
# These of Debian 12 need its glibc, and what they are needed for does not.
mv "$work"/lib/libstdc++.so.* "$work"/lib/libgcc_s.so.* "$work/gcc/"
chmod -R u+w "$work"
strip -s "$work"/tests/* "$work"/bench/* "$work"/lib/* "$work"/gcc/*
# Nothing else of this machine is needed.
for binary in "$work"/tests/* "$work"/bench/*; do
  if LD_LIBRARY_PATH=$work/lib:$work/gcc ldd "$binary" | grep '=>' |
    grep -vE "$own|=> $work/(lib|gcc)/" >&2; then
    echo "$binary needs what is not packed" >&2
    exit 1
  fi
done
tar czf "$1/packed.tar.gz" -C "$work" tests bench lib gcc
cp -f "$here/run.sh" "$here/torch_layer.py" "$here/whole_steps.py" "$1/"
echo "$1 has $(($(wc -c <"$1/packed.tar.gz") >> 20)) MiB: carry it to a machine" \
  "with a GPU and run $1/run.sh RESULT.json there"
