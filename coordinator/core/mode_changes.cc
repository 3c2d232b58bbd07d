#include "coordinator/core/mode_changes.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "config/batch_rule.h"
#include "config/consistency.h"
#include "coordinator/core/mode_setting.h"
#include "proto/refusal.h"
#include "proto/running_setting.h"

namespace paramd {
namespace {

constexpr absl::Duration kAskAgain = absl::Milliseconds(200);

bool IsSyncMode(const v1::Consistency& mode) {
  return mode.mode() == v1::Consistency::SYNC;
}

uint64_t DivideUp(uint64_t dividend, uint64_t divisor) {
  return (dividend + divisor - 1) / divisor;
}

// Pushes, or in sync mode steps, that are to come of so much input.
uint64_t StepsOf(const v1::SavedInput& input, const v1::Consistency& mode,
                 const JobView& view) {
  const v1::JobConfig& job = view.options.job;
  const uint64_t examples = view.options.examples;
  uint64_t batch = ExamplesPerPush(job, IsSyncMode(mode));
  if (IsSyncMode(mode)) batch *= std::max<uint64_t>(view.workers.size(), 1);
  uint64_t steps = 0;
  for (const v1::SavedInput::Range& range : input.remaining()) {
    steps += DivideUp(range.end() - range.begin(), batch);
  }
  if (input.next_epoch() > job.epochs()) return steps;
  return steps + DivideUp(examples - input.next_offset(), batch) +
         (job.epochs() - input.next_epoch()) * DivideUp(examples, batch);
}

void AnswerSet(CallId call, const v1::Consistency& old_mode, Turn* turn) {
  auto reply = std::make_unique<v1::SetReply>();
  reply->set_old_value(StalenessText(old_mode));
  reply->set_value(StalenessText(turn->job.configuration.consistency()));
  *reply->mutable_configuration() = turn->job.configuration.version();
  turn->out->Reply(call, std::move(reply));
}

// Who changed it, if that is known.
void NoteOrigin(const ModeChange& change, v1::Configuration* configuration) {
  if (change.origin().who().empty()) return;
  v1::SettingChange setting;
  setting.set_key("staleness");
  setting.set_value(StalenessText(change.to()));
  *setting.mutable_origin() = change.origin();
  SetRunningSetting(setting, configuration);
}

absl::Status AskAgain(const std::string& whom) {
  return RefuseForNow(v1::Refusal::RETRY, whom, kAskAgain,
                      absl::StrCat("waiting for ", whom));
}

}  // namespace

// ---- what the log says ------------------------------------------------------

// A schedule goes on as the last change to or from sync left it.
bool ModeChanges::Read(const v1::Configuration& logged) {
  const bool changed =
      logged_mode_.has_value() &&
      IsSyncMode(*logged_mode_) != IsSyncMode(logged.consistency());
  // Later ones are of a run that went on with other settings.
  if (changed || logged_decay_steps_.has_value()) {
    logged_decay_steps_ = logged.decay_steps();
  }
  has_changed_ |= changed;
  logged_mode_ = logged.consistency();
  return changed;
}

// ---- what was asked for -----------------------------------------------------

absl::Status ModeChanges::CheckMaySet(const JobView& job) const {
  if (job.phase >= JobPhase::kTellingEnd) {
    return Refuse(v1::Refusal::JOB_FINISHED, "job", "the job is finished");
  }
  if (change_.has_value()) {
    const std::string whom =
        absl::StrCat("staleness to change ", change_->Name());
    const std::string wait =
        IsUnderWay() ? waiting_for(job) : job.waiting_for();
    return RefuseForNow(
        v1::Refusal::RETRY, whom, kAskAgain,
        absl::StrCat("waiting for ", whom, wait.empty() ? "" : ": ", wait));
  }
  if (job.phase < JobPhase::kRunning) return AskAgain(job.waiting_for());
  return absl::OkStatus();
}

void ModeChanges::OnSet(const Message& message, const v1::SetRequest& request,
                        const Obstacles& obstacles, Turn* turn) {
  const JobView& job = turn->job;
  const auto refuse = [&](const absl::Status& why) {
    turn->out->Refuse(message.call, why);
  };
  const absl::Status may = CheckMaySet(job);
  if (!may.ok()) return refuse(may);
  auto mode = ModeToSet(request, job.options.job);
  if (!mode.ok()) return refuse(mode.status());
  const v1::Consistency& present = job.configuration.consistency();
  if (StalenessText(*mode) == StalenessText(present)) {
    return AnswerSet(message.call, present, turn);
  }
  const absl::Status held = CheckHoldable(
      *mode, job.options.job, job.configuration.layout(), job.options.workers);
  if (!held.ok()) return refuse(held);
  ModeChange change(message.call, present, *std::move(mode), request.origin());
  if (change.ends_sessions() &&
      (job.phase > JobPhase::kRunning || obstacles.draining)) {
    return refuse(AskAgain(job.waiting_for()));
  }
  change_.emplace(std::move(change));
  if (!change_->ends_sessions()) return Log(turn);
  turn->out->Note(absl::StrCat(
      "an operator changes staleness ", change_->Name(),
      change_->to_sync() ? ": workers stop when their push is acknowledged"
                         : ": after the step that is being applied"));
}

// ---- until nothing of the old mode is under way -----------------------------

// A server that was sealed to leave applies no push, so no worker would reach
// its cut. One that has not heard of the change before would take the steps of
// two times in sync mode for one.
bool ModeChanges::MayStop(const Obstacles& obstacles,
                          const JobView& job) const {
  return !obstacles.snapshot &&
         job.EveryServerHas(job.configuration.version()) &&
         std::none_of(job.servers.begin(), job.servers.end(),
                      [](const ServerRecord& s) {
                        return s.suspected || !IsZero(s.drained_by);
                      });
}

bool ModeChanges::EverybodyStopped(const JobView& job) const {
  return std::all_of(job.workers.begin(), job.workers.end(),
                     [&](const auto& w) {
                       return !w.second.fencing && change_->HasCut(w.first);
                     });
}

void ModeChanges::Advance(const Obstacles& obstacles, Turn* turn) {
  const JobView& job = turn->job;
  if (!change_.has_value() || !change_->ends_sessions() ||
      change_->stage() == ModeChange::Stage::kLogging) {
    return;
  }
  if (obstacles.draining) return GiveUp("the chief is leaving", turn);
  if (job.phase > JobPhase::kRunning) {
    return GiveUp("all input is used up", turn);
  }
  if (job.phase < JobPhase::kRunning) return;  // Back to a checkpoint.
  if (change_->stage() == ModeChange::Stage::kWaiting) {
    if (!MayStop(obstacles, job)) return;
    if (change_->to_sync()) {
      turn->live->NextVersion();
      change_->BeginStop(job.configuration.version());
    }
  }
  const bool nobody_is_fenced =
      std::none_of(job.workers.begin(), job.workers.end(),
                   [](const auto& w) { return w.second.fencing; });
  const bool stopped = job.IsSync()
                           ? nobody_is_fenced && !obstacles.steps_under_way
                           : EverybodyStopped(job);
  if (stopped) Log(turn);
}

std::string ModeChanges::waiting_for(const JobView& job) const {
  if (change_->stage() == ModeChange::Stage::kLogging) {
    return "the configuration log";
  }
  for (const auto& [index, worker] : job.workers) {
    if (worker.fencing || change_->HasCut(index)) continue;
    return absl::StrCat(job.NameOfWorker(index), " to stop");
  }
  return "the configuration log to have a fence";
}

void ModeChanges::GiveUp(absl::string_view why, Turn* turn) {
  const std::string sentence =
      absl::StrCat("staleness was not changed ", change_->Name(), ": ", why);
  turn->out->Note(sentence);
  turn->out->Refuse(
      change_->call(),
      RefuseForNow(v1::Refusal::RETRY, "staleness", kAskAgain, sentence));
  change_.reset();
}

// ---- the entry, and after it -----------------------------------------------

void ModeChanges::Log(Turn* turn) {
  const JobView& job = turn->job;
  change_->BeginLogging();
  v1::LogEntry entry;
  v1::Configuration* const logged = entry.mutable_configuration();
  *logged = turn->live->WithoutLayout();
  *logged->mutable_consistency() = change_->to();
  NoteOrigin(*change_, logged);
  if (change_->ends_sessions()) {
    logged->clear_contributors();
    if (job.options.job.optimizer().decay_steps() == 0) {
      // A schedule ends with the job, in steps of either kind.
      const v1::SavedInput left = job.progress.InputLeft(change_->cuts());
      logged->set_decay_steps(job.progress.global_step() +
                              StepsOf(left, change_->to(), job));
    }
    logged_decay_steps_ = logged->decay_steps();
  }
  turn->Append(std::move(entry), Then(this, &ModeChanges::OnLogged));
}

void ModeChanges::OnLogged(const IoResult& result, Turn* turn) {
  if (!result.status.ok()) {
    turn->out->Exit(result.status);
    return;
  }
  has_changed_ |= change_->ends_sessions();
  turn->Raise(ModeLogged{});
}

void ModeChanges::Finish(Turn* turn) {
  const ModeChange change = *std::move(change_);
  change_.reset();
  v1::Configuration* const configuration =
      turn->live->Change({v1::Configuration::kDecayStepsFieldNumber,
                          v1::Configuration::kConsistencyFieldNumber,
                          v1::Configuration::kSettingsFieldNumber});
  if (change.ends_sessions()) {
    configuration->set_decay_steps(*logged_decay_steps_);
  }
  *configuration->mutable_consistency() = change.to();
  NoteOrigin(change, configuration);
  turn->live->NextVersion();
  turn->out->Note(absl::StrCat(
      "an operator changed staleness ", change.Name(), ", after step ",
      turn->job.progress.global_step(), ", as of configuration ",
      VersionName(turn->job.configuration.version())));
  AnswerSet(change.call(), change.from(), turn);
}

}  // namespace paramd
