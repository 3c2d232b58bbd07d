#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "checkpoint/testing/sample.h"

// write_sample DIRECTORY [increment]: commits a checkpoint of known numbers
// there, by three servers in slices of at most 4 MiB, and prints its path;
// then, if wanted, one after it with files that have it as base and the second
// block of each slice instead.
int main(int argc, char** argv) {
  using paramd::testing::SampleVariable;
  if (argc < 2 || argc > 3) return 2;
  const std::vector<paramd::v1::Variable> variables = {
      // 5 MiB: in parts.
      SampleVariable("embedding/kernel", {1280, 1024}),
      // One row is over 4 MiB.
      SampleVariable("wide", {2, 1100000}),
      SampleVariable("layer \"ü\"/bias", {10}), SampleVariable("scale", {})};
  auto path = paramd::testing::CommitSample(argv[1], variables, {"momentum"}, 1,
                                            5, 9370, 3, size_t{4} << 20);
  if (path.ok()) std::puts(path->c_str());
  if (path.ok() && argc == 3) {
    path = paramd::testing::CommitIncrement(
        *path, [](const auto&, uint64_t block) { return block == 1; });
    if (path.ok()) std::puts(path->c_str());
  }
  if (path.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(path.status().message()).c_str());
  return 1;
}
