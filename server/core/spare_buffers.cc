#include "server/core/spare_buffers.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>

namespace paramd {
namespace {

// At each end. While a snapshot reads thousands, looking at each would cost more
// than a fresh one; the oldest it has mostly done with.
constexpr size_t kMostLookedAt = 32;

}  // namespace

Buffer SpareBuffers::Take(size_t size, const DiskRanges* on_disk) {
  const Kind kind = KindOf(size, on_disk);
  const auto spares = spares_.find(kind);
  if (spares == spares_.end()) return Allocate(kind);
  std::deque<Spare>& of_size = spares->second;
  const auto is_free = [](const Spare& spare) { return spare.buffer.unique(); };
  const auto looked_at = static_cast<std::ptrdiff_t>(
      std::min(of_size.size(), kMostLookedAt));
  auto taken = of_size.end();
  const auto newest = std::find_if(of_size.rbegin(),
                                   of_size.rbegin() + looked_at, is_free);
  if (newest != of_size.rbegin() + looked_at) {
    taken = std::next(newest).base();
  } else {
    const auto end = of_size.begin() + looked_at;
    const auto oldest = std::find_if(of_size.begin(), end, is_free);
    if (oldest == end) return Allocate(kind);
    taken = oldest;
  }
  Buffer buffer = std::move(taken->buffer);
  of_size.erase(taken);
  --count_;
  bytes_ -= size;
  return buffer;
}

void SpareBuffers::Give(Buffer replaced, const DiskRanges* on_disk) {
  if (replaced.empty()) return;
  ++count_;
  bytes_ += replaced.size();
  drop_at_ = std::min(drop_at_, now_ + kKept);
  spares_[KindOf(replaced.size(), on_disk)].push_back(
      {std::move(replaced), now_});
}

void SpareBuffers::Clear() {
  spares_.clear();
  count_ = 0;
  bytes_ = 0;
  drop_at_ = Time::Never();
}

void SpareBuffers::Tick(Time now) {
  now_ = now;
  if (now < drop_at_) return;
  drop_at_ = Time::Never();
  for (auto& [kind, of_kind] : spares_) {
    while (!of_kind.empty() && of_kind.front().given + kKept <= now) {
      of_kind.pop_front();
      --count_;
      bytes_ -= kind.first;
    }
    if (of_kind.empty()) continue;
    drop_at_ = std::min(drop_at_, of_kind.front().given + kKept);
  }
}

Buffer SpareBuffers::Allocate(const Kind& kind) {
  const auto& [size, on_disk] = kind;
  if (on_disk == nullptr) return AllocateInMemory(size);
  std::shared_ptr<DiskMemory::Mapping> mapping =
      disk_ != nullptr && budget_ != nullptr ? disk_->Map(size, *on_disk)
                                             : nullptr;
  if (mapping != nullptr) {
    return budget_->account().Hold(mapping->bytes(), mapping->memory_bytes(),
                                   mapping);
  }
  Buffer buffer = AllocateInMemory(size);
  std::memset(buffer.mutable_bytes().data(), 0, size);
  return buffer;
}

// Blocks have half a huge page, their slots one or two; what is shorter belongs
// to small variables, of which nothing is known.
Buffer SpareBuffers::AllocateInMemory(size_t size) {
  if (budget_ == nullptr) return Buffer::Allocate(size);
  MemoryAccount& account = budget_->account();
  if (size == HugePages::kBytes / 2 && budget_->Fits(HugePages::kBytes)) {
    auto [taken, left] = account.AllocateHalves();
    Give(std::move(left));
    return std::move(taken);
  }
  if (size > 0 && size % HugePages::kBytes == 0) {
    return account.AllocateHuge(size);
  }
  return account.Allocate(size);
}

}  // namespace paramd
