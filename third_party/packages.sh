# Sourced by quickstart.sh and test.sh: the packages of the distribution that
# paramd is built from, and how to install them. Expects the working folder to be
# the top of the tree.

# To build and run.
BUILD_PACKAGES=(
  bazel-bootstrap g++ protobuf-compiler python3
  libabsl-dev libcurl4-openssl-dev libdnnl-dev libgloo-dev libgrpc++-dev
  libjpeg-dev libonnx-dev libopenblas-dev libpng-dev libprotobuf-dev
  librdkafka-dev libspdlog-dev libssl-dev nlohmann-json3-dev prometheus-cpp-dev
  zlib1g-dev
)
# What the first run trains on.
DATA_PACKAGES=(dataset-fashion-mnist)
# Besides, to test.
TEST_PACKAGES=(
  ca-certificates iproute2 libgmock-dev libgtest-dev patch
  protobuf-compiler-grpc python3-grpcio python3-jsonschema python3-protobuf
  python3-venv
)
# Besides, to analyse.
CLANG_PACKAGES=(clang-14 clang-format-14 libclang-rt-14-dev)
# Besides, for tests that skip themselves without them: what renders the Helm chart,
# and what builds the image.
CHART_PACKAGES=(
  golang-github-masterminds-sprig-dev golang-go golang-k8s-sigs-yaml-dev
)
IMAGE_PACKAGES=(buildah debootstrap)

# Prints those of the packages named that are not installed.
missing_packages() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" \
      = installed ] || echo "$package"
  done
}

# Runs a command as root: as it is, or through sudo.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "installing packages needs root or sudo; to go on without: --no-install"
    return 1
  fi
}

# Installs the packages named, with what they depend on and nothing that is only
# recommended.
install_packages() {
  as_root apt-get update &&
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes \
      --no-install-recommends "$@"
}

# Prints "NUMBER DOWNLOAD DISK" of an installation of the packages named, the
# latter two in megabytes, or nothing if apt does not know them yet.
installation_size() {
  LC_ALL=C apt-get install --no-install-recommends --print-uris \
    -o Debug::NoLocking=1 "$@" 2>/dev/null | awk '
      function megabytes(number, unit) {
        gsub(",", "", number)
        if (unit == "GB") return number * 1000
        if (unit == "kB") return number / 1000
        return unit == "B" ? number / 1000000 : number
      }
      / newly installed, / { for (i = 2; i <= NF; i++)
                               if ($i == "newly") packages = $(i - 1) }
      # "Need to get 12 MB/34 MB of archives": the rest is there already.
      /^Need to get / { unit = $5; sub("/.*", "", unit)
                        download = megabytes($4, unit) }
      /^After this operation, / { disk = megabytes($4, $5) }
      END { if (packages) printf "%d %.0f %.0f\n", packages, download, disk }'
}

# Bazel with its outputs inside this folder, in .bazel; interrupted after
# $BAZEL_SECONDS, if that is set. It names one of its links after the folder, and
# a Bazel with other outputs would walk into it; so that link goes again.
bazel_here() {
  local code=0 limit=()
  if [ -n "${BAZEL_SECONDS:-}" ]; then
    limit=(timeout --foreground --signal=INT --kill-after=60 "$BAZEL_SECONDS")
  fi
  find . -maxdepth 1 -type l -name 'bazel-*' ! -lname "$PWD/.bazel/*" -delete
  "${limit[@]}" bazel --output_user_root="$PWD/.bazel" "$@" || code=$?
  rm -f "bazel-$(basename "$PWD")"
  return "$code"
}

# say_where SCRIPT LINE COMMAND: of a command that nobody expected to fail; for a
# trap on ERR.
say_where() {
  echo "$1: line $2 failed, and the script ends: $3" >&2
}

# Builds paramd into bazel-bin/cli/paramd, with more options of Bazel if there are
# some. It names its commit: $BUILD_COMMIT, or that of this folder where Git knows.
build_paramd() {
  local commit=${BUILD_COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || true)}
  bazel_here build --embed_label="$commit" "$@" //cli:paramd
}
