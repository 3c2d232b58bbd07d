#ifndef PARAMD_WORKER_COLLECTIVE_ROUND_LINK_H_
#define PARAMD_WORKER_COLLECTIVE_ROUND_LINK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "base/mutex.h"
#include "proto/paramd/v1/membership.pb.h"
#include "worker/collective/linked_collective.h"
#include "worker/rendezvous/round_member.h"

namespace paramd {

// A worker's links to the others of the present round, which the chief's
// Rendezvous decides. Whoever owns this carries what it says there, and what is
// answered (Say, Hear); who computes waits here for the others.
//
//   waiting ──round is told──► linking ──all are──► together ──lost──► waiting
//      ▲                          └── over ──────────────────────────────┘
//
// Thread-safe; Join, AwaitVerdict and Made are of the computing thread.
class RoundLink {
 public:
  RoundLink(uint32_t worker, uint64_t incarnation, MakeLinked make)
      : make_(std::move(make)), member_(worker, incarnation) {}

  // ---- what the chief is told and says
  // Before anything else.
  void SetModel(uint32_t crc32c) ABSL_LOCKS_EXCLUDED(mutex_);
  v1::BeatRequest Say() ABSL_LOCKS_EXCLUDED(mutex_);
  void Hear(const v1::BeatReply& reply) ABSL_LOCKS_EXCLUDED(mutex_);
  // It has something to lose.
  bool stands_before_a_step() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Somebody waits for what the chief says next.
  bool urgent() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until something has changed that the chief is to be told, or for so
  // long.
  void AwaitNews(absl::Duration most) ABSL_LOCKS_EXCLUDED(mutex_);
  // As the chief said it last, while somebody waits here.
  std::vector<v1::BeatReply::Missing> missing() const
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsIn(uint64_t round) const ABSL_LOCKS_EXCLUDED(mutex_);
  bool finished() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The round in which this worker stands before a step, or after the last, so
  // that nothing changes what it has. 0: none.
  uint64_t standing_in() const ABSL_LOCKS_EXCLUDED(mutex_);

  // ---- the end of waiting
  // There is no hope: whoever waits fails with this.
  void Fail(absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whoever waits is CANCELLED, until Expect.
  void Interrupt() ABSL_LOCKS_EXCLUDED(mutex_);
  void Expect() ABSL_LOCKS_EXCLUDED(mutex_);

  // ---- before the first step and after the last
  struct Content {
    uint64_t round = 0;
    uint32_t source = 0;
    bool is_own = false;  // There is nobody to take it from.
  };
  // Waits until it is known where to take the content from, if from anybody.
  // ABORTED if the chief has finished.
  absl::StatusOr<Content> AwaitContent() ABSL_LOCKS_EXCLUDED(mutex_);
  // All steps are made. Waits until the chief has finished.
  absl::Status AwaitEnd() ABSL_LOCKS_EXCLUDED(mutex_);

  // ---- a step
  struct Joined {
    std::shared_ptr<LinkedCollective> collective;
    std::vector<std::string> names;  // Of its members: "worker-2".
  };
  // Waits until all of the round that makes this step are together. ABORTED as
  // RoundMember::CheckPlace.
  absl::StatusOr<Joined> Join(const v1::StepPosition& step)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // With these figures of all.
  void Made(const std::vector<double>& figures) ABSL_LOCKS_EXCLUDED(mutex_);
  // The step failed among these. Waits for the next round: OK with its figures
  // if it is made, UNAVAILABLE if it is to be made again, ABORTED as Join.
  absl::Status AwaitVerdict(const LinkedCollective* failed, bool has_sums,
                            std::vector<double>* figures)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status WhyStoppedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool PausesLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WaitsLocked(bool waits) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AwaitRoundLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LeaveLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropLinksLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Link(const v1::BeatReply& round, size_t rank)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const MakeLinked make_;
  mutable Mutex mutex_;
  CondVar changed_;
  CondVar news_;
  RoundMember member_ ABSL_GUARDED_BY(mutex_);
  // Of the round that is told; null: not made yet. Shared with who computes.
  std::shared_ptr<LinkedCollective> linked_ ABSL_GUARDED_BY(mutex_);
  bool together_ ABSL_GUARDED_BY(mutex_) = false;  // It is connected.
  std::vector<v1::BeatReply::Missing> missing_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  bool interrupted_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_news_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_COLLECTIVE_ROUND_LINK_H_
