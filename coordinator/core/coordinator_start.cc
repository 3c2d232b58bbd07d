// How a coordinator begins: from the newest checkpoint, or with what the servers
// of its predecessor hold.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "config/consistency.h"
#include "coordinator/core/coordinator.h"
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
  if (sync) batch *= std::max(uint64_t{job.accumulate()}, uint64_t{1}) * workers;
  return (examples + batch - 1) / batch;
}

}  // namespace

void Coordinator::OnCheckpointFound(const IoResult& result, Time now,
                                    Outbox* out) {
  const auto* found =
      DynamicCastToGenerated<v1::FindCheckpointResult>(result.head.get());
  absl::Status status = result.status;
  if (status.ok() && found == nullptr) {
    status = absl::InternalError("looking for a checkpoint gave no result");
  }
  if (status.ok()) status = CheckFound(*found);
  // The next coordinator may read what no server could now.
  if (absl::IsDataLoss(status) && damage_may_pass_) {
    status = absl::UnavailableError(status.message());
  }
  if (!status.ok()) {
    out->Exit(status);
    return;
  }
  // What a chief that died has retired may still be there.
  if (!retired_.logged().empty()) DeleteCheckpoints(retired_.logged(), out);
  TakeOver::Newest newest;
  if (found->has_manifest()) newest = {&found->manifest(), found->path()};
  // Of other variables no server can restore it.
  if (found->has_warm_start()) {
    newest.path.clear();
    *configuration_.mutable_warm_start() = found->warm_start();
  }
  PlanConfiguration(newest, now, out);
  if (found->has_manifest() && !found->has_warm_start()) {
    audit_.Found(found->manifest(), IsSync());
  }
}

absl::Status Coordinator::CheckFound(
    const v1::FindCheckpointResult& found) const {
  if (!found.has_manifest()) {
    if (retired_.logged().empty()) return absl::OkStatus();
    // A storage that is not mounted looks empty.
    return absl::UnavailableError(absl::StrCat(
        "no checkpoint is found, though checkpoint ",
        VersionName(retired_.logged().back()),
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
uint64_t Coordinator::DecaySteps() const {
  const v1::JobConfig& job = options_.job;
  const bool logged =
      logged_decay_steps_.has_value() && !record_.decay_changed();
  if (job.optimizer().decay_steps() > 0) {
    return logged ? *logged_decay_steps_ : job.optimizer().decay_steps();
  }
  const int64_t epoch =
      StepsPerEpoch(job, IsSync(), options_.workers, options_.examples);
  if (!logged) return epoch * job.epochs();
  const int64_t all = *logged_decay_steps_ + epoch * record_.more_epochs();
  return std::max<int64_t>(all, 1);
}

void Coordinator::PlanConfiguration(const TakeOver::Newest& newest, Time now,
                                    Outbox* out) {
  auto layout = PlanLayout(options_.variables, options_.servers);
  if (!layout.ok()) {
    out->Exit(layout.status());
    return;
  }
  out->Note(BalanceText(*layout, options_.servers));
  const v1::JobConfig& job = options_.job;
  *configuration_.mutable_layout() = *std::move(layout);
  *configuration_.mutable_optimizer() = job.optimizer();
  const auto consistency = ParseStaleness(job.staleness());
  CHECK(consistency.ok(), "the job's settings were checked");
  *configuration_.mutable_consistency() = logged_mode_.value_or(*consistency);
  if (IsSync()) {
    configuration_.mutable_consistency()->set_backup_workers(
        job.backup_workers());
    if (job.backup_workers() >= options_.workers) {
      out->Exit(absl::InvalidArgumentError(absl::StrCat(
          "backup_workers is ", job.backup_workers(), " of ", options_.workers,
          " workers: at least one must be left to contribute")));
      return;
    }
  }
  configuration_.set_decay_steps(DecaySteps());
  configuration_.set_seed(job.seed());
  configuration_.set_state(v1::STARTING);
  if (newest.manifest != nullptr) GoOnFrom(newest);
  v1::LogEntry entry;
  const std::string why = WhyRestore(newest);
  if (why.empty()) {
    TakeOverServers(newest, out);
    *entry.mutable_input_left() = portions_.Save({});
  } else {
    RestoreServers(newest, why, out);
  }
  take_over_ = TakeOver();
  summaries_.Begin(global_step());
  for (Server& server : servers_) {
    server.restored = false;
    server.next_call = now;
  }
  SetServerMembers();
  SetWorkerMembers();
  NextVersion();
  for (auto& [index, worker] : workers_) {
    worker.admitted = configuration_.version();
  }
  phase_ = Phase::kLoggingLayout;
  *entry.mutable_configuration() = configuration_;
  Append(std::move(entry), &Coordinator::OnLayoutLogged, out);
}

// Of a checkpoint with other variables servers take the values, as for a warm
// start. A step is what every block has taken, and theirs have taken none.
void Coordinator::GoOnFrom(const TakeOver::Newest& newest) {
  const v1::Manifest& manifest = *newest.manifest;
  const bool of_others = newest.path.empty();
  metrics_.Restored(of_others ? v1::Manifest() : manifest);
  portions_.Restart(manifest.input());  // A newer one may have been damaged.
  step_before_ = of_others ? 0 : manifest.global_step();
  steps_.Restore(step_before_, manifest.input());
  epochs_evaluated_ = portions_.epochs_finished();
  checkpoint_input_ = manifest.input();
  checkpoint_.set_path(newest.path);
  checkpoint_step_ = step_before_;
  checkpoint_number_ = of_others ? v1::Version() : manifest.snapshot();
}

// In sync mode the servers go back to one step together.
std::string Coordinator::WhyRestore(const TakeOver::Newest& newest) const {
  if (IsSync() || mode_changed_) return "staleness is or was 'sync'";
  return take_over_.WhyNot(configuration_.layout(), newest);
}

void Coordinator::TakeOverServers(const TakeOver::Newest& newest, Outbox* out) {
  std::vector<v1::Version> lives;
  for (uint32_t s = 0; s < servers_.size(); ++s) {
    servers_[s].generation = take_over_.generation(s);
    servers_[s].restore_directory = take_over_.restore_directory(s);
    lives.push_back(servers_[s].generation);
  }
  // The first ones of a term are of servers that begin together.
  generation_counter_ = servers_.size();
  // Nothing is filled that would have to be found right first.
  configuration_.set_state(v1::RUNNING);
  TakeOverSessions(newest, lives);
  out->Note(absl::StrCat("the servers keep what they hold; taking over at step ",
                         global_step(), ", with ", workers_.size(),
                         " sessions that go on"),
            {{"step", global_step()}, {"sessions", workers_.size()}});
}

void Coordinator::TakeOverSessions(const TakeOver::Newest& newest,
                                   const std::vector<v1::Version>& lives) {
  const auto going_on = take_over_.SessionsThatGoOn(
      configuration_.consistency().mode(), logged_fences_);
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
  const uint64_t saved = step_before_;
  step_before_ = take_over_.PushesWithout(going_on);
  step_before_ += saved - std::min(saved, global_step());
  loss_.TakeOver(newest.manifest, lives, ended);
  const v1::SavedInput left =
      take_over_.InputLeft(options_.examples, options_.job.epochs());
  portions_.Restart(left);
  holders_.Await(left, std::move(awaited));
}

void Coordinator::RestoreServers(const TakeOver::Newest& newest,
                                 const std::string& why, Outbox* out) {
  // Of servers that were taken over before one of them was lost.
  EndSessions("all servers go back to a checkpoint: join again", out);
  holders_ = InputHolders();
  loss_ = LossReport();
  for (uint32_t s = 0; s < servers_.size(); ++s) {
    Server& server = servers_[s];
    server.generation.set_term(configuration_.version().term());
    server.generation.set_counter(++generation_counter_);
    server.restore_directory = newest.path;
    fills_.End(s);  // From a checkpoint that was passed over.
  }
  if (newest.manifest != nullptr && newest.path.empty()) {
    const std::string& path = configuration_.warm_start().path();
    const auto differences =
        CheckVariables(path, *newest.manifest, options_.variables, "*");
    for (const std::string& difference : *differences) {
      out->Note(absl::StrCat("checkpoint ", path, ": ", difference));
    }
    out->Note(absl::StrCat("going on with values and input of checkpoint ", path,
                           "; slots and counts begin anew"));
  } else if (newest.manifest != nullptr) {
    out->Note(absl::StrCat("going on from checkpoint ", newest.path, " (", why,
                           ")"),
              {{"path", newest.path}, {"step", step_before_}});
  } else if (configuration_.has_warm_start()) {
    const v1::WarmStartConfig& from = configuration_.warm_start();
    out->Note(absl::StrCat("initial values of '", from.variables(),
                           "' come from ", from.path()));
  }
}

void Coordinator::OnLayoutLogged(const IoResult& result, Time now,
                                 Outbox* out) {
  if (!result.status.ok()) {
    out->Exit(result.status);
    return;
  }
  phase_ = Phase::kFilling;
  // Nobody has spoken yet: who asks to join instead waits for the lease.
  for (auto& [index, worker] : workers_) worker.heard = now;
  for (auto& [index, joining] : joining_) joining.since = now;
}

void Coordinator::BeginRunning(Time now) {
  phase_ = Phase::kRunning;
  if (configuration_.state() == v1::RUNNING) {
    holders_.HandOver(options_.examples, options_.job.epochs(), &portions_);
  } else {
    ChangeState(v1::RUNNING);
  }
  SetNextCheckpoint(now);
}

}  // namespace paramd
