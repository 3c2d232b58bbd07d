#include "net/memory_dial.h"

#include <utility>

#include "base/clock.h"
#include "base/status_macros.h"

namespace paramd {
namespace {

constexpr absl::Duration kDialPatience = absl::Seconds(5);

}  // namespace

absl::StatusOr<std::shared_ptr<MemoryDial>> MemoryDial::Begin(
    const v1::SharedMemoryOffer& offer) {
  ASSIGN_OR_RETURN(OwnedFd fd, ConnectInMemory(offer.socket()));
  RETURN_IF_ERROR(CheckSameUser(fd.get()));
  ASSIGN_OR_RETURN(SharedMapping::Made made, SharedMapping::Make());
  const OwnedFd memory(made.fd);
  RETURN_IF_ERROR(SendMemory(fd.get(), memory.get()));
  return std::shared_ptr<MemoryDial>(new MemoryDial(
      std::move(fd), std::move(made.mapping), MonotonicNow() + kDialPatience));
}

absl::Status MemoryDial::Look() {
  if (memory_ != nullptr) return absl::OkStatus();
  const auto id = ReceiveMemoryId(fd_.get());
  if (absl::IsNotFound(id.status()) && MonotonicNow() >= until_) {
    return absl::DeadlineExceededError("no answer came in time");
  }
  RETURN_IF_ERROR(id.status());
  memory_ = std::make_unique<SharedMemory>(SharedMemory::End::kClient, *id,
                                           std::move(mapping_));
  return absl::OkStatus();
}

}  // namespace paramd
