#ifndef PARAMD_TESTS_SIM_BALANCE_WITNESS_H_
#define PARAMD_TESTS_SIM_BALANCE_WITNESS_H_

#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace paramd {

// Checks which servers the coordinators of a job, one after the other, say that
// rebalance moves: one at a time, and none again before it has rested.
class BalanceWitness {
 public:
  explicit BalanceWitness(absl::Duration rest) : rest_(rest) {}

  // kDataLoss if that is broken.
  absl::Status Noted(absl::string_view note, absl::Duration now);
  // It may not have said what it did last.
  void ChiefIsDown() { moving_.reset(); }

  uint64_t begun() const { return begun_; }
  uint64_t done() const { return done_; }

 private:
  absl::Status Begins(uint32_t server, absl::Duration now);

  const absl::Duration rest_;
  absl::optional<uint32_t> moving_;
  std::map<uint32_t, absl::Duration> moved_;  // By server, when it began last.
  uint64_t begun_ = 0;
  uint64_t done_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_BALANCE_WITNESS_H_
