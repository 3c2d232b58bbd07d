#include "checkpoint/read_buffers.h"

#include <algorithm>
#include <utility>

namespace paramd {
namespace {

// What malloc does not ask the kernel for each time.
constexpr size_t kLeastBytes = size_t{64} << 10;

}  // namespace

Buffer ReadBuffers::Take(size_t size) {
  const auto spare =
      std::find_if(kept_.begin(), kept_.end(), [size](const Buffer& piece) {
        return piece.size() == size && piece.unique();
      });
  if (spare == kept_.end()) return Buffer::Allocate(size);
  Buffer taken = std::move(*spare);
  kept_.erase(spare);
  bytes_ -= size;
  return taken;
}

void ReadBuffers::Keep(const Buffer& piece) {
  if (piece.size() < kLeastBytes) return;
  kept_.push_back(piece);
  bytes_ += piece.size();
  while (bytes_ > most_bytes_) {
    bytes_ -= kept_.front().size();
    kept_.pop_front();
  }
}

}  // namespace paramd
