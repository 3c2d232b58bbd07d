#!/bin/bash
# pack.sh FOLDER: copies the built GPU tests and benchmark, the shared libraries
# that they need (but those of glibc, of the driver and of CUDA) and run.sh into
# FOLDER, to be carried to a machine that has a GPU and its driver. Before it:
#   bazel build --define=gpu=all //worker/device:gpu_device_test \
#     //worker/device:gpu_sum_test //worker/model:layers_gpu_test \
#     //worker/model:network_gpu_test //bench/gpu
set -euo pipefail

if [ $# != 1 ]; then
  echo "usage: tests/gpu/pack.sh FOLDER" >&2
  exit 2
fi
here=$(dirname "${BASH_SOURCE[0]}")
root=${PARAMD_BIN:-$here/../../bazel-bin}
mkdir -p "$1/tests" "$1/bench" "$1/lib"
cp -f "$root"/worker/device/gpu_device_test "$root"/worker/device/gpu_sum_test \
  "$root"/worker/model/layers_gpu_test "$root"/worker/model/network_gpu_test \
  "$1/tests/"
cp -f "$root/bench/gpu/gpu" "$1/bench/"
cp -f "$here/run.sh" "$1/"
for binary in "$1"/tests/* "$1"/bench/*; do
  ldd "$binary" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }'
done | sort -u |
  grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so' |
  while read -r library; do cp -fL "$library" "$1/lib/"; done
echo "$1: carry it to a machine with a GPU and run $1/run.sh RESULT.json there"
