#ifndef PARAMD_INPUT_PREFETCHER_H_
#define PARAMD_INPUT_PREFETCHER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/mutex.h"
#include "base/time.h"
#include "input/pipeline.h"
#include "input/portion_queue.h"
#include "input/thread_tuner.h"

namespace paramd {

// What a worker trains on: portions go in, batches come out, always the same
// ones for the same portions (see PortionQueue), whatever the threads. Makes
// the next batches on threads of its own that share the examples of a batch, in
// buffers that are used again.
//
//   prefetcher.Add({.epoch = 0, .begin = 0, .end = 512});
//   auto next = prefetcher.Next();
//   if (next->state == Prefetcher::NextBatch::kBatch) {
//     Train(*next->batch);
//     prefetcher.Recycle(std::move(next->batch));
//   }
//
// Thread-safe, so that the training loop and whoever brings portions need not
// be one thread. The pipeline must outlive it. The destructor ends the threads
// after the examples they are at, and drops what was not taken.
class Prefetcher {
 public:
  struct Options {
    // Examples in one batch.
    uint64_t batch_size = 32;
    // Portions that may wait; more are refused.
    size_t max_portions = 1024;
    // Threads; 0: as many as help, of most_threads.
    uint32_t threads = 1;
    uint32_t most_threads = 64;
    // Batches to make ahead; 0: what the pipeline says.
    uint32_t depth = 0;
    // Bounds the batches and, if threads is 0, the threads.
    uint64_t memory_bytes = uint64_t{512} << 20;
    // Called once after Next has said kNotYet, when it would say something
    // else. Must only post: it runs on a thread of the Prefetcher, without a
    // lock held, and must not call it.
    std::function<void()> on_ready = nullptr;
    // Hears of each batch when it is made, well before it is taken. As
    // on_ready.
    std::function<void(const Batch&)> on_made = nullptr;
  };

  struct NextBatch {
    enum State {
      kBatch,   // `batch` is the next one.
      kNotYet,  // None is ready; on_ready will be called.
      kEnd      // All batches were given, and NoMore was called.
    };
    State state = kNotYet;
    std::unique_ptr<Batch> batch;
  };

  // What happened until now.
  struct Figures {
    uint32_t threads = 0;  // At work now.
    uint32_t depth = 0;
    uint64_t batches = 0;        // Taken.
    uint64_t batches_ready = 0;  // Summed over the moments of taking.
    uint64_t ready_now = 0;
    uint64_t waits = 0;      // Takes that found no batch.
    absl::Duration waited;   // In WaitForNext,
    absl::Duration elapsed;  // since its first call.
    absl::Duration busy;     // Summed over threads.
    absl::Duration idle;     // Of those at work: no room or no portion.
  };

  Prefetcher(const Pipeline& pipeline, Options options);
  ~Prefetcher();

  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Appends a portion. OUT_OF_RANGE if it is not a range of the pipeline's;
  // RESOURCE_EXHAUSTED if max_portions wait; FAILED_PRECONDITION after NoMore.
  // Nothing is changed on error.
  absl::Status Add(const Portion& portion);

  // No portion will be added any more.
  void NoMore();

  // The next batch, without waiting for it. The pipeline's error if one can't
  // be made, after the batches before it, and at each call from then on.
  absl::StatusOr<NextBatch> Next();

  // As Next, but waits for a batch or the end: never kNotYet.
  // DEADLINE_EXCEEDED, naming what the threads are waiting for, if neither came
  // within `timeout`.
  absl::StatusOr<NextBatch> WaitForNext(absl::Duration timeout);

  // The batch that so many others are taken before, if it is made; it stays
  // until then. Null: it is not.
  const Batch* Peek(size_t ahead) const;

  // Gives a batch that is no longer used back, so that its memory is used
  // again.
  void Recycle(std::unique_ptr<Batch> batch);

  // Examples that were added and not yet given: when to ask for more portions.
  uint64_t examples_ahead() const;

  // What the threads are doing or waiting for, in words.
  std::string activity() const;

  Figures figures() const;

 private:
  // A batch that is being made, or waits to be taken.
  struct Slot;
  // Examples [begin, end) of a slot: a thread's next work.
  struct Work {
    Slot* slot = nullptr;  // Null: none.
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  // What happened since the number of threads was last looked at.
  struct Window {
    Time begin;
    uint64_t works = 0;
    uint64_t examples = 0;
    uint64_t batches = 0;  // Made.
    uint64_t waits = 0;
  };

  void Run(uint32_t thread);
  Work TakeWorkLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Slot* OpenSlotLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Do(const Work& work) ABSL_LOCKS_EXCLUDED(mutex_);
  bool FrontIsDoneLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t ReadyLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A batch could not be made; no slot is opened any more.
  bool FailedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool EndedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<NextBatch> TakeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string ActivityLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TuneLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SpawnLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Pipeline& pipeline_;
  const Options options_;
  const uint32_t depth_;

  mutable Mutex mutex_;
  CondVar work_;    // A portion, room, NoMore or the stop came.
  CondVar parked_;  // Of threads too many: their number or the stop changed.
  CondVar ready_changed_;
  PortionQueue queue_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Slot>> slots_
      ABSL_GUARDED_BY(mutex_);  // In order.
  std::vector<std::unique_ptr<Slot>> spares_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Batch>> spare_batches_ ABSL_GUARDED_BY(mutex_);
  uint64_t examples_ahead_ ABSL_GUARDED_BY(mutex_) = 0;
  bool awaited_ ABSL_GUARDED_BY(mutex_) = false;  // Next has said kNotYet.
  bool waiting_ ABSL_GUARDED_BY(mutex_) = false;  // WaitForNext.
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  Figures figures_ ABSL_GUARDED_BY(mutex_);  // Without the state of now.
  absl::optional<Time> first_wait_ ABSL_GUARDED_BY(mutex_);

  ThreadTuner tuner_ ABSL_GUARDED_BY(mutex_);
  Window window_ ABSL_GUARDED_BY(mutex_);

  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paramd

#endif  // PARAMD_INPUT_PREFETCHER_H_
