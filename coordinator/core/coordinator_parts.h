#ifndef PARAMD_COORDINATOR_CORE_COORDINATOR_PARTS_H_
#define PARAMD_COORDINATOR_CORE_COORDINATOR_PARTS_H_

#include <functional>
#include <string>

#include "coordinator/core/balance.h"
#include "coordinator/core/checkpoint_schedule.h"
#include "coordinator/core/checkpoints.h"
#include "coordinator/core/ending.h"
#include "coordinator/core/enlistments.h"
#include "coordinator/core/epoch_trainings.h"
#include "coordinator/core/evaluations.h"
#include "coordinator/core/input_ledger.h"
#include "coordinator/core/job_stop.h"
#include "coordinator/core/joins.h"
#include "coordinator/core/leaving.h"
#include "coordinator/core/mode_changes.h"
#include "coordinator/core/place_drains.h"
#include "coordinator/core/place_watch.h"
#include "coordinator/core/rate_scale.h"
#include "coordinator/core/replicas.h"
#include "coordinator/core/requested_checkpoints.h"
#include "coordinator/core/retirement.h"
#include "coordinator/core/running_settings.h"
#include "coordinator/core/scaling.h"
#include "coordinator/core/servers.h"
#include "coordinator/core/sessions.h"
#include "coordinator/core/spare_places.h"
#include "coordinator/core/startup.h"
#include "coordinator/core/summary_writer.h"
#include "coordinator/core/table_watch.h"
#include "coordinator/core/turn.h"

namespace paramd {

// What a coordinator is made of, and what takes more than one part to answer.
//
// Not thread-safe: lives inside a Dispatcher.
struct CoordinatorParts {
  // `waiting_for`: the whole job, for people.
  CoordinatorParts(const CoordinatorOptions& options,
                   std::function<std::string()> waiting_for);
  CoordinatorParts(const CoordinatorParts&) = delete;

  Turn Begin(Time now, Outbox* out) {
    return Turn(now, out, job, &configuration, &work);
  }

  // What workers are told with an answer; and those who wait for one are.
  Sessions::News NewsFor(uint32_t worker) const;
  // Of which the final evaluation is.
  uint32_t LastEpoch() const;
  void AnswerKept(Turn* turn);
  v1::SnapshotNumber OpenSnapshot(const SnapshotRound::Options& snapshot,
                                  Turn* turn);
  // While servers seal nobody is admitted: it has no cut. Before, that of a
  // worker that comes is waited for as everybody's.
  bool HoldsJoins() const;
  bool SomebodyLeavesWithASnapshot() const;
  // It trains, and nothing is under way that several members are asked for.
  bool IsQuiet() const;
  // What else keeps a step or a change of the mode back.
  StepLedger::Obstacles ToSteps() const;
  ModeChanges::Obstacles ToModeChange() const;
  // What there is for an operator who asks for a checkpoint, and whether one
  // may be opened for that now: what else is due comes first.
  RequestedCheckpoints::Present ForRequests() const;
  bool MayOpenRequested() const;
  // Why the job can't be scaled now; empty: nothing forbids it.
  std::string ToScaling() const;
  // For a server that rebalance may move.
  Balance::Present ToBalance() const;
  JobStop::Present ForStop() const {
    return {.newest = &checkpoints.newest(),
            .may_hold_pushes = startup.MayHoldPushes(),
            .may_any_hold_pushes = startup.MayAnyHoldSlices()};
  }

  const CoordinatorOptions options;
  JobPhase phase = JobPhase::kReadingLog;
  LiveConfiguration configuration;
  PendingWork work;
  Checkpoints checkpoints;
  Servers servers;
  PlaceWatch watch;
  Replicas replicas;
  SparePlaces spares;
  PlaceDrains drains;
  Balance balance;
  Scaling scaling;
  Sessions sessions;
  InputLedger input;
  const JobView job;
  Startup startup;
  Enlistments enlistments;
  Joins joins;
  CheckpointSchedule schedule;
  RequestedCheckpoints requested;
  Retirement retirement;
  ModeChanges modes;
  RateScale rate_scale;
  RunningSettings settings;
  Evaluations evaluations;
  Leaving leaving;
  JobStop stop;
  Ending ending;
  SummaryWriter summary_writer;
  EpochTrainings trainings;
  TableWatch tables;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_COORDINATOR_PARTS_H_
