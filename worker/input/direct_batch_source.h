#ifndef PARAMD_WORKER_INPUT_DIRECT_BATCH_SOURCE_H_
#define PARAMD_WORKER_INPUT_DIRECT_BATCH_SOURCE_H_

#include <memory>

#include "worker/input/batch_assembler.h"
#include "worker/input/batch_source.h"
#include "worker/input/portion_queue.h"

namespace paramd {

// Assembles a batch when it is asked for, in the calling thread: for training
// in one process, for evaluation and for the simulator. After a kNotYet,
// on_ready is called by the Add or NoMore that ends it.
//
// Not thread-safe. The data set must outlive it.
class DirectBatchSource : public BatchSource {
 public:
  DirectBatchSource(const Dataset& dataset, Options options);

  absl::Status Add(const Portion& portion) override;
  void NoMore() override;
  absl::StatusOr<NextBatch> Next() override;
  void Recycle(std::unique_ptr<Batch> batch) override;
  uint64_t examples_ahead() const override { return queue_.examples(); }

 private:
  void NotifyIfAwaited();

  const Options options_;
  BatchAssembler assembler_;
  PortionQueue queue_;
  absl::Status status_;
  std::unique_ptr<Batch> spare_;
  bool awaited_ = false;  // Next said kNotYet, and on_ready was not yet called.
};

}  // namespace paramd

#endif  // PARAMD_WORKER_INPUT_DIRECT_BATCH_SOURCE_H_
