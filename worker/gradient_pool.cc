#include "worker/gradient_pool.h"

#include <algorithm>

namespace paramd {

GradientPool::Set GradientPool::Take() {
  auto free = std::find_if(
      sets_.begin(), sets_.end(), [](const std::vector<Buffer>& set) {
        return std::all_of(set.begin(), set.end(),
                           [](const Buffer& b) { return b.unique(); });
      });
  if (free == sets_.end()) {
    if (sets_.size() == kKept) sets_.erase(sets_.begin());
    std::vector<Buffer> made;
    for (const uint64_t bytes : bytes_) made.push_back(Buffer::Allocate(bytes));
    free = sets_.insert(sets_.end(), std::move(made));
  }
  Set set;
  for (Buffer& buffer : *free) {
    const absl::Span<std::byte> bytes = buffer.mutable_bytes();
    set.mutables.push_back({reinterpret_cast<float*>(bytes.data()),
                            bytes.size() / sizeof(float)});
    set.buffers.push_back(buffer);
  }
  return set;
}

}  // namespace paramd
