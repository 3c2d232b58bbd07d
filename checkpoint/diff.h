#ifndef PARAMD_CHECKPOINT_DIFF_H_
#define PARAMD_CHECKPOINT_DIFF_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "checkpoint/checkpoint_reader.h"

namespace paramd {

// What is different between two checkpoints, `a` and `b`.
struct CheckpointDifference {
  struct Named {
    std::string name;
    std::vector<uint64_t> shape;
  };
  struct Reshaped {
    std::string name;
    std::vector<uint64_t> shape_a;
    std::vector<uint64_t> shape_b;
  };
  struct Common {
    std::string name;
    std::vector<uint64_t> shape;
    uint64_t elements = 0;
    // Whose bits are different.
    uint64_t changed = 0;
    // That are infinite or not a number in a or b; they count for nothing
    // below.
    uint64_t not_finite = 0;
    double max_abs_difference = 0;
    // Euclidean.
    double norm_a = 0;
    double norm_b = 0;
    double norm_difference = 0;
  };

  std::vector<Named> only_in_a;
  std::vector<Named> only_in_b;
  std::vector<Reshaped> reshaped;
  std::vector<Common> common;

  // No number is different, and none is missing.
  bool same() const;
};

struct DiffOptions {
  bool slots = false;  // Compare the optimizer's slots too.
  // Told how many of the `total` bytes of both have been read.
  std::function<void(uint64_t bytes, uint64_t total)> progress = nullptr;
};

// Compares them by the names of variables (`w`) and slots (`w/slot:momentum`),
// in the order of a's manifest, then b's. Holds at most 4 MiB of numbers of
// each at a time. Reads both wholly. Fails as CheckpointReader's Read and
// Finish do.
absl::StatusOr<CheckpointDifference> DiffCheckpoints(
    CheckpointReader* a, CheckpointReader* b, const DiffOptions& options = {});

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_DIFF_H_
