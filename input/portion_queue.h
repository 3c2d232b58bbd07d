#ifndef PARAMD_INPUT_PORTION_QUEUE_H_
#define PARAMD_INPUT_PORTION_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"

#include "input/batch.h"

namespace paramd {

// The portions given to a worker, cut into the ranges of its batches: in the
// order of the portions, each from its begin to its end, batch_size examples at
// a time, the last of a portion perhaps fewer. No batch spans two portions.
//
// Not thread-safe.
class PortionQueue {
 public:
  // REQUIRES: both are above 0.
  PortionQueue(uint64_t batch_size, size_t max_portions);

  // RESOURCE_EXHAUSTED if max_portions are already waiting;
  // FAILED_PRECONDITION after NoMore. The queue is then unchanged.
  // REQUIRES: the portion is not empty.
  absl::Status Add(const Portion& portion);

  // No portion will be added any more. Again: no effect.
  void NoMore() { no_more_ = true; }

  // Removes the next batch's range and returns it; nullopt if there is none.
  absl::optional<Portion> Take();

  // Nothing is left, and nothing will come.
  bool ended() const { return no_more_ && portions_.empty(); }

  // Examples added and not taken.
  uint64_t examples() const { return examples_; }

 private:
  const uint64_t batch_size_;
  const size_t max_portions_;
  std::vector<Portion> portions_;  // What is left of each; never empty ones.
  uint64_t examples_ = 0;
  bool no_more_ = false;
};

}  // namespace paramd

#endif  // PARAMD_INPUT_PORTION_QUEUE_H_
