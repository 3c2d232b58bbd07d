#ifndef PARAMD_COORDINATOR_CORE_BALANCE_PLAN_H_
#define PARAMD_COORDINATOR_CORE_BALANCE_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"

namespace paramd {

// Where a server and its backup are, by the task of the ps, and what each of
// the two spends there: processors, 1 is a whole one.
struct ServerLoad {
  uint32_t home = 0;
  uint32_t away = 0;
  double server = 0;
  double backup = 0;
};

// A server that is to be somewhere else, and what its two ps then carry, if
// the server and its backup spend elsewhere what they spend here.
struct PlannedMove {
  uint32_t server = 0;
  uint32_t home = 0;
  uint32_t away = 0;
  uint32_t from = 0;  // The ps that gives something up,
  uint32_t to = 0;    // and the one that takes it.
  double from_then = 0;
  double to_then = 0;
};

// What each of so many ps carries: its servers and its backups.
std::vector<double> LoadsOfPs(const std::vector<ServerLoad>& servers,
                              uint32_t tasks);

// The ps that carries most, the first of equals; unset if it does not carry
// clearly more than the others: 1.25 times the mean of all, and a tenth of a
// processor.
absl::optional<uint32_t> HottestPs(const std::vector<double>& loads);

// What is best moved from the hottest ps to the one that carries least: what
// the first one has of the server goes to the second one, or they change
// places. Of all moves the one after which the greater of the two is least, of
// equals the first; unset if that isn't a tenth less than what the hottest
// carries now, or if there is no hottest. `rests`, by server: is not moved.
absl::optional<PlannedMove> PlanMove(const std::vector<ServerLoad>& servers,
                                     const std::vector<bool>& rests,
                                     uint32_t tasks);

// For people, where no move helps: "ps-0 spends 1.90 processors, all 3 ps 0.80
// on average; server 3 alone is 70% of all: ...". Empty if there is no
// hottest. REQUIRES: `servers` is not empty.
std::string WhyNoMoveHelps(const std::vector<ServerLoad>& servers,
                           uint32_t tasks);

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_BALANCE_PLAN_H_
