#ifndef PARAMD_TESTS_SIM_CLOCK_LEDGER_H_
#define PARAMD_TESTS_SIM_CLOCK_LEDGER_H_

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "google/protobuf/message.h"

#include "proto/paramd/v1/cluster.pb.h"
#include "tensor/message.h"

namespace paramd {

// What every session said of its clock, overheard on the wire, so that what the
// coordinator makes of it can be judged.
//
// Not thread-safe.
class ClockLedger {
 public:
  // `memory`: what the coordinator knows of a clock is at most so old.
  explicit ClockLedger(absl::Duration memory) : memory_(memory) {}

  // A message as it is sent at this time. kDataLoss if a session tells a lower
  // clock than before, or if a configuration gives a new session a start clock
  // below every clock that was told `memory` ago by those that are still there.
  absl::Status See(PeerId from, const google::protobuf::Message& head,
                   absl::Duration at);

 private:
  // Worker, generation (term, counter).
  using Id = std::tuple<uint32_t, uint64_t, uint64_t>;
  struct Session {
    uint64_t clock = 0;
    std::vector<std::pair<absl::Duration, uint64_t>> told;
  };

  absl::Status SeeTell(const v1::TellClockRequest& told, absl::Duration at);
  absl::Status SeeConfiguration(const v1::Configuration& configuration,
                                absl::Duration at);
  // The lowest clock told `memory` ago; unset if that is not known of all.
  absl::optional<uint64_t> LowestBefore(const v1::Configuration& configuration,
                                        absl::Duration at) const;

  const absl::Duration memory_;
  std::map<Id, Session> sessions_;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_CLOCK_LEDGER_H_
