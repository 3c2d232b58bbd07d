#ifndef PARAMD_COORDINATOR_CORE_SNAPSHOT_CALLS_H_
#define PARAMD_COORDINATOR_CORE_SNAPSHOT_CALLS_H_

#include <cstdint>

#include "coordinator/core/members.h"
#include "proto/paramd/v1/types.pb.h"
#include "tensor/outbox.h"

namespace paramd {

// What the snapshot under way has to ask of servers, whoever calls them.
class SnapshotCalls {
 public:
  struct Numbers {
    v1::SnapshotNumber under_way;  // Zero: none is.
    v1::SnapshotNumber committed;  // The newest checkpoint's.
    uint64_t counter = 0;  // Of the newest one, or one that never will be.
  };

  virtual ~SnapshotCalls() = default;

  virtual Numbers numbers() const = 0;
  // Seal, written or fetch; kNone: nothing.
  virtual ServerRecord::Call CallFor(uint32_t server) const = 0;
  // The request of it, under this header. REQUIRES: CallFor(server) is `call`.
  virtual Outbox::Head MakeCall(uint32_t server, ServerRecord::Call call,
                                const v1::Header& header) const = 0;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_SNAPSHOT_CALLS_H_
