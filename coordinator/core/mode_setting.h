#ifndef PARAMD_COORDINATOR_CORE_MODE_SETTING_H_
#define PARAMD_COORDINATOR_CORE_MODE_SETTING_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// The mode that an operator asks for while the job runs.
//
// INVALID, naming what was asked for: for a key that can't be changed, and a
// value that the job file would not take either.
absl::StatusOr<v1::Consistency> ModeToSet(const v1::SetRequest& request,
                                          const v1::JobConfig& job);

// Whether the mode is one that so many workers and their servers can keep.
// INVALID if its backup workers are all of them, or if a server could not hold
// the contributions of a step: then it names the server, its bytes and
// sync_park_bytes.
absl::Status CheckHoldable(const v1::Consistency& mode,
                           const v1::JobConfig& job, const v1::Layout& layout,
                           uint32_t workers);

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_MODE_SETTING_H_
