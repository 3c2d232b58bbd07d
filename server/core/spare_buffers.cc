#include "server/core/spare_buffers.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace paramd {
namespace {

// At each end. While a snapshot reads thousands, looking at each would cost
// more than a fresh one; the oldest it has mostly done with.
constexpr size_t kMostLookedAt = 32;

constexpr size_t kPage = HugePages::kBytes;

// Blocks have half a huge page, their slots one or two, or nearly so where no
// whole number of rows fills it; what is shorter belongs to small variables, of
// which nothing is known.
bool IsNearly(size_t size, size_t whole) {
  return size <= whole && size > whole / 8 * 7;
}

size_t InWholePages(size_t size) { return (size + kPage - 1) / kPage * kPage; }

}  // namespace

size_t SpareBuffers::BudgetBytes(size_t size, const DiskRanges& on_disk) {
  if (!on_disk.empty()) return size - BytesOf(on_disk);
  if (IsNearly(size, kPage / 2)) return kPage / 2;
  const size_t pages = InWholePages(size);
  return IsNearly(size, pages) ? pages : size;
}

Buffer SpareBuffers::Take(size_t size, const DiskRanges& on_disk) {
  if (!on_disk.empty()) return TakeOnDisk(size, on_disk);
  const auto spares = spares_.find(size);
  if (spares == spares_.end()) return Allocate(size);
  std::deque<Spare>& of_size = spares->second;
  const auto is_free = [](const Spare& spare) { return spare.buffer.unique(); };
  const auto looked_at =
      static_cast<std::ptrdiff_t>(std::min(of_size.size(), kMostLookedAt));
  auto taken = of_size.end();
  const auto newest =
      std::find_if(of_size.rbegin(), of_size.rbegin() + looked_at, is_free);
  if (newest != of_size.rbegin() + looked_at) {
    taken = std::next(newest).base();
  } else {
    const auto end = of_size.begin() + looked_at;
    const auto oldest = std::find_if(of_size.begin(), end, is_free);
    if (oldest == end) return Allocate(size);
    taken = oldest;
  }
  Buffer buffer = std::move(taken->buffer);
  of_size.erase(taken);
  --count_;
  bytes_ -= BudgetBytes(size);
  return buffer;
}

void SpareBuffers::Give(Buffer replaced, const DiskRanges& on_disk) {
  if (replaced.empty() || !on_disk.empty()) return;
  ++count_;
  bytes_ += BudgetBytes(replaced.size());
  drop_at_ = std::min(drop_at_, now_ + kKept);
  std::deque<Spare>& of_size = spares_[replaced.size()];
  of_size.push_back({std::move(replaced), now_});
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
      bytes_ -= BudgetBytes(size);
    }
    if (of_size.empty()) continue;
    drop_at_ = std::min(drop_at_, of_size.front().given + kKept);
  }
}

Buffer SpareBuffers::Hold(std::shared_ptr<DiskMemory::Mapping> mapping) {
  const absl::Span<std::byte> bytes = mapping->bytes();
  const uint64_t counted = mapping->memory_bytes();
  return budget_->account().Hold(bytes, counted, std::move(mapping));
}

Buffer SpareBuffers::TakeOnDisk(size_t size, const DiskRanges& on_disk) {
  if (disk_ != nullptr && budget_ != nullptr) {
    auto mapping = disk_->Map(size, on_disk);
    if (mapping != nullptr) return Hold(std::move(mapping));
  }
  Buffer buffer = Take(size);
  std::memset(buffer.mutable_bytes().data(), 0, size);
  return buffer;
}

Buffer SpareBuffers::Copy(const Buffer& taken, const DiskRanges& on_disk) {
  const std::byte* const from = taken.bytes().data();
  auto mapping = disk_ == nullptr || on_disk.empty()
                     ? nullptr
                     : disk_->MapShared(from, taken.size(), on_disk);
  if (mapping == nullptr) {
    Buffer copy = Take(taken.size());
    std::memcpy(copy.mutable_bytes().data(), from, taken.size());
    return copy;
  }
  size_t begin = 0;
  std::byte* const to = mapping->bytes().data();
  for (const DiskRange& range : on_disk) {
    std::memcpy(to + begin, from + begin, range.begin - begin);
    begin = range.end;
  }
  std::memcpy(to + begin, from + begin, taken.size() - begin);
  return Hold(std::move(mapping));
}

void SpareBuffers::Separate(const DiskRanges& on_disk, Buffer* taken) {
  if (disk_ == nullptr || on_disk.empty()) return;
  if (disk_->Separate(taken->mutable_bytes().data(), on_disk)) return;
  Buffer in_memory = Take(taken->size());
  std::memcpy(in_memory.mutable_bytes().data(), taken->bytes().data(),
              taken->size());
  *taken = std::move(in_memory);
}

Buffer SpareBuffers::Allocate(size_t size) {
  if (device_ != nullptr) {
    Buffer on_device = device_->Allocate(size);
    if (!on_device.empty()) return on_device;
  }
  if (budget_ == nullptr) return Buffer::Allocate(size);
  MemoryAccount& account = budget_->account();
  if (IsNearly(size, kPage / 2) && budget_->Fits(kPage)) {
    auto [taken, left] = account.AllocateHalves(size);
    Give(std::move(left));
    return std::move(taken);
  }
  const size_t pages = InWholePages(size);
  if (IsNearly(size, pages) && budget_->Fits(pages)) {
    return account.AllocateHuge(size);
  }
  return account.Allocate(size);
}

}  // namespace paramd
