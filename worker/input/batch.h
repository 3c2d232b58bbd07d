#ifndef PARAMD_WORKER_INPUT_BATCH_H_
#define PARAMD_WORKER_INPUT_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paramd {

// What every example of a data set looks like.
struct InputSpec {
  // Shape of one example, e.g. {28, 28}.
  std::vector<uint64_t> example_shape;
  // Labels are below this.
  uint32_t classes = 0;

  // Number of values of one example.
  uint64_t example_size() const {
    uint64_t size = 1;
    for (const uint64_t dimension : example_shape) size *= dimension;
    return size;
  }
};

// A range of offsets into the order of one epoch's examples: [begin, end).
struct Portion {
  uint64_t epoch = 0;
  uint64_t begin = 0;
  uint64_t end = 0;

  uint64_t size() const { return end - begin; }
  bool operator==(const Portion&) const = default;
};

// The examples of one step, and where in the input they stand.
struct Batch {
  // The offsets that the batch holds.
  Portion range;
  // One row of example_size() values per example, each in [0, 1].
  std::vector<float> examples;
  // One label per example.
  std::vector<uint32_t> labels;

  size_t size() const { return labels.size(); }
};

}  // namespace paramd

#endif  // PARAMD_WORKER_INPUT_BATCH_H_
