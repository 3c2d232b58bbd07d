#ifndef PARAMD_NET_PROCESS_CALLS_H_
#define PARAMD_NET_PROCESS_CALLS_H_

#include <functional>

#include "absl/status/statusor.h"
#include "google/protobuf/message.h"

#include "tensor/buffer.h"
#include "tensor/message.h"

namespace paramd {

// What answers the calls that are for a process rather than for one of its
// cores (Membership).
struct ProcessAnswer {
  Head head;
  BufferChain payload;
};
// On the loop thread; must not block. UNIMPLEMENTED: it does not serve this.
using ProcessCalls = std::function<absl::StatusOr<ProcessAnswer>(
    const google::protobuf::Message& request)>;

}  // namespace paramd

#endif  // PARAMD_NET_PROCESS_CALLS_H_
