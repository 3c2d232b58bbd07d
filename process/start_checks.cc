#include "process/start_checks.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"
#include "checkpoint/verify.h"
#include "checkpoint/warm_start.h"
#include "compute/model/trained_model.h"
#include "config/consistency.h"
#include "config/optimizer_names.h"
#include "config/server_settings.h"
#include "config/strategy.h"
#include "coordinator/core/layout.h"
#include "coordinator/core/mode_setting.h"
#include "input/batch.h"
#include "net/descriptors.h"
#include "net/listen_address.h"
#include "net/tls.h"
#include "process/enlist.h"
#include "process/memory_limit.h"
#include "process/resource_needs.h"
#include "proto/refusal.h"
#include "server/core/shard_content.h"
#include "worker/worker_process.h"

namespace paramd {
namespace {

// Of a data set, and at once.
constexpr uint64_t kMostExamplesRead = 10000;
constexpr uint64_t kExamplesAtOnce = 100;

// It listens for calls of other processes.
bool Listens(const Start& start) {
  const bool is_told_no_address =
      start.cluster.joins() && start.cluster.self_address().empty();
  return !start.cluster.standalone && !start.role.evaluator.has_value() &&
         !is_told_no_address;
}

// Where others reach it is meant.
bool MayListenAnywhere(const Start& start) {
  return start.options.insecure || !start.options.tls_dir.empty();
}

// ---- what the process is told -----------------------------------------------

absl::Status CheckSecurity(const Start& start) {
  if (!start.options.insecure || start.options.tls_dir.empty()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "--insecure and --tls_dir contradict each other: with certificates "
      "nothing is insecure, and any address can be listened on; leave "
      "--insecure out");
}

absl::Status CheckCertificates(const Start& start) {
  const std::string& directory = start.options.tls_dir;
  if (directory.empty()) return absl::OkStatus();
  if (start.role.member.has_value()) {
    return absl::InvalidArgumentError(
        "--tls_dir: strategy \"multi_worker_mirrored\" sums gradients over "
        "connections that are not encrypted; give --insecure in its place, in "
        "a network that you trust, or choose strategy \"parameter_server\"");
  }
  if (start.cluster.joins()) {
    return NameToJoinWith(directory, start.job).status();
  }
  if (!Listens(start)) return absl::OkStatus();
  return Tls::Check(directory, CertifiedNameOf(start.role, start.job));
}

absl::Status CheckRunDirectory(const Start& start) {
  if (!start.job.run_dir().empty()) return absl::OkStatus();
  if (start.role.evaluator.has_value()) {
    return absl::InvalidArgumentError(
        "run_dir is missing: an evaluator needs --run_dir, where the "
        "checkpoints are and where it writes evaluation.jsonl");
  }
  if (start.cluster.standalone || !start.role.keeps_a_run()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "run_dir is missing: in a cluster the chief needs --run_dir, where it "
      "goes on after a restart");
}

absl::Status CheckBackup(const Start& start) {
  const v1::BackupAndRestoreConfig& backup = start.job.backup_and_restore();
  if (backup.directory().empty() || !backup.delete_at_success() ||
      !start.role.evaluator.has_value()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "backup_and_restore.delete_at_success: would take the last checkpoint "
      "from the evaluator; give false");
}

absl::Status CheckElection(const Start& start) {
  if (start.job.chief_election().empty()) return absl::OkStatus();
  if (start.cluster.standalone || start.role.member.has_value()) {
    return absl::InvalidArgumentError(
        "chief_election: needs a cluster with ps tasks, whose chief can be "
        "another process; leave it out");
  }
  if (!start.options.process.job.stage.empty()) {
    return absl::InvalidArgumentError(
        "chief_election: does not go with stages, each of which is a run of "
        "its own; leave it out");
  }
  const v1::BackupAndRestoreConfig& backup = start.job.backup_and_restore();
  if (backup.directory().empty() || !backup.delete_at_success()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "chief_election: a candidate would not find the log that "
      "backup_and_restore.delete_at_success takes away; give false");
}

absl::Status CheckBackupWorkers(const Start& start) {
  const auto consistency = ParseStaleness(start.job.staleness());
  if (!consistency.ok() || consistency->mode() != v1::Consistency::SYNC ||
      !start.cluster.knows_all_workers ||
      start.job.backup_workers() < std::max(start.role.workers, 1u)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "backup_workers is ", start.job.backup_workers(), " of ",
      start.role.workers, " workers: at least one must be left to contribute"));
}

// ---- addresses --------------------------------------------------------------

absl::Status CheckAddresses(const Start& start) {
  if (MayListenAnywhere(start)) return absl::OkStatus();
  if (Listens(start)) {
    RETURN_IF_ERROR(CheckListenAddress(start.cluster.self_address()));
    if (!start.options.health_address.empty()) {
      RETURN_IF_ERROR(CheckListenAddress(start.options.health_address));
    }
  }
  const std::string& metrics = start.job.metrics_address();
  return metrics.empty() ? absl::OkStatus() : CheckListenAddress(metrics);
}

// Of the process's own, which it can bind once.
absl::Status CheckDifferentAddresses(const Start& start) {
  std::vector<std::pair<absl::string_view, std::string>> own;
  own.emplace_back("metrics_address", start.job.metrics_address());
  if (Listens(start)) {
    own.emplace_back("--health_address", start.options.health_address);
    own.emplace_back("the address of the task", start.cluster.self_address());
  }
  for (size_t i = 0; i < own.size(); ++i) {
    for (size_t k = i + 1; k < own.size(); ++k) {
      if (!OverlapAddresses(own[i].second, own[k].second)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(own[i].first, ": '", own[i].second, "' is ",
                       own[k].first, " too; give it another port"));
    }
  }
  return absl::OkStatus();
}

// ---- the machine ------------------------------------------------------------

absl::Status CheckInstructions(const Start& start) {
  return KernelsFor(start.job.cpu()) != nullptr
             ? absl::OkStatus()
             : absl::InvalidArgumentError(
                   "cpu: this machine does not have these instructions; leave "
                   "it out");
}

absl::Status CheckDevices(const Start& start) {
  if (start.role.stage.has_value()) {
    v1::JobConfig one = start.job;
    one.clear_pipeline();  // Of whose devices one is here.
    return CheckGpus(one);
  }
  return KeepsCopies(start.options, start.job) && start.role.worker.has_value()
             ? DevicesOfReplicas(start.job).status()
             : absl::OkStatus();
}

absl::Status CheckDisk(const Start& start) {
  const std::string& directory = start.job.disk_directory();
  return start.role.server.has_value() && !directory.empty()
             ? DiskMemory::Create(directory).status()
             : absl::OkStatus();
}

// As many as it makes connections.
absl::Status CheckFiles(const Start& start) {
  if (!Listens(start)) return absl::OkStatus();
  const ClusterSpec& cluster = start.cluster;
  const bool is_called = start.role.server.has_value() || start.role.is_chief();
  const bool is_stage = start.role.stage.has_value();
  size_t called = 0;
  if (!start.role.member.has_value() && !is_stage) {
    called = std::count_if(cluster.ps.begin(), cluster.ps.end(),
                           [](const auto& ps) { return !ps.empty(); }) +
             (cluster.chief_address().empty() ? 0 : 1);
  }
  if (start.role.worker.has_value()) called += start.role.stages_of_a_worker;
  size_t callers = is_stage ? 1 : 0;
  if (is_called) {
    callers = cluster.workers.size() + start.job.max_joined_workers();
  }
  if (start.role.server.has_value() && start.role.replication > 1) {
    callers += cluster.ps.size();  // They tell each other.
  }
  RaiseDescriptorLimit();
  return CheckDescriptors(callers, called);
}

absl::Status CheckLimits(const Start& start) {
  return CheckResources(
      NeedsOf(start.role, start.cluster.standalone, start.job));
}

constexpr StartCheck kStartChecks[] = {
    {"security", CheckSecurity},
    {"certificates", CheckCertificates},
    {"run directory", CheckRunDirectory},
    {"backup", CheckBackup},
    {"election", CheckElection},
    {"backup workers", CheckBackupWorkers},
    {"addresses", CheckAddresses},
    {"different addresses", CheckDifferentAddresses},
    {"instructions", CheckInstructions},
    {"devices", CheckDevices},
    {"disk", CheckDisk},
    {"files", CheckFiles},
    {"limits", CheckLimits},
};

// ---- the model --------------------------------------------------------------

absl::Status CheckWholeGradients(const ProcessRole& role,
                                 const v1::JobConfig& job,
                                 absl::Span<const v1::Variable> variables) {
  const bool sums_them =
      role.member.has_value() ||
      (job.strategy() == v1::JobConfig::MIRRORED && ReplicasOf(job) > 1);
  if (!sums_them) return absl::OkStatus();
  for (const v1::Variable& variable : variables) {
    if (!variable.sparse()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("strategy: \"", StrategyName(job.strategy()),
                     "\" sums whole gradients, but variable '", variable.name(),
                     "' is sparse; choose ",
                     role.member.has_value() ? "" : "\"central_storage\" or ",
                     "\"parameter_server\""));
  }
  return absl::OkStatus();
}

// What the coordinator tells servers first.
absl::StatusOr<v1::Configuration> ConfigurationOf(
    const ProcessRole& role, const v1::JobConfig& job,
    absl::Span<const v1::Variable> variables) {
  v1::Configuration told;
  ASSIGN_OR_RETURN(*told.mutable_layout(),
                   PlanLayout({variables.begin(), variables.end()},
                              role.servers, PiecesOf(job)));
  *told.mutable_optimizer() = job.optimizer();
  ASSIGN_OR_RETURN(*told.mutable_consistency(),
                   ParseStaleness(job.staleness()));
  if (told.consistency().mode() == v1::Consistency::SYNC) {
    told.mutable_consistency()->set_backup_workers(job.backup_workers());
  }
  *told.mutable_server_settings() = ServerSettingsOf(job);
  for (uint32_t worker = 0; worker < role.workers; ++worker) {
    told.add_workers();
  }
  return told;
}

absl::Status CheckContributions(const ProcessRole& role,
                                const v1::JobConfig& job,
                                absl::Span<const v1::Variable> variables) {
  if (!role.is_chief() || job.backup_workers() == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const v1::Configuration told,
                   ConfigurationOf(role, job, variables));
  const absl::Status holdable =
      CheckHoldable(told.consistency(), job, told.layout(), role.workers);
  return holdable.ok() ? holdable
                       : absl::InvalidArgumentError(holdable.message());
}

// By what a server itself says of it.
absl::Status CheckMemory(const ProcessRole& role, const v1::JobConfig& job,
                         uint64_t bytes_of_a_shard,
                         absl::Span<const v1::Variable> variables) {
  if (bytes_of_a_shard == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const v1::Configuration told,
                   ConfigurationOf(role, job, variables));
  for (uint32_t server = 0; server < role.servers; ++server) {
    MemoryBudget memory(bytes_of_a_shard);
    ShardContent::Options options;
    options.server = server;
    options.memory = &memory;
    const absl::Status made = ShardContent::Create(told, options).status();
    // Rows on a disk are that server's matter.
    if (RefusalOf(made).entity() != "memory_limit_bytes") continue;
    return absl::InvalidArgumentError(
        absl::StrCat("ps-", server, ": memory_limit_bytes: ", made.message()));
  }
  return absl::OkStatus();
}

absl::Status CheckOwnMemory(const ProcessRole& role, const v1::JobConfig& job,
                            absl::Span<const v1::Variable> variables) {
  return role.server.has_value()
             ? CheckMemory(role, job, MemoryOfAShard(job, role.places()),
                           variables)
             : absl::OkStatus();
}

absl::Status CheckNamesInOptimizer(const ProcessRole& /*role*/,
                                   const v1::JobConfig& job,
                                   absl::Span<const v1::Variable> variables) {
  std::vector<const v1::Variable*> pointers;
  for (const v1::Variable& variable : variables) pointers.push_back(&variable);
  return CheckOptimizerNames(job.optimizer(), pointers);
}

constexpr ModelCheck kModelChecks[] = {
    {"names in optimizer", CheckNamesInOptimizer},
    {"whole gradients", CheckWholeGradients},
    {"contributions", CheckContributions},
    {"memory", CheckOwnMemory},
};

// ---- what a run does as it begins -------------------------------------------

// Reads examples as training does, in another order: the first ones there. What
// is in them has to be what the model takes.
absl::Status ReadExamples(const Pipeline& data, const TrainedModel& model,
                          absl::string_view name,
                          std::vector<std::string>* unchecked) {
  const uint64_t count = std::min(data.size(), kMostExamplesRead);
  Batch batch;
  for (uint64_t begin = 0; begin < count; begin += kExamplesAtOnce) {
    const uint64_t end = std::min(begin + kExamplesAtOnce, count);
    RETURN_IF_ERROR(
        data.Read({.epoch = 1, .begin = begin, .end = end}, &batch));
    if (batch.size() > 0) RETURN_IF_ERROR(model.CheckExamples(batch));
  }
  if (data.growing() != nullptr) {
    unchecked->push_back(absl::StrCat("what is added to ", name, " later"));
  } else if (count < data.size()) {
    unchecked->push_back(absl::StrCat("examples of ", name, " beyond ", count,
                                      " of its ", data.size()));
  }
  return absl::OkStatus();
}

// A run that has checkpoints goes on from them.
absl::Status CheckWarmStartOf(const v1::JobConfig& job,
                              absl::Span<const v1::Variable> variables) {
  if (job.warm_start().path().empty()) return absl::OkStatus();
  const auto names = ListCheckpointNames(job.checkpoint().directory());
  if (names.ok() && !names->empty()) return absl::OkStatus();
  return FindWarmStart(job.warm_start(), variables).status();
}

}  // namespace

bool ComputesInProgram(const RunOptions& options) {
  return options.training_examples > 0;
}

bool KeepsCopies(const RunOptions& options, const v1::JobConfig& job) {
  return job.strategy() == v1::JobConfig::MIRRORED && ReplicasOf(job) > 1 &&
         !ComputesInProgram(options);
}

absl::Span<const StartCheck> StartChecks() { return kStartChecks; }
absl::Span<const ModelCheck> ModelChecks() { return kModelChecks; }

absl::Status CheckStart(const Start& start) {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::vector<std::string> mistakes;
  for (const StartCheck& one : StartChecks()) {
    const absl::Status status = one.check(start);
    if (status.ok()) continue;
    if (mistakes.empty()) code = status.code();
    mistakes.emplace_back(status.message());
  }
  return absl::Status(code, absl::StrJoin(mistakes, "\n"));
}

absl::Status CheckModel(const ProcessRole& role, const v1::JobConfig& job,
                        absl::Span<const v1::Variable> variables) {
  for (const ModelCheck& one : ModelChecks()) {
    RETURN_IF_ERROR(one.check(role, job, variables));
  }
  return absl::OkStatus();
}

absl::Status CheckContent(const Start& start, const ModelFactory& models,
                          std::vector<std::string>* unchecked) {
  const ProcessRole& role = start.role;
  const bool evaluates = role.evaluator.has_value();
  if (!role.worker.has_value() && !evaluates) return absl::OkStatus();
  const v1::JobConfig job = evaluates ? WithOneReplica(start.job) : start.job;
  ASSIGN_OR_RETURN(
      const WorkerProcess::Checked checked,
      WorkerProcess::Check(
          job, models, evaluates || role.joined ? 0 : role.stages_of_a_worker));
  const TrainedModel& model = *checked.model;
  if (!evaluates) {
    RETURN_IF_ERROR(CheckModel(role, job, model.variables()));
    // Servers have the same job file, and no other way to say it.
    if (!role.server.has_value()) {
      RETURN_IF_ERROR(CheckMemory(role, job,
                                  job.memory_limit_bytes() / role.places(),
                                  model.variables()));
    }
    if (role.keeps_a_run()) {
      RETURN_IF_ERROR(CheckWarmStartOf(job, model.variables()));
    }
    RETURN_IF_ERROR(
        ReadExamples(*checked.training, model, "the training set", unchecked));
  }
  return ReadExamples(*checked.test, model, "the test set", unchecked);
}

std::string NotChecked(const Start& start, std::vector<std::string> unchecked) {
  const bool reads =
      start.role.worker.has_value() || start.role.evaluator.has_value();
  if (!reads) {
    unchecked.push_back(
        absl::StrCat("the data, and whether the model fits it (",
                     TaskName(start.cluster.self), " reads none)"));
    unchecked.push_back("whether its variables fit into its memory");
  }
  if (!start.cluster.standalone) {
    unchecked.push_back(
        "whether the other tasks can be reached, have the same job and data, "
        "and the memory that they need");
  }
  if (Listens(start) || !start.job.metrics_address().empty()) {
    unchecked.push_back("whether its addresses are free");
  }
  unchecked.push_back("whether what the job writes can be written");
  return absl::StrJoin(unchecked, "; ");
}

}  // namespace paramd
