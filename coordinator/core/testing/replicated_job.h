#ifndef PARAMD_COORDINATOR_CORE_TESTING_REPLICATED_JOB_H_
#define PARAMD_COORDINATOR_CORE_TESTING_REPLICATED_JOB_H_

#include <cstdint>

#include "coordinator/core/server_places.h"
#include "coordinator/core/snapshot_calls.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/testing/pair.h"

namespace paramd::testing {

// Two ps with a server each: at home in places 0 and 2, away in 3 and 1.
inline CoordinatorOptions ReplicatedJob() {
  CoordinatorOptions options = JobOptions();
  options.places = PlacesOf(/*tasks=*/2, /*shards=*/1);
  return options;
}

// No snapshot is under way; the newest committed one is 1.3.
class NoSnapshotCalls : public SnapshotCalls {
 public:
  Numbers numbers() const override { return {Pair(1, 4), Pair(1, 3), 4}; }
  ServerRecord::Call CallFor(uint32_t) const override {
    return ServerRecord::Call::kNone;
  }
  Outbox::Head MakeCall(uint32_t, ServerRecord::Call,
                        const v1::Header&) const override {
    return nullptr;
  }
};

}  // namespace paramd::testing

#endif  // PARAMD_COORDINATOR_CORE_TESTING_REPLICATED_JOB_H_
