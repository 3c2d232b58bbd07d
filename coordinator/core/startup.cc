#include "coordinator/core/startup.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "config/batch_rule.h"
#include "config/consistency.h"
#include "config/server_settings.h"
#include "config/strategy.h"
#include "coordinator/core/layout.h"
#include "coordinator/core/rate_scale.h"
#include "coordinator/core/variable_match.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;

bool IsSync(const v1::Configuration& configuration) {
  return configuration.consistency().mode() == v1::Consistency::SYNC;
}

// Pushes of an epoch, or in sync mode steps.
uint64_t StepsPerEpoch(const CoordinatorOptions& options, bool sync) {
  const uint64_t batch =
      ExamplesPerPush(options.job, sync) * (sync ? options.workers : 1);
  return (options.examples + batch - 1) / batch;
}

// Of a training set that grows: what the checkpoint has used the log knows.
absl::Status CheckIsKnown(const v1::FindCheckpointResult& found,
                          const Epochs& epochs) {
  const v1::SavedInput& input = found.manifest().input();
  const uint32_t begun =
      input.next_epoch() - (input.next_offset() == 0 ? 1 : 0);
  if (!epochs.grows() || input.next_epoch() == 0 || begun <= epochs.number()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "checkpoint '", found.path(), "' has begun epoch ", begun,
      ", but the configuration log says of ", epochs.number(),
      " epochs alone which files they are: give the run the log that it had"));
}

void NoteRestore(const StartPlan& plan, const std::string& why, Turn* turn) {
  const CoordinatorOptions& options = turn->job.options;
  const v1::WarmStartConfig& warm_start = plan.configuration.warm_start();
  if (plan.newest.has_value() && plan.path.empty()) {
    const std::string& path = warm_start.path();
    const auto differences =
        CheckVariables(path, *plan.newest, options.variables, "*");
    for (const std::string& difference : *differences) {
      turn->out->Note(absl::StrCat("checkpoint ", path, ": ", difference));
    }
    turn->out->Note(
        absl::StrCat("going on with values and input of checkpoint ", path,
                     "; slots and counts begin anew"));
  } else if (plan.newest.has_value()) {
    turn->out->Note(
        absl::StrCat("going on from checkpoint ", plan.path, " (", why, ")"),
        {{"path", plan.path}, {"step", plan.step}});
  } else if (plan.configuration.has_warm_start()) {
    turn->out->Note(absl::StrCat("initial values of '", warm_start.variables(),
                                 "' come from ", warm_start.path()));
  }
}

void NoteTakeOver(const StartPlan& plan, Turn* turn) {
  uint64_t step = plan.pushes_before;
  for (const auto& [index, worker] : plan.sessions) step += worker.acknowledged;
  turn->out->Note(
      absl::StrCat("the servers keep what they hold; taking over at step ",
                   step, ", with ", plan.sessions.size(),
                   " sessions that go on"),
      {{"step", step}, {"sessions", plan.sessions.size()}});
}

}  // namespace

Startup::Startup(const CoordinatorOptions& options)
    : record_(options.job, options.job_digest, options.data) {}

// ---- the log and the term ---------------------------------------------------

void Startup::Begin(Turn* turn) {
  started_ = turn->now;
  starting_since_ = turn->now;
  turn->StartIo(std::make_unique<v1::ReadLog>(),
                Then(this, &Startup::OnLogRead));
}

void Startup::OnLogRead(const IoResult& result, Turn* turn) {
  const auto* log =
      DynamicCastToGenerated<v1::ReadLogResult>(result.head.get());
  if (!result.status.ok() || log == nullptr) {
    turn->out->Exit(result.status.ok()
                        ? absl::InternalError("the log has no answer")
                        : result.status);
    return;
  }
  const CoordinatorOptions& options = turn->job.options;
  uint64_t term = 0;
  uint64_t next_number = 1;
  std::string run_id = options.run_id;
  for (const v1::LogEntry& entry : log->entries()) {
    next_number = entry.number() + 1;
    run_id = entry.run_id();
    term =
        std::max({term, entry.term(), entry.configuration().version().term()});
    record_.Read(entry);
    had_layout_ |= entry.has_configuration();
    if (!entry.has_fence()) continue;
    v1::SessionId& newest = fences_[entry.fence().worker()];
    newest = std::max(newest, entry.fence().generation());
  }
  const absl::Status fits = record_.Begin(run_id);
  if (!fits.ok()) {
    turn->out->Exit(fits);
    return;
  }
  turn->Raise(LogRead{log});
  turn->BeginLog(next_number, run_id, record_.ours());
  turn->live->Begin(term + 1, run_id, options.job_digest);
  if (record_.finished()) {
    turn->out->Note(absl::StrCat("run ", run_id,
                                 " is finished already: give more epochs to go "
                                 "on with it, or another run_dir"));
    turn->Raise(RunFinished{});
    return;
  }
  if (!record_.changes().empty()) {
    turn->out->Note(absl::StrCat(
        "run ", run_id, " goes on with other settings: ", record_.changes()));
  }
  turn->Raise(Reached{JobPhase::kTakingTerm});
  v1::LogEntry entry;
  entry.set_term(term + 1);
  turn->Append(std::move(entry), Then(this, &Startup::OnTermTaken));
}

void Startup::OnTermTaken(const IoResult& result, Turn* turn) {
  if (!result.status.ok()) {
    turn->out->Exit(result.status);
    return;
  }
  turn->Raise(Reached{JobPhase::kRecalling});
}

void Startup::OnRecalled(uint32_t server, const v1::RecallReply& reply) {
  take_over_.Recalled(server, reply);
}

void Startup::CheckPatience(Turn* turn) const {
  const JobView& job = turn->job;
  const absl::Duration patience =
      absl::Milliseconds(job.options.job.start_timeout_ms());
  if (job.phase >= JobPhase::kRunning ||
      turn->now - starting_since_ <= patience) {
    return;
  }
  turn->out->Exit(absl::DeadlineExceededError(
      absl::StrCat("not started within ", absl::FormatDuration(patience),
                   "; waiting for ", job.waiting_for())));
}

void Startup::Advance(const std::vector<v1::SnapshotNumber>& retired,
                      Turn* turn) {
  const JobView& job = turn->job;
  if (job.phase == JobPhase::kRecalling &&
      std::none_of(job.servers.begin(), job.servers.end(),
                   [](const ServerRecord& s) { return s.suspected; })) {
    Find(retired, turn);
  }
  if (job.phase == JobPhase::kFilling &&
      job.EveryServerHas(job.configuration.version())) {
    turn->out->Note(
        absl::StrCat("all ", job.servers.size(), " servers are filled"));
    turn->Raise(Reached{JobPhase::kAdopting});
  }
}

// ---- the newest checkpoint --------------------------------------------------

void Startup::Find(const std::vector<v1::SnapshotNumber>& retired, Turn* turn) {
  const CoordinatorOptions& options = turn->job.options;
  turn->Raise(Reached{JobPhase::kFindingCheckpoint});
  auto find = std::make_unique<v1::FindCheckpoint>();
  find->set_run_id(turn->job.configuration.run_id());
  find->mutable_retired()->Add(retired.begin(), retired.end());
  find->mutable_damaged()->Add(damaged_.begin(), damaged_.end());
  if (!options.job.warm_start().path().empty()) {
    *find->mutable_warm_start() = options.job.warm_start();
  } else if (!options.initial_values.empty()) {
    find->mutable_warm_start()->set_path(options.initial_values);
    find->mutable_warm_start()->set_variables("*");
  }
  find->mutable_variables()->Add(options.variables.begin(),
                                 options.variables.end());
  find->set_allow_missing(options.job.checkpoint().allow_missing());
  turn->StartIo(std::move(find),
                [this, retired](const IoResult& result, Turn* later) {
                  OnFound(retired, result, later);
                });
}

void Startup::OnFound(const std::vector<v1::SnapshotNumber>& retired,
                      const IoResult& result, Turn* turn) {
  const auto* found =
      DynamicCastToGenerated<v1::FindCheckpointResult>(result.head.get());
  absl::Status status = result.status;
  if (status.ok() && found == nullptr) {
    status = absl::InternalError("looking for a checkpoint gave no result");
  }
  if (status.ok()) status = CheckFound(*found, retired, turn->job.options);
  // The next coordinator may read what no server could now.
  if (absl::IsDataLoss(status) && damage_may_pass_) {
    status = absl::UnavailableError(status.message());
  }
  if (!status.ok()) {
    turn->out->Exit(status);
    return;
  }
  turn->Raise(CheckpointFound{found});
}

absl::Status Startup::CheckFound(const v1::FindCheckpointResult& found,
                                 const std::vector<v1::SnapshotNumber>& retired,
                                 const CoordinatorOptions& options) const {
  if (!found.has_manifest()) {
    if (retired.empty()) return absl::OkStatus();
    // A storage that is not mounted looks empty.
    return absl::UnavailableError(absl::StrCat(
        "no checkpoint is found, though checkpoint ",
        VersionName(retired.back()),
        " was retired for a newer one: is the directory of the checkpoints the "
        "one that this run had?"));
  }
  const v1::Manifest& manifest = found.manifest();
  ASSIGN_OR_RETURN(const std::vector<std::string> differences,
                   CheckVariables(found.path(), manifest, options.variables,
                                  options.job.checkpoint().allow_missing()));
  if (!differences.empty()) return absl::OkStatus();
  return record_.CheckManifest(found.path(), manifest);
}

void Startup::PassOver(const v1::SnapshotNumber& number,
                       const std::string& path, const std::string& why,
                       const std::vector<v1::SnapshotNumber>& retired,
                       Turn* turn) {
  turn->out->Note(absl::StrCat("checkpoint ", path, " is passed over: ", why));
  v1::FindCheckpoint::Damaged& damaged = damaged_.emplace_back();
  *damaged.mutable_snapshot() = number;
  damaged.set_why(why);
  Find(retired, turn);
}

// ---- the plan ---------------------------------------------------------------

// Of a mode that was changed to the log knows how many its steps were then;
// epochs that were added since come on top.
uint64_t Startup::DecaySteps(const LoggedMode& logged, bool sync,
                             const CoordinatorOptions& options) const {
  const v1::JobConfig& job = options.job;
  const bool is_logged =
      logged.decay_steps.has_value() && !record_.decay_changed();
  if (job.optimizer().decay_steps() > 0) {
    return is_logged ? *logged.decay_steps : job.optimizer().decay_steps();
  }
  const int64_t epoch = StepsPerEpoch(options, sync);
  if (!is_logged) return epoch * job.epochs();
  const int64_t all = *logged.decay_steps + epoch * record_.more_epochs();
  return std::max<int64_t>(all, 1);
}

absl::Status Startup::PlanMode(const LoggedMode& logged,
                               const CoordinatorOptions& options,
                               v1::Configuration* planned) const {
  const v1::JobConfig& job = options.job;
  const auto consistency = ParseStaleness(job.staleness());
  CHECK(consistency.ok(), "the job's settings were checked");
  // What was set while the job ran is of the strategy that it ran with.
  const bool is_logged = logged.mode.has_value() && UsesServers(job) &&
                         !record_.strategy_changed();
  *planned->mutable_consistency() = is_logged ? *logged.mode : *consistency;
  if (!IsSync(*planned)) return absl::OkStatus();
  planned->mutable_consistency()->set_backup_workers(job.backup_workers());
  if (job.backup_workers() < options.workers) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "backup_workers is ", job.backup_workers(), " of ", options.workers,
      " workers: at least one must be left to contribute"));
}

absl::StatusOr<StartPlan> Startup::Plan(const v1::FindCheckpointResult& found,
                                        const Epochs& epochs,
                                        const LoggedMode& logged, Turn* turn) {
  const CoordinatorOptions& options = turn->job.options;
  const v1::JobConfig& job = options.job;
  StartPlan plan;
  v1::Configuration* const planned = &plan.configuration;
  *planned = turn->job.configuration;
  if (found.has_manifest()) {
    RETURN_IF_ERROR(CheckIsKnown(found, epochs));
    plan.newest = found.manifest();
    plan.path = found.path();
  }
  // Of other variables no server can restore it.
  if (found.has_warm_start()) {
    plan.path.clear();
    *planned->mutable_warm_start() = found.warm_start();
  }
  ASSIGN_OR_RETURN(
      *planned->mutable_layout(),
      PlanLayout(options.variables, options.servers, PiecesOf(job)));
  turn->out->Note(BalanceText(planned->layout(), options.servers));
  *planned->mutable_optimizer() = job.optimizer();
  RETURN_IF_ERROR(PlanMode(logged, options, planned));
  const bool sync = IsSync(*planned);
  planned->set_decay_steps(DecaySteps(logged, sync, options));
  // A backup is found without the log of the run that made it.
  const double rate_scale = logged.rate_scale.value_or(
      plan.path.empty() ? 1 : RateScaleOf(*plan.newest));
  if (rate_scale != 1) {
    planned->set_learning_rate_scale(rate_scale);
    turn->out->Note(absl::StrCat("learning rates are multiplied by ",
                                 rate_scale, ", as was set before"));
  }
  planned->set_seed(job.seed());
  *planned->mutable_server_settings() = ServerSettingsOf(job);
  planned->set_state(v1::STARTING);
  // A step is what every block has taken; with other variables servers take the
  // values alone, which have taken none.
  if (!plan.path.empty()) plan.step = plan.newest->global_step();
  const TakeOver::Newest newest{plan.newest ? &*plan.newest : nullptr,
                                plan.path};
  // In sync mode the servers go back to one step together.
  const std::string why = sync || logged.was_changed
                              ? "staleness is or was 'sync'"
                              : take_over_.WhyNot(planned->layout(), newest);
  plan.takes_over = why.empty();
  keeps_content_ = plan.takes_over;
  if (plan.takes_over) {
    PlanTakeOver(turn->job, epochs, &plan);
    NoteTakeOver(plan, turn);
  } else {
    NoteRestore(plan, why, turn);
  }
  take_over_ = TakeOver();
  return plan;
}

// Those sessions that the servers know go on under this coordinator.
void Startup::PlanTakeOver(const JobView& job, const Epochs& epochs,
                           StartPlan* plan) const {
  const CoordinatorOptions& options = job.options;
  // Nothing is filled that would have to be found right first.
  plan->configuration.set_state(v1::RUNNING);
  plan->servers.resize(options.servers);
  for (uint32_t s = 0; s < options.servers; ++s) {
    plan->servers[s].generation = take_over_.generation(s);
    plan->servers[s].restore_directory = take_over_.restore_directory(s);
    plan->servers[s].filled = take_over_.filled(s);
  }
  const auto going_on = take_over_.SessionsThatGoOn(
      plan->configuration.consistency().mode(), fences_);
  for (const auto& [index, member] : going_on) {
    WorkerRecord& worker = plan->sessions[index];
    worker.incarnation = member.incarnation();
    worker.left_sessions = member.left_sessions();
    worker.generation = member.generation();
    worker.host = member.host();
    worker.pid = member.pid();
    worker.start_clock = member.start_clock();
  }
  CountPushes(plan);
  plan->input_left = take_over_.InputLeft(epochs);
}

// The step goes on from the checkpoint's, by what each session has pushed
// since. What blocks have taken says nothing of it: a push that was given up is
// in some of them, in all, or in none, and counts as one.
void Startup::CountPushes(StartPlan* plan) const {
  const auto counted = [plan](uint32_t worker, const v1::SessionId& session) {
    // Of other variables servers took the values alone.
    return plan->path.empty() ? 0
                              : PushesCounted(*plan->newest, worker, session);
  };
  plan->pushes_before = plan->step;
  for (auto& [index, worker] : plan->sessions) {
    worker.acknowledged =
        std::min(plan->pushes_before, counted(index, worker.generation));
    plan->pushes_before -= worker.acknowledged;
  }
  for (v1::SavedSession& session : take_over_.Sessions()) {
    const uint64_t pushes = session.sequence();
    const auto worker = plan->sessions.find(session.worker());
    if (worker != plan->sessions.end() &&
        worker->second.generation == session.generation()) {
      worker->second.acknowledged =
          std::max(worker->second.acknowledged, pushes);
      continue;
    }
    const uint64_t before = counted(session.worker(), session.generation());
    plan->pushes_before += pushes - std::min(pushes, before);
    plan->ended_sessions.push_back(std::move(session));
  }
}

// ---- the layout -------------------------------------------------------------

void Startup::LogLayout(v1::LogEntry entry, Turn* turn) {
  turn->Raise(Reached{JobPhase::kLoggingLayout});
  turn->Append(std::move(entry), Then(this, &Startup::OnLayoutLogged));
}

void Startup::OnLayoutLogged(const IoResult& result, Turn* turn) {
  if (!result.status.ok()) {
    turn->out->Exit(result.status);
    return;
  }
  turn->Raise(Reached{JobPhase::kFilling});
}

}  // namespace paramd
