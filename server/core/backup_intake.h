#ifndef PARAMD_SERVER_CORE_BACKUP_INTAKE_H_
#define PARAMD_SERVER_CORE_BACKUP_INTAKE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"

#include "base/time.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "server/core/shard_turn.h"
#include "server/core/shard_view.h"
#include "server/core/slice_copy.h"

namespace paramd {

// The other end of a BackupStream: does to the content of this place what the
// server did to its own, in the same order, so that this place can go on as the
// server with the same bits, and knows of every push whether it is in.
//
// Invariants: number n is taken once, after n - 1. A slice and the record of
// its pushes come together, and so do a push and its entry in that record. If
// something can't be done here as it was done there, the intake ends, and
// nothing is taken after that.
//
// Bound: kMostParked calls that came too early.
//
// Not thread-safe: a part of a Shard.
class BackupIntake {
 public:
  static constexpr size_t kMostParked = 32;

  explicit BackupIntake(const ShardView& view) : view_(view) {}

  // Begins with nothing, under the configuration that made it a backup. The
  // content is new.
  void Begin(const v1::ConfigurationVersion& since);
  // This place is no backup any more; who waits is refused.
  void End(ShardTurn* turn);
  // Zero: it is none.
  const v1::ConfigurationVersion& since() const { return since_; }
  // Every slice is there.
  bool whole() const;

  // What is taken is told too, in its order: `told` does what concerns others.
  using Told = std::function<void(const v1::ReplicateRequest&)>;
  void OnReplicate(const Message& message, const v1::ReplicateRequest& request,
                   const Told& told, ShardTurn* turn);

  // When the server was last answered: for a while thereafter it may believe
  // that nobody has taken over.
  Time answered() const { return answered_; }
  // What the server lists as lost.
  const google::protobuf::RepeatedPtrField<v1::LostPushes>& lost() const {
    return state_.lost();
  }

 private:
  struct Parked {
    CallId call = 0;
    std::unique_ptr<v1::ReplicateRequest> request;
    BufferChain payload;
  };

  absl::Status Check(PeerId from, const v1::ReplicateRequest& request) const;
  // That the server's process calls, and no other one.
  absl::Status CheckCaller(PeerId from) const;
  absl::Status Take(const v1::ReplicateRequest& request,
                    const BufferChain& payload, ShardTurn* turn);
  absl::Status TakePush(const v1::ReplicateRequest& request,
                        const BufferChain& payload, ShardTurn* turn);
  absl::Status TakePiece(const v1::ReplicateRequest& request,
                         const BufferChain& payload, ShardTurn* turn);
  // Sync mode: a chunk of a contribution.
  absl::Status TakeContribution(const v1::ReplicateRequest& request,
                                const BufferChain& payload, ShardTurn* turn);
  absl::Status TakeDecision(const v1::ReplicateRequest::Decision& decision,
                            ShardTurn* turn);
  absl::Status TakeState(const v1::ReplicateRequest::State& state,
                         ShardTurn* turn);
  // What it says of steps.
  absl::Status TakeStep(const v1::ReplicateRequest::State& state,
                        ShardTurn* turn);
  absl::Status TakeProof(const v1::ReplicateRequest::Proof& proof,
                         const ShardTurn& turn) const;
  void Answer(CallId call, ShardTurn* turn);
  // Takes what comes next; true if it did.
  bool TakeNext(CallId call, const v1::ReplicateRequest& request,
                const BufferChain& payload, const Told& told, ShardTurn* turn);

  const ShardView& view_;
  v1::ConfigurationVersion since_;
  uint64_t taken_ = 0;
  SliceCopy copy_;
  v1::ReplicateRequest::State state_;
  std::map<uint64_t, Parked> parked_;  // By number. Bound: kMostParked.
  absl::Status broken_;
  Time answered_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_BACKUP_INTAKE_H_
