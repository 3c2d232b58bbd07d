// The coordinator and a mode that is changed while the job runs.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "config/consistency.h"
#include "coordinator/core/coordinator.h"
#include "coordinator/core/mode_setting.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr absl::Duration kAskAgain = absl::Milliseconds(200);

bool IsSyncMode(const v1::Consistency& mode) {
  return mode.mode() == v1::Consistency::SYNC;
}

uint64_t DivideUp(uint64_t dividend, uint64_t divisor) {
  return (dividend + divisor - 1) / divisor;
}

}  // namespace

// ---- what was asked for -----------------------------------------------------

absl::Status Coordinator::CheckMaySet() const {
  if (phase_ >= Phase::kTellingEnd) {
    return Refuse(v1::Refusal::JOB_FINISHED, "job", "the job is finished");
  }
  if (change_.has_value()) {
    const std::string whom =
        absl::StrCat("staleness to change ", change_->Name());
    const std::string wait =
        IsChangingMode() ? ModeChangeWaitsFor() : waiting_for();
    return RefuseForNow(v1::Refusal::RETRY, whom, kAskAgain,
                        absl::StrCat("waiting for ", whom,
                                     wait.empty() ? "" : ": ", wait));
  }
  if (phase_ < Phase::kRunning) {
    const std::string whom = waiting_for();
    return RefuseForNow(v1::Refusal::RETRY, whom, kAskAgain,
                        absl::StrCat("waiting for ", whom));
  }
  return absl::OkStatus();
}

void Coordinator::OnSet(const Message& message, const v1::SetRequest& request,
                        Outbox* out) {
  const absl::Status may = CheckMaySet();
  if (!may.ok()) {
    out->Refuse(message.call, may);
    return;
  }
  auto mode = ModeToSet(request, options_.job);
  if (!mode.ok()) {
    out->Refuse(message.call, mode.status());
    return;
  }
  const v1::Consistency& present = configuration_.consistency();
  if (StalenessText(*mode) == StalenessText(present)) {
    AnswerSet(message.call, out);
    return;
  }
  const absl::Status held =
      CheckHoldable(*mode, options_.job, configuration_.layout(),
                    options_.workers);
  if (!held.ok()) {
    out->Refuse(message.call, held);
    return;
  }
  ModeChange change(message.call, present, *std::move(mode));
  if (change.ends_sessions() && (phase_ > Phase::kRunning || draining_)) {
    const std::string whom = waiting_for();
    out->Refuse(message.call, RefuseForNow(v1::Refusal::RETRY, whom, kAskAgain,
                                           absl::StrCat("waiting for ", whom)));
    return;
  }
  change_.emplace(std::move(change));
  if (!change_->ends_sessions()) return LogMode(out);
  out->Note(absl::StrCat("an operator changes staleness ", change_->Name(),
                         change_->to_sync()
                             ? ": workers stop when their push is acknowledged"
                             : ": behind the step that is being applied"));
}

// ---- until nothing of the old mode is under way -----------------------------

// A server that was sealed to leave applies no push, so no worker would reach
// its cut. One that has not heard of the change before would take the steps of
// two times in sync mode for one.
bool Coordinator::MayStopForChange() const {
  return !snapshot_.has_value() && !DrainNeedsSnapshot() &&
         EveryServerHas(configuration_.version()) &&
         std::none_of(servers_.begin(), servers_.end(), [](const Server& s) {
           return s.suspected || !IsZero(s.drained_by);
         });
}

bool Coordinator::EverybodyStopped() const {
  return std::all_of(workers_.begin(), workers_.end(), [&](const auto& w) {
    return !w.second.fencing && change_->HasCut(w.first);
  });
}

void Coordinator::AdvanceModeChange(Outbox* out) {
  if (!change_.has_value() || !change_->ends_sessions() ||
      change_->stage() == ModeChange::Stage::kLogging) {
    return;
  }
  if (draining_) return GiveUpModeChange("the chief is leaving", out);
  if (phase_ > Phase::kRunning) {
    return GiveUpModeChange("all input is used up", out);
  }
  if (phase_ < Phase::kRunning) return;  // Servers go back to a checkpoint.
  if (change_->stage() == ModeChange::Stage::kWaiting) {
    if (!MayStopForChange()) return;
    if (change_->to_sync()) {
      NextVersion();
      change_->BeginStop(configuration_.version());
    }
  }
  const bool nobody_is_fenced =
      std::none_of(workers_.begin(), workers_.end(),
                   [](const auto& w) { return w.second.fencing; });
  const bool between_steps = nobody_is_fenced && !rewinding_ &&
                             !logging_contributors_ && steps_.settled();
  if (IsSync() ? between_steps : EverybodyStopped()) LogMode(out);
}

std::string Coordinator::ModeChangeWaitsFor() const {
  if (change_->stage() == ModeChange::Stage::kLogging) {
    return "the configuration log";
  }
  for (const auto& [index, worker] : workers_) {
    if (worker.fencing || change_->HasCut(index)) continue;
    return absl::StrCat(NameOfWorker(index), " to stop");
  }
  return "the configuration log to have a fence";
}

void Coordinator::GiveUpModeChange(absl::string_view why, Outbox* out) {
  const std::string sentence = absl::StrCat(
      "staleness was not changed ", change_->Name(), ": ", why);
  out->Note(sentence);
  out->Refuse(change_->call(),
              RefuseForNow(v1::Refusal::RETRY, "staleness", kAskAgain,
                           sentence));
  change_.reset();
}

// ---- the entry, and behind it -----------------------------------------------

// A schedule goes on as the last change to or from sync left it.
void Coordinator::NoteLoggedMode(const v1::Configuration& logged) {
  const bool changed =
      logged_mode_.has_value() &&
      IsSyncMode(*logged_mode_) != IsSyncMode(logged.consistency());
  // Later ones are of a run that went on with other settings.
  if (changed || logged_decay_steps_.has_value()) {
    logged_decay_steps_ = logged.decay_steps();
  }
  mode_changed_ |= changed;
  if (changed) audit_.ModeChanged();
  logged_mode_ = logged.consistency();
}

void Coordinator::LogMode(Outbox* out) {
  change_->BeginLogging();
  v1::LogEntry entry;
  v1::Configuration* const logged = entry.mutable_configuration();
  *logged = configuration_;
  *logged->mutable_consistency() = change_->to();
  if (change_->ends_sessions()) {
    logged->clear_workers();
    logged->clear_contributors();
    const v1::SavedInput left =
        IsSync() ? steps_.input().left() : portions_.Save(change_->cuts());
    if (options_.job.optimizer().decay_steps() == 0) {
      // A schedule ends with the job, in steps of either kind.
      logged->set_decay_steps(global_step() + StepsOf(left, change_->to()));
    }
    logged_decay_steps_ = logged->decay_steps();
  }
  Append(std::move(entry), &Coordinator::OnModeLogged, out);
}

uint64_t Coordinator::StepsOf(const v1::SavedInput& input,
                              const v1::Consistency& mode) const {
  const v1::JobConfig& job = options_.job;
  uint64_t batch = job.batch_per_replica();
  if (IsSyncMode(mode)) {
    batch *= std::max<uint64_t>(job.accumulate(), 1) *
             std::max<uint64_t>(workers_.size(), 1);
  }
  uint64_t steps = 0;
  for (const v1::SavedInput::Range& range : input.remaining()) {
    steps += DivideUp(range.end() - range.begin(), batch);
  }
  if (input.next_epoch() > job.epochs()) return steps;
  return steps + DivideUp(options_.examples - input.next_offset(), batch) +
         (job.epochs() - input.next_epoch()) *
             DivideUp(options_.examples, batch);
}

void Coordinator::OnModeLogged(const IoResult& result, Time now, Outbox* out) {
  const ModeChange change = *change_;
  if (!result.status.ok()) {
    out->Exit(result.status);
    return;
  }
  if (change.ends_sessions()) {
    GoOnInMode(change.to(), now, out);
  } else if (configuration_.consistency().mode() !=
             v1::Consistency::BOUNDED) {
    RaiseStartClocks();
  }
  change_.reset();
  *configuration_.mutable_consistency() = change.to();
  NextVersion();
  out->Note(absl::StrCat("an operator changed staleness ", change.Name(),
                         ", behind step ", global_step(),
                         ", as of configuration ",
                         VersionName(configuration_.version())));
  AnswerSet(change.call(), out);
}

void Coordinator::GoOnInMode(const v1::Consistency& mode, Time now,
                             Outbox* out) {
  mode_changed_ = true;
  audit_.ModeChanged();
  next_save_of_steps_ = IsSync() ? now : Time::Never();
  const uint64_t step = global_step();
  const v1::SavedInput left =
      IsSync() ? steps_.input().left() : portions_.Save(change_->cuts());
  contributors_awaited_ = workers_.size();
  contribute_at_ = now + lease();
  EndSessions("staleness was changed: join again", out);
  configuration_.set_decay_steps(*logged_decay_steps_);
  step_before_ = step;
  for (Server& server : servers_) server.decide_id = 0;
  if (IsSyncMode(mode)) {
    steps_.Restore(step, left);
  } else {
    portions_.Restart(left);
  }
}

// What a server loses is computed again in sync mode, and behind it until the
// steps are saved.
void Coordinator::NoteEndedSessions() {
  if (IsSync()) return;
  for (const auto& [index, worker] : workers_) {
    loss_.Ended(index, worker.generation, worker.acknowledged, {});
  }
}

void Coordinator::EndSessions(absl::string_view why, Outbox* out) {
  highest_clock_ = HighestClock();
  for (auto& [index, worker] : workers_) {
    if (worker.parked == 0) continue;
    out->Refuse(worker.parked, Refuse(v1::Refusal::NOT_READY, "session", why));
  }
  NoteEndedSessions();
  workers_.clear();
  step_times_.RestAll();
  contributing_.clear();
  SetWorkerMembers();
  configuration_.clear_contributors();
}

void Coordinator::AnswerSet(CallId call, Outbox* out) {
  auto reply = std::make_unique<v1::SetReply>();
  *reply->mutable_configuration() = configuration_.version();
  out->Reply(call, std::move(reply));
}

}  // namespace paramd
