#ifndef PARAMD_PROCESS_RESOURCE_NEEDS_H_
#define PARAMD_PROCESS_RESOURCE_NEEDS_H_

#include <cstddef>

#include "absl/status/status.h"

#include "process/process.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// What a process takes of threads and of address space, beside its model and
// its data.
struct ResourceNeeds {
  size_t threads = 0;   // That it starts.
  size_t products = 0;  // Of these, those that multiply matrices at once.
};

// Of any process before it has read its job.
ResourceNeeds NeedsAtStart();
// Of one with this role. `alone`: the whole job, without a network.
ResourceNeeds NeedsOf(const ProcessRole& role, bool alone,
                      const v1::JobConfig& job);

// kInvalidArgument with what the process may have and what it needs (see
// CheckThreads and CheckAddressSpace). Takes what products need.
absl::Status CheckResources(const ResourceNeeds& needs);

}  // namespace paramd

#endif  // PARAMD_PROCESS_RESOURCE_NEEDS_H_
