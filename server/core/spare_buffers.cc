#include "server/core/spare_buffers.h"

#include <utility>

namespace paramd {

Buffer SpareBuffers::Take(size_t size) {
  for (auto it = buffers_.begin(); it != buffers_.end(); ++it) {
    if (it->size() != size || !it->unique()) continue;
    Buffer taken = std::move(*it);
    buffers_.erase(it);
    return taken;
  }
  return Buffer::Allocate(size);
}

void SpareBuffers::Give(Buffer replaced) {
  if (most_ == 0) return;
  if (buffers_.size() == most_) buffers_.pop_front();
  buffers_.push_back(std::move(replaced));
}

}  // namespace paramd
