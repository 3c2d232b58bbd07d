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

// What an elected chief knows of its lease, and whether it may write: without a
// clock, a thread or a connection, which `ChiefElection` and the simulator have
// around it.
//
//            answer: it leads
//             ┌─────────┐
//             ▼         │  no answer
//   elected ─▶ renewed ─┴──────────▶ etcd is away ── answer: it leads ─▶
//   renewed
//                  │                       │
//                  └─ answer: it does not ─┴─▶ lost, for ever
//
// Not thread-safe.
class ChiefStanding {
 public:
  struct Options {
    std::string place;   // Where it is decided, for a sentence.
    absl::Duration ttl;  // Of the lease.
    // How long etcd may take to be asked in vain.
    absl::Duration longest_ask;
  };
  explicit ChiefStanding(Options options) : options_(std::move(options)) {}

  // It was elected, with a lease that was asked for at `asked`. REQUIRES:
  // called before the rest.
  void Elected(Time asked);

  enum class May {
    kYes,
    // The lease may have ended since it was heard of last, as after a pause of
    // this process: etcd is to be asked first, and Hear to be told.
    kAsk,
    kNo,  // As status() says.
  };
  // Whether it may write what counts. An etcd that was away a moment ago is not
  // waited for.
  May MayWrite(Time now) const;

  enum class News { kNone, kAway, kLost };
  // What etcd answered at `now` to what it was asked at `asked`: true, this one
  // still leads; false, the lease or the key is gone; an error, it is away. A
  // lease lasts from when it was asked to go on, not from when that was heard,
  // and an answer that was missing for longer than asking takes says nothing of
  // now: this process was paused meanwhile.
  News Hear(Time asked, Time now, const absl::StatusOr<bool>& answer);

  // OK, or UNAVAILABLE once it was heard that this is not the chief any more.
  const absl::Status& status() const { return status_; }

  // Since when etcd is away and why, a sentence; nullopt: it is there.
  struct Away {
    std::string why;
    Time since;
  };
  const absl::optional<Away>& away() const { return away_; }

 private:
  const Options options_;
  absl::Status status_;
  Time renewed_;  // When that was asked which etcd last said yes to.
  Time tried_;    // When it was last known whether etcd is there.
  absl::optional<Away> away_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_ELECTION_CHIEF_STANDING_H_
