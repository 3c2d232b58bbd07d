#ifndef PARAMD_COORDINATOR_ELECTION_CHIEF_ELECTION_H_
#define PARAMD_COORDINATOR_ELECTION_CHIEF_ELECTION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/mutex.h"
#include "base/time.h"
#include "coordinator/election/candidacy.h"
#include "coordinator/election/chief_record.h"
#include "coordinator/election/chief_standing.h"

namespace paramd {

// This process's hold on the record of who is the chief. The keeper of the
// record, an etcd or an API server, lets one process at a time hold it. The
// token is the fencing token: each later chief has a higher one.
//
// Invariant: once the keeper has said that this process does not hold the
// record, Check is an error for ever. While the keeper does not answer, this
// process stays the chief: a keeper that is away for all elects nobody. If it
// is away for this process alone, another chief may be elected; this one learns
// that from the configuration log, which then has no place for its entries.
//
// Thread-safe, but for Stand. The record is kept by a thread of its own. The
// destructor resigns.
class ChiefElection {
 public:
  struct Options {
    std::string address;  // Where members reach this process.
    uint64_t incarnation = 0;
    // One that is known to have ended. 0: none.
    uint64_t replaces = 0;
    // Where the configuration log is: shared by all candidates.
    std::string state_directory;
    absl::Duration ttl = absl::Seconds(10);
    // For how long the keeper may be away before this gives up standing.
    absl::Duration patience = absl::Minutes(10);
  };

  // Waits until this process is elected, as long as it takes while another one
  // leads. DEADLINE_EXCEEDED naming the keeper's address if that does not
  // answer for `patience`; INVALID_ARGUMENT if the leader has another run
  // directory than this process, or the record is somebody else's.
  static absl::StatusOr<std::unique_ptr<ChiefElection>> Stand(
      const Options& options, std::unique_ptr<ChiefRecord> record);

  ~ChiefElection();
  ChiefElection(const ChiefElection&) = delete;
  ChiefElection& operator=(const ChiefElection&) = delete;

  uint64_t token() const { return token_; }
  // Another one led when this one began to stand.
  bool stood_by() const { return stood_by_; }

  // `on_lost` is called once, maybe on another thread, with UNAVAILABLE, when
  // this is not the chief any more. REQUIRES: called once.
  void Keep(std::function<void(absl::Status)> on_lost)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Before this process writes what counts: OK, or the error that on_lost has.
  // Asks the keeper where its time may have ended since it was renewed last, as
  // after a pause of this process, for longest_renewal() of the record.
  absl::Status Check() ABSL_LOCKS_EXCLUDED(mutex_);
  // The same, and asks in any case: UNAVAILABLE also if the keeper is away.
  absl::Status Confirm() ABSL_LOCKS_EXCLUDED(mutex_);

  // Since when the keeper is away, and why; nullopt: it is there.
  absl::optional<ChiefStanding::Away> away() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Gives the record back, so that the next one is elected at once.
  void Resign() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  ChiefElection(const Options& options, std::unique_ptr<ChiefRecord> record);

  absl::Status WaitToBeElected();
  // One look at the record: whether this process is elected.
  absl::StatusOr<bool> TryOnce();
  // Waits while that one, whose text it is, holds it.
  absl::Status StandBy(const std::string& chief);
  absl::Status OtherRun(const std::string& chief) const;
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  // What the keeper says, and when it was asked: true, this is the chief.
  absl::StatusOr<bool> Ask(Time* asked);
  // Notes what the keeper said: true, this is the chief; what Check is from
  // then on.
  absl::Status Heard(Time asked, const absl::StatusOr<bool>& answer)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const Options options_;
  const std::unique_ptr<ChiefRecord> record_;
  Candidate candidate_;
  const Time began_;
  uint64_t token_ = 0;
  bool stood_by_ = false;
  std::string seen_;  // The holder that was logged last.

  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  ChiefStanding standing_ ABSL_GUARDED_BY(mutex_);
  std::function<void(absl::Status)> on_lost_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// The run that a state directory has, by its file configuration/election, which
// is made if there is none: what two processes find is the same only if they
// share it. Errors name the file.
absl::StatusOr<uint64_t> RunOfElection(const std::string& state_directory);

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_ELECTION_CHIEF_ELECTION_H_
