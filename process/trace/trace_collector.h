#ifndef PARAMD_PROCESS_TRACE_TRACE_COLLECTOR_H_
#define PARAMD_PROCESS_TRACE_TRACE_COLLECTOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "client/operator_calls.h"
#include "process/trace/cluster_trace.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// A process of a job, and where it takes operators' calls.
struct TraceTarget {
  std::string name;  // "ps-1"
  ChiefAddress address;
};

// The workers and servers of a job by its chief's status, the chief left out,
// workers first. `chief` says how it was called: over TLS each is at its
// address, otherwise at a socket beside the chief's. A ps that holds neither a
// server nor a backup, for it is drained, dead or not back yet, is left out;
// the others keep their names. Of a job that is all in one process: none.
std::vector<TraceTarget> TargetsOf(const v1::StatusReply& status,
                                   const ChiefAddress& chief);

struct TraceOptions {
  absl::Duration duration;
  uint64_t nonce = 0;      // Random: of this trace.
  absl::Duration timeout;  // Of each call.
};

// Has all processes of the job record for that long, at the same time, waits
// for it, and takes what they recorded. Who can't be reached, refuses, or ends
// meanwhile is in `missing`, and stops nobody else. Blocks; a thread for each
// process.
//
// An error if there is no trace at all: what the chief says if it refuses or
// can't be reached at the beginning; kUnavailable, with what became of each, if
// no process handed one over.
absl::StatusOr<ClusterTrace> CollectTrace(const ChiefAddress& chief,
                                          const TraceOptions& options);

}  // namespace paramd

#endif  // PARAMD_PROCESS_TRACE_TRACE_COLLECTOR_H_
