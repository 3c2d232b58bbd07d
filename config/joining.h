#ifndef PARAMD_CONFIG_JOINING_H_
#define PARAMD_CONFIG_JOINING_H_

#include "absl/status/statusor.h"
#include "absl/types/optional.h"

#include "config/cluster_sources.h"
#include "config/cluster_spec.h"

namespace paramd {

// The cluster of a worker that it does not name, as far as the flags --join and
// --listen say it: where the chief is, who tells the rest
// (ClusterSpec::SetEnlisted), and where this process listens, if it does.
// Nullopt without them. INVALID_ARGUMENT, with all mistakes, if one is no
// address, if --listen is alone, or if something else says which task this
// process is: it has a place then.
absl::StatusOr<absl::optional<ClusterSpec>> ReadJoining(
    const ClusterSources& sources);

}  // namespace paramd

#endif  // PARAMD_CONFIG_JOINING_H_
