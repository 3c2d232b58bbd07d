#ifndef PARAMD_WORKER_COLLECTIVE_BUCKETED_SUM_H_
#define PARAMD_WORKER_COLLECTIVE_BUCKETED_SUM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "base/mutex.h"
#include "base/worker_thread.h"
#include "worker/collective/collective.h"

namespace paramd {

// The gradients of a step on their way to their sums over all members, while
// the layers before them are still computed.
//
// Variables go in buckets, from the last to the first, which is the order in
// which a backward pass has them: as many as have `bucket_bytes` together, at
// least one. A bucket is one reduction; what it has of several variables is
// copied together for it. Buckets are the same on all members, and so is their
// order, whatever becomes ready first.
//
// Thread-safety: Ready on any thread between Begin and End, the others on one.
class BucketedSum {
 public:
  // `elements`: of each variable's gradient.
  BucketedSum(std::vector<uint64_t> elements, uint64_t bucket_bytes);

  // `gradients` and `collective` outlive End.
  void Begin(absl::Span<const absl::Span<float>> gradients,
             Collective* collective);
  // Once for each variable; what is not said to be ready is at End.
  void Ready(size_t variable) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until all gradients are sums. The error of the first reduction that
  // failed; then they hold anything.
  absl::Status End() ABSL_LOCKS_EXCLUDED(mutex_);

  size_t buckets() const { return buckets_.size(); }

 private:
  struct Bucket {
    std::vector<size_t> variables;
    uint64_t elements = 0;
    size_t missing = 0;  // Variables that are not ready.
  };

  // Has the buckets that may go reduced, in order.
  void StartLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReadyLocked(size_t variable) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Reduce(const Bucket& bucket);

  std::vector<size_t> bucket_of_;  // By variable.
  absl::Span<const absl::Span<float>> gradients_;
  Collective* collective_ = nullptr;
  std::vector<float> together_;  // Of the reducing thread.

  Mutex mutex_;
  CondVar changed_;
  std::vector<Bucket> buckets_;  // What is missing: by mutex_.
  std::vector<char> ready_ ABSL_GUARDED_BY(mutex_);
  size_t started_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t ended_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  WorkerThread reducing_;  // Last: ends before what it uses.
};

}  // namespace paramd

#endif  // PARAMD_WORKER_COLLECTIVE_BUCKETED_SUM_H_
