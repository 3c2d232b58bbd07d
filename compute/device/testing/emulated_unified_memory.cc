#include "compute/device/testing/emulated_unified_memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"

namespace paramd {
namespace {

constexpr size_t kMostMemories = 32;
// Read by the handler of a signal.
std::array<std::atomic<EmulatedUnifiedMemory*>, kMostMemories> memories;
struct sigaction handler_before;

uintptr_t AddressOf(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

}  // namespace

void EmulatedUnifiedMemory::OnFault(int, void* info, void*) {
  const uintptr_t address =
      AddressOf(static_cast<const siginfo_t*>(info)->si_addr);
  for (const auto& memory : memories) {
    EmulatedUnifiedMemory* const one = memory.load();
    if (one != nullptr && one->Fetch(address)) return;
  }
  // A mistake, and not ours: it happens again, under whoever was here before.
  sigaction(SIGSEGV, &handler_before, nullptr);
}

void EmulatedUnifiedMemory::CatchFaults() {
  static const bool done = [] {
    struct sigaction action = {};
    action.sa_sigaction = [](int signal, siginfo_t* info, void* context) {
      OnFault(signal, info, context);
    };
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    return sigaction(SIGSEGV, &action, &handler_before) == 0;
  }();
  CHECK(done, "the handler is set");
}

EmulatedUnifiedMemory::EmulatedUnifiedMemory(size_t bytes) {
  CatchFaults();
  const int file = memfd_create("unified", MFD_CLOEXEC);
  CHECK(file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0,
        "there is memory");
  const auto map = [&] {
    void* const mapped =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(mapped != MAP_FAILED, "addresses are found");
    return static_cast<std::byte*>(mapped);
  };
  host_ = {map(), bytes};
  device_ = map();
  close(file);
  for (auto& memory : memories) {
    EmulatedUnifiedMemory* none = nullptr;
    if (memory.compare_exchange_strong(none, this)) return;
  }
  CHECK(false, "there are few such memories at a time");
}

EmulatedUnifiedMemory::~EmulatedUnifiedMemory() {
  for (auto& memory : memories) {
    EmulatedUnifiedMemory* self = this;
    memory.compare_exchange_strong(self, nullptr);
  }
  munmap(host_.data(), host_.size());
  munmap(device_, host_.size());
}

bool EmulatedUnifiedMemory::Has(const void* first, size_t bytes) const {
  const uintptr_t begin = AddressOf(first);
  const uintptr_t own = AddressOf(host_.data());
  return begin >= own && begin + bytes <= own + host_.size();
}

std::byte* EmulatedUnifiedMemory::Inside(const void* first) const {
  return device_ + (AddressOf(first) - AddressOf(host_.data()));
}

void EmulatedUnifiedMemory::Protect(const void* first, size_t bytes,
                                    int protection) const {
  if (bytes == 0) return;
  const uintptr_t begin = AddressOf(first) / kPage * kPage;
  const uintptr_t end = (AddressOf(first) + bytes + kPage - 1) / kPage * kPage;
  CHECK(mprotect(reinterpret_cast<void*>(begin), end - begin, protection) == 0,
        "pages are the host's, or not");
}

void EmulatedUnifiedMemory::BeginWriting(const void* first, size_t bytes) {
  for (Writer& writer : writers_) {
    uintptr_t none = 0;
    if (!writer.begin.compare_exchange_strong(none, AddressOf(first))) continue;
    writer.end = AddressOf(first) + bytes;
    return Protect(first, bytes, PROT_NONE);
  }
  CHECK(false, "the device is told to write little at a time");
}

void EmulatedUnifiedMemory::EndWriting(const void* first) {
  for (Writer& writer : writers_) {
    if (writer.begin != AddressOf(first)) continue;
    writer.end = 0;
    writer.begin = 0;
    return;
  }
}

void EmulatedUnifiedMemory::Return(const void* first, size_t bytes) {
  Protect(first, bytes, PROT_READ | PROT_WRITE);
}

// Nothing that a handler of a signal must not do.
bool EmulatedUnifiedMemory::Fetch(uintptr_t address) {
  const uintptr_t page = address / kPage * kPage;
  if (!Has(reinterpret_cast<void*>(page), 1)) return false;
  ++pages_fetched_;
  for (const Writer& writer : writers_) {
    const uintptr_t begin = writer.begin;
    const uintptr_t end = writer.end;
    // Of one and the same: another may have come meanwhile.
    if (begin == 0 || begin != writer.begin) continue;
    if (begin < page + kPage && page < end) {
      ++pages_torn_;
      break;
    }
  }
  return mprotect(reinterpret_cast<void*>(page), kPage,
                  PROT_READ | PROT_WRITE) == 0;
}

}  // namespace paramd
