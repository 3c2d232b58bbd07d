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

#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "tensor/message.h"

namespace paramd {

// What every session said of its clock, overheard on the wire, so that what the
// coordinator makes of it can be judged; and whether that is true, by the
// pushes that it has sent.
//
// Not thread-safe.
class ClockLedger {
 public:
  // `memory`: what the coordinator knows of a clock is at most so old.
  explicit ClockLedger(absl::Duration memory) : memory_(memory) {}

  // A message as it is sent at this time. kDataLoss if a session tells a lower
  // clock than before, or another one than its start clock and the pushes that
  // it holds acknowledged, which are those that it has sent, or one less; or if
  // a configuration gives a new session a start clock below every clock that
  // was told `memory` ago by those that are still there.
  absl::Status See(PeerId from, const google::protobuf::Message& head,
                   absl::Duration at);
  // A configuration as somebody is told it, in an answer too.
  void Told(const v1::Configuration& configuration);

 private:
  // Worker, generation (term, counter).
  using Id = std::tuple<uint32_t, uint64_t, uint64_t>;
  using Number = std::pair<uint64_t, uint64_t>;
  struct Session {
    uint64_t clock = 0;
    std::vector<std::pair<absl::Duration, uint64_t>> told;
  };
  // What makes a session's clock.
  struct Made {
    uint64_t sent = 0;                 // The newest push.
    std::map<Number, uint64_t> start;  // By version of the configuration.
  };

  static Id IdOf(uint32_t worker, const v1::SessionId& generation);
  // Of a message that its worker has just made: the pushes that its header
  // holds acknowledged, on the start clock of the configuration that it names.
  absl::Status CheckNow(const v1::Header& header, uint64_t clock) const;
  // Of a push or pull that may be sent again: `pushes` at least, `most` at
  // most, on a start clock that the session ever had.
  absl::Status CheckMade(const v1::Header& header, uint64_t clock,
                         uint64_t pushes, uint64_t most) const;
  absl::Status SeeTell(const v1::TellClockRequest& told, absl::Duration at);
  absl::Status SeeConfiguration(const v1::Configuration& configuration,
                                absl::Duration at);
  // The lowest clock told `memory` ago; unset if that is not known of all.
  absl::optional<uint64_t> LowestBefore(const v1::Configuration& configuration,
                                        absl::Duration at) const;

  const absl::Duration memory_;
  std::map<Id, Session> sessions_;
  std::map<Id, Made> made_;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_CLOCK_LEDGER_H_
