#ifndef PARAMD_WORKER_GRADIENT_POOL_H_
#define PARAMD_WORKER_GRADIENT_POOL_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"

#include "tensor/buffer.h"
#include "tensor/buffer_arena.h"
#include "tensor/unified_memory.h"

namespace paramd {

// Gradient buffers that are used again once nobody holds them: a slice of one
// may be on its way to a server long after its call was answered, so it is the
// reference count that says when it is free, never the call.
//
// Not thread-safe: one thread takes; references may be dropped anywhere.
class GradientPool {
 public:
  // Bytes of each variable's gradient; 0 where each step has another size.
  // `device` and `pinned`, which outlive it, may be null.
  explicit GradientPool(std::vector<uint64_t> bytes,
                        UnifiedMemory* device = nullptr,
                        BufferArena* pinned = nullptr)
      : bytes_(std::move(bytes)), device_(device), pinned_(pinned) {}

  // One unique buffer a variable, content not initialised. The pool keeps a
  // reference, so the caller's are not unique; it writes through `mutables`.
  struct Set {
    std::vector<Buffer> buffers;
    std::vector<absl::Span<float>> mutables;
  };
  // `fresh`: bytes of gradients that lie in memory of their own, by variable; 0
  // or none: in that of the pool. `on_device`: the pool's lies in the device's
  // memory, else in the pinned one, as far as there is some.
  Set Take(absl::Span<const uint64_t> fresh = {}, bool on_device = false);

 private:
  // More sets than are ever under way at once: computed, waiting, pushed.
  static constexpr size_t kKept = 4;

  std::vector<Buffer> Make(bool on_device) const;

  const std::vector<uint64_t> bytes_;
  UnifiedMemory* const device_;
  BufferArena* const pinned_;
  std::vector<std::vector<Buffer>> sets_;
  std::vector<std::vector<Buffer>> sets_on_device_;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_GRADIENT_POOL_H_
