#ifndef PARAMD_SERVER_CORE_SYNC_STEP_H_
#define PARAMD_SERVER_CORE_SYNC_STEP_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/time.h"
#include "proto/paramd/v1/cluster.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "server/core/gradient_sum.h"
#include "server/core/shard_content.h"
#include "tensor/message.h"

namespace paramd {

// Sync mode on one server: the step that is not decided yet, as the sum of its
// contributions, which lies beside the blocks.
//
//   gathering ──Decide(step, workers)──► applying ──► gathering the next step
//       │  ▲                             a few blocks a turn
//       └──┘ Configure: other contributors; what was gathered is dropped
//
// Without backup workers a gradient is added as soon as those of all earlier
// contributors are; what comes before its turn is kept by reference, up to
// `park_bytes`. With them nothing is added before it is decided who belongs to
// the step.
//
// Invariants: no block changes before its step is decided. Contributions are
// summed in the order of the contributors, whatever the order of arrival. A push
// is recorded as in when its step is applied.
//
// Not thread-safe: belongs to a Shard; the content outlives it.
class SyncStep {
 public:
  struct Options {
    uint64_t park_bytes = 256 << 20;
    absl::Duration retry_after = absl::Milliseconds(20);
  };
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
  // Refused, with nothing changed: as in ShardContent::Check; LATE if its step
  // was decided without it; NOT_READY if its step or contributors are not known
  // yet or no more; RETRY, naming whom it waits for, if there is no room for it;
  // OVER_LIMIT if there is no memory.
  absl::Status Push(const v1::PushRequest& request, const BufferChain& payload,
                    v1::PushReply* reply);
  // Applies the step it tells, if that is the next one; answered when
  // it is applied and there is more to decide on than the caller knows. Refused
  // as NOT_READY, SUPERSEDED (other contributors) or INVALID (a step that is
  // not the next one, or of contributions that are not here).
  void Decide(CallId call, const v1::DecideRequest& request, Time now);

  // Applies up to `elements` more of a decided step. OVER_LIMIT if there is no
  // memory to go on with now: later there may be.
  absl::Status ApplySome(size_t elements);
  bool applying() const { return applying_; }

  // Answers a Decide that was kept for long enough.
  void Tick(Time now);
  Time next_tick() const;
  // What has become answerable since the last call.
  std::vector<Answer> TakeAnswers();
  // Refuses the Decide that is kept; for a server that ends or is refilled.
  void RefuseDecide(const absl::Status& status);

  // The newest step applied.
  uint64_t step() const { return step_; }
  // Bytes of gradients that are kept.
  uint64_t parked_bytes() const { return parked_bytes_; }
  // Who is missing in the next step, for people; empty: nobody.
  std::string waiting_for() const;

 private:
  struct BlockState {
    Slice* slice = nullptr;
    int block = 0;
    GradientSum sum;
    size_t next = 0;  // Place in the order of what is added next.
  };
  struct Contribution {
    PushId push;
    uint64_t examples = 0;
    size_t missing = 0;                // Blocks.
    std::vector<bool> in;               // By block.
    std::vector<BufferChain> gradient;  // By block; empty if it is summed.
  };

  void NoteSessions(const v1::Configuration& configuration);
  absl::Status CheckStep(const v1::PushRequest& request) const;
  absl::Status AnswerDecided(
      const v1::PushRequest& request,
      const std::vector<ShardContent::Decision>& decisions,
      v1::PushReply* reply) const;
  absl::Status Gather(const v1::PushRequest& request,
                      const std::vector<ShardContent::Decision>& decisions,
                      const BufferChain& payload, v1::PushReply* reply);
  // The contribution of the worker to the next step; a new one if there is none.
  absl::StatusOr<Contribution*> FindContribution(
      const v1::PushRequest& request);
  absl::Status CheckRoom(const Contribution& contribution, size_t place,
                         const std::vector<size_t>& blocks) const;
  // Memory for those blocks of a contribution. Refused as OVER_LIMIT, for now.
  absl::Status MakeRoom(const Contribution& contribution, size_t place,
                        const std::vector<size_t>& blocks);
  void AddInOrder(size_t block);
  void AddTo(BlockState* block, BufferChain gradient);
  void CountKept();
  uint64_t BytesToApply(const BlockState& block) const;
  absl::Status CheckDecision(const v1::DecideRequest& request) const;
  bool IsAdmitted(uint32_t worker) const;
  void BeginApplying(const v1::DecideRequest& request);
  void ApplyBlock(size_t block);
  void EndApplying();
  void DropGathered();
  void AnswerDecide();
  void AnswerDecideWith(const std::vector<uint32_t>& complete);
  std::vector<uint32_t> Complete() const;
  size_t IndexOf(const ShardContent::Decision& decision) const;
  absl::optional<size_t> PlaceOf(uint32_t worker) const;
  bool eager() const { return backup_workers_ == 0; }

  const Options options_;
  ShardContent& content_;
  v1::Version contributors_;
  std::vector<uint32_t> workers_;  // In the order of summation.
  std::map<uint32_t, v1::Version> sessions_;  // By worker, for people.
  uint32_t backup_workers_ = 0;
  uint64_t step_ = 0;
  std::vector<BlockState> blocks_;
  absl::flat_hash_map<const Slice*, size_t> first_block_;
  uint64_t shard_bytes_ = 0;  // Of one contribution.
  uint64_t largest_block_bytes_ = 0;
  std::map<uint32_t, Contribution> contributions_;  // Bound: workers_.
  uint64_t parked_bytes_ = 0;
  // Of all sums; and of those that are one gradient, which was received.
  uint64_t summed_bytes_ = 0;
  uint64_t borrowed_bytes_ = 0;

  bool applying_ = false;
  size_t applied_blocks_ = 0;
  std::vector<uint32_t> decided_;  // Whose contributions are applied.
  float scale_ = 1;
  SpareBuffers& spare_;  // The content's.

  absl::optional<CallId> decide_call_;
  Time decide_deadline_;
  bool tell_applied_ = false;  // The caller does not know it yet.
  std::vector<uint32_t> known_complete_;
  std::vector<Answer> answers_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_SYNC_STEP_H_
