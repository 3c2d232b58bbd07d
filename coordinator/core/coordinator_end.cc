// The coordinator while the job runs: snapshots, evaluations and the end.
#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "config/optimizer_slots.h"
#include "coordinator/core/dispatcher.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

// Between checkpoints to save steps of sync mode, should one fail.
constexpr absl::Duration kSaveRetry = absl::Seconds(1);

}  // namespace

void Dispatcher::Advance(Turn* turn) {
  if (turn->out->exited) return;
  if (phase_ == JobPhase::kRecalling &&
      std::none_of(servers_.begin(), servers_.end(),
                   [](const Server& s) { return s.suspected; })) {
    FindCheckpoint(turn);
  }
  if (phase_ == JobPhase::kFilling &&
      job_.EveryServerHas(configuration().version())) {
    phase_ = JobPhase::kAdopting;
    turn->out->Note(
        absl::StrCat("all ", servers_.size(), " servers are filled"));
  }
  if (phase_ == JobPhase::kAdopting) FenceSilent(turn);
  if (phase_ == JobPhase::kAdopting && input_.holders().complete())
    BeginRunning(turn->now);
  if (phase_ >= JobPhase::kAdopting && phase_ < JobPhase::kTellingEnd) {
    AdvanceJoins(turn);
  }
  modes_.Advance(Obstacles(), turn);
  steps_.Advance(StepObstacles(), turn);
  Deliver(turn);
  if (phase_ == JobPhase::kRunning) AdvanceRunning(turn);
  if (phase_ == JobPhase::kEvaluating && evaluations_.newest().final()) {
    phase_ = JobPhase::kSaving;
  }
  if (phase_ == JobPhase::kSaving && checkpoints_.round() == nullptr &&
      ending_.MaySave(turn->now) && job_.EveryServerIsThere()) {
    OpenSnapshot({.final = true}, turn);
  }
  if ((phase_ == JobPhase::kRunning || phase_ == JobPhase::kEvaluating) &&
      checkpoints_.round() == nullptr && !modes_.IsUnderWay()) {
    leaving_.Advance(checkpoints_.newest().number, turn);
    Deliver(turn);
  }
  checkpoints_.Advance(turn);
  Deliver(turn);
  summary_writer_.Advance(
      ToldStep(), leaving_.draining() || phase_ >= JobPhase::kEvaluating, turn);
  if (phase_ == JobPhase::kTellingEnd) {
    joins_.TellEnd(turn);
    Deliver(turn);
    ending_.Advance(retirement_.idle(), turn);
    Deliver(turn);
  }
  AnswerParked(turn);
  AdvanceFills(turn);
  DriveServers(turn);
  steps_.DriveServers(turn);
}

bool Dispatcher::AllInputUsed() const {
  return !workers_.empty() && InputFinished() &&
         std::all_of(workers_.begin(), workers_.end(), [](const auto& w) {
           return w.second.last.no_input() && !w.second.fencing;
         });
}

// Input that a silent worker holds is what everybody else waits for.
void Dispatcher::FenceSilent(Turn* turn) {
  for (auto& [index, worker] : workers_) {
    if (!worker.fencing && turn->now - worker.heard > job_.lease()) {
      Fence(index, turn);
    }
  }
}

void Dispatcher::AdvanceRunning(Turn* turn) {
  FenceSilent(turn);
  if (checkpoints_.round() != nullptr || modes_.change() != nullptr ||
      leaving_.draining())
    return;
  if (AllInputUsed()) {
    phase_ = JobPhase::kEvaluating;
    configuration_.ChangeState(v1::FINISHING);
    return;
  }
  const bool unsaved =
      schedule_.MustSaveSteps(turn->now) && job_.EveryServerIsThere();
  if (unsaved) schedule_.SaveSteps(turn->now + kSaveRetry);
  const bool due =
      schedule_.IsDue(global_step(), checkpoints_.newest().step, turn->now);
  if (unsaved || (due && !InputFinished())) OpenSnapshot({}, turn);
}

void Dispatcher::Drain(Time now, Outbox* out) {
  Turn started = Begin(now, out);
  Turn* const turn = &started;
  if (phase_ < JobPhase::kAdopting) {
    turn->out->Exit(absl::OkStatus());
    return;
  }
  if (phase_ >= JobPhase::kSaving) return;  // The end comes first.
  leaving_.Begin(turn->now);
  turn->out->Note("draining: a checkpoint first");
  // Servers that drain too are to leave with the same one.
  for (Server& server : servers_) server.next_keepalive = turn->now;
  Advance(turn);
}

StepLedger::Obstacles Dispatcher::StepObstacles() const {
  StepLedger::Obstacles obstacles;
  obstacles.ending_sessions = modes_.IsLoggingEndOfSessions();
  if (const SnapshotRound* const round = checkpoints_.round()) {
    obstacles.snapshot_open = round->is_open();
    obstacles.committing = round->phase() == SnapshotRound::Phase::kPreparing ||
                           round->phase() == SnapshotRound::Phase::kCommitting;
  }
  return obstacles;
}

bool Dispatcher::SomebodyLeavesWithASnapshot() const {
  return leaving_.NeedsSnapshot(checkpoints_.newest().number, job_);
}

ModeChanges::Obstacles Dispatcher::Obstacles(std::string waiting_for) const {
  return {
      .draining = leaving_.draining(),
      .snapshot =
          checkpoints_.round() != nullptr || SomebodyLeavesWithASnapshot(),
      .steps_under_way = !IsBetweenSteps() || steps_.logging_contributors(),
      .waiting_for = std::move(waiting_for),
  };
}

v1::Version Dispatcher::OpenSnapshot(const SnapshotRound::Options& options,
                                     Turn* turn) {
  schedule_.Begin(global_step(), turn->now);
  return checkpoints_.Open(options, turn);
}

void Dispatcher::WriteResult(Turn* turn) {
  const Checkpoints::Checkpoint& last = checkpoints_.newest();
  CheckpointAccounts& accounts = checkpoints_.accounts();
  // What a server has lost meanwhile is in it, and nothing is restored any
  // more.
  accounts.loss.Rewind();
  auto write = std::make_unique<v1::WriteResult>();
  *write->mutable_evaluation() = evaluations_.newest();
  write->set_epochs(options_.job.epochs());
  write->set_seconds(absl::ToDoubleSeconds(turn->now - started_));
  write->set_global_step(last.step);
  write->set_checkpoint_path(last.path());
  write->set_pushes_lost(accounts.pushes_lost());
  write->set_pushes_doubled(accounts.pushes_doubled());
  for (const v1::ChangedSetting& changed : record_.changed()) {
    *write->add_changed() = changed;
  }
  for (std::string& warning : TrainingWarnings(
           evaluations_.newest(), summary_writer_.summaries().training())) {
    turn->out->Warn(warning);
    write->add_warnings(std::move(warning));
  }
  ending_.Write(std::move(write), turn);
}

}  // namespace paramd
