#include "tensor/huge_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace paramd {
namespace {

size_t RoundUpToPages(size_t size, size_t page) {
  return (size + page - 1) / page * page;
}

}  // namespace

std::unique_ptr<HugePages> HugePages::Map(size_t size) {
  size = RoundUpToPages(size, static_cast<size_t>(getpagesize()));
  const size_t mapped = size + kBytes;
  void* const memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const start = static_cast<std::byte*>(memory);
  const size_t before =
      RoundUpToPages(reinterpret_cast<uintptr_t>(start), kBytes) -
      reinterpret_cast<uintptr_t>(start);
  if (before > 0) munmap(start, before);
  munmap(start + before + size, mapped - before - size);
  // A kernel without huge pages says no, which changes nothing.
  madvise(start + before, size / kBytes * kBytes, MADV_HUGEPAGE);
  return std::unique_ptr<HugePages>(new HugePages(start + before, size));
}

HugePages::~HugePages() { munmap(begin_, size_); }

}  // namespace paramd
