#ifndef PARAMD_COORDINATOR_CORE_VARIABLE_MATCH_H_
#define PARAMD_COORDINATOR_CORE_VARIABLE_MATCH_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// Whether the checkpoint at `path` has the variables of the job, all of them
// and no others, in their shapes; those that `allow_missing` names (MatchesAny)
// need not. A keyed one may have another number of rows there. The differences
// that there are, each with name and shapes.
// INVALID_ARGUMENT, one sentence with all that may not be, if there are others.
absl::StatusOr<std::vector<std::string>> CheckVariables(
    const std::string& path, const v1::Manifest& manifest,
    const std::vector<v1::Variable>& variables,
    absl::string_view allow_missing);

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_VARIABLE_MATCH_H_
