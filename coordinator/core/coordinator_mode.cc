// What the end of all sessions means: behind a change of the mode, and where all
// servers go back to a checkpoint.
#include <utility>

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
  contributors_awaited_ = workers_.size();
  contribute_at_ = turn->now + job_.lease();
  EndSessions("staleness was changed: join again", turn);
  step_before_ = step;
  for (Server& server : servers_) server.decide_id = 0;
  if (change.to_sync()) {
    steps_.Restore(step, left);
  } else {
    portions_.Restart(left);
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
  step_times_.RestAll();
  contributing_.clear();
  configuration_.SetWorkers(workers_);
  configuration_.mutable_plan()->clear_contributors();
}

}  // namespace paramd
