#ifndef PARAMD_COORDINATOR_CORE_LAYOUT_H_
#define PARAMD_COORDINATOR_CORE_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/paramd/v1/cluster.pb.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// Cuts the variables into slices (as many whole rows as fit in 4 MiB, at least
// one) and gives each, largest first, to the server with the fewest bytes; of
// equals, to the lowest. The same input gives the same layout everywhere.
// kInvalidArgument naming the variable whose name (1 to 512 bytes, once), type
// or shape is not valid, or if there are over 1,000,000.
// REQUIRES: servers > 0.
absl::StatusOr<v1::Layout> PlanLayout(
    const std::vector<v1::Variable>& variables, uint32_t servers);

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_LAYOUT_H_
