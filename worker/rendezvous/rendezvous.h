#ifndef PARAMD_WORKER_RENDEZVOUS_RENDEZVOUS_H_
#define PARAMD_WORKER_RENDEZVOUS_RENDEZVOUS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/time.h"
#include "proto/paramd/v1/membership.pb.h"

namespace paramd {

// Which workers sum their gradients together, from which step on, and whose
// content those take that have none.
//
//   gathering ──all wait, or enough of them after the patience──► round
//       ▲                                                           │
//       └── one is silent, another process, gave it up, is back ────┘
//
// Invariants: a round's number is larger than all that any of its workers has
// been in. A worker is in the round only as the process that waited for it. Its
// first step is the furthest that any of them stands before, and its source
// stands there.
//
// Not thread-safe: a core, in the chief.
class Rendezvous {
 public:
  struct Options {
    uint32_t workers = 1;
    // A worker that was silent for so long is lost.
    absl::Duration lost_after = absl::Seconds(5);
    // How long the others wait for each that is missing.
    absl::Duration patience = absl::Minutes(10);
    uint32_t fewest = 0;  // So many may go on then; 0: all are needed.
  };

  explicit Rendezvous(const Options& options) : options_(options) {
    workers_.resize(options.workers);
  }

  // A worker speaks; what it is told. INVALID_ARGUMENT if there is no such
  // worker, it does not say which process it is, or its model is another one
  // than the chief's, ALREADY_EXISTS if its task has a newer process: nothing
  // has changed then.
  absl::StatusOr<v1::BeatReply> Beat(const v1::BeatRequest& beat, Time now);

  // ---- for people
  bool IsHeard(uint32_t worker, Time now) const {
    return IsFresh(workers_[worker], now);
  }
  // Nullopt: it was never heard.
  absl::optional<absl::Duration> SilentFor(uint32_t worker, Time now) const {
    const Worker& one = workers_[worker];
    if (one.incarnation == 0) return absl::nullopt;
    return now - one.heard;
  }
  uint64_t incarnation(uint32_t worker) const {
    return workers_[worker].incarnation;
  }

  // ---- the end
  // The chief has finished the job, and tells whoever speaks.
  void Finish() { finished_ = true; }
  // All that were heard of late have been told.
  bool AllKnowTheEnd(Time now) const;
  // The same of all that there are.
  bool EverybodyKnowsTheEnd() const;

 private:
  struct Worker {
    uint64_t incarnation = 0;  // 0: never heard.
    uint64_t before = 0;       // The process before.
    v1::BeatRequest said;      // The newest.
    Time heard;
    bool knows_the_end = false;
  };
  struct Round {
    uint64_t number = 0;
    std::vector<uint32_t> workers;
    std::vector<uint64_t> incarnations;  // Of each.
    v1::BeatReply reply;                 // But for links and missing.
  };

  absl::Status Check(const v1::BeatRequest& beat) const;
  bool IsFresh(const Worker& worker, Time now) const;
  bool Waits(const Worker& worker, Time now) const;
  // Since when the others wait for it.
  Time Since(const Worker& worker, Time now) const;
  // They wait for it no more.
  bool IsGivenUp(const Worker& worker, Time now) const;
  // The job goes on with so many.
  size_t needed() const {
    return options_.fewest > 0 ? options_.fewest : workers_.size();
  }
  bool IsOver(const Round& round, Time now) const;
  void Advance(Time now);
  void Form(const std::vector<uint32_t>& workers);
  v1::BeatReply Reply(uint32_t worker, Time now) const;
  void AddLinks(Time now, v1::BeatReply* reply) const;
  void AddMissing(uint32_t worker, absl::string_view doing, Time now,
                  v1::BeatReply* reply) const;
  std::string WhyGivenUp(Time now) const;

  const Options options_;
  std::vector<Worker> workers_;
  absl::optional<Round> round_;
  uint64_t newest_ = 0;  // The largest number that anybody has been in.
  // Since when there is no round, or this one. Never: nobody was heard.
  Time since_ = Time::Never();
  bool finished_ = false;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_RENDEZVOUS_RENDEZVOUS_H_
