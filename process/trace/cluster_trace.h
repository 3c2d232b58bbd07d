#ifndef PARAMD_PROCESS_TRACE_CLUSTER_TRACE_H_
#define PARAMD_PROCESS_TRACE_CLUSTER_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "process/trace/clock_offset.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// What one process recorded.
struct ProcessTrace {
  std::string process;    // "ps-1"
  v1::TraceReply events;  // Of all pieces, with one table of names.
  ClockOffset clock;
};

// Takes in the next piece, which may be without events. kDataLoss, with nothing
// changed, if names that its events have are not there, a time is none that a
// clock shows, or it has more events than a process records: whoever answered
// is a stranger.
absl::Status AddPiece(const v1::TraceReply& piece, ProcessTrace* trace);

struct ClusterTrace {
  std::vector<ProcessTrace> processes = {};
  // What slices and variables are called; empty: they are numbers.
  v1::Layout layout = {};
  // A sentence for each process that is not in it.
  std::vector<std::string> missing = {};
};

size_t EventsIn(const ClusterTrace& trace);
uint64_t LeftOutOf(const ClusterTrace& trace);
// By how much times of two processes may be wrong against each other.
absl::Duration ErrorOf(const ClusterTrace& trace);

// One trace by our clock, in the JSON of https://ui.perfetto.dev and
// chrome://tracing: a process for each, a lane for each kind of work and
// thread, an arrow for each chunk of a push that was seen to leave its worker
// and elsewhere too, from the turn that sends it over those of the server to
// the one that has the answer. `otherData` says what is known of the clocks,
// what was left out and who is missing.
//
// REQUIRES: of each process the clock is known.
std::string TraceJson(const ClusterTrace& trace);

}  // namespace paramd

#endif  // PARAMD_PROCESS_TRACE_CLUSTER_TRACE_H_
