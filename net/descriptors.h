#ifndef PARAMD_NET_DESCRIPTORS_H_
#define PARAMD_NET_DESCRIPTORS_H_

#include <cstddef>

#include "absl/status/status.h"

namespace paramd {

// How many files, sockets included, this process may have open.
size_t DescriptorLimit();

// Raises that as far as the system lets it, a million at most.
void RaiseDescriptorLimit();

// For how many connections to listen where `workers` call: four for each, two
// of which are for one that has not been heard for a while (PeerLink), and some
// for people, probes and peers that come back before their last connection is
// noticed to be over.
size_t ConnectionsOf(size_t workers);

// Whether a process that so many workers call, and that calls so many
// processes, may open what it needs. kInvalidArgument with both numbers if not:
// calls that would release what waits could not come in.
absl::Status CheckDescriptors(size_t workers, size_t called);

}  // namespace paramd

#endif  // PARAMD_NET_DESCRIPTORS_H_
