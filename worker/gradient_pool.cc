#include "worker/gradient_pool.h"

#include <algorithm>

namespace paramd {

GradientPool::Set GradientPool::Take(absl::Span<const uint64_t> fresh) {
  auto free = std::find_if(
      sets_.begin(), sets_.end(), [](const std::vector<Buffer>& set) {
        return std::all_of(set.begin(), set.end(),
                           [](const Buffer& b) {
                             return b.empty() || b.unique();
                           });
      });
  if (free == sets_.end()) {
    if (sets_.size() == kKept) sets_.erase(sets_.begin());
    std::vector<Buffer> made;
    for (const uint64_t bytes : bytes_) made.push_back(Buffer::Allocate(bytes));
    free = sets_.insert(sets_.end(), std::move(made));
  }
  Set set;
  for (size_t v = 0; v < free->size(); ++v) {
    Buffer own = v < fresh.size() && fresh[v] > 0 ? Buffer::Allocate(fresh[v])
                                                  : Buffer();
    Buffer& buffer = own.empty() ? (*free)[v] : own;
    absl::Span<std::byte> bytes;
    if (!buffer.empty()) bytes = buffer.mutable_bytes();
    set.mutables.push_back({reinterpret_cast<float*>(bytes.data()),
                            bytes.size() / sizeof(float)});
    set.buffers.push_back(buffer);
  }
  return set;
}

}  // namespace paramd
