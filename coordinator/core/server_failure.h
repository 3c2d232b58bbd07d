#ifndef PARAMD_COORDINATOR_CORE_SERVER_FAILURE_H_
#define PARAMD_COORDINATOR_CORE_SERVER_FAILURE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

#include "coordinator/core/members.h"
#include "proto/refusal.h"

namespace paramd {

// Whether a call asks for a part of a snapshot.
bool IsOfSnapshot(ServerRecord::Call call);

// What a failed call says of its server.
enum class ServerFailure {
  kNotYet,    // It says when to ask again.
  kReplaced,  // The process that was there before, which ends now.
  kTermLost,  // It obeys a later coordinator.
  kOtherJob,
  kJobFinished,  // It knows that, or is left over from another run.
  kNoEnd,        // It did not hear of the end.
  kAway,         // It did not answer.
  kOfSnapshot,
  kOfCheckpoint,  // It can't restore one.
  kFatal,
};

// `refusal`: that of `status`, or none.
ServerFailure FailureOf(ServerRecord::Call call, const absl::Status& status,
                        const v1::Refusal& refusal);

// The job ends, as this server is of another one, or another version.
absl::Status RefusesJob(uint32_t server, const std::string& why);

// How the job ends for what a server can't do. A warm start stands for no other
// one: where it may be read later, the job may begin again.
absl::Status EndOfJobFor(ServerRecord::Call call, const v1::Refusal& refusal,
                         const std::string& why);

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_SERVER_FAILURE_H_
