#ifndef PARAMD_SERVER_CORE_SYNC_STEP_H_
#define PARAMD_SERVER_CORE_SYNC_STEP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/time.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "server/core/shard_content.h"
#include "server/core/step_gradients.h"
#include "tensor/message.h"

namespace paramd {

// Sync mode on one server: the step that is not decided yet, whose
// contributions are StepGradients beside the blocks; and the call that decides
// it.
//
//   gathering ──Decide(step, workers)──► applying ──► gathering the next step
//       │  ▲                             a few blocks a turn
//       └──┘ Configure: other contributors; what was gathered is dropped
//
// Invariants: no block changes before its step is decided. A push is recorded
// as in when its step is applied.
//
// Not thread-safe: belongs to a Shard; the content outlives it.
class SyncStep {
 public:
  using Options = StepGradients::Options;
  // A call of Decide that can be answered now: with `reply`, or refused.
  struct Answer {
    CallId call = 0;
    absl::Status status;
    std::unique_ptr<v1::DecideReply> reply;
  };

  // REQUIRES: `content` is filled, and as of before the first step of the
  // configuration's contributors.
  SyncStep(const Options& options, ShardContent* content);

  // Takes over who contributes. If that has changed, what was gathered is
  // dropped. kInvalidArgument, with nothing changed, if the contributors' first
  // step is not the next one here, a step is being applied, or the parked bytes
  // cannot hold a step.
  absl::Status Configure(const v1::Configuration& configuration);

  // A chunk of a contribution: its blocks are HELD, or already applied.
  // Refused, with nothing changed: as in ContentPushes::Check; LATE if its step
  // was decided without it; NOT_READY if its step or contributors are not known
  // yet or no more; RETRY, naming whom it waits for, if there is no room for
  // it; OVER_LIMIT if there is no memory.
  absl::Status Push(const v1::PushRequest& request, const BufferChain& payload,
                    v1::PushReply* reply);
  // Applies the step it tells, if that is the next one; answered when
  // it is applied and there is more to decide on than the caller knows. Refused
  // as NOT_READY, SUPERSEDED (other contributors) or INVALID (a step that is
  // not the next one, or of contributions that are not here). True if that
  // decides a step which is to be applied here from now on.
  bool Decide(CallId call, const v1::DecideRequest& request, Time now);

  // ---- as a backup
  // What it takes to go on from here: as in State.
  void Save(v1::ReplicateRequest::State* state) const;
  // The server has decided and applies this step: applies all of it. OVER_LIMIT
  // if there is no memory to go on with now, and then it may be repeated;
  // otherwise refused as by Decide.
  absl::Status Repeat(const v1::DecideRequest& request);
  // The server has applied this step, and its blocks come as of then, or later.
  void Skip(uint64_t step);

  // Applies up to `elements` more of a decided step. OVER_LIMIT if there is no
  // memory to go on with now: later there may be.
  absl::Status ApplySome(size_t elements);
  bool applying() const { return applying_; }
  // No gradient of the next step is here.
  bool is_between() const { return !applying_ && gradients_.empty(); }

  // Answers a Decide that was kept for long enough.
  void Tick(Time now);
  Time next_tick() const;
  // What has become answerable since the last call.
  std::vector<Answer> TakeAnswers();
  // Refuses the Decide that is kept; for a server that ends or is refilled.
  void RefuseDecide(const absl::Status& status);

  // The newest step applied.
  uint64_t step() const { return step_; }
  const v1::ContributorsVersion& contributors() const {
    return gradients_.contributors();
  }
  // Blocks of contributions that were taken, of all steps.
  uint64_t taken_blocks() const { return gradients_.taken_blocks(); }
  // Bytes of gradients that are kept.
  uint64_t parked_bytes() const { return gradients_.parked_bytes(); }
  // Who is missing in the next step, for people; empty: nobody.
  std::string waiting_for() const { return gradients_.WaitingFor(step_ + 1); }

 private:
  absl::Status CheckContributors(const v1::Contributors& told) const;
  absl::Status CheckStep(const v1::PushRequest& request) const;
  absl::Status AnswerDecided(const v1::PushRequest& request,
                             const std::vector<PushDecision>& decisions,
                             v1::PushReply* reply) const;
  absl::Status Gather(const v1::PushRequest& request,
                      const std::vector<PushDecision>& decisions,
                      const BufferChain& payload, v1::PushReply* reply);
  absl::Status CheckDecision(const v1::DecideRequest& request) const;
  // Whether step `step`, for people, can be of these.
  absl::Status CheckWorkers(const std::vector<uint32_t>& told,
                            const std::string& step) const;
  void BeginApplying(const v1::DecideRequest& request);
  void EndApplying();
  void AnswerDecide();
  void AnswerDecideWith(const std::vector<uint32_t>& complete);
  // What weights are like as of the newest step applied. REQUIRES: none is
  // being applied.
  void CountWeights();

  const absl::Duration retry_after_;
  ShardContent& content_;
  StepGradients gradients_;
  uint64_t step_ = 0;

  bool applying_ = false;
  size_t applied_blocks_ = 0;
  std::vector<uint32_t> decided_;  // Whose contributions are applied.
  float scale_ = 1;
  // What weights are like, as of which step; unset: not counted yet.
  std::vector<v1::MagnitudeCounts> magnitudes_;
  std::vector<v1::ChannelSizes> channels_;
  absl::optional<uint64_t> counted_step_;

  absl::optional<CallId> decide_call_;
  Time decide_deadline_;
  bool tell_applied_ = false;  // The caller does not know it yet.
  bool told_nobody_ = false;   // Of a step that was repeated here.
  std::vector<uint32_t> known_complete_;
  std::vector<Answer> answers_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_SYNC_STEP_H_
