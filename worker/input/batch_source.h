#ifndef PARAMD_WORKER_INPUT_BATCH_SOURCE_H_
#define PARAMD_WORKER_INPUT_BATCH_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"

#include "worker/input/batch.h"

namespace paramd {

// What a worker trains on: portions go in, batches come out, always the same
// ones for the same portions (see PortionQueue), whether they are assembled in
// the calling thread (DirectBatchSource) or ahead of time (Prefetcher).
//
//   source->Add({.epoch = 0, .begin = 0, .end = 512});
//   auto next = source->Next();
//   if (next->state == NextBatch::kBatch) {
//     Train(*next->batch);
//     source->Recycle(std::move(next->batch));
//   }
//
// Each implementation says whether it is thread-safe.
class BatchSource {
 public:
  struct Options {
    // Seed of the order of examples; without, they come in the data set's.
    absl::optional<uint64_t> seed = absl::nullopt;
    // Examples in one batch.
    uint64_t batch_size = 32;
    // Portions that may wait; more are refused.
    size_t max_portions = 1024;
    // Called once after Next has said kNotYet, when it would say something
    // else. Must only post: it may run inside Add or NoMore, or in another
    // thread, and must not call the source.
    std::function<void()> on_ready = nullptr;
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

  virtual ~BatchSource() = default;

  // Appends a portion. OUT_OF_RANGE if it is not a range of the data set;
  // RESOURCE_EXHAUSTED if max_portions wait; FAILED_PRECONDITION after NoMore.
  // Nothing is changed on error.
  virtual absl::Status Add(const Portion& portion) = 0;

  // No portion will be added any more.
  virtual void NoMore() = 0;

  // The next batch, without waiting for it. The data set's error if one can't
  // be read, after the batches before it, and at each call from then on.
  virtual absl::StatusOr<NextBatch> Next() = 0;

  // Gives a batch that is no longer used back, so that its memory is used
  // again.
  virtual void Recycle(std::unique_ptr<Batch> batch) = 0;

  // Examples that were added and not yet given: when to ask for more portions.
  virtual uint64_t examples_ahead() const = 0;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_INPUT_BATCH_SOURCE_H_
