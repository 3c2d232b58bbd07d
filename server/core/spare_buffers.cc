#include "server/core/spare_buffers.h"

#include <algorithm>
#include <utility>

namespace paramd {
namespace {

// While a snapshot reads thousands, looking at each would cost more than a fresh
// one.
constexpr size_t kMostLookedAt = 32;

}  // namespace

Buffer SpareBuffers::Take(size_t size) {
  const auto spares = spares_.find(size);
  if (spares == spares_.end()) return Allocate(size);
  std::deque<Spare>& of_size = spares->second;
  const size_t end = of_size.size();
  for (size_t i = end; i > end - std::min(end, kMostLookedAt); --i) {
    if (!of_size[i - 1].buffer.unique()) continue;
    Buffer taken = std::move(of_size[i - 1].buffer);
    of_size.erase(of_size.begin() + static_cast<std::ptrdiff_t>(i - 1));
    --count_;
    bytes_ -= size;
    return taken;
  }
  return Allocate(size);
}

void SpareBuffers::Give(Buffer replaced) {
  if (replaced.empty()) return;
  ++count_;
  bytes_ += replaced.size();
  drop_at_ = std::min(drop_at_, now_ + kKept);
  spares_[replaced.size()].push_back({std::move(replaced), now_});
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
  for (auto& [size, of_size] : spares_) {
    while (!of_size.empty() && of_size.front().given + kKept <= now) {
      of_size.pop_front();
      --count_;
      bytes_ -= size;
    }
    if (of_size.empty()) continue;
    drop_at_ = std::min(drop_at_, of_size.front().given + kKept);
  }
}

// Blocks have half a huge page, their slots one or two; what is shorter belongs
// to small variables, of which nothing is known.
Buffer SpareBuffers::Allocate(size_t size) {
  if (budget_ == nullptr) return Buffer::Allocate(size);
  MemoryAccount& account = budget_->account();
  if (size == MemoryAccount::kHugePage / 2 &&
      budget_->Fits(MemoryAccount::kHugePage)) {
    auto [taken, left] = account.AllocateHalves();
    Give(std::move(left));
    return std::move(taken);
  }
  if (size > 0 && size % MemoryAccount::kHugePage == 0) {
    return account.AllocateHuge(size);
  }
  return account.Allocate(size);
}

}  // namespace paramd
