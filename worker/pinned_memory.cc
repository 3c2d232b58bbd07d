#include "worker/pinned_memory.h"

#include <unistd.h>

#include <cstddef>
#include <memory>
#include <utility>

namespace paramd {
namespace {

constexpr uint64_t kAlignment = 64;

}  // namespace

void PinMemory(const std::vector<uint64_t>& bytes, DeviceLink* link) {
  if (link == nullptr || link->unified_memory() != nullptr) return;
  const uint64_t of_machine = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                              static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  uint64_t size = 0;
  for (const uint64_t one : bytes) {
    size += 4 * ((one + kAlignment - 1) / kAlignment) * kAlignment;
  }
  if (size == 0 || size > of_machine / 4) return;
  auto owner = std::make_shared<Device::Memory>(link->AllocateHost(size));
  auto* const memory = static_cast<std::byte*>(owner->get());
  if (memory == nullptr) return;  // The device's status says why.
  link->SetPinnedMemory(
      BufferArena::Create({memory, size}, kAlignment, std::move(owner)));
}

}  // namespace paramd
