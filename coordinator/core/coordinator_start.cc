// How a coordinator begins: from the newest checkpoint, or with what the
// servers of its predecessor hold.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "config/consistency.h"
#include "coordinator/core/dispatcher.h"
#include "coordinator/core/layout.h"
#include "coordinator/core/variable_match.h"
#include "proto/refusal.h"

namespace paramd {

namespace {

using ::google::protobuf::DynamicCastToGenerated;

// Pushes of an epoch, or in sync mode steps.
uint64_t StepsPerEpoch(const v1::JobConfig& job, bool sync, uint32_t workers,
                       uint64_t examples) {
  uint64_t batch = job.batch_per_replica();
  if (sync)
    batch *= std::max(uint64_t{job.accumulate()}, uint64_t{1}) * workers;
  return (examples + batch - 1) / batch;
}

}  // namespace

void Dispatcher::OnCheckpointFound(const IoResult& result, Turn* turn) {
  const auto* found =
      DynamicCastToGenerated<v1::FindCheckpointResult>(result.head.get());
  absl::Status status = result.status;
  if (status.ok() && found == nullptr) {
    status = absl::InternalError("looking for a checkpoint gave no result");
  }
  if (status.ok()) status = CheckFound(*found);
  // The next coordinator may read what no server could turn->now.
  if (absl::IsDataLoss(status) && damage_may_pass_) {
    status = absl::UnavailableError(status.message());
  }
  if (!status.ok()) {
    turn->out->Exit(status);
    return;
  }
  // What a chief that died has retired may still be there.
  retirement_.DeleteLogged(turn);
  TakeOver::Newest newest;
  if (found->has_manifest()) newest = {&found->manifest(), found->path()};
  // Of other variables no server can restore it.
  if (found->has_warm_start()) {
    newest.path.clear();
    *configuration_.mutable_plan()->mutable_warm_start() = found->warm_start();
  }
  PlanConfiguration(newest, turn);
  if (found->has_manifest() && !found->has_warm_start()) {
    checkpoints_.accounts().audit.Found(found->manifest(), job_.IsSync());
  }
}

absl::Status Dispatcher::CheckFound(
    const v1::FindCheckpointResult& found) const {
  if (!found.has_manifest()) {
    if (retirement_.logged().empty()) return absl::OkStatus();
    // A storage that is not mounted looks empty.
    return absl::UnavailableError(absl::StrCat(
        "no checkpoint is found, though checkpoint ",
        VersionName(retirement_.logged().back()),
        " was retired for a newer one: is the directory of the checkpoints the "
        "one that this run had?"));
  }
  const v1::Manifest& manifest = found.manifest();
  ASSIGN_OR_RETURN(const std::vector<std::string> differences,
                   CheckVariables(found.path(), manifest, options_.variables,
                                  options_.job.checkpoint().allow_missing()));
  if (!differences.empty()) return absl::OkStatus();
  return record_.CheckManifest(found.path(), manifest);
}

// Of a mode that was changed to the log knows how many its steps were then;
// epochs that were added since come on top.
uint64_t Dispatcher::DecaySteps() const {
  const v1::JobConfig& job = options_.job;
  const bool logged =
      modes_.logged_decay_steps().has_value() && !record_.decay_changed();
  if (job.optimizer().decay_steps() > 0) {
    return logged ? *modes_.logged_decay_steps()
                  : job.optimizer().decay_steps();
  }
  const int64_t epoch =
      StepsPerEpoch(job, job_.IsSync(), options_.workers, options_.examples);
  if (!logged) return epoch * job.epochs();
  const int64_t all =
      *modes_.logged_decay_steps() + epoch * record_.more_epochs();
  return std::max<int64_t>(all, 1);
}

void Dispatcher::PlanConfiguration(const TakeOver::Newest& newest, Turn* turn) {
  auto layout = PlanLayout(options_.variables, options_.servers);
  if (!layout.ok()) {
    turn->out->Exit(layout.status());
    return;
  }
  turn->out->Note(BalanceText(*layout, options_.servers));
  const v1::JobConfig& job = options_.job;
  *configuration_.mutable_plan()->mutable_layout() = *std::move(layout);
  *configuration_.mutable_plan()->mutable_optimizer() = job.optimizer();
  const auto consistency = ParseStaleness(job.staleness());
  CHECK(consistency.ok(), "the job's settings were checked");
  *configuration_.mutable_plan()->mutable_consistency() =
      modes_.logged_mode().value_or(*consistency);
  if (job_.IsSync()) {
    configuration_.mutable_plan()->mutable_consistency()->set_backup_workers(
        job.backup_workers());
    if (job.backup_workers() >= options_.workers) {
      turn->out->Exit(absl::InvalidArgumentError(absl::StrCat(
          "backup_workers is ", job.backup_workers(), " of ", options_.workers,
          " workers: at least one must be left to contribute")));
      return;
    }
  }
  configuration_.mutable_plan()->set_decay_steps(DecaySteps());
  configuration_.mutable_plan()->set_seed(job.seed());
  configuration_.mutable_plan()->set_state(v1::STARTING);
  if (newest.manifest != nullptr) GoOnFrom(newest);
  v1::LogEntry entry;
  const std::string why = WhyRestore(newest);
  if (why.empty()) {
    TakeOverServers(newest, turn);
    *entry.mutable_input_left() = input_.portions().Save({});
  } else {
    RestoreServers(newest, why, turn);
  }
  take_over_ = TakeOver();
  summary_writer_.summaries().Begin(global_step());
  for (Server& server : servers_) {
    server.restored = false;
    server.next_call = turn->now;
  }
  configuration_.SetServers(servers_);
  configuration_.SetWorkers(workers_);
  configuration_.NextVersion();
  for (auto& [index, worker] : workers_) {
    worker.admitted = configuration().version();
  }
  phase_ = JobPhase::kLoggingLayout;
  *entry.mutable_configuration() = configuration();
  turn->Append(std::move(entry), Then(this, &Dispatcher::OnLayoutLogged));
}

// Of a checkpoint with other variables servers take the values, as for a warm
// start. A step is what every block has taken, and theirs have taken none.
void Dispatcher::GoOnFrom(const TakeOver::Newest& newest) {
  const v1::Manifest& manifest = *newest.manifest;
  const bool of_others = newest.path.empty();
  checkpoints_.accounts().metrics.Restored(of_others ? v1::Manifest()
                                                     : manifest);
  const uint64_t step = of_others ? 0 : manifest.global_step();
  // A newer one may have been damaged.
  input_.GoOnFrom(step, manifest.input());
  steps_.GoOnFrom(step, manifest.input());
  evaluations_.GoOnBehind(input_.portions().epochs_finished());
  Checkpoints::Checkpoint found;
  found.files.set_path(newest.path);
  found.number = of_others ? v1::Version() : manifest.snapshot();
  found.step = step;
  found.input = manifest.input();
  checkpoints_.GoOnFrom(std::move(found));
}

// In sync mode the servers go back to one step together.
std::string Dispatcher::WhyRestore(const TakeOver::Newest& newest) const {
  if (job_.IsSync() || modes_.has_changed())
    return "staleness is or was 'sync'";
  return take_over_.WhyNot(configuration().layout(), newest);
}

void Dispatcher::TakeOverServers(const TakeOver::Newest& newest, Turn* turn) {
  std::vector<v1::Version> lives;
  for (uint32_t s = 0; s < servers_.size(); ++s) {
    servers_[s].generation = take_over_.generation(s);
    servers_[s].restore_directory = take_over_.restore_directory(s);
    lives.push_back(servers_[s].generation);
  }
  // The first ones of a term are of servers that begin together.
  configuration_.SkipGenerations(servers_.size());
  // Nothing is filled that would have to be found right first.
  configuration_.mutable_plan()->set_state(v1::RUNNING);
  TakeOverSessions(newest, lives);
  turn->out->Note(
      absl::StrCat("the servers keep what they hold; taking over at step ",
                   global_step(), ", with ", workers_.size(),
                   " sessions that go on"),
      {{"step", global_step()}, {"sessions", workers_.size()}});
}

void Dispatcher::TakeOverSessions(const TakeOver::Newest& newest,
                                  const std::vector<v1::Version>& lives) {
  const auto going_on = take_over_.SessionsThatGoOn(
      configuration().consistency().mode(), logged_fences_);
  std::set<uint32_t> awaited;
  for (const auto& [index, member] : going_on) {
    Worker& worker = workers_[index];
    worker.incarnation = member.incarnation();
    worker.left_sessions = member.left_sessions();
    worker.generation = member.generation();
    worker.host = member.host();
    worker.pid = member.pid();
    worker.start_clock = member.start_clock();
    awaited.insert(index);
  }
  std::vector<v1::SavedSession> ended;
  for (v1::SavedSession& session : take_over_.Sessions()) {
    const auto worker = workers_.find(session.worker());
    if (worker != workers_.end() &&
        worker->second.generation == session.generation()) {
      worker->second.acknowledged = session.sequence();
    } else {
      ended.push_back(std::move(session));
    }
  }
  // Pushes that were lost before and were counted stay counted.
  const uint64_t saved = input_.pushes_before();
  const uint64_t others = take_over_.PushesWithout(going_on);
  const uint64_t known = others + input_.Pushes(job_) - saved;
  checkpoints_.accounts().loss.TakeOver(newest.manifest, lives, ended);
  const v1::SavedInput left =
      take_over_.InputLeft(options_.examples, options_.job.epochs());
  input_.TakeOver(others + saved - std::min(saved, known), left,
                  std::move(awaited));
}

void Dispatcher::RestoreServers(const TakeOver::Newest& newest,
                                const std::string& why, Turn* turn) {
  // Of servers that were taken over before one of them was lost.
  EndSessions("all servers go back to a checkpoint: join again", turn);
  input_.ForgetHolders();
  checkpoints_.accounts().loss = LossReport();
  for (uint32_t s = 0; s < servers_.size(); ++s) {
    Server& server = servers_[s];
    server.generation = configuration_.NewGeneration();
    server.restore_directory = newest.path;
    fills_.End(s);  // From a checkpoint that was passed over.
  }
  if (newest.manifest != nullptr && newest.path.empty()) {
    const std::string& path = configuration().warm_start().path();
    const auto differences =
        CheckVariables(path, *newest.manifest, options_.variables, "*");
    for (const std::string& difference : *differences) {
      turn->out->Note(absl::StrCat("checkpoint ", path, ": ", difference));
    }
    turn->out->Note(
        absl::StrCat("going on with values and input of checkpoint ", path,
                     "; slots and counts begin anew"));
  } else if (newest.manifest != nullptr) {
    turn->out->Note(
        absl::StrCat("going on from checkpoint ", newest.path, " (", why, ")"),
        {{"path", newest.path}, {"step", input_.pushes_before()}});
  } else if (configuration().has_warm_start()) {
    const v1::WarmStartConfig& from = configuration().warm_start();
    turn->out->Note(absl::StrCat("initial values of '", from.variables(),
                                 "' come from ", from.path()));
  }
}

void Dispatcher::OnLayoutLogged(const IoResult& result, Turn* turn) {
  if (!result.status.ok()) {
    turn->out->Exit(result.status);
    return;
  }
  phase_ = JobPhase::kFilling;
  // Nobody has spoken yet: who asks to join instead waits for the lease.
  for (auto& [index, worker] : workers_) worker.heard = turn->now;
  joins_.BeginAnew(turn->now);
}

void Dispatcher::BeginRunning(Time now) {
  phase_ = JobPhase::kRunning;
  if (configuration().state() == v1::RUNNING) {
    input_.HandOver(options_);
  } else {
    configuration_.ChangeState(v1::RUNNING);
  }
  schedule_.Begin(global_step(), now);
}

}  // namespace paramd
