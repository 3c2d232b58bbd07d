#ifndef PARAMD_SERVER_CORE_STEP_KEEPER_H_
#define PARAMD_SERVER_CORE_STEP_KEEPER_H_

#include "absl/status/status.h"

#include "base/time.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "server/core/shard_turn.h"
#include "server/core/shard_view.h"

namespace paramd {

// Sync mode: makes the SyncStep that stands beside the content, has it decided
// and applied, and ends it.
//
// Invariants: there is a step if, and only if, the content is filled, the mode
// is SYNC, contributors are known, and the job has not finished; a backup has
// one while its server says so. What the coordinator is told of contributions
// and steps the backup has too: it decides on nothing else.
//
// Not thread-safe: a part of a Shard.
class StepKeeper {
 public:
  explicit StepKeeper(const ShardView& view) : view_(view) {}

  static SyncStep::Options OptionsIn(const v1::Configuration& configuration,
                                     const ShardOptions& options);

  // Takes over the contributors of a configuration; in another mode the step
  // ends. Refused with nothing changed: as by SyncStep::Configure.
  absl::Status Configure(const v1::Configuration& configuration,
                         ShardTurn* turn);
  // The step ends undecided; a Decide that waits is refused.
  void End(const absl::Status& why, ShardTurn* turn);
  // Answers, now or when the step is applied.
  void OnDecide(CallId call, const v1::DecideRequest& request, ShardTurn* turn);
  // Goes on applying, as much as one turn may take, and answers.
  void Advance(ShardTurn* turn);
  Time next_tick() const;

 private:
  absl::Status CheckDecide(const v1::DecideRequest& request) const;
  void Answer(ShardTurn* turn);

  const ShardView& view_;
  Time apply_at_ = Time::Never();
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_STEP_KEEPER_H_
