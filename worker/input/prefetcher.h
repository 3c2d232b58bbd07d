#ifndef PARAMD_WORKER_INPUT_PREFETCHER_H_
#define PARAMD_WORKER_INPUT_PREFETCHER_H_

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

#include "base/mutex.h"
#include "worker/input/batch_assembler.h"
#include "worker/input/batch_source.h"
#include "worker/input/portion_queue.h"

namespace paramd {

// Assembles the next `depth` batches on a thread of its own, in buffers that
// are used again. Gives the same batches as a DirectBatchSource.
//
// Thread-safe, so that the training loop and whoever brings portions need not
// be one thread. on_ready runs on the prefetch thread, without a lock held.
// The data set must outlive it. The destructor ends the thread after the batch
// it is at, and drops what was not taken.
class Prefetcher : public BatchSource {
 public:
  // REQUIRES: depth > 0.
  Prefetcher(const Dataset& dataset, Options options, size_t depth = 4);
  ~Prefetcher() override;

  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  absl::Status Add(const Portion& portion) override;
  void NoMore() override;
  absl::StatusOr<NextBatch> Next() override;
  void Recycle(std::unique_ptr<Batch> batch) override;
  uint64_t examples_ahead() const override;

  // As Next, but waits for a batch or the end: never kNotYet.
  // DEADLINE_EXCEEDED, naming what the prefetch thread is waiting for, if
  // neither came within `timeout`.
  absl::StatusOr<NextBatch> WaitForNext(absl::Duration timeout);

  // What the prefetch thread is doing or waiting for, in words.
  std::string activity() const;

 private:
  void Run();
  // Waits until there is something to assemble, then returns its range. Nullopt
  // once the source ends.
  absl::optional<Portion> WaitForWorkLocked()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool EndedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<NextBatch> TakeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string ActivityLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::unique_ptr<Batch> TakeSpareLocked()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Wakes whoever waits in WaitForNext. True if on_ready is to be called, once
  // the lock is released.
  bool PublishLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const size_t depth_;
  BatchAssembler assembler_;  // The prefetch thread's; Check is for all.

  mutable Mutex mutex_;
  CondVar work_;  // A portion, room in `ready_`, NoMore or the stop came.
  CondVar ready_changed_;
  PortionQueue queue_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::unique_ptr<Batch>> ready_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Batch>> spares_ ABSL_GUARDED_BY(mutex_);
  absl::optional<Portion> assembling_ ABSL_GUARDED_BY(mutex_);
  uint64_t examples_ahead_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool awaited_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // Last: begins when all else is there.
};

}  // namespace paramd

#endif  // PARAMD_WORKER_INPUT_PREFETCHER_H_
