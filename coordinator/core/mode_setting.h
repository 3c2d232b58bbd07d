#ifndef PARAMD_COORDINATOR_CORE_MODE_SETTING_H_
#define PARAMD_COORDINATOR_CORE_MODE_SETTING_H_

#include "absl/status/statusor.h"

#include "proto/paramd/v1/cluster.pb.h"

namespace paramd {

// The mode that an operator asks for while the job runs under `present`.
//
// INVALID, naming what was asked for: for a key that can't be changed, a value
// that the job file would not take either, and a change to or from sync.
absl::StatusOr<v1::Consistency> ModeToSet(const v1::SetRequest& request,
                                          const v1::Consistency& present);

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_MODE_SETTING_H_
