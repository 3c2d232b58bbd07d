#include "process/prepared_process.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

#include "base/log.h"
#include "base/process_limits.h"
#include "base/status_macros.h"
#include "config/cluster_agreement.h"
#include "config/print_config.h"
#include "config/strategy.h"
#include "coordinator/configuration_log.h"
#include "coordinator/coordinator_process.h"
#include "coordinator/finished_backup.h"
#include "net/grpc_runtime.h"
#include "net/in_process_runtime.h"
#include "net/method_table.h"
#include "process/chief_candidate.h"
#include "process/enlist.h"
#include "process/exit_code.h"
#include "process/memory_limit.h"
#include "process/run_directory.h"
#include "process/start_checks.h"
#include "process/version.h"

namespace paramd {
namespace {

// Before a certificate expires.
constexpr absl::Duration kSoon = absl::Hours(7 * 24);

// "ps-0", "worker-1"; "paramd" if the whole job is in this process.
std::string NameOf(const PreparedProcess& prepared) {
  if (prepared.cluster.standalone) return "paramd";
  if (prepared.role.evaluator.has_value()) {
    return absl::StrCat("evaluator-", *prepared.role.evaluator);
  }
  if (prepared.role.member.has_value()) {
    return absl::StrCat("worker-", *prepared.role.member);
  }
  if (prepared.role.stage.has_value()) {
    return absl::StrCat("stage-", *prepared.role.stage);
  }
  return prepared.role.server.has_value()
             ? absl::StrCat("ps-", *prepared.role.server)
             : absl::StrCat("worker-", *prepared.role.worker);
}

LogLevel LevelOf(const v1::JobConfig& job) {
  switch (job.log_level()) {
    case v1::JobConfig::LOG_LEVEL_DEBUG:
      return LogLevel::kDebug;
    case v1::JobConfig::LOG_LEVEL_WARNING:
      return LogLevel::kWarning;
    case v1::JobConfig::LOG_LEVEL_ERROR:
      return LogLevel::kError;
    default:
      return LogLevel::kInfo;
  }
}

void InitLog(const std::string& name, const v1::JobConfig& job) {
  const bool json = job.log_format() == v1::JobConfig::LOG_FORMAT_JSON;
  InitLogging(name, LevelOf(job), json ? LogFormat::kJson : LogFormat::kText);
}

void LogStart(const PreparedProcess& prepared) {
  InitLog(NameOf(prepared), prepared.job.config);
  Log(LogLevel::kInfo, "starting",
      {{"version", ParamdVersion()}, {"commit", ParamdCommit()}});
  const bool is_member = prepared.role.member.has_value();
  Log(LogLevel::kInfo, "configured",
      {{"job", prepared.job.config.name()},
       {"digest", prepared.job.digest},
       {"servers", is_member ? 0 : prepared.role.servers},
       {"workers", is_member
                       ? static_cast<uint32_t>(prepared.cluster.workers.size())
                       : prepared.role.workers}});
  if (!prepared.job.warning.empty()) {
    Log(LogLevel::kWarning, prepared.job.warning);
  }
  for (const std::string& note : prepared.cluster.notes) {
    Log(LogLevel::kInfo, note);
  }
}

// The chief writes; a chief that is restarted must find what it wrote.
absl::Status SettleRunDirectory(PreparedProcess* prepared) {
  v1::JobConfig& job = prepared->job.config;
  if (!prepared->role.keeps_a_run() || !job.run_dir().empty()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::string run_dir,
                   MakeRunDirectory("runs", job.name()));
  SetRunDirectory(run_dir, &job);
  return absl::OkStatus();
}

// What a run that has none has in its own directory, since it has finished or
// began without a backup, it goes on with there.
absl::Status SettleBackup(PreparedProcess* prepared) {
  v1::JobConfig& job = prepared->job.config;
  v1::BackupAndRestoreConfig& backup = *job.mutable_backup_and_restore();
  if (backup.directory().empty()) return absl::OkStatus();
  if (!prepared->role.keeps_a_run() || !HoldsARun(job.run_dir())) {
    return absl::OkStatus();
  }
  // It may be what is left of a move that was cut off.
  if (HoldsARun(backup.directory()) &&
      !TakeOutOfBackup(backup.directory(), job.run_dir()).ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "backup_and_restore.directory: '", backup.directory(),
        "' has the backup of a run, and run_dir '", job.run_dir(),
        "' holds a run too; give another run_dir to go on from the backup, or "
        "another directory"));
  }
  Log(LogLevel::kInfo, "the run goes on in its own directory, without a backup",
      {{"run_dir", job.run_dir()}});
  backup.clear_directory();
  job.mutable_checkpoint()->clear_directory();
  SetRunDirectory(std::string(job.run_dir()), &job);
  return absl::OkStatus();
}

// In the run's directory, which processes other than the chief may lack, for
// now or for ever.
std::string OperatorSocketOf(const PreparedProcess& prepared) {
  const std::string& run_dir = prepared.job.config.run_dir();
  if (run_dir.empty()) return "";
  // Of a job that is all here, the chief's.
  const std::string name =
      prepared.cluster.standalone ? "worker-0" : NameOf(prepared);
  return absl::StrCat(run_dir, "/", name, ".sock");
}

// What a process answers for itself. `others`: what else it serves; may be
// null.
ProcessCalls CallsOf(const PreparedProcess& prepared, ProcessCalls others) {
  return [profiler = prepared.profiler.get(), tracer = prepared.tracer.get(),
          others = std::move(others)](const google::protobuf::Message& request)
             -> absl::StatusOr<ProcessAnswer> {
    const auto* const profile =
        google::protobuf::DynamicCastToGenerated<v1::ProfileRequest>(&request);
    if (profile != nullptr) {
      ASSIGN_OR_RETURN(v1::ProfileReply reply, profiler->Answer(*profile));
      ProcessAnswer answer;
      answer.head = std::make_unique<v1::ProfileReply>(std::move(reply));
      return answer;
    }
    const auto* const trace =
        google::protobuf::DynamicCastToGenerated<v1::TraceRequest>(&request);
    if (trace != nullptr) {
      ASSIGN_OR_RETURN(v1::TraceReply reply, tracer->Answer(*trace));
      ProcessAnswer answer;
      answer.head = std::make_unique<v1::TraceReply>(std::move(reply));
      return answer;
    }
    if (others != nullptr) return others(request);
    return absl::UnimplementedError(absl::StrCat(
        MethodTable::Get().OfRequest(request.GetDescriptor())->path,
        " is not served"));
  };
}

// Where the others are, as far as this process is told.
void AddPeers(const PreparedProcess& prepared, GrpcRuntimeOptions* options) {
  const ClusterSpec& cluster = prepared.cluster;
  // An address that this process is not told is empty.
  for (uint32_t place = 0; place < prepared.role.all_places(); ++place) {
    const std::string& address = cluster.ps[place / prepared.role.places()];
    if (!address.empty()) options->peers[PeerId::Ps(place)] = address;
  }
  if (!cluster.chief_address().empty()) {
    options->peers[PeerId::Coordinator()] = cluster.chief_address();
  }
  if (prepared.role.worker.has_value() && !prepared.role.joined) {
    const uint32_t count = prepared.role.stages_of_a_worker;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t stage = *prepared.role.worker * count + i;
      options->peers[PeerId::Stage(stage)] = cluster.stages[stage];
    }
  }
  if (prepared.chief_watch != nullptr) {
    options->find_coordinator = [watch = prepared.chief_watch.get()] {
      return watch->address();
    };
  }
}

GrpcRuntimeOptions GrpcOptions(const PreparedProcess& prepared, bool insecure) {
  const ClusterSpec& cluster = prepared.cluster;
  GrpcRuntimeOptions options;
  options.listen_address = cluster.self_address();
  options.insecure = insecure;
  options.operator_socket = OperatorSocketOf(prepared);
  options.operator_calls = prepared.operators;
  if (prepared.process != nullptr) options.trace = prepared.process->trace();
  const bool is_ps = prepared.cluster.is_ps();
  const bool is_stage = prepared.role.stage.has_value();
  options.self.set_type(is_ps ? v1::PS : is_stage ? v1::STAGE : v1::WORKER);
  options.self.set_index(is_ps      ? *prepared.role.server
                         : is_stage ? *prepared.role.stage
                                    : prepared.cluster.worker_index());
  options.incarnation = prepared.role.incarnation;
  options.job_name = prepared.job.config.name();
  options.job_digest = prepared.job.digest;
  options.job_settings =
      absl::StrSplit(prepared.job.job_wide_text, '\n', absl::SkipEmpty());
  options.cluster =
      EntriesToAgree(cluster, !prepared.job.config.chief_election().empty());
  options.cluster.push_back(
      absl::StrCat("shards_per_server=", prepared.role.shards));
  if (prepared.role.replication > 1) {
    options.cluster.push_back(
        absl::StrCat("replication=", prepared.role.replication));
  }
  if (prepared.role.scalable) options.cluster.push_back("scalable=1");
  options.build = absl::StrCat(ParamdVersion(), " ", ParamdCommit());
  options.shared_memory = prepared.job.config.shared_memory();
  options.memory_limit_bytes =
      MemoryLimitsOf(prepared.job.config.memory_limit_bytes(),
                     MemoryOfThisProcess())
          .received;
  if (prepared.role.member.has_value()) {
    options.process_calls =
        CallsOf(prepared, prepared.multi_worker != nullptr
                              ? prepared.multi_worker->calls()
                              : MultiWorker::AnswerFinished);
    options.workers = static_cast<uint32_t>(cluster.workers.size());
    return options;  // All cores are in this process.
  }
  options.process_calls = CallsOf(prepared, nullptr);
  options.shards_per_server = prepared.role.places();
  // Workers call the servers, and one of them: the chief.
  if (prepared.role.server.has_value() || prepared.role.is_chief()) {
    options.workers = static_cast<uint32_t>(cluster.workers.size()) +
                      prepared.job.config.max_joined_workers();
  }
  if (prepared.role.stage.has_value()) {
    options.workers = 1;
    return options;  // It calls nobody.
  }
  // And servers tell each other.
  if (prepared.role.server.has_value() && prepared.role.replication > 1) {
    options.workers += static_cast<uint32_t>(cluster.ps.size());
  }
  AddPeers(prepared, &options);
  return options;
}

// Null without --tls_dir.
absl::StatusOr<std::shared_ptr<const Tls>> TlsOf(
    const RunOptions& options, const PreparedProcess& prepared) {
  if (options.tls_dir.empty()) return std::shared_ptr<const Tls>();
  ASSIGN_OR_RETURN(
      std::shared_ptr<const Tls> tls,
      Tls::Make(options.tls_dir,
                CertifiedNameOf(prepared.role, prepared.job.config)));
  Log(LogLevel::kInfo, "TLS is on",
      {{"name", tls->self().Uri()},
       {"certificate_until", absl::FormatTime(absl::RFC3339_sec, tls->until(),
                                              absl::UTCTimeZone())}});
  if (tls->until() - absl::Now() < kSoon) {
    Log(LogLevel::kWarning,
        "the certificate expires soon: renew it (paramd tls renew, or "
        "cert-manager); running processes take the new one by themselves");
  }
  return tls;
}

// A job that is all in this process goes on without it.
void OpenDesk(PreparedProcess* prepared) {
  GrpcRuntimeOptions options;
  options.operator_socket = OperatorSocketOf(*prepared);
  if (!prepared->role.is_chief() || options.operator_socket.empty()) return;
  options.operator_calls = prepared->operators;
  options.process_calls = CallsOf(*prepared, nullptr);
  options.self.set_type(v1::WORKER);
  options.incarnation = prepared->role.incarnation;
  options.job_name = prepared->job.config.name();
  options.build = absl::StrCat(ParamdVersion(), " ", ParamdCommit());
  auto desk = OperatorDesk::Open(std::move(options), prepared->runtime.get());
  if (desk.ok()) {
    prepared->desk = *std::move(desk);
  } else {
    Log(LogLevel::kWarning, "operators can't call this process",
        {{"why", desk.status().message()}});
  }
}

// What operators ask is in the log, in the run's directory and in the status.
void PrepareForOperators(PreparedProcess* prepared) {
  prepared->profiler = std::make_unique<Profiler>(NameOf(*prepared));
  prepared->tracer =
      std::make_unique<Tracer>(NameOf(*prepared), prepared->process->trace());
  prepared->audit = std::make_unique<AuditLog>(prepared->job.config.run_dir(),
                                               NameOf(*prepared));
  prepared->operators = std::make_shared<OperatorCalls>(
      [audit = prepared->audit.get()](const v1::OperatorCall& call) {
        audit->Append(call);
      });
}

absl::Status MakeRuntime(const RunOptions& run, PreparedProcess* prepared) {
  // An evaluator talks to nobody.
  if (prepared->cluster.standalone || prepared->role.evaluator.has_value()) {
    prepared->runtime = MakeInProcessRuntime();
    return absl::OkStatus();
  }
  GrpcRuntimeOptions options = GrpcOptions(*prepared, run.insecure);
  options.health_address = run.health_address;
  ASSIGN_OR_RETURN(prepared->tls, TlsOf(run, *prepared));
  options.tls = prepared->tls;
  ASSIGN_OR_RETURN(prepared->runtime, MakeGrpcRuntime(std::move(options)));
  const std::string address = prepared->cluster.self_address();
  if (!address.empty()) {
    Log(LogLevel::kInfo, "listening", {{"address", address}});
  }
  return absl::OkStatus();
}

absl::Status MakeMultiWorker(PreparedProcess* prepared) {
  Identity self;
  self.task.set_type(v1::WORKER);
  self.task.set_index(*prepared->role.member);
  self.incarnation = prepared->role.incarnation;
  // Copies stay the same only where all compute with one program.
  self.build = ParamdBuild();
  self.job_name = prepared->job.config.name();
  self.job_digest = prepared->job.digest;
  self.job_settings =
      absl::StrSplit(prepared->job.job_wide_text, '\n', absl::SkipEmpty());
  self.cluster = EntriesToAgree(prepared->cluster);
  ASSIGN_OR_RETURN(
      prepared->multi_worker,
      MultiWorker::Create(prepared->cluster, std::move(self), &prepared->job));
  return absl::OkStatus();
}

void AskForMetrics(PreparedProcess* prepared) {
  if (prepared->metrics == nullptr) return;
  prepared->metrics->SetSource([runtime = prepared->runtime.get()](auto done) {
    runtime->Post([runtime, done] { done(runtime->Status()); });
  });
}

absl::Status ServeMetrics(bool insecure, PreparedProcess* prepared) {
  MetricsEndpoint::Options options;
  options.address = prepared->job.config.metrics_address();
  options.insecure = insecure;
  if (prepared->tls != nullptr) {
    options.certificate_until = [tls = prepared->tls] {
      return tls->NewestUntil();
    };
  }
  if (options.address.empty()) return absl::OkStatus();
  options.tls = prepared->tls;
  options.checkpoint_interval =
      absl::Seconds(prepared->job.config.checkpoint().every_seconds());
  ASSIGN_OR_RETURN(options.configuration,
                   PrintConfig(prepared->job, prepared->cluster, "text"));
  ASSIGN_OR_RETURN(prepared->metrics, MetricsEndpoint::Listen(options));
  AskForMetrics(prepared);
  Log(LogLevel::kInfo, "serving metrics", {{"url", prepared->metrics->url()}});
  return absl::OkStatus();
}

// Of data that the program has, and the job may have counted too.
absl::Status CountExamples(const RunOptions& options, v1::JobConfig* job) {
  v1::InputConfig* const input = job->mutable_input();
  if (options.training_examples == 0 || !input->train().has_indices()) {
    return absl::OkStatus();
  }
  v1::InputSource::Indices* const train =
      input->mutable_train()->mutable_indices();
  if (train->examples() > 0 && train->examples() != options.training_examples) {
    return absl::InvalidArgumentError(absl::StrCat(
        "input.train.indices.examples is ", train->examples(),
        "; the program has ", options.training_examples, " examples"));
  }
  train->set_examples(options.training_examples);
  if (options.test_examples > 0) {
    input->mutable_test()->mutable_indices()->set_examples(
        options.test_examples);
  }
  return absl::OkStatus();
}

// What the process finds of an earlier life. The chief alone keeps anything: a
// server is filled, and a worker told, by the coordinator.
absl::Status LogRecovered(const PreparedProcess& prepared) {
  if (!prepared.role.is_chief()) {
    Log(LogLevel::kInfo, "recovered", {{"log_entries", 0}});
    return absl::OkStatus();
  }
  const std::string& run_dir = prepared.job.config.run_dir();
  ASSIGN_OR_RETURN(const std::vector<v1::LogEntry> entries,
                   DirectoryLog(CoordinatorProcess::LogDirectory(
                                    StateDirectory(prepared.job.config)))
                       .ReadAll());
  bool finished = false;
  for (const v1::LogEntry& entry : entries) {
    // One that went on for more epochs is not, any more.
    if (entry.has_configuration()) finished = false;
    finished |= entry.has_finished();
  }
  Log(LogLevel::kInfo, "recovered",
      {{"run_dir", run_dir},
       {"log_entries", entries.size()},
       {"finished", finished}});
  return absl::OkStatus();
}

absl::Status CheckStartOf(const RunOptions& options,
                          const PreparedProcess& prepared) {
  return CheckStart(
      {options, prepared.job.config, prepared.cluster, prepared.role});
}

// One that can't start takes nobody's place before it says so.
absl::Status Join(const RunOptions& options, PreparedProcess* prepared) {
  InitLog("worker", prepared->job.config);
  RETURN_IF_ERROR(CheckStartOf(options, *prepared));
  return Enlist(options, prepared);
}

// Reads who this is and what it is to do, and settles where it writes.
absl::Status Configure(const RunOptions& options, bool* made_run_dir,
                       PreparedProcess* prepared) {
  ASSIGN_OR_RETURN(Configuration all, options.process.Load());
  prepared->job = std::move(all.job);
  RETURN_IF_ERROR(CountExamples(options, &prepared->job.config));
  prepared->cluster = std::move(all.cluster);
  prepared->nothing_to_do = prepared->cluster.nothing_to_do();
  if (!prepared->nothing_to_do.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(prepared->role,
                   RoleIn(prepared->cluster, prepared->job.config, options));
  if (prepared->cluster.joins()) RETURN_IF_ERROR(Join(options, prepared));
  if (!prepared->nothing_to_do.empty()) return absl::OkStatus();
  LogStart(*prepared);
  RETURN_IF_ERROR(CheckStartOf(options, *prepared));
  const bool had_run_dir = !prepared->job.config.run_dir().empty();
  RETURN_IF_ERROR(SettleRunDirectory(prepared));
  *made_run_dir = !had_run_dir && !prepared->job.config.run_dir().empty();
  return SettleBackup(prepared);
}

// What it adds to what its parts say, after them.
void TellStatus(PreparedProcess* prepared) {
  prepared->facts = std::make_unique<ProcessFacts>(
      prepared->cluster, prepared->role.shards, prepared->role.places(),
      absl::StrCat(ParamdVersion(), " ", ParamdCommit()));
  prepared->runtime->OnStatus(
      [prepared, facts = prepared->facts.get(), operators = prepared->operators,
       audit = prepared->audit.get()](v1::StatusReply* status) {
        facts->Fill(status);
        FillElection(*prepared, status);
        operators->FillStatus(status);
        status->set_audit_dropped(audit->dropped());
      });
}

absl::Status PrepareAll(const RunOptions& options, const ModelFactory& models,
                        bool* made_run_dir, PreparedProcess* prepared) {
  RETURN_IF_ERROR(Configure(options, made_run_dir, prepared));
  if (!prepared->nothing_to_do.empty()) return absl::OkStatus();
  const v1::JobConfig& config = prepared->job.config;
  Membership membership;
  if (prepared->role.member.has_value()) {
    RETURN_IF_ERROR(MakeMultiWorker(prepared));
    membership = prepared->multi_worker->membership();
  }
  if (ComputesInProgram(options)) membership.replicas = 1;
  if (KeepsCopies(options, config) && !prepared->role.evaluator.has_value()) {
    ASSIGN_OR_RETURN(prepared->mirrors, Mirrors::Create(&prepared->job));
    membership = prepared->mirrors->first();
  }
  ASSIGN_OR_RETURN(prepared->process,
                   Process::Create(prepared->role, prepared->job, models,
                                   options.trace_path, membership));
  RETURN_IF_ERROR(TakePartInElection(prepared));
  PrepareForOperators(prepared);
  RETURN_IF_ERROR(MakeRuntime(options, prepared));
  prepared->process->AddTo(prepared->runtime.get());
  if (prepared->cluster.standalone) OpenDesk(prepared);
  if (prepared->mirrors != nullptr) {
    RETURN_IF_ERROR(prepared->mirrors->MakeOthers(prepared->role, models,
                                                  prepared->process.get(),
                                                  prepared->runtime.get()));
  }
  if (prepared->multi_worker != nullptr) {
    prepared->multi_worker->SetParts(prepared->process.get(),
                                     prepared->runtime.get());
  }
  TellStatus(prepared);
  // An address for metrics that others reach is as much meant as one for calls.
  RETURN_IF_ERROR(
      ServeMetrics(options.insecure || !options.tls_dir.empty(), prepared));
  return LogRecovered(*prepared);
}

}  // namespace

absl::Status Prepare(const RunOptions& options, const ModelFactory& models,
                     PreparedProcess* prepared) {
  bool made_run_dir = false;
  const absl::Status status =
      PrepareAll(options, models, &made_run_dir, prepared);
  const ClusterSpec& cluster = prepared->cluster;
  if (!status.ok() && cluster.joins() && cluster.knows_all_ps) {
    GiveUpIndex(options, *prepared);
  }
  if (!status.ok() && made_run_dir) {
    std::error_code error;  // One that holds something stays.
    std::filesystem::remove(prepared->job.config.run_dir(), error);
  }
  return status;
}

absl::Status PrepareToLinger(const RunOptions& options,
                             const v1::Finished& finished,
                             PreparedProcess* prepared) {
  v1::StatusReply last = prepared->runtime->Status();
  FillEnd(finished, &last);
  if (prepared->metrics != nullptr) prepared->metrics->SetSource(nullptr);
  prepared->desk.reset();
  prepared->runtime.reset();  // Its port is free again.
  prepared->tracer->Close();
  prepared->process.reset();
  prepared->mirrors.reset();
  prepared->multi_worker.reset();
  RETURN_IF_ERROR(MakeRuntime(options, prepared));
  const ProcessRole& role = prepared->role;
  const uint64_t term = last.configuration().term();
  std::vector<PeerId> names = {
      PeerId::Worker(role.worker.value_or(role.evaluator.value_or(0)))};
  if (role.stage.has_value()) names = {PeerId::Stage(*role.stage)};
  if (role.server.has_value()) {
    names.clear();
    for (uint32_t place = 0; place < role.places(); ++place) {
      names.push_back(PeerId::Ps(*role.server * role.places() + place));
    }
  }
  if (role.is_chief()) names.push_back(PeerId::Coordinator());
  prepared->finished.assign(names.size(),
                            FinishedJob(/*servers=*/0, term, finished));
  if (role.is_chief() && !role.server.has_value()) {
    prepared->finished.back() = FinishedJob(role.all_places(), term, finished);
  }
  for (size_t i = 0; i < names.size(); ++i) {
    prepared->runtime->AddCore(names[i], &prepared->finished[i]);
  }
  prepared->runtime->OnStatus(
      [last, facts = prepared->facts.get()](v1::StatusReply* status) {
        *status = last;
        facts->Fill(status);
      });
  AskForMetrics(prepared);
  return absl::OkStatus();
}

void Complain(const PreparedProcess& prepared, const absl::Status& status) {
  if (prepared.job.config.log_format() != v1::JobConfig::LOG_FORMAT_JSON) {
    PrintError(status);
  } else if (!status.ok()) {
    Log(LogLevel::kError, status.message());
  }
}

}  // namespace paramd
