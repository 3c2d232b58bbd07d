#include "program/program_worker.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"

#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint_weights.h"
#include "client/core/untouched.h"
#include "process/prepared_process.h"
#include "proto/job_end.h"
#include "proto/refusal.h"
#include "proto/stopped_job.h"
#include "worker/model_factory.h"

namespace paramd {
namespace {

// The core takes no fewer at a time (ReadyGradients).
constexpr uint64_t kLeavingBytes = uint64_t{1} << 20;
// Nothing of the worker is left then; gRPC may be at it for a moment.
constexpr absl::Duration kReturnWarning = absl::Seconds(10);
constexpr char kRateScale[] = "learning_rate_scale";
// As long as `paramd set` waits.
constexpr absl::Duration kSetPatience = absl::Minutes(1);
constexpr absl::Duration kShortestWait = absl::Milliseconds(50);

// Four numbers at a time.
using Lanes __attribute__((vector_size(16))) = float;

Lanes LanesAt(const float* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof(lanes));
  return lanes;
}

// A number times 0 is 0, or NaN if it is not finite, and so is their sum. In
// lanes, of which none waits for another, and in registers by their names (gcc
// keeps an array of them in memory: three times as long).
bool IsFinite(absl::Span<const float> values) {
  Lanes a = {}, b = {}, c = {}, d = {};
  const float* const from = values.data();
  const size_t whole = values.size() / 16 * 16;
  for (size_t i = 0; i < whole; i += 16) {
    a += LanesAt(from + i) * 0.0f;
    b += LanesAt(from + i + 4) * 0.0f;
    c += LanesAt(from + i + 8) * 0.0f;
    d += LanesAt(from + i + 12) * 0.0f;
  }
  const Lanes sums = (a + b) + (c + d);
  float sum = sums[0] + sums[1] + sums[2] + sums[3];
  for (size_t i = whole; i < values.size(); ++i) sum += from[i] * 0.0f;
  return sum == 0;
}

RunOptions ToRunOptions(const ProgramWorker::Options& options) {
  RunOptions run;
  run.insecure = options.insecure;
  run.tls_dir = options.tls_dir;
  run.training_examples = options.training_examples;
  run.test_examples = options.test_examples;
  run.process.job.job_path = options.job_path;
  run.process.job.job_text = options.job_text;
  if (options.job_text.has_value() && options.job_path.empty()) {
    run.process.job.job_path = "job";
  }
  for (const auto& [key, value] : options.settings) {
    run.process.job.settings.emplace_back(key, value);
  }
  return run;
}

absl::Status CheckOptions(const ProgramWorker::Options& options) {
  RETURN_IF_ERROR(ProgramModel::Check(options.model));
  if (options.training_examples == 0) {
    return absl::InvalidArgumentError("the program has no training examples");
  }
  if (options.model.evaluates && options.test_examples == 0) {
    return absl::InvalidArgumentError(
        "the program evaluates, but has no test examples");
  }
  return absl::OkStatus();
}

absl::StatusOr<ProgramWorker::Saved> ReadSavedOf(
    const v1::JobConfig& job, const std::vector<v1::Variable>& variables) {
  ProgramWorker::Saved saved;
  ASSIGN_OR_RETURN(saved.run, FindSavedRun(job));
  ASSIGN_OR_RETURN(saved.weights, ReadWeights(saved.run.path, variables,
                                              job.seed(), /*keys=*/{}));
  return saved;
}

// Of data that a program reads in their order, which nothing shuffles.
constexpr char kOnlyStage[] = "input.stages[0].prefetch.batches";

// The program need not open its data where nothing is left to train.
absl::Status TakeInputOfRun(ProgramWorker::Options* options) {
  if (options->training_examples > 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Configuration all,
                   ToRunOptions(*options).process.Load());
  const auto run = FindSavedRun(all.job.config);
  if (!run.ok() || !run->is_over) return absl::OkStatus();
  options->training_examples = run->job.data().examples();
  const bool has_stages = all.job.config.input().stages_size() > 0;
  for (const std::string& line : run->job.settings()) {
    std::pair<std::string, std::string> setting =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    const absl::string_view name = setting.first;
    if (absl::StartsWith(name, "input.train.") || name == "batch_per_replica" ||
        name == "portion_batches") {
      options->settings.push_back(std::move(setting));
    } else if (name == kOnlyStage && !has_stages) {
      options->settings.emplace_back(
          "input",
          absl::StrCat("{\"train\": \"indices\", \"stages\": [{\"prefetch\": ",
                       setting.second, "}]}"));
    }
  }
  return absl::OkStatus();
}

// The servers of clusters whose job has finished in this process, by address:
// they have ended with it.
class UsedUpServers {
 public:
  void Add(const ClusterSpec& cluster) ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(&mutex_);
    addresses_.insert(cluster.ps.begin(), cluster.ps.end());
  }
  // One of this cluster's; none: "".
  std::string OneOf(const ClusterSpec& cluster) ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(&mutex_);
    for (const std::string& address : cluster.ps) {
      if (addresses_.contains(address)) return address;
    }
    return "";
  }

 private:
  Mutex mutex_;
  std::set<std::string> addresses_ ABSL_GUARDED_BY(mutex_);
};

UsedUpServers& UsedUp() {
  static UsedUpServers& servers = *new UsedUpServers;
  return servers;
}

// Nobody would come, which is said now and not when start_timeout_ms is over.
absl::Status CheckHasServers(const ProgramWorker::Options& options) {
  const auto all = ToRunOptions(options).process.Load();
  if (!all.ok()) return absl::OkStatus();  // Prepare says so.
  const std::string address = UsedUp().OneOf(all->cluster);
  if (address.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the server at ", address,
      " has ended with the job that this process was in before: servers "
      "serve one job. Begin the next one in a process of its own, with servers "
      "of its own: run the script once for each job, each time in a cluster "
      "that is started anew"));
}

absl::Status CheckTrains(const PreparedProcess& prepared) {
  if (prepared.role.worker.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "TF_CONFIG says that this process is not a worker; servers are started "
      "with `paramd run`, and this program as chief or worker");
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProgramWorker>> ProgramWorker::Start(
    Options options) {
  RETURN_IF_ERROR(TakeInputOfRun(&options));
  RETURN_IF_ERROR(CheckOptions(options));
  RETURN_IF_ERROR(CheckHasServers(options));
  std::unique_ptr<ProgramWorker> worker(new ProgramWorker(std::move(options)));
  worker->process_ = std::thread([raw = worker.get()] { raw->Run(); });
  absl::Status prepared;
  {
    MutexLock lock(&worker->mutex_);
    while (!worker->prepared_.has_value()) {
      worker->changed_.Wait(&worker->mutex_);
    }
    prepared = *worker->prepared_;
  }
  if (!prepared.ok()) return prepared;
  return worker;
}

absl::StatusOr<ProgramWorker::Saved> ProgramWorker::FindSaved(
    const Options& options) {
  RETURN_IF_ERROR(ProgramModel::Check(options.model));
  ASSIGN_OR_RETURN(const Configuration all,
                   ToRunOptions(options).process.Load());
  return ReadSavedOf(all.job.config, options.model.variables);
}

absl::StatusOr<ProgramWorker::Saved> ProgramWorker::ReadSaved() const {
  v1::JobConfig job;
  {
    MutexLock lock(&mutex_);
    job = job_;
  }
  return ReadSavedOf(job, options_.model.variables);
}

std::string ProgramWorker::run_dir() const {
  MutexLock lock(&mutex_);
  return job_.run_dir();
}

ProgramWorker::~ProgramWorker() { Close().IgnoreError(); }

void ProgramWorker::Run() {
  const absl::Status status = RunProcess();
  Tell(status, nullptr);
  MutexLock lock(&mutex_);
  ended_ = status;
}

// All that belongs to the process is released here, after the work that the
// program holds: until then threads wait for it.
absl::Status ProgramWorker::RunProcess() {
  PreparedProcess prepared;
  const ModelFactory models = [this](const v1::JobConfig&, const InputSpec&)
      -> absl::StatusOr<std::unique_ptr<TrainedModel>> {
    return std::make_unique<ProgramModel>(&options_.model, &exchange_);
  };
  RETURN_IF_ERROR(Prepare(ToRunOptions(options_), models, &prepared));
  RETURN_IF_ERROR(CheckTrains(prepared));
  {
    MutexLock lock(&mutex_);
    job_ = prepared.job.config;
    index_ = prepared.role.member.value_or(*prepared.role.worker);
  }
  Tell(absl::OkStatus(), prepared.runtime.get());
  const absl::Status status =
      prepared.multi_worker != nullptr
          ? prepared.multi_worker->Run()
          : prepared.process->Run(prepared.runtime.get());
  prepared.desk.reset();
  if (IsStoppedJob(status)) Log(LogLevel::kInfo, status.message());
  Complain(prepared, absl::IsCancelled(status) ? absl::OkStatus() : status);
  if (status.ok() || IsStoppedJob(status)) UsedUp().Add(prepared.cluster);
  {
    MutexLock lock(&mutex_);
    runtime_ = nullptr;
    ended_ = status;
    changed_.NotifyAll();
  }
  exchange_.Close();
  return status;
}

void ProgramWorker::Tell(const absl::Status& prepared, Runtime* runtime) {
  MutexLock lock(&mutex_);
  runtime_ = runtime;
  if (!prepared_.has_value()) prepared_ = prepared;
  changed_.NotifyAll();
}

absl::StatusOr<const ProgramWork*> ProgramWorker::Next(absl::Duration timeout) {
  if (exchange_.held() != nullptr) {
    return absl::FailedPreconditionError(
        "the last batch is not finished: one is computed at a time");
  }
  ASSIGN_OR_RETURN(const ProgramWork* const work, exchange_.Next(timeout));
  ClearOutgoing();
  if (work != nullptr) return work;
  MutexLock lock(&mutex_);
  if (ended_.has_value() && !ended_->ok()) return *ended_;
  return nullptr;
}

absl::Status ProgramWorker::Finish(const Metrics& metrics) {
  const ProgramWork* const work = exchange_.held();
  if (work == nullptr) {
    return absl::FailedPreconditionError("there is no batch to finish");
  }
  RETURN_IF_ERROR(outgoing_.lost);
  if (!std::isfinite(metrics.loss_sum)) {
    return Refuse(absl::StrCat("the loss is ", metrics.loss_sum));
  }
  for (size_t v = 0; v < work->gradients.size(); ++v) {
    if (!outgoing_.final[v]) RETURN_IF_ERROR(CheckGradient(*work, v));
  }
  for (size_t v = 0; v < work->gradients.size(); ++v) HandOver(*work, v);
  exchange_.Finish(metrics);
  return absl::OkStatus();
}

size_t ProgramWorker::SparsePlace(size_t variable) const {
  const auto& variables = options_.model.variables;
  return std::count_if(variables.begin(), variables.begin() + variable,
                       [](const v1::Variable& v) { return v.sparse(); });
}

absl::Status ProgramWorker::FoundRows(size_t variable,
                                      absl::Span<const int64_t> rows) {
  const ProgramWork* const work = exchange_.held();
  if (work == nullptr || work->found.empty()) {
    return absl::FailedPreconditionError("nobody asks for rows now");
  }
  const v1::Variable& of = options_.model.variables[variable];
  if (!of.sparse()) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable '", of.name(), "' is not sparse"));
  }
  for (const int64_t row : rows) {
    if (row >= 0 && static_cast<uint64_t>(row) < of.shape(0)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("row ", row, " of variable '", of.name(),
                     "' is read, which has ", of.shape(0)));
  }
  std::vector<uint64_t>& found = work->found[SparsePlace(variable)];
  found.insert(found.end(), rows.begin(), rows.end());
  return absl::OkStatus();
}

absl::Span<const uint64_t> ProgramWorker::RowsOf(size_t variable) const {
  const ProgramWork* const work = exchange_.held();
  if (work == nullptr || work->rows.empty() ||
      !options_.model.variables[variable].sparse()) {
    return {};
  }
  return work->rows[SparsePlace(variable)];
}

absl::Status ProgramWorker::GradientReady(size_t variable) {
  const ProgramWork* const work = exchange_.held();
  if (work == nullptr || work->ready == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(outgoing_.lost);
  const bool is_first = !outgoing_.final[variable];
  if (!is_first && outgoing_.left) return Recompute();
  RETURN_IF_ERROR(CheckGradient(*work, variable));
  if (!is_first) return absl::OkStatus();
  outgoing_.final[variable] = true;
  outgoing_.waiting.push_back(variable);
  outgoing_.waiting_bytes += work->gradients[variable].size() * sizeof(float);
  // A push that is whole could not be taken back by Finish.
  if (++outgoing_.final_count == work->gradients.size() ||
      outgoing_.waiting_bytes < kLeavingBytes) {
    return absl::OkStatus();
  }
  outgoing_.left = true;
  for (const size_t v : outgoing_.waiting) {
    HandOver(*work, v);
    (*work->ready)(v);
  }
  outgoing_.waiting.clear();
  outgoing_.waiting_bytes = 0;
  return absl::OkStatus();
}

absl::Status ProgramWorker::LendGradient(size_t variable, const float* values,
                                         uint64_t number) {
  const ProgramWork* const work = exchange_.held();
  if (work == nullptr) {
    return absl::FailedPreconditionError("there is no batch to compute");
  }
  if (!lent_.Begin(number)) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradients were lent under number ", number,
                     ", and then under another; lend these under a new one"));
  }
  if (work->gradients.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(outgoing_.lost);
  if (values == nullptr && IsUntouched(outgoing_.lent[variable])) {
    return absl::OkStatus();
  }
  if (outgoing_.final[variable]) RETURN_IF_ERROR(Reopen(variable));
  if (values == nullptr) {
    outgoing_.lent[variable] = Buffer();
    return absl::OkStatus();
  }
  const absl::Span<float> into = work->gradients[variable];
  Buffer lent = lent_.Lend({values, into.size()});
  if (work->take == nullptr) {
    std::copy(values, values + into.size(), into.begin());
    return absl::OkStatus();
  }
  outgoing_.lent[variable] = std::move(lent);
  return absl::OkStatus();
}

absl::Status ProgramWorker::LeaveUntouched(size_t variable) {
  const ProgramWork* const work = exchange_.held();
  if (work == nullptr || work->gradients.empty()) {
    return absl::FailedPreconditionError("there is no batch to compute");
  }
  const v1::Variable& of = options_.model.variables[variable];
  if (of.untrained() || of.sparse()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a step can't leave variable '", of.name(), "' as it is: it is ",
        of.untrained() ? "not trained" : "sparse"));
  }
  if (work->take == nullptr) {
    return absl::UnimplementedError(absl::StrCat(
        "a step can't leave variable '", of.name(),
        "' as it is where gradients are added up or clipped before they leave: "
        "train without accumulate, push_every, replicas and "
        "optimizer.clip_global_norm, under one_device or parameter_server"));
  }
  RETURN_IF_ERROR(outgoing_.lost);
  if (outgoing_.left) {
    return Refuse(absl::StrCat("'", of.name(), "' is to stay as it is"));
  }
  if (outgoing_.final[variable]) RETURN_IF_ERROR(Reopen(variable));
  outgoing_.lent[variable] = UntouchedGradient();
  outgoing_.final[variable] = true;
  ++outgoing_.final_count;
  // A session has to know of them when the first gradient leaves.
  outgoing_.waiting.insert(outgoing_.waiting.begin(), variable);
  return absl::OkStatus();
}

absl::Status ProgramWorker::Reopen(size_t variable) {
  std::vector<size_t>& waiting = outgoing_.waiting;
  const auto place = std::find(waiting.begin(), waiting.end(), variable);
  // All leave but those that wait and, as Finish wants some, the last one.
  if (place == waiting.end()) {
    return Refuse(absl::StrCat("the gradient of '",
                               options_.model.variables[variable].name(),
                               "' has left and comes again"));
  }
  waiting.erase(place);
  if (!IsUntouched(outgoing_.lent[variable])) {
    outgoing_.waiting_bytes -=
        exchange_.held()->gradients[variable].size() * sizeof(float);
  }
  outgoing_.final[variable] = false;
  --outgoing_.final_count;
  return absl::OkStatus();
}

void ProgramWorker::HandOver(const ProgramWork& work, size_t variable) {
  Buffer& lent = outgoing_.lent[variable];
  if (!lent.empty()) (*work.take)(variable, std::exchange(lent, Buffer()));
}

absl::Status ProgramWorker::Recompute() {
  if (exchange_.held() == nullptr) {
    return absl::FailedPreconditionError("there is no batch to compute");
  }
  RETURN_IF_ERROR(outgoing_.lost);
  if (outgoing_.left) return Refuse("the batch is to be computed again");
  ClearOutgoing();
  return absl::OkStatus();
}

void ProgramWorker::ClearOutgoing() {
  outgoing_ = {};
  outgoing_.final.resize(options_.model.variables.size());
  outgoing_.lent.resize(options_.model.variables.size());
}

absl::Status ProgramWorker::CheckGradient(const ProgramWork& work,
                                          size_t variable) {
  absl::Span<const float> values = work.gradients[variable];
  const Buffer& lent = outgoing_.lent[variable];
  if (IsUntouched(lent)) return absl::OkStatus();
  if (!lent.empty()) {
    values = {reinterpret_cast<const float*>(lent.bytes().data()),
              values.size()};
  }
  if (IsFinite(values)) return absl::OkStatus();
  return Refuse(absl::StrCat("the gradient of '",
                             options_.model.variables[variable].name(),
                             "' is not finite"));
}

absl::Status ProgramWorker::Refuse(const std::string& why) {
  if (!outgoing_.left) {
    ClearOutgoing();
    return absl::InvalidArgumentError(
        absl::StrCat(why, "; nothing of this batch was pushed"));
  }
  outgoing_.lost = absl::AbortedError(
      absl::StrCat(why,
                   "; a part of this batch was pushed already, so this "
                   "worker has to leave: the batch is handed out again"));
  return outgoing_.lost;
}

absl::Status ProgramWorker::Set(const std::string& key,
                                const std::string& value) {
  {
    MutexLock lock(&mutex_);
    if (index_ != 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          key, " is the chief's, worker 0, to set; this is worker ", index_));
    }
  }
  if (key != kRateScale) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a program can't set '", key, "'; it can set '", kRateScale, "'"));
  }
  v1::SetRequest request;
  request.set_key(key);
  request.set_value(value);
  const absl::Time deadline = absl::Now() + kSetPatience;
  for (;;) {
    const absl::Status status = AskToSet(request, deadline - absl::Now());
    const v1::Refusal refusal = RefusalOf(status);
    if (refusal.reason() == v1::Refusal::JOB_FINISHED) return absl::OkStatus();
    const absl::Duration wait =
        std::max(kShortestWait, absl::Milliseconds(refusal.retry_after_ms()));
    if (refusal.reason() != v1::Refusal::RETRY ||
        absl::Now() + wait >= deadline) {
      return status;
    }
    absl::SleepFor(wait);
  }
}

absl::Status ProgramWorker::AskToSet(const v1::SetRequest& request,
                                     absl::Duration timeout) {
  // Written on the loop's thread, which ends before this object.
  absl::optional<absl::Status> answer;
  MutexLock lock(&mutex_);
  Runtime* const runtime = runtime_;
  if (runtime != nullptr) {
    runtime->Post([this, runtime, request, timeout, &answer] {
      runtime->Ask(PeerId::Coordinator(),
                   std::make_unique<v1::SetRequest>(request), timeout,
                   [this, &answer](const absl::Status& status,
                                   const google::protobuf::Message*) {
                     MutexLock answering(&mutex_);
                     answer = status;
                     changed_.NotifyAll();
                   });
    });
  }
  while (!answer.has_value() && runtime_ != nullptr) changed_.Wait(&mutex_);
  if (!answer.has_value()) return ended_.value_or(absl::OkStatus());
  if (!absl::IsDeadlineExceeded(*answer)) return *answer;
  return absl::UnavailableError(absl::StrCat(
      request.key(), " may be changed or not: not all servers say so yet"));
}

absl::Status ProgramWorker::Close() {
  if (!closed_) {
    closed_ = true;
    MutexLock lock(&mutex_);
    if (runtime_ != nullptr) {
      runtime_->Drain(absl::CancelledError("the program left the job"),
                      absl::Milliseconds(job_.drain_timeout_ms()));
    }
  }
  if (process_.joinable()) {
    exchange_.Close();
    if (exchange_.held() != nullptr) {
      exchange_.Finish(absl::CancelledError("the program left the job"));
    }
    process_.join();
    outgoing_.lent.clear();
    while (!lent_.AwaitAll(kReturnWarning)) {
      Log(LogLevel::kWarning,
          "closing waits for the transport, which still reads gradients that "
          "the program lent");
    }
  }
  MutexLock lock(&mutex_);
  return ended_.value_or(absl::OkStatus());
}

}  // namespace paramd
