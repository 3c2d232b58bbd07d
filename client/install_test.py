"""The client library, installed in a folder, used by a program outside of the
tree while a job runs."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from tests.cluster.paramd import Cluster

INSTALLED = os.path.abspath("client/paramd_client")

WATCH = r"""
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <paramd/cluster.h>

template <typename T>
T Or(paramd::Cluster::Result<T> result) {
  if (result.ok()) return std::move(result.value);
  std::fprintf(stderr, "%d: %s\n", static_cast<int>(result.code),
               result.message.c_str());
  std::exit(1);
}

int main(int argc, char** argv) {
  paramd::Cluster::Options options;
  options.address = argv[1];
  if (argc > 2) options.run_dir = argv[2];
  const paramd::Cluster cluster(options);
  const auto variables = Or(cluster.Variables());
  auto later = cluster.PullAsync();
  for (const auto& tensor : Or(cluster.Pull({variables[0].name})).tensors) {
    std::printf("%s %zu\n", tensor.variable.name.c_str(), tensor.values.size());
  }
  std::printf("all %zu\n", Or(later.get()).tensors.size());
  Or(cluster.Set("staleness", "3"));
  std::printf("staleness %s\n", Or(cluster.GetStatus()).staleness.c_str());
  std::printf("%s\n", Or(cluster.Checkpoint()).path.c_str());
  return paramd::Cluster::LibraryVersion() == PARAMD_CLIENT_VERSION ? 0 : 1;
}
"""

CMAKE = """
cmake_minimum_required(VERSION 3.16)
project(watch CXX)
find_package(PkgConfig REQUIRED)
pkg_check_modules(PARAMD REQUIRED IMPORTED_TARGET paramd_client)
add_executable(watch watch.cc)
target_compile_features(watch PRIVATE cxx_std_17)
target_link_libraries(watch PRIVATE PkgConfig::PARAMD)
"""


def has(*programs):
    return all(shutil.which(program) for program in programs)


@unittest.skipUnless(has("g++", "pkg-config"), "needs g++ and pkg-config")
class InstallTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        # Not where it was built.
        self.home = self.directory / "some where"
        shutil.copytree(INSTALLED, self.home)
        (self.directory / "watch.cc").write_text(WATCH)

    def run_here(self, *command):
        run = subprocess.run(
            command, cwd=self.directory, capture_output=True, text=True,
            check=False, env={**os.environ, "PKG_CONFIG_PATH":
                              str(self.home / "lib" / "pkgconfig")})
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run.stdout

    def flags(self, *arguments):
        # Spaces in it are escaped as a shell has them.
        return subprocess.run(
            ["sh", "-c", 'eval "printf \'%s\\n\' $(pkg-config "$@" paramd_client)"',
             "sh", *arguments], capture_output=True, text=True, check=True,
            env={**os.environ, "PKG_CONFIG_PATH":
                 str(self.home / "lib" / "pkgconfig")}).stdout.splitlines()

    def check_on_a_running_job(self, program):
        cluster = Cluster(servers=2, workers=1)
        runs = [cluster.start(task, "--epochs=1000000") for task in cluster.tasks]
        for run in runs:
            self.addCleanup(run.kill)
        runs[-1].wait_for("worker-0 joined")
        said = self.run_here(program, cluster.address("ps-1"),
                             cluster.run_directory).splitlines()
        name, size = said[0].split()
        self.assertEqual(int(size), {"dense_1/kernel": 160, "dense_1/bias": 10}[name])
        self.assertEqual(said[1:3], ["all 2", "staleness 3"])
        self.assertTrue(os.path.isdir(
            os.path.join(cluster.directory, said[3])), said)

    def check_without_a_job(self, program):
        run = subprocess.run([program, "127.0.0.1:1"], cwd=self.directory,
                             capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertEqual(run.stderr, "14: the process at '127.0.0.1:1' can't be "
                                     "reached: refused\n")

    def test_the_shared_library(self):
        self.run_here("g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "watch.cc",
                      *self.flags("--cflags", "--libs"),
                      f"-Wl,-rpath,{self.home}/lib", "-o", "watch")
        needed = self.run_here("readelf", "-d", "watch")
        self.assertIn("libparamd_client.so.0", needed)
        self.assertNotIn("grpc", needed)
        self.check_on_a_running_job("./watch")
        self.check_without_a_job("./watch")

    def test_the_static_library(self):
        for path in (self.home / "lib").glob("*.so*"):
            path.unlink()
        self.run_here("g++", "-std=c++17", "watch.cc",
                      *self.flags("--cflags", "--libs", "--static"), "-o", "watch")
        self.assertNotIn("paramd_client", self.run_here("readelf", "-d", "watch"))
        self.check_on_a_running_job("./watch")

    @unittest.skipUnless(has("cmake", "make"), "needs CMake and make")
    def test_with_cmake(self):
        (self.directory / "CMakeLists.txt").write_text(CMAKE)
        self.run_here("cmake", "-B", "build")
        self.run_here("cmake", "--build", "build")
        self.assertIn("libparamd_client.so.0",
                      self.run_here("ldd", "build/watch"))

    def test_the_shared_library_exports_the_cluster_alone(self):
        names = self.run_here("nm", "-DC", "--defined-only",
                              str(self.home / "lib" / "libparamd_client.so.0"))
        # Of the standard library ld keeps what gRPC's libraries name too.
        strangers = [line for line in names.splitlines()
                     if "paramd::Cluster" not in line and " W std::" not in line]
        self.assertEqual(strangers, [])


if __name__ == "__main__":
    unittest.main()
