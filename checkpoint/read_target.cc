#include "checkpoint/read_target.h"

#include <algorithm>
#include <utility>

namespace paramd {
namespace {

constexpr uint64_t kMostBufferBytes = uint64_t{4} << 20;

}  // namespace

absl::Span<std::byte> ChainTarget::Next(uint64_t most) {
  Buffer piece = buffers_->Take(std::min(most, kMostBufferBytes));
  const absl::Span<std::byte> memory = piece.mutable_bytes();
  buffers_->Keep(piece);
  chain_->push_back(std::move(piece));
  return memory;
}

}  // namespace paramd
