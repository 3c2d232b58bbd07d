#ifndef PARAMD_TENSOR_TESTING_FAKE_UNIFIED_MEMORY_H_
#define PARAMD_TENSOR_TESTING_FAKE_UNIFIED_MEMORY_H_

#include <cstddef>
#include <cstring>
#include <vector>

#include "absl/types/span.h"

#include "tensor/buffer.h"
#include "tensor/unified_memory.h"

namespace paramd {
namespace testing {

// Ordinary memory, which counts what it is asked for and takes nothing back.
class FakeUnifiedMemory : public UnifiedMemory {
 public:
  explicit FakeUnifiedMemory(size_t bytes) : memory_(bytes) {}

  Buffer Allocate(size_t size) override {
    if (size > memory_.size() - used_) return Buffer();
    const auto piece = absl::MakeSpan(memory_).subspan(used_, size);
    used_ += (size + kPage - 1) / kPage * kPage;
    return Buffer::Writable(
        piece, [](void* /*context*/) {}, nullptr);
  }
  bool Has(absl::Span<const std::byte> bytes) const override {
    return bytes.data() >= memory_.data() &&
           bytes.data() + bytes.size() <= memory_.data() + memory_.size();
  }
  void Copy(absl::Span<const std::byte> from, std::byte* to) override {
    copied_bytes += from.size();
    std::memcpy(to, from.data(), from.size());
  }
  void Fetch(absl::Span<const std::byte> bytes) override {
    fetched_bytes += bytes.size();
  }

  size_t copied_bytes = 0;
  size_t fetched_bytes = 0;

 private:
  static constexpr size_t kPage = 64;

  std::vector<std::byte> memory_;
  size_t used_ = 0;
};

}  // namespace testing
}  // namespace paramd

#endif  // PARAMD_TENSOR_TESTING_FAKE_UNIFIED_MEMORY_H_
