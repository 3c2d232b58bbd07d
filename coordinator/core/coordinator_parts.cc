#include "coordinator/core/coordinator_parts.h"

#include <utility>

namespace paramd {

CoordinatorParts::CoordinatorParts(const CoordinatorOptions& options,
                                   std::function<std::string()> waiting_for)
    : options(options),
      work(options.job_digest, options.nonce_seed),
      checkpoints(options),
      servers(options, checkpoints),
      input(options, job),
      job{this->options,  phase, configuration.get(),   servers.all(),
          sessions.all(), input, std::move(waiting_for)},
      startup(options),
      schedule(options.job.checkpoint()),
      summary_writer(options.job.summary().every_steps()) {}

Sessions::News CoordinatorParts::NewsFor(uint32_t worker) const {
  Sessions::News news;
  news.stop = modes.StopsWorkers();
  if (checkpoints.TellsWorkers(job)) {
    news.snapshot = checkpoints.round()->number();
    news.stop |= checkpoints.round()->stopped();
  }
  if (job.IsSync()) {
    news.left_out_step = input.steps().steps().LeftOutStep(worker);
  }
  if (worker == 0) {
    news.evaluate_epoch = evaluations.EpochToEvaluate(job);
    news.evaluate_final = phase == JobPhase::kEvaluating;
  }
  return news;
}

void CoordinatorParts::AnswerKept(Turn* turn) {
  sessions.Answer([this](uint32_t w) { return NewsFor(w); }, turn);
  joins.RefuseLate(turn);
}

v1::Version CoordinatorParts::OpenSnapshot(
    const SnapshotRound::Options& snapshot, Turn* turn) {
  schedule.Begin(input.global_step(), turn->now);
  return checkpoints.Open(snapshot, turn);
}

bool CoordinatorParts::HoldsJoins() const {
  const SnapshotRound* const round = checkpoints.round();
  const bool sealing =
      round != nullptr && round->is_open() &&
      (round->phase() == SnapshotRound::Phase::kSealing || job.IsSync());
  return sealing || leaving.draining() || modes.IsUnderWay() ||
         phase == JobPhase::kAdopting ||
         (job.IsSync() && !input.IsBetweenSteps());
}

bool CoordinatorParts::SomebodyLeavesWithASnapshot() const {
  return leaving.NeedsSnapshot(checkpoints.newest().number, job);
}

StepLedger::Obstacles CoordinatorParts::ToSteps() const {
  StepLedger::Obstacles obstacles;
  obstacles.ending_sessions = modes.IsLoggingEndOfSessions();
  if (const SnapshotRound* const round = checkpoints.round()) {
    obstacles.snapshot_open = round->is_open();
    obstacles.committing = round->phase() == SnapshotRound::Phase::kPreparing ||
                           round->phase() == SnapshotRound::Phase::kCommitting;
  }
  return obstacles;
}

ModeChanges::Obstacles CoordinatorParts::ToModeChange() const {
  return {
      .draining = leaving.draining(),
      .snapshot =
          checkpoints.round() != nullptr || SomebodyLeavesWithASnapshot(),
      .steps_under_way =
          !input.IsBetweenSteps() || input.steps().logging_contributors(),
  };
}

}  // namespace paramd
