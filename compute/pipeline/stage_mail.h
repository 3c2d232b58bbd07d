#ifndef PARAMD_COMPUTE_PIPELINE_STAGE_MAIL_H_
#define PARAMD_COMPUTE_PIPELINE_STAGE_MAIL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "base/mutex.h"
#include "compute/pipeline/schedule.h"
#include "tensor/buffer.h"

namespace paramd {

// Memory for what one stage hands to another, used again once nobody reads it.
// Not thread-safe: of the thread that writes; readers may drop theirs anywhere.
class BorderMemory {
 public:
  // A piece of `bytes`, which `*data` may be written to until it is handed on.
  Buffer Take(size_t bytes, std::byte** data);

 private:
  struct Piece {
    Buffer buffer;
    std::byte* data = nullptr;
  };
  std::vector<Piece> pieces_;
};

// What stages of one process hand each other: activations forward, gradients
// back. Nothing is copied. How much is under way follows from the schedule,
// whose stages keep no more micro-batches than they need.
//
// Thread-safe.
class StageMail {
 public:
  // What is sent: of which stage it is the output, or of whose input the
  // gradient; for which stage; of which micro-batch.
  struct Key {
    bool is_gradient = false;
    uint32_t from = 0;
    uint32_t to = 0;
    uint32_t micro_batch = 0;

    friend bool operator<(const Key& a, const Key& b) {
      return std::tie(a.is_gradient, a.from, a.to, a.micro_batch) <
             std::tie(b.is_gradient, b.from, b.to, b.micro_batch);
    }
  };

  // Of an operation that sends or receives.
  static Key KeyOf(const PipelineOp& op);

  // Nothing is under way.
  void Begin() ABSL_LOCKS_EXCLUDED(mutex_);
  // REQUIRES: it was not put since Begin.
  void Put(const Key& key, Buffer content) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Has(const Key& key) const ABSL_LOCKS_EXCLUDED(mutex_);
  // REQUIRES: Has(key).
  Buffer Take(const Key& key) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable Mutex mutex_;
  std::map<Key, Buffer> under_way_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_PIPELINE_STAGE_MAIL_H_
