#ifndef PARAMD_COORDINATOR_ELECTION_CHIEF_FENCE_H_
#define PARAMD_COORDINATOR_ELECTION_CHIEF_FENCE_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/repeated_ptr_field.h"

#include "proto/paramd/v1/configuration.pb.h"

namespace paramd {

// Keeps an elected chief that was replaced since from deciding anything.
// Without an election (`token` 0) it stops nobody.
struct ChiefFence {
  // Each chief that is elected later has a higher one.
  uint64_t token = 0;
  // OK, or the error with which this is not the chief any more.
  std::function<absl::Status()> check;
  // The same, and an error too if that can't be found out.
  std::function<absl::Status()> confirm;

  // Asked before work of this type is done for the coordinator: what `check`
  // says before the log is read, and before an entry, a manifest or a result is
  // written or checkpoints are deleted; OK before anything else.
  absl::Status MayDo(const google::protobuf::Descriptor* work) const;

  // The entry as it is appended, with the token.
  v1::LogEntry Guarded(const v1::LogEntry& entry) const;

  // A log that has the token of a later chief is not read: ABORTED naming the
  // entry, unless `confirm` says that this one leads all the same, since an
  // etcd that has lost its data begins again with low tokens, and so does a
  // Lease that was deleted.
  absl::Status CheckNotFollowed(
      const google::protobuf::RepeatedPtrField<v1::LogEntry>& log) const;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_ELECTION_CHIEF_FENCE_H_
