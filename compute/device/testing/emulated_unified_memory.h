#ifndef PARAMD_COMPUTE_DEVICE_TESTING_EMULATED_UNIFIED_MEMORY_H_
#define PARAMD_COMPUTE_DEVICE_TESTING_EMULATED_UNIFIED_MEMORY_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"

namespace paramd {

// Memory that an emulated device and the host address, made to tell who touches
// it. There are two mappings of the same pages: streams use one; the other,
// whose addresses are handed out, loses each page that the device begins to
// write, and gets it back when the host touches it. Each time is counted: on a
// GPU a page would move. A page that the host touches while the device still
// writes it is counted as torn.
//
// Thread-safe.
class EmulatedUnifiedMemory {
 public:
  static constexpr size_t kPage = 4096;

  explicit EmulatedUnifiedMemory(size_t bytes);
  ~EmulatedUnifiedMemory();
  EmulatedUnifiedMemory(const EmulatedUnifiedMemory&) = delete;
  EmulatedUnifiedMemory& operator=(const EmulatedUnifiedMemory&) = delete;

  // As the host addresses it.
  absl::Span<std::byte> bytes() const { return host_; }
  bool Has(const void* first, size_t bytes) const;
  // Where streams find what the host has at this address. REQUIRES: Has.
  std::byte* Inside(const void* first) const;

  // The device is told to write these bytes; and has done so with those that
  // begin there. At most kMostWriters at a time.
  void BeginWriting(const void* first, size_t bytes);
  void EndWriting(const void* first);
  // The host gets them back: somebody new has them, or was told of them before.
  void Return(const void* first, size_t bytes);

  // Pages that the host has touched since the device wrote them, however often
  // that was; and those of them that it was still writing.
  uint64_t pages_fetched() const { return pages_fetched_; }
  uint64_t pages_torn() const { return pages_torn_; }

 private:
  static constexpr size_t kMostWriters = 256;
  // Free: begin is 0.
  struct Writer {
    std::atomic<uintptr_t> begin{0};
    std::atomic<uintptr_t> end{0};
  };

  // Of a thread that was about to touch the page of this address. False: it is
  // not of this memory.
  bool Fetch(uintptr_t address);
  static void OnFault(int signal, void* info, void* context);
  static void CatchFaults();
  void Protect(const void* first, size_t bytes, int protection) const;

  absl::Span<std::byte> host_;
  std::byte* device_ = nullptr;
  std::array<Writer, kMostWriters> writers_;
  std::atomic<uint64_t> pages_fetched_{0};
  std::atomic<uint64_t> pages_torn_{0};
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_TESTING_EMULATED_UNIFIED_MEMORY_H_
