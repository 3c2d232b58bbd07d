#ifndef PARAMD_WORKER_COLLECTIVE_ROUND_EXCHANGE_H_
#define PARAMD_WORKER_COLLECTIVE_ROUND_EXCHANGE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/mutex.h"
#include "proto/paramd/v1/membership.pb.h"
#include "worker/collective/bucketed_sum.h"
#include "worker/collective/gradient_exchange.h"
#include "worker/collective/linked_collective.h"
#include "worker/rendezvous/round_member.h"

namespace paramd {

// The exchange of a worker among others in processes of their own, of which any
// may be lost and come back. It sums with those of the present round, which the
// chief's Rendezvous decides; whoever owns this carries what it says there, and
// what is answered (Say, Hear).
//
//   waiting ──round is told──► linking ──all are──► together ──lost──► waiting
//      ▲                          └── over ──────────────────────────────┘
//
// A step that fails is made again in the next round, by whoever is in it: of N
// shares and M workers, worker number r of the round has the shares r, r + M, …
// They are summed in as many passes, each onto the sum of the passes before: so
// shares are added in their order, whoever computes them.
//
// A worker may have the sums of a step and not know that all others have, since
// one was lost at that moment. If one of them went on, it gets the step's figures
// from there and goes on too.
//
// Thread-safety: Say, Hear, Fail, Stop, state and missing on any thread, the
// others as GradientExchange says.
class RoundExchange : public GradientExchange {
 public:
  struct Options {
    uint32_t worker = 0;
    uint32_t workers = 1;
    uint64_t incarnation = 0;
    uint64_t bucket_bytes = uint64_t{4} << 20;
    uint32_t check_every_steps = 100;  // 0: never.
    std::function<uint32_t()> checksum;  // As MirrorExchange::Options.
    MakeLinked make;
  };
  explicit RoundExchange(Options options);
  ~RoundExchange() override;

  // ---- the step
  void Expect() override;
  std::vector<uint32_t> Begin(const v1::ComputeGradient& step,
                              GradientSpans gradients) override;
  absl::optional<std::vector<uint32_t>> NextPass() override;
  void Ready(size_t variable) override;
  // UNAVAILABLE: another worker was lost, and the step is to be computed again.
  // ABORTED: the others are elsewhere, and this process is to be started again.
  // What Fail was given.
  absl::Status End(std::vector<double>* figures) override;
  void Interrupt() override;

  // ---- before the first step and behind the last
  struct Content {
    uint64_t round = 0;
    uint32_t source = 0;
    bool is_own = false;  // There is nobody to take it from.
  };
  // Waits until it is known where to take the content from, if from anybody.
  absl::StatusOr<Content> AwaitContent();
  // All steps are made. Waits until the chief has finished.
  absl::Status AwaitEnd();

  // Whether this round goes on.
  bool IsIn(uint64_t round) const;
  bool finished() const;

  // ---- what the chief is told and says
  // Before anything else.
  void SetModel(uint32_t crc32c);
  v1::BeatRequest Say();
  void Hear(const v1::BeatReply& reply);
  // There is no hope: whoever waits fails with this.
  void Fail(absl::Status status);
  void Stop() { Fail(absl::CancelledError("it ends")); }
  // Somebody waits for what the chief says next.
  bool urgent() const;
  // Waits until something has changed that the chief is to be told, or for so
  // long.
  void AwaitNews(absl::Duration most);
  // As the chief said it last, while this waits.
  std::vector<v1::BeatReply::Missing> missing() const;
  // It stands before a step, or behind the last, and nothing changes what it has
  // in this round. 0: it does not.
  uint64_t standing_in() const;

 private:
  // The worker's place in the present round.
  size_t rank() const { return collective_->rank(); }
  absl::Status WhyStoppedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WaitsLocked(bool waits) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits for a round. What ends the wait.
  absl::Status AwaitRoundLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Until it is together with the others in a round that makes this step.
  absl::Status Join() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Link(const v1::BeatReply& round) ABSL_LOCKS_EXCLUDED(mutex_);
  void LeaveLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropLinksLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool PausesLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<uint32_t> BeginPass();
  void AddBefore(size_t variable);
  absl::Status GatherFigures(const std::vector<double>& own);
  // What becomes of a step that failed.
  absl::Status AwaitVerdict(bool has_sums, std::vector<double>* figures)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const Options options_;

  // Of the computing thread.
  std::shared_ptr<LinkedCollective> collective_;  // Of the present step.
  std::vector<std::string> names_;                // Of its members.
  std::unique_ptr<BucketedSum> sum_;
  std::vector<absl::Span<float>> gradients_;
  absl::Status begun_;  // Why the step could not be begun.
  uint32_t pass_ = 0;
  std::vector<std::vector<float>> before_;  // Sums of the passes before.
  std::vector<std::atomic<bool>> added_;  // By variable: to the own share.
  std::vector<double> header_;
  std::vector<double> gathered_;  // Figures of the step, of all.
  uint64_t steps_ = 0;            // In this round.
  v1::ComputeGradient step_;

  mutable Mutex mutex_;
  CondVar changed_;
  CondVar news_;
  RoundMember member_ ABSL_GUARDED_BY(mutex_);
  // Of the round that is told; null: not made yet.
  std::shared_ptr<LinkedCollective> linked_ ABSL_GUARDED_BY(mutex_);
  bool together_ ABSL_GUARDED_BY(mutex_) = false;  // It is connected.
  std::vector<v1::BeatReply::Missing> missing_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  bool interrupted_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_news_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_COLLECTIVE_ROUND_EXCHANGE_H_
