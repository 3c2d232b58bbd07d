#include "coordinator/core/coordinator_parts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "proto/refusal.h"

namespace paramd {

CoordinatorParts::CoordinatorParts(const CoordinatorOptions& options,
                                   std::function<std::string()> waiting_for)
    : options(options),
      work(options.job_digest, options.nonce_seed),
      checkpoints(options),
      servers(options, checkpoints),
      watch(options),
      replicas(options, checkpoints, &watch),
      spares(watch, replicas),
      balance(options, &watch, &replicas),
      scaling(options, balance, &watch, &replicas),
      input(options, job),
      job{this->options,  phase, configuration.get(),   servers.all(),
          sessions.all(), input, std::move(waiting_for)},
      startup(options),
      schedule(options.job),
      summary_writer(options.job.summary().every_steps()),
      tables(options.servers) {}

Sessions::News CoordinatorParts::NewsFor(uint32_t worker) const {
  Sessions::News news;
  // What is pushed behind the last checkpoint would be lost with the servers.
  news.stop = modes.StopsWorkers() || (leaving.stopping() && !job.IsSync());
  if (checkpoints.TellsWorkers(job)) {
    news.snapshot = checkpoints.round()->number();
    news.stop |= checkpoints.round()->stopped();
  }
  if (job.IsSync()) {
    news.left_out_step = input.steps().steps().LeftOutStep(worker);
  }
  if (phase == JobPhase::kTellingEnd) news.training = trainings.All();
  news.test_part = evaluations.PartOf(worker);
  if (worker == 0) {
    news.evaluate_epoch = evaluations.EpochToEvaluate(job);
    news.evaluate_final =
        phase == JobPhase::kEvaluating && !Evaluations::AreShared(job);
    // How many epochs there were nobody else knows.
    if (news.evaluate_final && input.portions().portions().epochs().grows()) {
      news.evaluate_epoch = LastEpoch();
    }
  }
  return news;
}

std::string CoordinatorParts::ToScaling() const {
  if (stop.is_asked() || leaving.draining()) return "it is being stopped";
  const std::string drained = drains.UnderWay();
  return drained.empty() ? ""
                         : absl::StrCat(drained,
                                        " is being drained; ask again when it "
                                        "has left");
}

Balance::Present CoordinatorParts::ToBalance() const {
  Balance::Present present;
  present.tasks = scaling.servers();
  present.is_scaling = scaling.IsUnderWay();
  present.may_move = !leaving.draining() && !stop.is_asked();
  present.is_saving = checkpoints.round() != nullptr;
  present.may_begin =
      present.may_move && !modes.IsUnderWay() && drains.UnderWay().empty();
  return present;
}

uint32_t CoordinatorParts::LastEpoch() const {
  return input.portions().portions().epochs().grows()
             ? std::max(input.EpochsFinished(), uint32_t{1})
             : options.job.epochs();
}

void CoordinatorParts::AnswerKept(Turn* turn) {
  sessions.Answer([this](uint32_t w) { return NewsFor(w); }, turn);
  joins.RefuseLate(turn);
}

v1::SnapshotNumber CoordinatorParts::OpenSnapshot(
    const SnapshotRound::Options& snapshot, Turn* turn) {
  schedule.Begin(input.global_step(), input.EpochsFinished(), turn->now);
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

bool CoordinatorParts::IsQuiet() const {
  return phase == JobPhase::kRunning && !job.IsSync() && joins.all().empty() &&
         checkpoints.round() == nullptr && !modes.IsUnderWay() &&
         !rate_scale.HoldsSteps() && !leaving.draining() && !stop.is_asked() &&
         !scaling.IsUnderWay() && !balance.IsUnderWay() &&
         drains.UnderWay().empty();
}

StepLedger::Obstacles CoordinatorParts::ToSteps() const {
  StepLedger::Obstacles obstacles;
  // After an entry of a mode that is under way the next layout has it too.
  obstacles.logging_mode =
      modes.change() != nullptr &&
      modes.change()->stage() == ModeChange::Stage::kLogging;
  obstacles.changing_rate = rate_scale.HoldsSteps();
  obstacles.stopping = leaving.stopping();
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

RequestedCheckpoints::Present CoordinatorParts::ForRequests() const {
  const SnapshotCalls::Numbers numbers = checkpoints.numbers();
  RequestedCheckpoints::Present present;
  present.committed = numbers.committed;
  present.path = checkpoints.newest().path();
  present.step = checkpoints.newest().step;
  present.under_way = numbers.under_way;
  present.next.set_term(job.configuration.version().term());
  present.next.set_counter(numbers.counter + 1);
  if (const SnapshotRound* const round = checkpoints.round()) {
    // Workers have not heard of it; or it has all that was decided; or nobody
    // pushes any more.
    present.has_all =
        round->phase() == SnapshotRound::Phase::kPreparing ||
        (job.IsSync() && round->phase() == SnapshotRound::Phase::kCutting) ||
        phase == JobPhase::kSaving;
  }
  return present;
}

bool CoordinatorParts::MayOpenRequested() const {
  return (phase == JobPhase::kRunning || phase == JobPhase::kEvaluating) &&
         checkpoints.round() == nullptr && modes.change() == nullptr &&
         !leaving.draining() && !SomebodyLeavesWithASnapshot() &&
         job.EveryServerIsThere() &&
         std::none_of(job.servers.begin(), job.servers.end(),
                      [](const ServerRecord& server) {
                        return !IsZero(server.drained_by);
                      });
}

}  // namespace paramd
