#include "tests/sim/integer_cluster.h"

#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "proto/stopped_job.h"

namespace paramd {
namespace {

// So long that a checkpoint is written while a job of 300 steps runs.
constexpr Simulation::IoDelay kComputing = {.shortest = absl::Milliseconds(1),
                                            .longest = absl::Milliseconds(150)};
constexpr Simulation::IoDelay kScanning = {.shortest = absl::Milliseconds(1),
                                           .longest = absl::Seconds(1)};
constexpr char kDigest[] = "digest of the integers";

}  // namespace

IntegerCluster::IntegerCluster(const Options& options, const IntegerJob& job,
                               IntegerWitness* witness, SimStorage* storage,
                               Simulation* simulation)
    : options_(options),
      job_(job),
      storage_(*storage),
      simulation_(*simulation),
      random_(StableHash("processes", options.seed)),
      intruder_(job, options.seed),
      supervisor_(StableHash("supervisor", options.seed)) {
  if (witness != nullptr) witness->Begin(simulation);
  simulation_.OnExit(
      [this](const SimProcess& process, const absl::Status& status) {
        return Judge(process, status);
      });
  simulation_.AddNode(Intruder::kPeer, &intruder_);
  for (uint32_t i = 0; i < options_.servers; ++i) AddServer(i, DrawStart());
  AddCoordinator(DrawStart());
  const uint32_t late = options_.last_worker_is_late ? 1 : 0;
  // The last to come still finds the coordinator of the shortest job.
  for (uint32_t i = 0; i + late < options_.workers; ++i) {
    AddWorker(i, absl::Seconds(3));
  }
}

std::vector<PeerId> IntegerCluster::tasks() const {
  std::vector<PeerId> tasks = {PeerId::Coordinator()};
  for (uint32_t i = 0; i < options_.servers; ++i) {
    tasks.push_back(PeerId::Ps(i));
  }
  for (uint32_t i = 1; i < options_.workers; ++i) {
    tasks.push_back(PeerId::Worker(i));
  }
  return tasks;
}

v1::JobStats IntegerCluster::JobStatus() const {
  v1::StatusReply status;
  coordinator_->FillStatus(&status);
  return std::move(*status.mutable_job());
}

std::vector<PeerId> IntegerCluster::ProcessOf(PeerId task) {
  if (task == PeerId::Coordinator() || task == PeerId::Worker(0)) {
    return {PeerId::Coordinator(), PeerId::Worker(0)};
  }
  return {task};
}

void IntegerCluster::Kill(PeerId task, bool late_work) {
  if (storage_.finished()) return;
  for (const PeerId part : ProcessOf(task)) {
    if (!lives_.contains(part)) continue;
    if (!simulation_.HasExited(part)) simulation_.Crash(part, late_work);
    Restart(part, /*ended=*/true);
  }
}

void IntegerCluster::Replace(PeerId task, bool at_once) {
  if (storage_.finished()) return;
  const absl::Duration stick = absl::Milliseconds(random_.Below(3000));
  for (const PeerId part : ProcessOf(task)) {
    if (!lives_.contains(part)) continue;
    if (!simulation_.HasExited(part)) simulation_.Orphan(part, stick);
    Restart(part, /*ended=*/false, at_once);
  }
}

void IntegerCluster::Drain(PeerId task) {
  if (storage_.finished() || !simulation_.IsUp(task)) return;
  if (!draining_.insert(task).second) return;
  ++drained_;
  simulation_.Drain(task);
  if (options_.gentle) return;
  // The process around a core waits no longer.
  simulation_.At(simulation_.elapsed() +
                     absl::Milliseconds(job_.config().drain_timeout_ms()),
                 [this, task, life = lives_[task]] {
                   if (lives_[task] == life && simulation_.IsUp(task))
                     Kill(task, false);
                 });
}

void IntegerCluster::Intrude(PeerId server, const v1::PushRequest& push,
                             const BatchPlace& batch) {
  intruder_.Spoil(server, push, batch);
  simulation_.Wake(Intruder::kPeer);
}

void IntegerCluster::AddLateWorker() {
  if (!options_.last_worker_is_late || late_worker_is_there_) return;
  late_worker_is_there_ = true;
  AddWorker(options_.workers - 1, absl::Milliseconds(100));
}

void IntegerCluster::Restart(PeerId task, bool ended, bool at_once) {
  ++restarted_;
  draining_.erase(task);
  if (task.kind == PeerId::Kind::kWorker) {
    const bool says_so = ended && supervisor_.Chance(0.5);
    replaces_[task.index] = says_so ? incarnations_[task.index] : 0;
  }
  const absl::Duration usual =
      absl::Milliseconds(random_.Chance(0.5) ? 200 : 3000);
  Add(task, at_once ? absl::Milliseconds(20) : usual);
}

// What a supervisor makes of the end of a process; an error if no process of
// this run may end like this.
absl::Status IntegerCluster::Judge(const SimProcess& process,
                                   const absl::Status& status) {
  const PeerId task = process.peer;
  const auto newest = lives_.find(task);
  if (process.peer == Intruder::kPeer) return status;
  // Nobody waits for one that was replaced.
  if (newest == lives_.end() || newest->second != process.life) {
    return absl::OkStatus();
  }
  // Everybody ends so, and nobody is started again.
  if (IsStoppedJob(status)) {
    if (task != PeerId::Coordinator()) return absl::OkStatus();
    stopped_ = status;
    const PeerId worker = PeerId::Worker(0);  // Ends with the process.
    if (!simulation_.HasExited(worker)) simulation_.Crash(worker);
    // Nobody waits for those that start when it is over.
    simulation_.At(simulation_.elapsed() + absl::Seconds(20),
                   [this] { simulation_.End(); });
    return absl::OkStatus();
  }
  if (!stopped_.ok()) {
    return absl::InternalError(absl::StrCat(
        "it did not hear that the job was stopped: ", status.ToString()));
  }
  const bool may_come_back =
      absl::IsAborted(status) || absl::IsUnavailable(status) ||
      absl::IsDeadlineExceeded(status) || absl::IsAlreadyExists(status) ||
      (storage_.was_bad() &&
       (absl::IsResourceExhausted(status) ||
        absl::StrContains(status.message(), "checkpoint can't be written")));
  if (storage_.finished()) {
    // Whoever came too late to hear of the end is not waited for.
    if (task == PeerId::Coordinator() && !options_.gentle) {
      simulation_.At(simulation_.elapsed() + absl::Seconds(20),
                     [this] { simulation_.End(); });
    }
    return options_.gentle || !may_come_back ? status : absl::OkStatus();
  }
  if (status.ok() && !draining_.contains(task)) {
    return absl::InternalError("it ended before the job did");
  }
  if (!status.ok() && (options_.gentle || !may_come_back)) return status;
  for (const PeerId part : ProcessOf(task)) {
    if (part != task && lives_.contains(part)) {
      if (!simulation_.HasExited(part)) simulation_.Crash(part);
      Restart(part, /*ended=*/true);
    }
  }
  Restart(task, /*ended=*/true);
  return absl::OkStatus();
}

// Mostly soon, sometimes when the others have long begun.
absl::Duration IntegerCluster::DrawStart() {
  return random_.Chance(0.9) ? absl::Seconds(1) : absl::Seconds(30);
}

void IntegerCluster::Add(PeerId task, absl::Duration start_within) {
  switch (task.kind) {
    case PeerId::Kind::kPs:
      return AddServer(task.index, start_within);
    case PeerId::Kind::kCoordinator:
      return AddCoordinator(start_within);
    default:
      return AddWorker(task.index, start_within);
  }
}

// Of an average server: its content and as much again and a fifth, for copies.
uint64_t IntegerCluster::TightMemory() const {
  uint64_t bytes = 0;
  for (const v1::Variable& variable : job_.variables()) {
    uint64_t elements = 1;
    for (const uint64_t dimension : variable.shape()) elements *= dimension;
    bytes += elements * sizeof(float);
  }
  if (job_.config().optimizer().has_adam()) bytes *= 3;
  return bytes * 11 / (5 * options_.servers);
}

void IntegerCluster::AddServer(uint32_t index, absl::Duration start_within) {
  Shard::Options options;
  options.index = index;
  options.incarnation = random_.Bits() | 1;
  options.life_seed = random_.Bits();
  // Several windows of what is restored.
  options.restore_window_bytes = 5000;
  // In some jobs no description fits into an answer.
  if (job_.config().seed() % 11 == 4) options.max_description_bytes = 0;
  if (options_.tight_memory) options.memory_limit_bytes = TightMemory();
  cores_.push_back(std::make_unique<Shard>(options));
  const PeerId self = PeerId::Ps(index);
  storage_.ServeShard(self, &simulation_);
  lives_[self] = simulation_.AddNode(self, cores_.back().get(), start_within);
}

void IntegerCluster::AddCoordinator(absl::Duration start_within) {
  Coordinator::Options options;
  options.job = job_.config();
  options.job_digest = kDigest;
  options.run_id = options_.warm ? "integers-2" : "integers-1";
  if (options_.warm) {
    options.job.mutable_warm_start()->set_path("trained");
    options.job.mutable_warm_start()->set_variables("*");
  }
  options.variables = job_.variables();
  options.servers = options_.servers;
  options.workers = listed();
  options.job.set_max_joined_workers(options_.joined);
  options.examples = job_.examples();
  options.nonce_seed = random_.Bits();
  // Some coordinators look at one member as those of large jobs do.
  if (job_.config().seed() % 3 == 1) options.few_members = 0;
  // Several windows of each file that goes through it.
  options.window_bytes = 5000;
  options.fill_bytes = 700;
  auto added = std::make_unique<Coordinator>(options);
  coordinator_ = added.get();
  cores_.push_back(std::move(added));
  const PeerId self = PeerId::Coordinator();
  storage_.ServeCoordinator(self, &simulation_);
  if (options_.files != nullptr) {
    simulation_.HandleIo(self, v1::ScanInput::descriptor(), kScanning,
                         [this](Outbox::IoItem item) {
                           return options_.files->Scan(
                               static_cast<const v1::ScanInput&>(*item.head));
                         });
  }
  lives_[self] = simulation_.AddNode(self, cores_.back().get(), start_within);
}

void IntegerCluster::AddWorker(uint32_t index, absl::Duration start_within) {
  Worker::Options options;
  options.index = index;
  options.incarnation = random_.Bits() | 1;
  options.replaces = replaces_[index];
  options.joined = index >= listed();
  incarnations_[index] = options.incarnation;
  options.job = job_.config();
  options.job_digest = kDigest;
  options.examples = job_.examples();
  options.give_up_after = options_.give_up_after;
  // In half of the jobs gradients leave as they are computed.
  if (job_.config().seed() % 2 == 1) options.layers_from_bytes = 0;
  auto added = std::make_unique<Worker>(options);
  Worker* const worker = added.get();
  cores_.push_back(std::move(added));
  const PeerId self = PeerId::Worker(index);
  HandleInput(self);
  HandleComputing(self);
  lives_[self] = simulation_.AddNode(self, worker, start_within);
}

void IntegerCluster::HandleInput(PeerId worker) {
  simulation_.HandleIo(
      worker, v1::FetchPortion::descriptor(), {}, [this](Outbox::IoItem item) {
        if (options_.files != nullptr) {
          simulation_.Fail(options_.files->CheckGiven(
              static_cast<const v1::FetchPortion&>(*item.head)));
        }
        return IoResult{};
      });
  simulation_.HandleIo(
      worker, v1::CollectRows::descriptor(), kComputing,
      [this](Outbox::IoItem item) {
        return CollectRows(static_cast<const v1::CollectRows&>(*item.head));
      });
  simulation_.HandleIo(
      worker, v1::CollectEvaluationRows::descriptor(), kComputing,
      [this](Outbox::IoItem) {
        IoResult result;
        result.head = std::make_unique<v1::CollectEvaluationRowsResult>();
        result.payload = {
            Buffer::Copy(AsBytes(absl::MakeConstSpan(job_.AllRows())))};
        return result;
      });
}

void IntegerCluster::HandleComputing(PeerId worker) {
  const auto computed = std::make_shared<Computed>();
  simulation_.HandleIo(
      worker, v1::ComputeGradient::descriptor(), kComputing,
      [this, computed](Outbox::IoItem item) {
        const auto& request =
            static_cast<const v1::ComputeGradient&>(*item.head);
        IoResult result = Compute(request, ValuesOf(item.payload));
        *computed = {item.io, result.payload};
        return result;
      });
  simulation_.HandleIo(worker, v1::TakeGradients::descriptor(), kComputing,
                       [this, computed](Outbox::IoItem item) {
                         return TakeGradients(
                             static_cast<const v1::TakeGradients&>(*item.head),
                             *computed);
                       });
  simulation_.HandleIo(worker, v1::AbandonGradient::descriptor(), {},
                       [](Outbox::IoItem) { return IoResult{}; });
  simulation_.HandleIo(
      worker, v1::EvaluateWeights::descriptor(),
      {.shortest = absl::Milliseconds(1), .longest = absl::Seconds(1)},
      [this](Outbox::IoItem item) {
        return Evaluate(static_cast<const v1::EvaluateWeights&>(*item.head),
                        ValuesOf(item.payload));
      });
}

bool IntegerCluster::HasExactWeights() const {
  return !options_.scaled && !job_.is_replayed() && !job_.is_pull_rounded();
}

// Of a sparse one there are rows, which the content model has seen, and which
// were not looked up together.
void IntegerCluster::CheckWeights(const WeightValues& weights) {
  if (!HasExactWeights()) return;
  for (size_t v = 0; v < job_.variables().size(); ++v) {
    if (job_.variables()[v].sparse()) continue;
    simulation_.Fail(job_.CheckNotTorn(v, weights[v]));
  }
}

IoResult IntegerCluster::CollectRows(const v1::CollectRows& request) const {
  const v1::ComputeGradient& compute = request.compute();
  const std::vector<uint64_t> rows =
      job_.RowsOf({compute.epoch(), compute.begin()});
  IoResult result;
  result.head = std::make_unique<v1::CollectRowsResult>();
  result.payload = {Buffer::Copy(AsBytes(absl::MakeConstSpan(rows)))};
  return result;
}

// Those of the last variables, if it has been computed by now.
IoResult IntegerCluster::TakeGradients(const v1::TakeGradients& request,
                                       const Computed& computed) {
  auto head = std::make_unique<v1::TakeGradientsResult>();
  IoResult result;
  if (request.computation() == computed.io) {
    const size_t variables = computed.gradients.size();
    for (size_t v = random_.Below(variables); v < variables; ++v) {
      head->add_variables(static_cast<uint32_t>(v));
      result.payload.push_back(computed.gradients[v]);
    }
  }
  result.head = std::move(head);
  return result;
}

IoResult IntegerCluster::Compute(const v1::ComputeGradient& request,
                                 const WeightValues& weights) {
  CheckWeights(weights);
  auto head = std::make_unique<v1::ComputeGradientResult>();
  head->set_loss(0.5);
  head->set_examples(request.end() - request.begin());
  v1::MetricSum* const accuracy = head->add_metrics();
  accuracy->set_name("accuracy");
  accuracy->set_sum(1);
  accuracy->set_count(static_cast<double>(head->examples()));
  IoResult result;
  result.head = std::move(head);
  const BatchPlace batch = {request.epoch(), request.begin()};
  if (!job_.is_rounded()) {
    result.payload = job_.Gradient(batch);
    return result;
  }
  for (const std::vector<float>& gradient : job_.RoundedGradient(
           batch, {weights.begin(), weights.end()}, request.divide_by())) {
    result.payload.push_back(Buffer::Copy(AsBytes<float>(gradient)));
  }
  return result;
}

IoResult IntegerCluster::Evaluate(const v1::EvaluateWeights& request,
                                  const WeightValues& weights) {
  CheckWeights(weights);
  if (request.final() && !options_.warm &&
      (options_.gentle || options_.exact) && HasExactWeights() &&
      !storage_.first_take_over().has_value()) {
    const std::multiset<BatchPlace> all(job_.batches().begin(),
                                        job_.batches().end());
    for (size_t v = 0; v < job_.variables().size(); ++v) {
      // The content model knows which keys are left.
      if (job_.variables()[v].keyed() && job_.has_evictions()) continue;
      simulation_.Fail(job_.CheckValues(v, weights[v], all));
    }
  }
  auto head = std::make_unique<v1::EvaluateWeightsResult>();
  v1::Evaluation* const evaluation = head->mutable_evaluation();
  evaluation->set_epoch(request.epoch());
  evaluation->set_examples(10);
  (*evaluation->mutable_metrics())["accuracy"] = 0.1 * request.epoch();
  evaluation->set_final(request.final());
  IoResult result;
  result.head = std::move(head);
  return result;
}

}  // namespace paramd
