#ifndef PARAMD_WORKER_INPUT_BATCH_ASSEMBLER_H_
#define PARAMD_WORKER_INPUT_BATCH_ASSEMBLER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"

#include "worker/input/batch.h"
#include "worker/input/dataset.h"

namespace paramd {

// Puts the examples of a range of an epoch's order into a batch. What it gives
// depends on (seed, range) alone; it remembers the order of the last epoch
// only to save time.
//
// Not thread-safe. The data set must outlive it.
class BatchAssembler {
 public:
  // With a seed, examples come in the order of ExampleOrder; without, in that
  // of the data set, in every epoch (for evaluation).
  BatchAssembler(const Dataset& dataset, absl::optional<uint64_t> seed);

  // OUT_OF_RANGE, naming the portion and the size, unless it is a range of at
  // least one example within the data set.
  absl::Status Check(const Portion& range) const;

  // Overwrites `batch` with the examples of `range`; its memory is reused. The
  // data set's error if it can't be read; the batch is then unspecified.
  // REQUIRES: Check(range) is OK.
  absl::Status Assemble(const Portion& range, Batch* batch);

 private:
  void LoadOrder(uint64_t epoch);

  const Dataset& dataset_;
  const absl::optional<uint64_t> seed_;
  absl::optional<uint64_t> epoch_;
  std::vector<uint32_t> order_;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_INPUT_BATCH_ASSEMBLER_H_
