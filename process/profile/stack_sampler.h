#ifndef PARAMD_PROCESS_PROFILE_STACK_SAMPLER_H_
#define PARAMD_PROCESS_PROFILE_STACK_SAMPLER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace paramd {

// A thread, by its name, and where it was: the addresses of its functions, the
// innermost first. All but the innermost are return addresses.
struct Stack {
  std::string thread;
  std::vector<uintptr_t> addresses;

  friend bool operator<(const Stack& a, const Stack& b) {
    return a.thread != b.thread ? a.thread < b.thread
                                : a.addresses < b.addresses;
  }
};

struct StackSamples {
  std::map<Stack, uint64_t> counts;
  // Samples for which there was no room.
  uint64_t lost = 0;
  // What all threads of the process spent meanwhile.
  absl::Duration cpu;
};

// Samples where this process spends its processors' time: a timer of that time
// (ITIMER_PROF) sends SIGPROF to whichever thread runs when another `interval`
// of it is over, and the thread's stack is written down there. A process that
// waits is not sampled, and costs nothing.
//
// Blocks for `duration`, or until `cancelled`, which is asked ten times a
// second. Depths beyond 64 lose their outermost functions. The kernel counts in
// its own ticks, of 1 to 10 ms: shorter intervals are rounded up.
//
// kFailedPrecondition if this process is being sampled already, by this or by
// another profiler.
absl::StatusOr<StackSamples> SampleStacks(
    absl::Duration duration, absl::Duration interval,
    const std::function<bool()>& cancelled);

}  // namespace paramd

#endif  // PARAMD_PROCESS_PROFILE_STACK_SAMPLER_H_
