#ifndef PARAMD_SERVER_CORE_PULL_GATE_H_
#define PARAMD_SERVER_CORE_PULL_GATE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/time.h"
#include "config/server_settings.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "server/core/sync_step.h"
#include "server/core/worker_clocks.h"
#include "tensor/message.h"

namespace paramd {

// Who may read when, on one server: keeps the pulls of workers that are too far
// ahead until they may be answered, or for `park_timeout` at most.
//
// Invariant: in mode BOUNDED no pull with a clock more than `bound` above that
// of the slowest worker that counts is let through; in mode SYNC none before
// the step it names is applied; all others are. Bound: sessions of the
// configuration times kMostParkedEach pulls.
//
// Not thread-safe: lives inside a Shard.
class PullGate {
 public:
  struct Parked {
    CallId call = 0;
    v1::PullRequest request;
    BufferChain rows;  // Its payload.
    Time since;
  };
  static constexpr size_t kMostParkedEach = 64;

  // `server` is its name, for people.
  explicit PullGate(std::string server) : server_(std::move(server)) {}

  // To be called before anything else of an event: notices where this process
  // stood still.
  void Wake(Time now);
  void Configure(const v1::Configuration& configuration, Time now);
  // Sync mode: whose steps pulls wait for; null: in no step. It outlives this
  // or is followed no more.
  void Follow(const SyncStep* sync) { sync_ = sync; }
  // Whether the mode may make this pull wait.
  bool Watches(const v1::PullRequest& pull) const {
    return bounded_ ? pull.has_clock() : is_sync_ && pull.after_step() > 0;
  }

  // What a session says of its clock. Nothing unless BOUNDED.
  void Hear(const v1::Header& header, uint64_t clock, Time now);
  void Tell(const v1::TellClockRequest& told, Time now);

  // Whether the pull must wait for somebody.
  bool MustWait(const v1::PullRequest& pull, Time now) const;
  // Keeps it. OVER_LIMIT, and nothing is kept, where too many are.
  absl::Status Park(CallId call, const v1::PullRequest& pull, Time now,
                    BufferChain rows = {});
  // Takes out those that may be answered now, and those that are `hopeless`:
  // whose answer would be another refusal.
  using Predicate = std::function<bool(const v1::PullRequest& pull)>;
  std::vector<Parked> TakeFree(const Predicate& hopeless, Time now);
  // Takes out those that were kept for long enough; WhyWait says to each for
  // whom it waits.
  std::vector<Parked> TakeLate(Time now);
  // WAIT: names the slowest worker, its clock and its age, or who is missing in
  // a step.
  // REQUIRES: MustWait(pull, now).
  absl::Status WhyWait(const v1::PullRequest& pull, Time now) const;
  // When TakeFree or TakeLate will have something to take though nothing comes.
  Time next_tick() const;

  // Whom pulls wait for longer than `patience`; empty: nobody.
  std::string overdue(Time now, absl::Duration patience) const;
  void FillStatus(v1::ServerStats* stats) const;

 private:
  template <typename Wanted>
  std::vector<Parked> Take(Wanted wanted, Time now);

  const std::string server_;
  ServerSettings settings_;
  WorkerClocks clocks_;
  bool bounded_ = false;
  bool is_sync_ = false;
  const SyncStep* sync_ = nullptr;
  uint64_t bound_ = 0;
  size_t sessions_ = 0;
  std::vector<Parked> parked_;  // The oldest first.
  Time woken_;
  uint64_t pulls_parked_ = 0;
  absl::Duration waited_;  // Those that are over.
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_PULL_GATE_H_
