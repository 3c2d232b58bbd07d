#include "process/process.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/crc32c.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/process_limits.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "checkpoint/initial_values.h"
#include "compute/model/network_plan.h"
#include "config/strategy.h"
#include "coordinator/chief_lease.h"
#include "coordinator/failure_note.h"
#include "coordinator/finished_backup.h"
#include "process/device_arrays.h"
#include "process/memory_limit.h"
#include "process/run_directory.h"
#include "process/start_checks.h"
#include "process/version.h"
#include "proto/job_end.h"

namespace paramd {
namespace {

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "unknown";
  return name;
}

absl::Duration ThreadProcessorTime() {
  timespec used = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return absl::DurationFromTimespec(used);
}

}  // namespace

const OptimizerKernels* KernelsFor(v1::JobConfig::Cpu cpu) {
  switch (cpu) {
    case v1::JobConfig::CPU_SCALAR:
      return &PortableKernels();
    case v1::JobConfig::CPU_AVX2:
      return Avx2Kernels();
    case v1::JobConfig::CPU_AVX512:
      return Avx512Kernels();
    default:
      return &MachineKernels();
  }
}

absl::StatusOr<std::unique_ptr<Process>> Process::Create(
    const ProcessRole& role, const LoadedJob& job, const ModelFactory& models,
    const std::string& trace_path, const Membership& membership,
    const MakeLoopDevice& loops) {
  std::unique_ptr<Process> process(new Process(role, job, membership));
  process->trace_path_ = trace_path;
  RETURN_IF_ERROR(process->CreateTrace());
  RETURN_IF_ERROR(process->OpenDisks());
  if (role.worker.has_value()) {
    RETURN_IF_ERROR(process->CreateWorker(models, loops));
    if (role.is_chief() && !process->IsElected()) {
      RETURN_IF_ERROR(process->CreateCoordinator());
    }
  }
  if (role.evaluator.has_value()) {
    EvaluatorProcess::Options options;
    options.index = *role.evaluator;
    options.job = job.config;
    options.job_digest = job.digest;
    ASSIGN_OR_RETURN(process->evaluator_,
                     EvaluatorProcess::Create(options, models));
  }
  if (role.stage.has_value()) process->CreateStage();
  return process;
}

Process::Process(const ProcessRole& role, const LoadedJob& job,
                 const Membership& membership)
    : role_(role), job_(job), membership_(membership) {}

absl::Status Process::CreateTrace() {
  const bool is_worker = role_.worker.has_value();
  if (trace_path_.empty() || !is_worker) {
    if (!trace_path_.empty()) {
      Log(LogLevel::kWarning,
          "--trace is for workers; this process writes none");
    }
    trace_ = std::make_unique<ChromeTrace>("", /*number=*/0,
                                           ChromeTrace::Keeps::kWhatIsAskedFor);
    return absl::OkStatus();
  }
  trace_ = std::make_unique<ChromeTrace>(absl::StrCat("worker-", *role_.worker),
                                         *role_.worker);
  // What is wrong with the path is said now, not when the job is done.
  return trace_->WriteTo(trace_path_);
}

void Process::WriteTrace() const {
  if (!trace_->keeps_all()) return;
  const absl::Status status = trace_->WriteTo(trace_path_);
  if (!status.ok()) {
    Log(LogLevel::kWarning, "no trace", {{"why", status.message()}});
  } else if (trace_->left_out() > 0) {
    Log(LogLevel::kWarning,
        absl::StrCat("the trace has the first ", ChromeTrace::kMost,
                     " events of each kind"),
        {{"path", trace_path_}, {"left_out", trace_->left_out()}});
  } else {
    Log(LogLevel::kInfo, "wrote the trace", {{"path", trace_path_}});
  }
}

absl::Status Process::CreateWorker(const ModelFactory& models,
                                   const MakeLoopDevice& loops) {
  Worker::Options options;
  options.index = *role_.worker;
  options.incarnation = role_.incarnation;
  options.replaces = role_.replaces;
  options.joined = role_.joined;
  options.address = role_.address;
  options.host = HostName();
  options.pid = static_cast<uint32_t>(getpid());
  options.job = job_.config;
  options.job_digest = job_.digest;
  // Whoever applies gradients is here, and nobody else computes them.
  const bool has_all = role_.server.has_value() && role_.workers == 1 &&
                       role_.servers == role_.shards;
  options.packs_pulls = !has_all;
  const ModelFactory made = role_.stages_of_a_worker > 0 && !role_.joined
                                ? ModelsWithStages()
                                : models;
  const ModelFactory placed = [&](const v1::JobConfig& job,
                                  const InputSpec& input)
      -> absl::StatusOr<std::unique_ptr<TrainedModel>> {
    ASSIGN_OR_RETURN(std::unique_ptr<TrainedModel> model, made(job, input));
    if (has_all) loops_ = PlaceDeviceArrays(job, loops, model.get());
    return model;
  };
  ASSIGN_OR_RETURN(worker_, WorkerProcess::Create(options, placed, trace_.get(),
                                                  membership_));
  return CheckModel(role_, job_.config, worker_->variables());
}

ModelFactory Process::ModelsWithStages() {
  const uint32_t count = role_.stages_of_a_worker;
  const uint32_t first = *role_.worker * count;
  stage_calls_ = std::make_unique<StageCalls>(
      StageCalls::Options{.index = *role_.worker,
                          .incarnation = role_.incarnation,
                          .first = first,
                          .count = count});
  RemoteStages::Options options;
  options.worker = *role_.worker;
  options.incarnation = role_.incarnation;
  options.build = ParamdBuild();
  options.first = first;
  options.count = count;
  options.patience = absl::Milliseconds(job_.config.start_timeout_ms());
  options.names_features = !FeaturesNamedBy(job_.config.model()).empty();
  remote_stages_ = std::make_shared<RemoteStages>(options, stage_calls_.get());
  return [this](const v1::JobConfig& job, const InputSpec& input) {
    remote_stages_->SetInput(input);
    return MakeModelWithStages(job, input, remote_stages_);
  };
}

void Process::CreateStage() {
  StageCore::Options options;
  options.index = *role_.stage;
  options.worker = *role_.stage / role_.stages_of_a_worker;
  options.build = ParamdBuild();
  options.start_timeout = absl::Milliseconds(job_.config.start_timeout_ms());
  options.lease = absl::Milliseconds(job_.config.lease_ms());
  options.most_content_bytes = MemoryOfThisProcess();
  stage_ = std::make_unique<StageProcess>(options, StagesOf(job_.config));
}

absl::Status Process::LeadBy(ChiefElection* election) {
  election_ = election;
  RETURN_IF_ERROR(CreateCoordinator());
  coordinator_->FenceBy({election->token(),
                         [election] { return election->Check(); },
                         [election] { return election->Confirm(); }});
  return absl::OkStatus();
}

absl::Status Process::CreateCoordinator() {
  // What is wrong with it the coordinator says.
  UseRunDirectory(job_.config.run_dir(), /*may_hold_a_run=*/true).IgnoreError();
  UseRunDirectory(StateDirectory(job_.config), true).IgnoreError();
  Coordinator::Options options;
  options.job = job_.config;
  options.job_digest = job_.digest;
  options.run_id =
      absl::StrCat(job_.config.name(), "-", absl::Hex(role_.incarnation));
  options.variables = worker_->variables();
  options.servers = role_.servers;
  if (role_.replication > 1) options.places = Places();
  options.workers = role_.workers;
  options.ps_addresses = role_.ps_addresses;
  options.examples = worker_->examples();
  options.best_metric = worker_->best_metric();
  options.data = worker_->data();
  options.test_set = worker_->test_set();
  options.test_batches = worker_->test_batches();
  options.nonce_seed = StableHash("nonce", role_.incarnation);
  RETURN_IF_ERROR(WriteInitialValuesFor(&options));
  CoordinatorProcess::Paths paths;
  paths.run_directory = job_.config.run_dir();
  paths.checkpoint_directory = job_.config.checkpoint().directory();
  paths.summary_directory = job_.config.summary().directory();
  paths.state_directory = StateDirectory(job_.config);
  paths.moves_at_success = job_.config.backup_and_restore().delete_at_success();
  ChiefLease::Options chief;
  chief.host = HostName();
  chief.pid = static_cast<uint32_t>(getpid());
  chief.incarnation = role_.incarnation;
  chief.replaces = role_.replaces;
  chief.is_elected = election_ != nullptr;
  chief.heartbeat = absl::Milliseconds(job_.config.heartbeat_ms());
  ASSIGN_OR_RETURN(coordinator_,
                   CoordinatorProcess::Create(options, paths, chief));
  coordinator_->Surround(membership_.before_start, membership_.has_result);
  if (job_.config.input().has_follow()) {
    scanner_ = std::make_unique<InputScanner>(job_.config.input());
  }
  return absl::OkStatus();
}

absl::Status Process::WriteInitialValuesFor(
    Coordinator::Options* options) const {
  const auto* const values = worker_->initial_values();
  if (values == nullptr || !job_.config.warm_start().path().empty()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(options->initial_values,
                   WriteInitialValues(job_.config.checkpoint().directory(),
                                      options->variables, *values));
  return absl::OkStatus();
}

uint32_t Process::Checksum(Runtime* runtime) const {
  // What is posted to a runtime that has ended is dropped: that ends the wait.
  struct Answer {
    Mutex mutex;
    CondVar changed;
    bool done ABSL_GUARDED_BY(mutex) = false;
    uint32_t sum ABSL_GUARDED_BY(mutex) = 0;
  };
  const auto answer = std::make_shared<Answer>();
  std::shared_ptr<void> dropped(nullptr, [answer](void*) {
    const MutexLock lock(&answer->mutex);
    answer->done = true;
    answer->changed.NotifyAll();
  });
  runtime->Post([this, answer, held = std::move(dropped)] {
    const uint32_t sum = server_ == nullptr ? 0 : server_->Checksum();
    const MutexLock lock(&answer->mutex);
    answer->sum = sum;
    answer->done = true;
    answer->changed.NotifyAll();
  });
  MutexLock lock(&answer->mutex);
  while (!answer->done) answer->changed.Wait(&answer->mutex);
  return answer->sum;
}

uint32_t Process::ModelChecksum() const {
  uint32_t sum = 0;
  for (const v1::Variable& variable : worker_->variables()) {
    const std::string text = variable.SerializeAsString();
    sum = Crc32c(AsBytes<char>({text.data(), text.size()}), sum);
  }
  return sum;
}

void Process::AddTo(Runtime* runtime) {
  if (role_.server.has_value()) CreateServer(runtime);
  if (coordinator_ != nullptr) coordinator_->AddTo(runtime);
  if (scanner_ != nullptr) scanner_->AddTo(runtime);
  if (worker_ != nullptr) {
    worker_->AddTo(runtime, [this, runtime](Core* core) {
      return stage_calls_ == nullptr
                 ? core
                 : stage_calls_->Around(core, runtime->Waker());
    });
  }
  if (evaluator_ != nullptr) evaluator_->AddTo(runtime);
  if (stage_ != nullptr) stage_->AddTo(runtime);
}

absl::Status Process::Run(Runtime* runtime) {
  absl::Status status = RunParts(runtime);
  // Who waits for an answer waits for nothing.
  if (stage_calls_ != nullptr) stage_calls_->Close();
  WriteTrace();
  return status;
}

absl::Status Process::RunParts(Runtime* runtime) {
  if (coordinator_ == nullptr) return runtime->Run();
  if (election_ == nullptr) return Coordinate(runtime);
  election_->Keep(
      [runtime](absl::Status status) { runtime->Stop(std::move(status)); });
  const absl::Status status = Coordinate(runtime);
  election_->Resign();
  // Another one's run is not this one's end: it stands by when it is started.
  return absl::IsAlreadyExists(status)
             ? absl::UnavailableError(status.message())
             : status;
}

absl::Status Process::Coordinate(Runtime* runtime) {
  coordinator_->lease()->Keep(
      [runtime](absl::Status status) { runtime->Stop(std::move(status)); });
  const FailureNote note(job_.config.run_dir());
  note.Remove();
  absl::Status status = runtime->Run();
  coordinator_->lease()->LetGo();
  if (status.ok()) RemoveBackup();
  if (EndsTheJob(status)) NoteFailure(note, status);
  return status;
}

void Process::NoteFailure(const FailureNote& note,
                          const absl::Status& why) const {
  const absl::Status written = note.Write(why);
  if (!written.ok()) {
    Log(LogLevel::kWarning, "run_dir does not say that the job has failed",
        {{"why", written.message()}});
  }
}

void Process::RemoveBackup() const {
  const v1::BackupAndRestoreConfig& backup = job_.config.backup_and_restore();
  if (backup.directory().empty() || !backup.delete_at_success()) return;
  const absl::Status moved =
      TakeOutOfBackup(backup.directory(), job_.config.run_dir());
  if (!moved.ok()) {
    Log(LogLevel::kWarning,
        "the backup stays, with the last checkpoint, which result.json expects "
        "in run_dir; the next start tries again",
        {{"backup", backup.directory()}, {"why", moved.message()}});
  }
}

absl::Status Process::OpenDisks() {
  const std::string& directory = job_.config.disk_directory();
  if (!role_.server.has_value() || directory.empty()) return absl::OkStatus();
  for (uint32_t place = 0; place < role_.places(); ++place) {
    ASSIGN_OR_RETURN(disks_.emplace_back(), DiskMemory::Create(directory));
  }
  return absl::OkStatus();
}

std::vector<ServerPlaces> Process::Places() const {
  const uint32_t tasks = role_.servers / role_.shards;
  return role_.scalable ? ScalablePlacesOf(tasks, role_.shards)
                        : PlacesOf(tasks, role_.shards);
}

void Process::CreateServer(Runtime* runtime) {
  kernels_ = *KernelsFor(job_.config.cpu());
  kernels_.device = loops_.get();
  std::vector<Shard::Options> shards;
  for (uint32_t shard = 0; shard < role_.places(); ++shard) {
    Shard::Options options;
    options.index = *role_.server * role_.places() + shard;
    if (role_.replication > 1) {
      options.peer = options.index;
      options.index = ServerOfPlace(Places(), *options.peer);
      options.places_of_a_ps = role_.places();
    }
    options.incarnation = role_.incarnation;
    options.build = ParamdBuild();
    options.life_seed = StableHash("life", role_.incarnation + shard);
    options.start_timeout = absl::Milliseconds(job_.config.start_timeout_ms());
    options.processor_time = ThreadProcessorTime;
    options.memory_limit_bytes = MemoryOfAShard(job_.config, role_.places());
    if (!disks_.empty()) options.disk = disks_[shard];
    options.kernels = &kernels_;
    shards.push_back(options);
  }
  server_ = std::make_unique<ParameterServer>(
      shards,
      OwnDirectories::Settings{job_.config.checkpoint().directory(),
                               job_.config.warm_start().path()},
      runtime, trace_.get());
}

}  // namespace paramd
