#ifndef PARAMD_COORDINATOR_CORE_STEP_TIMES_H_
#define PARAMD_COORDINATOR_CORE_STEP_TIMES_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

#include "base/time.h"

namespace paramd {

// The longest gap between two pushes of a worker, seen from when its count of
// pushes rises. A wait for the end of a step must allow for as much. Beside
// computing it includes what the worker waited for, such as an outage of a
// server. It is as precise as heartbeats are frequent.
//
// Not thread-safe: lives inside the coordinator's core.
class StepTimes {
 public:
  // The worker tells of so many pushes. A count that is lower than the last one
  // is of another session, which begins with it.
  void Count(uint32_t worker, uint64_t pushes, Time now);
  // It has nothing to do for now, or is gone: the time until its next push is
  // that of no step.
  void Rest(uint32_t worker) { counts_.erase(worker); }
  // The same for every worker.
  void RestAll() { counts_.clear(); }

  // More was no step.
  static constexpr absl::Duration kLongest = absl::Minutes(10);

  // At most kLongest; zero: no step has ended yet.
  absl::Duration longest() const { return longest_; }

 private:
  struct Last {
    uint64_t pushes;
    Time at;
  };

  absl::flat_hash_map<uint32_t, Last> counts_;  // Bound: the job's workers.
  absl::Duration longest_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_STEP_TIMES_H_
