// What the end of all sessions means: behind a change of the mode, and where
// all servers go back to a checkpoint.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "coordinator/core/dispatcher.h"
#include "proto/refusal.h"

namespace paramd {

void Dispatcher::On(const ModeLogged&, Turn* turn) {
  const ModeChange& change = *modes_.change();
  if (change.ends_sessions()) {
    GoOnInMode(change, turn);
  } else if (configuration().consistency().mode() != v1::Consistency::BOUNDED) {
    RaiseStartClocks();
  }
  modes_.Finish(turn);
}

void Dispatcher::GoOnInMode(const ModeChange& change, Turn* turn) {
  checkpoints_.accounts().audit.ModeChanged();
  schedule_.SaveSteps(job_.IsSync() ? turn->now : Time::Never());
  const uint64_t step = global_step();
  const v1::SavedInput left = InputLeft(change.cuts());
  steps_.AwaitContributors(workers_.size(), turn->now + job_.lease());
  EndSessions("staleness was changed: join again", turn);
  steps_.ForgetCalls();
  if (change.to_sync()) {
    input_.CountBefore(step);
    steps_.GoOnFrom(step, left);
  } else {
    input_.GoOnFrom(step, left);
  }
}

// What a server loses is computed again in sync mode, and behind it until the
// steps are saved.
void Dispatcher::NoteEndedSessions() {
  if (job_.IsSync()) return;
  for (const auto& [index, worker] : workers_) {
    checkpoints_.accounts().loss.Ended(index, worker.generation,
                                       worker.acknowledged, {});
  }
}

void Dispatcher::EndSessions(absl::string_view why, Turn* turn) {
  highest_clock_ = HighestClock();
  for (auto& [index, worker] : workers_) {
    if (worker.parked == 0) continue;
    turn->out->Refuse(worker.parked,
                      Refuse(v1::Refusal::NOT_READY, "session", why));
  }
  NoteEndedSessions();
  workers_.clear();
  input_.OnSessionsEnded();
  steps_.OnSessionsEnded();
  configuration_.SetWorkers(workers_);
  configuration_.mutable_plan()->clear_contributors();
}

void Dispatcher::On(const BackToCheckpoint&, Turn* turn) {
  const Checkpoints::Checkpoint& newest = checkpoints_.newest();
  checkpoints_.GiveUp("all servers go back to the newest checkpoint", turn);
  const uint64_t lost = global_step() - std::min(global_step(), newest.step);
  turn->out->Note(
      absl::StrCat("all servers go back to step ", newest.step, ", ",
                   newest.path().empty() ? "the initial values" : newest.path(),
                   "; ", lost, " steps are computed again"),
      {{"step", newest.step}, {"steps_lost", lost}});
  steps_.GoOnFrom(newest.step, newest.input);
  input_.GoOnFrom(newest.step, newest.input);
  for (Server& server : servers_) {
    RestoreFromNewest(&server);
    server.next_call = turn->now;
  }
  EndSessions("the servers went back to a checkpoint: join again", turn);
  checkpoints_.accounts().loss.Rewind();  // What the sessions pushed too.
  configuration_.SetServers(servers_);
  configuration_.mutable_plan()->set_state(v1::STARTING);
  configuration_.NextVersion();
  checkpoints_.accounts().metrics.Rewind();
  summary_writer_.summaries().Begin(newest.step);
  evaluations_.GoBackTo(EpochsFinished());
  steps_.AwaitContributors(options_.workers, turn->now + job_.lease());
  phase_ = JobPhase::kLoggingLayout;
  starting_since_ = turn->now;
  ending_.OnRewind(turn->now);
  schedule_.StepsSaved();
  v1::LogEntry entry;
  *entry.mutable_configuration() = configuration();
  turn->Append(std::move(entry), Then(this, &Dispatcher::OnLayoutLogged));
}

}  // namespace paramd
