#ifndef PARAMD_TESTS_SIM_ROUNDS_WORKLOAD_H_
#define PARAMD_TESTS_SIM_ROUNDS_WORKLOAD_H_

#include <cstdint>
#include <string>

#include "absl/types/optional.h"

namespace paramd {

// Workers that make steps together, in one thread and from one seed: their
// RoundMembers, the chief's Rendezvous, beats that are late or lost, sums that
// reach some workers and not others, processes that die anywhere and come back,
// and content that one has from another.
struct RoundsOptions {
  uint64_t seed = 1;
  uint32_t workers = 3;
  uint32_t steps = 12;
  uint32_t kills = 6;  // At most.
  bool kill_chief = true;
  // One worker does not come back, and the others go on without it.
  bool one_stays_away = false;
};

struct RoundsCounts {
  uint32_t rounds = 0;
  uint32_t kills = 0;
  uint32_t made_again = 0;  // Steps that failed, by worker.
  uint32_t was_made = 0;    // Steps that had failed, but had the sums.
  uint32_t brought = 0;     // Contents.
};

// Runs it to the end. What is wrong, or nullopt: every worker that lives has
// made every step once, with the others', on the same content.
absl::optional<std::string> RunRounds(const RoundsOptions& options,
                                      RoundsCounts* counts);

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_ROUNDS_WORKLOAD_H_
