#ifndef PARAMD_TENSOR_UNIFIED_MEMORY_H_
#define PARAMD_TENSOR_UNIFIED_MEMORY_H_

#include <cstddef>

#include "absl/types/span.h"

#include "tensor/buffer.h"

namespace paramd {

// Memory of a device that the processor addresses, too. Who reads or writes it
// need not know: pages move to whoever touches them. That is slow, so what is
// done with all of it, again and again, is left to the device.
//
// Thread-safe. Outlives nothing: buffers may be dropped after it.
class UnifiedMemory {
 public:
  virtual ~UnifiedMemory() = default;

  // `size` bytes that nobody else holds, of undefined content, at the beginning
  // of a page; empty if there is no room.
  virtual Buffer Allocate(size_t size) = 0;
  // Whether all of these bytes lie there.
  virtual bool Has(absl::Span<const std::byte> bytes) const = 0;
  // Copies on the device; has ended when it returns. REQUIRES: both lie there.
  virtual void Copy(absl::Span<const std::byte> from, std::byte* to) = 0;
  // The host is going to read all of these, which nobody writes meanwhile: has
  // their pages come at once. REQUIRES: they lie there.
  virtual void Fetch(absl::Span<const std::byte> bytes) = 0;
};

}  // namespace paramd

#endif  // PARAMD_TENSOR_UNIFIED_MEMORY_H_
