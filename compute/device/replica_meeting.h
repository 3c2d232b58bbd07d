#ifndef PARAMD_COMPUTE_DEVICE_REPLICA_MEETING_H_
#define PARAMD_COMPUTE_DEVICE_REPLICA_MEETING_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"

#include "base/mutex.h"

namespace paramd {

// Where the replicas of one process, each on a thread of its own, wait for each
// other before they do something together that none may be missing from.
// Thread-safe.
class ReplicaMeeting {
 public:
  explicit ReplicaMeeting(size_t size) : size_(size) {}

  size_t size() const { return size_; }

  // Returns when all have come. OK if each came with OK: all go on, or none
  // does. Else the own error, or CANCELLED with the words of another's; and
  // CANCELLED after Abort.
  absl::Status Meet(const absl::Status& own) { return Meet(own, nullptr); }
  // The same, and all have what one of them brings then: `*shared` of the one
  // who comes with something.
  absl::Status Meet(const absl::Status& own, std::shared_ptr<void>* shared)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Nobody will come any more. Any number of times.
  void Abort() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // What those have brought who have come.
  struct Brought {
    absl::Status error;
    std::shared_ptr<void> shared;
  };

  const size_t size_;
  Mutex mutex_;
  CondVar changed_;
  size_t there_ ABSL_GUARDED_BY(mutex_) = 0;
  Brought coming_ ABSL_GUARDED_BY(mutex_);
  uint64_t meetings_ ABSL_GUARDED_BY(mutex_) = 0;
  // Of the last meeting: it stays until all have seen it.
  Brought last_ ABSL_GUARDED_BY(mutex_);
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
};

class DeviceRing;

// One replica's place among those of its process.
struct ReplicaGroup {
  std::shared_ptr<ReplicaMeeting> meeting;
  size_t rank = 0;
  // Gradients are summed together until they have so many bytes.
  uint64_t bucket_bytes = uint64_t{4} << 20;
  // Set: it is the only one here, and sums with those of other processes, which
  // have all come.
  std::shared_ptr<DeviceRing> ring = nullptr;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_REPLICA_MEETING_H_
