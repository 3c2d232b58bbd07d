#include "tensor/memory_account.h"

#include <sys/mman.h>

#include <new>

#include "base/check.h"

namespace paramd {
namespace {

constexpr size_t kAlignment = 64;

}  // namespace

// Huge pages, as far as the kernel has them, aligned. Shared by the buffers that
// lie in them: the last one gives the addresses back.
class MemoryAccount::HugePages {
 public:
  // Null if the system gives no memory.
  static std::shared_ptr<HugePages> Map(size_t size) {
    const size_t mapped = size + kHugePage;
    void* const memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    auto* const begin = static_cast<std::byte*>(memory);
    const size_t before =
        (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) %
        kHugePage;
    if (before > 0) munmap(begin, before);
    munmap(begin + before + size, mapped - before - size);
    // A kernel without huge pages says no, which changes nothing.
    madvise(begin + before, size, MADV_HUGEPAGE);
    return std::make_shared<HugePages>(begin + before, size);
  }

  HugePages(std::byte* begin, size_t size) : begin_(begin), size_(size) {}
  ~HugePages() { munmap(begin_, size_); }
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;

  std::byte* begin() const { return begin_; }

 private:
  std::byte* const begin_;
  const size_t size_;
};

struct MemoryAccount::Counted {
  std::byte* memory;
  size_t size;
  Counter counter;
  std::shared_ptr<HugePages> pages;  // Null: `memory` is of operator new.

  static void Release(void* context) {
    const std::unique_ptr<Counted> counted(static_cast<Counted*>(context));
    if (counted->pages == nullptr) {
      ::operator delete(counted->memory, std::align_val_t{kAlignment});
    } else if (counted->pages.use_count() > 1) {
      // Others keep the addresses; should they go meanwhile, nothing is lost.
      madvise(counted->memory, counted->size, MADV_DONTNEED);
    }
    counted->pages.reset();
    counted->counter->fetch_sub(counted->size, std::memory_order_relaxed);
  }
};

Buffer MemoryAccount::Count(std::byte* memory, size_t size,
                            std::shared_ptr<HugePages> pages) {
  bytes_->fetch_add(size, std::memory_order_relaxed);
  return Buffer::Writable(
      {memory, size}, &Counted::Release,
      new Counted{memory, size, bytes_, std::move(pages)});
}

Buffer MemoryAccount::Allocate(size_t size) {
  auto* const memory = static_cast<std::byte*>(
      ::operator new(size, std::align_val_t{kAlignment}));
  return Count(memory, size, nullptr);
}

std::pair<Buffer, Buffer> MemoryAccount::AllocateHalves() {
  constexpr size_t kHalf = kHugePage / 2;
  const auto pages = HugePages::Map(kHugePage);
  if (pages == nullptr) return {Allocate(kHalf), Allocate(kHalf)};
  return {Count(pages->begin(), kHalf, pages),
          Count(pages->begin() + kHalf, kHalf, pages)};
}

Buffer MemoryAccount::AllocateHuge(size_t size) {
  CHECK(size > 0 && size % kHugePage == 0, "huge pages are whole");
  auto pages = HugePages::Map(size);
  if (pages == nullptr) return Allocate(size);
  std::byte* const begin = pages->begin();
  return Count(begin, size, std::move(pages));
}

}  // namespace paramd
