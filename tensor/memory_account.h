#ifndef PARAMD_TENSOR_MEMORY_ACCOUNT_H_
#define PARAMD_TENSOR_MEMORY_ACCOUNT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/types/span.h"

#include "tensor/buffer.h"
#include "tensor/huge_pages.h"

namespace paramd {

// Makes buffers and knows how many bytes of them exist, whoever holds them by
// now: a reply on its way counts until it is sent.
//
// Invariant: bytes() is the sum of what the buffers that were made here, and
// whose last reference is not dropped, take of memory: their sizes, or the
// half or whole huge pages that they were given, less what lies elsewhere.
//
// Thread safety: buffers are made on one thread; they may be dropped, and
// bytes() be called, on any. They may outlive the account.
class MemoryAccount {
 public:
  MemoryAccount() : bytes_(std::make_shared<std::atomic<uint64_t>>(0)) {}
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  uint64_t bytes() const { return bytes_->load(std::memory_order_relaxed); }

  // `size` bytes, 64-byte aligned, not initialised.
  Buffer Allocate(size_t size);

  // Two buffers of `size` bytes, in half a huge page each, on one that the
  // kernel may back with it, so that the first touch of 2 MiB is one page
  // fault, not 512. Each counts as half a page. A buffer that is dropped goes
  // back to the system at once. Two of Allocate where there is no such page.
  // REQUIRES: `size` is at most half of HugePages::kBytes.
  std::pair<Buffer, Buffer> AllocateHalves(size_t size);
  // The same of one buffer in whole huge pages, which count. REQUIRES: `size`
  // is above 0.
  Buffer AllocateHuge(size_t size);
  // A buffer of `bytes` that `owner` owns, of which so many count.
  Buffer Hold(absl::Span<std::byte> bytes, uint64_t counted,
              std::shared_ptr<void> owner);

 private:
  // Shared: buffers that others hold are uncounted when they are dropped, which
  // may be after the account's end.
  using Counter = std::shared_ptr<std::atomic<uint64_t>>;
  struct Counted;
  struct Held;

  // `counted`: bytes from `memory` on that are the buffer's alone.
  Buffer Count(absl::Span<std::byte> memory, size_t counted,
               std::shared_ptr<HugePages> pages);

  const Counter bytes_;
};

}  // namespace paramd

#endif  // PARAMD_TENSOR_MEMORY_ACCOUNT_H_
