#include "coordinator/core/fact_router.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

// Of a job that has ended with so many pushes lost of so many: more than one in
// a hundred, and what would have kept them. Empty: there is nothing to say.
std::string LostWarning(uint64_t lost, uint64_t pushes,
                        const v1::CheckpointConfig& checkpoint) {
  if (pushes == 0 || lost * 100 <= pushes) return "";
  std::string every = "at the end alone";
  if (checkpoint.every_steps() > 0) {
    every = absl::StrCat("every ", checkpoint.every_steps(), " steps");
  } else if (checkpoint.every_seconds() > 0) {
    every = absl::StrCat("every ", checkpoint.every_seconds(), " s");
  }
  return absl::StrFormat(
      "%d of %d pushes (%.1f%%) were lost with the memory of servers, which go "
      "back to the newest checkpoint: one is written %s; a lower "
      "checkpoint.every_steps (or every_seconds) keeps more",
      lost, pushes,
      100.0 * static_cast<double>(lost) / static_cast<double>(pushes), every);
}

std::vector<LossReport::Life> LivesOf(const StartPlan& plan) {
  std::vector<LossReport::Life> lives;
  for (const ServerRecord& server : plan.servers) {
    lives.push_back({server.generation, server.filled});
  }
  return lives;
}

std::vector<LossReport::SessionName> GoingOn(
    const std::map<uint32_t, WorkerRecord>& sessions) {
  std::vector<LossReport::SessionName> names;
  for (const auto& [index, worker] : sessions) {
    names.emplace_back(index, worker.generation);
  }
  return names;
}

}  // namespace

void FactRouter::Deliver(Turn* turn) {
  for (std::vector<Fact> facts = turn->TakeFacts(); !facts.empty();
       facts = turn->TakeFacts()) {
    for (const Fact& fact : facts) {
      std::visit([&](const auto& what) { On(what, turn); }, fact);
    }
  }
}

// ---- the start --------------------------------------------------------------

void FactRouter::On(const LogRead& read, Turn* turn) {
  for (const v1::LogEntry& entry : read.log->entries()) {
    // Later configurations may lack a take-over that was being logged when they
    // were made.
    if (entry.configuration().has_layout()) {
      for (const v1::ServerMember& server : entry.configuration().servers()) {
        ReadPlace(server);
      }
    }
    if (entry.has_replicas()) ReadPlace(entry.replicas());
    if (entry.has_retired()) parts_.retirement.Read(entry.retired());
    if (entry.has_learning_rate_scale()) {
      parts_.rate_scale.Read(entry.learning_rate_scale());
    }
    if (entry.has_scale()) {
      parts_.scaling.Read(entry.scale());
      parts_.balance.ReadScale();
    }
    if (entry.has_move()) parts_.balance.Read(entry.move());
    parts_.settings.Read(entry);
    if (entry.has_epoch_files()) {
      parts_.input.portions().growing().Read(entry.epoch_files());
    }
    if (entry.configuration().has_consistency() &&
        parts_.modes.Read(entry.configuration())) {
      parts_.checkpoints.accounts().audit.ModeChanged();
    }
  }
  parts_.balance.OnLogRead(*turn);
  parts_.scaling.OnLogRead(turn->job);
}

void FactRouter::ReadPlace(const v1::ServerMember& logged) {
  const auto peer = Replicas::PeerIn(logged, parts_.options);
  if (!peer.has_value()) return;
  const uint32_t server = logged.index();
  if (parts_.servers.all()[server].peer == *peer) return;
  parts_.servers.GoOnAt(server, *peer);
  parts_.replicas.GoOnAt(server, *peer);
}

void FactRouter::On(const RunFinished&, Turn* turn) {
  parts_.phase = JobPhase::kTellingEnd;
  parts_.ending.BeginTelling(turn);
  parts_.retirement.DeleteLogged(turn);
}

void FactRouter::On(const CheckpointFound& found, Turn* turn) {
  // What a chief that died has retired may still be there.
  parts_.retirement.DeleteLogged(turn);
  const ModeChanges& modes = parts_.modes;
  const auto plan = parts_.startup.Plan(
      *found.found, parts_.input.portions().portions().epochs(),
      {modes.logged_mode(), modes.logged_decay_steps(), modes.has_changed(),
       parts_.rate_scale.logged()},
      turn);
  if (!plan.ok()) {
    turn->out->Exit(plan.status());
    return;
  }
  Follow(*plan, turn);
}

void FactRouter::Follow(const StartPlan& plan, Turn* turn) {
  *turn->live->mutable_plan() = plan.configuration;
  parts_.settings.Fill(turn->live->mutable_plan());
  for (const v1::SettingChange& setting : turn->job.configuration.settings()) {
    turn->Raise(SettingChanged{setting});
  }
  CheckpointAccounts& accounts = parts_.checkpoints.accounts();
  if (plan.newest.has_value()) {
    const v1::Manifest& manifest = *plan.newest;
    const bool of_others = plan.path.empty();
    accounts.metrics.Restored(of_others ? v1::Manifest() : manifest);
    // A newer one may have been damaged.
    parts_.input.GoOnFrom(plan.step, manifest.input());
    parts_.evaluations.GoOnBehind(
        parts_.input.portions().portions().epochs_finished());
    Checkpoints::Checkpoint newest;
    newest.files.set_path(plan.path);
    newest.number = of_others ? v1::SnapshotNumber() : manifest.snapshot();
    newest.step = plan.step;
    newest.input = manifest.input();
    parts_.checkpoints.GoOnFrom(std::move(newest));
  }
  v1::LogEntry entry;
  if (plan.takes_over) {
    parts_.servers.TakeOver(plan.servers, turn);
    parts_.sessions.TakeOver(plan.sessions);
    accounts.loss.TakeOver(plan.newest ? &*plan.newest : nullptr, LivesOf(plan),
                           plan.ended_sessions, GoingOn(plan.sessions));
    std::set<uint32_t> holders;
    for (const auto& [index, worker] : plan.sessions) holders.insert(index);
    parts_.input.portions().TakeOver(plan.pushes_before, plan.input_left,
                                     std::move(holders));
    *entry.mutable_input_left() = parts_.input.InputLeft({});
  } else {
    // Of servers that were taken over before one of them was lost.
    EndSessions("all servers go back to a checkpoint: join again", turn);
    parts_.input.portions().ForgetHolders();
    accounts.loss = LossReport();
    parts_.servers.RestoreAll(plan.path, turn);
    parts_.replicas.OnRestoreAll();
  }
  if (plan.newest.has_value() && !plan.path.empty()) {
    accounts.Found(*plan.newest, turn->job.IsSync());
  }
  parts_.summary_writer.summaries().Begin(parts_.input.global_step());
  turn->live->SetWorkers(parts_.sessions.all());
  turn->live->NextVersion();
  parts_.sessions.OnConfigured(turn->job.configuration.version());
  *entry.mutable_configuration() = turn->job.configuration;
  parts_.startup.LogLayout(std::move(entry), turn);
}

void FactRouter::On(const Reached& reached, Turn* turn) {
  if (reached.phase == JobPhase::kDone) parts_.AnswerKept(turn);
  parts_.phase = reached.phase;
  switch (reached.phase) {
    case JobPhase::kRecalling:
      return parts_.servers.CallAll(turn->now);
    case JobPhase::kFilling:
      // Nobody has spoken yet: who asks to join instead waits for the lease.
      parts_.sessions.BeginLeases(turn->now);
      return parts_.joins.BeginAnew(turn->now);
    case JobPhase::kTellingEnd:
      parts_.joins.TellEnd(turn);
      parts_.joins = Joins();
      return;
    case JobPhase::kDone:
      return turn->out->Exit(absl::OkStatus());
    default:
      return;
  }
}

// ---- sessions ---------------------------------------------------------------

void FactRouter::On(const Admitted& admitted, Turn* turn) {
  parts_.sessions.Admit(admitted, turn);
}

void FactRouter::On(const WorkerHeard& heard, Turn* turn) {
  parts_.sessions.OnHeard(heard.worker, turn->now);
}

void FactRouter::On(const HeardOfEnd& heard, Turn*) {
  parts_.ending.OnHeard(heard.worker);
}

void FactRouter::On(const SessionOver& over, Turn* turn) {
  parts_.sessions.Fence(over.worker, turn);
}

void FactRouter::On(const HoldsUpStep& holds_up, Turn* turn) {
  // That was no step of the others.
  parts_.input.portions().step_times().RestAll();
  parts_.sessions.Fence(holds_up.worker, turn);
}

// In sync mode it waits until no step is half applied; where all sessions are
// about to end, so does this one.
void FactRouter::On(const SessionFenced& fenced, Turn* turn) {
  if (!turn->job.IsSync() && !parts_.modes.IsLoggingEndOfSessions()) {
    parts_.sessions.LogFence(fenced.worker, turn);
  }
}

void FactRouter::On(const FenceIsDue& due, Turn* turn) {
  parts_.sessions.LogFence(due.worker, turn);
}

void FactRouter::On(const SessionEnded& ended, Turn* turn) {
  parts_.checkpoints.OnSessionEnded(
      ended.worker, ended.session,
      parts_.input.portions().OnWorkerGone(ended.worker, ended.session),
      turn->job);
}

void FactRouter::EndSessions(absl::string_view why, Turn* turn) {
  parts_.checkpoints.accounts().SessionsEnd(turn->job);
  parts_.enlistments.KeepSessions(*turn);
  parts_.sessions.EndAll(why, turn);
  parts_.input.OnSessionsEnded();
  turn->live->Change({v1::Configuration::kContributorsFieldNumber})
      ->clear_contributors();
}

// ---- servers ----------------------------------------------------------------

void FactRouter::On(const ServerHeard& heard, Turn* turn) {
  parts_.servers.OnHeard(heard.server, heard.status, turn);
}

void FactRouter::On(const ServerRecalled& recalled, Turn*) {
  if (parts_.phase == JobPhase::kRecalling) {
    parts_.startup.OnRecalled(recalled.server, *recalled.reply);
  }
}

void FactRouter::On(const ServerConfigured& configured, Turn* turn) {
  const uint32_t index = configured.server;
  parts_.replicas.OnConfigured(index, *configured.reply);
  parts_.summary_writer.summaries().Told(index, *configured.reply);
  if (configured.reply->restored()) {
    parts_.tables.Told(index, configured.reply->tables());
  }
  for (std::string& note : parts_.tables.TakeNotes(turn->now)) {
    turn->out->Warn(std::move(note));
  }
  // After the last checkpoint nothing can be lost.
  if (configured.reply->restored() && parts_.phase < JobPhase::kWritingResult) {
    parts_.checkpoints.accounts().loss.Told(
        index, parts_.servers.all()[index].generation,
        configured.reply->lost());
  }
}

void FactRouter::On(const ServerReborn& reborn, Turn* turn) {
  if (parts_.replicas.TakesOver(reborn.server, turn)) {
    return parts_.servers.AwaitTakeOver(reborn.server);
  }
  const std::string& newest = parts_.checkpoints.newest().path();
  const std::string takes =
      absl::StrCat("; it takes ", newest.empty() ? "initial values" : newest);
  // Before the job runs nobody has pushed.
  const bool had_pushes = parts_.phase >= JobPhase::kRunning;
  turn->out->Note(absl::StrCat(
      "ps-", reborn.server,
      !had_pushes      ? absl::StrCat(" has started again", takes)
      : reborn.drained ? absl::StrCat(" is back after it was stopped", takes,
                                      ", which is all it had")
                       : absl::StrCat(" came back without its shard", takes,
                                      ", what came after is lost")));
  parts_.checkpoints.GiveUp(absl::StrCat("ps-", reborn.server, " was lost"),
                            turn);
  parts_.evaluations.BeginAgain();
  // Of steps of sync mode that no checkpoint has nobody could say what is lost.
  const bool of_steps = turn->job.IsSync() || parts_.schedule.HasStepsToSave();
  if (of_steps && parts_.phase >= JobPhase::kRunning &&
      parts_.phase < JobPhase::kWritingResult) {
    // It gets its generation with all the others.
    parts_.input.steps().GoBack();
    return;
  }
  parts_.servers.Restore(reborn.server, newest, turn);
  CheckpointAccounts::NoteLost(
      parts_.checkpoints.accounts().loss.Restoring(
          reborn.server, parts_.servers.all()[reborn.server].generation),
      turn->out);
}

// What a snapshot holds of a server is in the memory of its last place.
void FactRouter::On(const ReplicaChanged& changed, Turn* turn) {
  const uint32_t server = changed.member.index();
  if (!parts_.servers.Change(changed, turn)) return;
  if (!changed.note.empty()) turn->out->Note(changed.note);
  if (!changed.takes_over) return;
  parts_.replicas.GoOnAt(server, changed.member.peer());
  parts_.input.steps().OnTakenOver(server, turn->now);
  parts_.checkpoints.GiveUp(
      absl::StrCat("ps-", server, " was taken over by its backup"), turn);
  parts_.checkpoints.accounts().loss.TakenOver(server,
                                               changed.member.generation());
}

// A checkpoint is deleted when a later one is committed, which may be known
// only after the server failed; or never, if the answer was lost.
void FactRouter::On(const NotRestored& not_restored, Turn* turn) {
  if (not_restored.may_pass) parts_.startup.OnDamageThatMayPass();
  const Checkpoints::Checkpoint& newest = parts_.checkpoints.newest();
  const SnapshotRound* const round = parts_.checkpoints.round();
  const ServerRecord& server = parts_.servers.all()[not_restored.server];
  if (server.restore_directory != newest.path()) {
    parts_.servers.BeginAnew(not_restored.server, turn);
  } else if (not_restored.is_damaged && parts_.phase == JobPhase::kFilling) {
    parts_.servers.PassOver(newest.path());
    parts_.startup.PassOver(newest.number, newest.path(), not_restored.why,
                            parts_.retirement.logged(), turn);
  } else if (round == nullptr ||
             round->phase() != SnapshotRound::Phase::kCommitting) {
    turn->out->Exit(absl::AbortedError(
        absl::StrCat(not_restored.why,
                     "; the next coordinator looks for another checkpoint")));
  }
}

void FactRouter::On(const BackToCheckpoint&, Turn* turn) {
  const Checkpoints::Checkpoint& newest = parts_.checkpoints.newest();
  parts_.checkpoints.GiveUp("all servers go back to the newest checkpoint",
                            turn);
  const uint64_t step = parts_.input.global_step();
  const uint64_t lost = step - std::min(step, newest.step);
  turn->out->Note(
      absl::StrCat("all servers go back to step ", newest.step, ", ",
                   newest.path().empty() ? "the initial values" : newest.path(),
                   "; ", lost, " steps are computed again"),
      {{"step", newest.step}, {"steps_lost", lost}});
  parts_.input.GoOnFrom(newest.step, newest.input);
  parts_.servers.RestoreAll(newest.path(), turn);
  parts_.replicas.OnRestoreAll();
  EndSessions("the servers went back to a checkpoint: join again", turn);
  CheckpointAccounts& accounts = parts_.checkpoints.accounts();
  accounts.loss.Rewind();  // What the sessions pushed too.
  accounts.metrics.Rewind();
  turn->live->ChangeState(v1::STARTING);
  parts_.summary_writer.summaries().Begin(newest.step);
  parts_.trainings.ForgetFrom(parts_.input.EpochsFinished() + 1);
  parts_.evaluations.GoBackTo(parts_.input.EpochsFinished());
  parts_.input.steps().AwaitContributors(turn->job.options.workers,
                                         turn->now + turn->job.lease());
  parts_.ending.OnRewind(turn->now);
  parts_.schedule.StepsSaved();
  parts_.startup.BeginAgain(turn->now);
  v1::LogEntry entry;
  *entry.mutable_configuration() = turn->job.configuration;
  parts_.startup.LogLayout(std::move(entry), turn);
}

// ---- snapshots, the mode, the input -----------------------------------------

void FactRouter::On(const SnapshotAnswered& answered, Turn* turn) {
  // After the last push of the job, too.
  if (const auto* sealed =
          DynamicCastToGenerated<v1::SealReply>(answered.answer->head)) {
    parts_.tables.Told(answered.server, sealed->tables());
  }
  Checkpoints& checkpoints = parts_.checkpoints;
  if (checkpoints.OnAnswer(answered.server, *answered.answer, turn)) {
    parts_.servers.OnSealedToLeave(answered.server,
                                   checkpoints.round()->number());
  }
}

void FactRouter::On(const SnapshotCallFailed& failed, Turn* turn) {
  parts_.checkpoints.OnCallFailed(failed.snapshot, failed.why, turn);
}

void FactRouter::On(const SnapshotToLeaveWith&, Turn* turn) {
  parts_.leaving.OnOpened(parts_.OpenSnapshot({.stopped = true}, turn));
}

// What is logged each process hears by itself; of those that have no server and
// no worker this is the one.
void FactRouter::On(const SettingChanged& changed, Turn* turn) {
  parts_.schedule.Set(changed.setting, parts_.input.global_step(), turn->now);
}

void FactRouter::On(const AllIsSaved&, Turn* turn) {
  parts_.stop.End(parts_.ForStop(), turn);
}

void FactRouter::On(const CheckpointCommitted& committed, Turn* turn) {
  parts_.schedule.StepsSaved();
  parts_.servers.KeepAliveDraining(turn->now);
  parts_.retirement.Retire(parts_.checkpoints.newest().files.to_retire(), turn);
  if (committed.final) WriteResult(turn);
}

void FactRouter::On(const CheckpointFailed& failed, Turn* turn) {
  parts_.requested.OnFailed(failed.snapshot, failed.why, turn);
  if (failed.final) parts_.ending.OnSaveFailed(failed.why, turn);
}

void FactRouter::On(const Evaluated&, Turn*) {
  const v1::Evaluation& evaluation = parts_.evaluations.newest();
  parts_.checkpoints.accounts().metrics.Evaluated(evaluation,
                                                  parts_.input.global_step());
  parts_.summary_writer.summaries().Evaluated(evaluation);
}

void FactRouter::WriteResult(Turn* turn) {
  const v1::Evaluation& evaluation = parts_.evaluations.newest();
  const Checkpoints::Checkpoint& last = parts_.checkpoints.newest();
  CheckpointAccounts& accounts = parts_.checkpoints.accounts();
  // What a server has lost meanwhile is in it, and nothing is restored any
  // more.
  accounts.loss.Rewind();
  auto write = std::make_unique<v1::WriteResult>();
  *write->mutable_evaluation() = evaluation;
  const bool grows = parts_.input.portions().portions().epochs().grows();
  write->set_epochs(grows ? parts_.input.EpochsFinished()
                          : turn->job.options.job.epochs());
  write->set_seconds(
      absl::ToDoubleSeconds(turn->now - parts_.startup.started()));
  write->set_global_step(last.step);
  write->set_checkpoint_path(last.path());
  write->set_pushes_lost(accounts.pushes_lost());
  write->set_pushes_doubled(accounts.pushes_doubled());
  for (const v1::ChangedSetting& changed : parts_.startup.record().changed()) {
    *write->add_changed() = changed;
  }
  for (v1::EpochTraining& training : parts_.trainings.All()) {
    *write->add_training() = std::move(training);
  }
  std::vector<std::string> warnings = TrainingWarnings(
      evaluation, parts_.summary_writer.summaries().training());
  const std::string lost = LostWarning(accounts.pushes_lost(), last.step,
                                       turn->job.options.job.checkpoint());
  if (!lost.empty()) warnings.push_back(lost);
  for (std::string& warning : parts_.tables.Warnings()) {
    warnings.push_back(std::move(warning));
  }
  for (std::string& warning :
       ScheduleWarnings(turn->job.options.job, last.step)) {
    warnings.push_back(std::move(warning));
  }
  if (grows && last.step == 0) {
    const v1::InputSource& train = turn->job.options.job.input().train();
    warnings.push_back(
        train.has_kafka()
            ? absl::StrCat("nothing was trained on: topic '",
                           train.kafka().topic(),
                           "' had no message from where the run began")
            : std::string(
                  "nothing was trained on: no file with examples came; look at "
                  "the directory and the patterns of input.train"));
  }
  for (std::string& warning : warnings) {
    turn->out->Warn(warning);
    write->add_warnings(std::move(warning));
  }
  parts_.ending.Write(std::move(write), turn);
}

void FactRouter::On(const ModeLogged&, Turn* turn) {
  const JobView& job = turn->job;
  const ModeChange& change = *parts_.modes.change();
  if (change.ends_sessions()) {
    parts_.checkpoints.accounts().audit.ModeChanged();
    parts_.schedule.SaveSteps(job.IsSync() ? turn->now : Time::Never());
    const uint64_t step = parts_.input.global_step();
    const v1::SavedInput left = parts_.input.InputLeft(change.cuts());
    const auto listed =
        std::count_if(job.workers.begin(), job.workers.end(),
                      [&](const auto& w) { return job.IsListed(w.first); });
    parts_.input.steps().AwaitContributors(static_cast<uint32_t>(listed),
                                           turn->now + job.lease());
    EndSessions("staleness was changed: join again", turn);
    parts_.input.ChangeMode(change.to_sync(), step, left);
  } else if (job.configuration.consistency().mode() !=
             v1::Consistency::BOUNDED) {
    parts_.sessions.RaiseStartClocks(turn);
  }
  parts_.modes.Finish(turn);
}

void FactRouter::On(const InputUsed& used, Turn*) {
  parts_.checkpoints.OnInputUsed(used.worker, used.portions);
}

}  // namespace paramd
