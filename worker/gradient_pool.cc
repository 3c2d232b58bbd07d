#include "worker/gradient_pool.h"

#include <algorithm>

namespace paramd {

std::vector<Buffer> GradientPool::Make(bool on_device) const {
  std::vector<Buffer> made;
  for (const uint64_t bytes : bytes_) {
    Buffer memory;
    if (on_device) {
      memory = device_->Allocate(bytes);
    } else if (pinned_ != nullptr) {
      memory = pinned_->Allocate(bytes);
    }
    made.push_back(memory.empty() ? Buffer::Allocate(bytes)
                                  : std::move(memory));
  }
  return made;
}

GradientPool::Set GradientPool::Take(absl::Span<const uint64_t> fresh,
                                     bool on_device) {
  on_device = on_device && device_ != nullptr;
  std::vector<std::vector<Buffer>>& sets = on_device ? sets_on_device_ : sets_;
  auto free = std::find_if(
      sets.begin(), sets.end(), [](const std::vector<Buffer>& set) {
        return std::all_of(set.begin(), set.end(), [](const Buffer& b) {
          return b.empty() || b.unique();
        });
      });
  if (free == sets.end()) {
    if (sets.size() == kKept) sets.erase(sets.begin());
    free = sets.insert(sets.end(), Make(on_device));
  }
  Set set;
  for (size_t v = 0; v < free->size(); ++v) {
    Buffer own = v < fresh.size() && fresh[v] > 0 ? Buffer::Allocate(fresh[v])
                                                  : Buffer();
    Buffer& buffer = own.empty() ? (*free)[v] : own;
    absl::Span<std::byte> bytes;
    if (!buffer.empty()) bytes = buffer.mutable_bytes();
    set.mutables.push_back(
        {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)});
    set.buffers.push_back(buffer);
  }
  return set;
}

}  // namespace paramd
