#ifndef PARAMD_SERVER_CORE_RESTORER_H_
#define PARAMD_SERVER_CORE_RESTORER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"

#include "base/random.h"
#include "base/time.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "server/core/relayed_restore.h"
#include "server/core/shard_filler.h"
#include "server/core/shard_turn.h"
#include "server/core/shard_view.h"

namespace paramd {

// Gives a server's slices their first content: drawn, out of a warm start, or
// of a checkpoint, read here or handed over by the coordinator. Asks the
// process for ReadSlices and ReadWarmStart.
//
// Invariant: there is a filler if, and only if, the state is kFilling. What is
// restored goes into the content together with what its files list as lost.
//
// Not thread-safe: a part of a Shard.
class Restorer {
 public:
  Restorer(uint64_t life_seed, const ShardView& view)
      : view_(view), lives_(life_seed) {}

  const FillState& state() const { return state_; }
  const absl::Status& failure() const { return failure_; }

  // Fills the content, which is new, as the configuration says; whatever was
  // under way is dropped.
  void Begin(ShardTurn* turn);
  // Whether the content's first reading has such a number; and its end.
  bool Wants(IoId io) const;
  void OnRead(const IoResult& result, ShardTurn* turn);
  // A piece that the coordinator hands over, where this server does not see the
  // checkpoint.
  absl::Status OnFill(const v1::FillRequest& request,
                      const BufferChain& payload, v1::FillReply* reply,
                      ShardTurn* turn);
  // Fills in a piece of what is there. True if that was the last one.
  bool Advance(ShardTurn* turn);
  // Another place says what the content is.
  void BecomeBackup() { EndFilling(FillState::kBackup); }
  // There is no content any more.
  void Forget() { EndFilling(FillState::kNone); }
  // What it said is the content, under lives of this place's own: other pushes
  // may come to be counted alike here.
  void TakeOver(ShardContent* content);
  // What is filled is of no use.
  void Fail(const absl::Status& why);
  // Says how far it is. Refused where it has failed, or is filling by itself.
  absl::Status AnswerConfigure(v1::ConfigureReply* reply) const;
  Time next_tick() const { return fill_at_; }

 private:
  ShardFiller::Options FillerOptions(ShardTurn* turn);
  ShardFiller::Checkpoint MakeCheckpoint() const;
  // Starts what is to be read next.
  void ReadOn(ShardTurn* turn);
  // What is to be read this process does not see.
  void WaitForChief(RelayedRestore::Content brought, ShardTurn* turn);
  absl::Status Take(const IoResult& result, ShardTurn* turn);
  void FailReading(const absl::Status& why);
  void EndFilling(FillState state);
  // Path of what is read for it; empty: initial values are drawn.
  std::string Source() const;
  void NoteProgress(ShardTurn* turn);
  void NoteFilled(ShardTurn* turn) const;

  const ShardView& view_;
  RandomStream lives_;
  FillState state_ = FillState::kNone;
  absl::Status failure_;
  std::unique_ptr<ShardFiller> filler_;
  std::unique_ptr<RelayedRestore> relayed_;  // If the coordinator brings them.
  Time fill_at_ = Time::Never();
  Time next_progress_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_RESTORER_H_
