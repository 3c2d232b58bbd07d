#ifndef PARAMD_NET_MEMORY_DIAL_H_
#define PARAMD_NET_MEMORY_DIAL_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "base/time.h"
#include "net/memory_socket.h"
#include "net/shared_memory.h"
#include "proto/paramd/v1/hello.pb.h"

namespace paramd {

// Memory that this process has made to share with one peer, from handing it
// over to the end. The peer drops it when this object is destroyed, so calls
// under way that use the memory hold this object. No method waits.
//
// Thread-compatible.
class MemoryDial {
 public:
  // Makes memory and hands it over. kUnavailable, kPermissionDenied (somebody
  // else's socket) or kResourceExhausted: it cannot be done.
  static absl::StatusOr<std::shared_ptr<MemoryDial>> Begin(
      const v1::SharedMemoryOffer& offer);

  // OK: the peer has taken the memory. kNotFound: it has not answered yet.
  // kPermissionDenied, kUnavailable, kDeadlineExceeded: it refused, closed, or
  // said nothing for 5 s; then this is of no use any more.
  absl::Status Look();
  // Null until Look has said OK.
  SharedMemory* memory() const { return memory_.get(); }

 private:
  MemoryDial(OwnedFd fd, std::shared_ptr<SharedMapping> mapping, Time until)
      : fd_(std::move(fd)), mapping_(std::move(mapping)), until_(until) {}

  const OwnedFd fd_;
  std::shared_ptr<SharedMapping> mapping_;  // Until there is memory_.
  const Time until_;
  std::unique_ptr<SharedMemory> memory_;
};

}  // namespace paramd

#endif  // PARAMD_NET_MEMORY_DIAL_H_
