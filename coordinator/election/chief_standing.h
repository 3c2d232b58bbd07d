#ifndef PARAMD_COORDINATOR_ELECTION_CHIEF_STANDING_H_
#define PARAMD_COORDINATOR_ELECTION_CHIEF_STANDING_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/time.h"

namespace paramd {

// Whether this process was paused during a call that began at `asked`, has
// failed by `now`, and takes `longest` if nobody answers. Such a failure says
// nothing about the keeper, so it is asked again.
bool WasPausedMeanwhile(Time asked, Time now, absl::Duration longest);

// What an elected chief knows of the record that it holds, and whether it may
// write: without a clock, a thread or a connection, which `ChiefElection` and
// the simulator have around it.
//
//               answer: it leads
//                 ┌──────────────────────────┐
//                 ▼         no answer        │
//   elected ──▶ renewed ────────────▶ keeper is away
//                 │                          │
//                 └── answer: it does not ───┴──▶ lost, for ever
//
// Not thread-safe.
class ChiefStanding {
 public:
  struct Options {
    std::string place;   // Where it is decided, for a sentence.
    absl::Duration ttl;  // For how long the record is held.
    // How long a call to the keeper takes if it does not answer.
    absl::Duration longest_ask;
  };
  explicit ChiefStanding(Options options) : options_(std::move(options)) {}

  // It was elected, and had asked for the record at `asked`. REQUIRES:
  // called before the rest.
  void Elected(Time asked);

  enum class May {
    kYes,
    // Its time may have ended since it was renewed last, as after a pause of
    // this process: the keeper is to be asked first, and Hear to be told.
    kAsk,
    kNo,  // As status() says.
  };
  // Whether it may write what counts. A keeper that was away a moment ago is
  // not waited for.
  May MayWrite(Time now) const;

  enum class News { kNone, kAway, kLost };
  // What the keeper answered at `now` to what it was asked at `asked`: true,
  // this one still leads; false, it does not hold the record; an error, the
  // keeper is away. The record's time begins at `asked`, not at `now`.
  News Hear(Time asked, Time now, const absl::StatusOr<bool>& answer);

  // OK, or UNAVAILABLE once it was heard that this is not the chief any more.
  const absl::Status& status() const { return status_; }

  // Since when the keeper is away and why, a sentence; nullopt: it is there.
  struct Away {
    std::string why;
    Time since;
  };
  const absl::optional<Away>& away() const { return away_; }

 private:
  const Options options_;
  absl::Status status_;
  Time renewed_;  // When the last renewal that succeeded was asked for.
  Time tried_;    // When the keeper was asked last, in vain too.
  absl::optional<Away> away_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_ELECTION_CHIEF_STANDING_H_
