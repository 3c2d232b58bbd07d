#ifndef PARAMD_COORDINATOR_CORE_VARIABLE_MATCH_H_
#define PARAMD_COORDINATOR_CORE_VARIABLE_MATCH_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// Whether the checkpoint at `path` has the variables of the job, all of them
// and no others, in their shapes. INVALID_ARGUMENT, one sentence that names
// each that is missing, left over or of another shape, with its shapes.
absl::Status CheckVariables(const std::string& path,
                            const v1::Manifest& manifest,
                            const std::vector<v1::Variable>& variables);

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_VARIABLE_MATCH_H_
