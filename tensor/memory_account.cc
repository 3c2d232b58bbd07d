#include "tensor/memory_account.h"

#include <sys/mman.h>

#include <new>

#include "base/check.h"

namespace paramd {
namespace {

constexpr size_t kCountedAlignment = 64;

}  // namespace

struct MemoryAccount::Counted {
  std::byte* memory;
  size_t bytes;
  Counter counter;
  // The last buffer gives the addresses back. Null: `memory` is of operator
  // new.
  std::shared_ptr<HugePages> pages;

  static void Release(void* context) {
    const std::unique_ptr<Counted> counted(static_cast<Counted*>(context));
    if (counted->pages == nullptr) {
      ::operator delete (counted->memory, std::align_val_t{kCountedAlignment});
    } else if (counted->pages.use_count() > 1) {
      // Others keep the addresses; should they go meanwhile, nothing is lost.
      madvise(counted->memory, counted->bytes, MADV_DONTNEED);
    }
    counted->pages.reset();
    counted->counter->fetch_sub(counted->bytes, std::memory_order_relaxed);
  }
};

struct MemoryAccount::Held {
  std::shared_ptr<void> owner;
  uint64_t counted;
  Counter counter;

  static void Release(void* context) {
    const std::unique_ptr<Held> held(static_cast<Held*>(context));
    held->owner.reset();
    held->counter->fetch_sub(held->counted, std::memory_order_relaxed);
  }
};

Buffer MemoryAccount::Hold(absl::Span<std::byte> bytes, uint64_t counted,
                           std::shared_ptr<void> owner) {
  bytes_->fetch_add(counted, std::memory_order_relaxed);
  return Buffer::Writable(bytes, &Held::Release,
                          new Held{std::move(owner), counted, bytes_});
}

Buffer MemoryAccount::Count(absl::Span<std::byte> memory, size_t counted,
                            std::shared_ptr<HugePages> pages) {
  bytes_->fetch_add(counted, std::memory_order_relaxed);
  return Buffer::Writable(
      memory, &Counted::Release,
      new Counted{memory.data(), counted, bytes_, std::move(pages)});
}

Buffer MemoryAccount::Allocate(size_t size) {
  auto* const memory = static_cast<std::byte*>(
      ::operator new (size, std::align_val_t{kCountedAlignment}));
  return Count({memory, size}, size, nullptr);
}

std::pair<Buffer, Buffer> MemoryAccount::AllocateHalves(size_t size) {
  constexpr size_t kHalf = HugePages::kBytes / 2;
  CHECK(size <= kHalf, "it is one of two on a page");
  const std::shared_ptr<HugePages> pages = HugePages::Map(HugePages::kBytes);
  if (pages == nullptr) return {Allocate(size), Allocate(size)};
  return {Count({pages->begin(), size}, kHalf, pages),
          Count({pages->begin() + kHalf, size}, kHalf, pages)};
}

Buffer MemoryAccount::AllocateHuge(size_t size) {
  CHECK(size > 0, "there is no page of nothing");
  const size_t mapped =
      (size + HugePages::kBytes - 1) / HugePages::kBytes * HugePages::kBytes;
  auto pages = HugePages::Map(mapped);
  if (pages == nullptr) return Allocate(size);
  std::byte* const begin = pages->begin();
  return Count({begin, size}, mapped, std::move(pages));
}

}  // namespace paramd
