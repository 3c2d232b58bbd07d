#include "tests/sim/replica_processes.h"

#include <set>
#include <utility>

#include "tests/sim/replica_draws.h"

namespace paramd {
namespace {

constexpr char kReplicaDigest[] = "digest of the replicas";
// Where servers are moved by themselves, far shorter than outside.
constexpr absl::Duration kBalanceWindow = absl::Milliseconds(1500);

IoResult ResultOf(Outbox::Head head, const std::vector<uint64_t>& rows) {
  IoResult result;
  result.head = std::move(head);
  result.payload = {Buffer::Copy(AsBytes(absl::MakeConstSpan(rows)))};
  return result;
}

}  // namespace

ReplicaProcesses::ReplicaProcesses(Options options, const IntegerJob& job,
                                   RandomStream* random, RandomStream* chief,
                                   SimStorage* storage, Simulation* simulation)
    : options_(std::move(options)),
      job_(job),
      random_(*random),
      chief_(*chief),
      storage_(*storage),
      simulation_(*simulation) {}

std::vector<PeerId> ReplicaProcesses::PlacesOfTask(uint32_t task) const {
  std::vector<PeerId> places;
  const uint32_t each = options_.scales ? options_.tasks : 2;
  for (uint32_t p = 0; p < each; ++p) {
    places.push_back(PeerId::Ps(each * task + p));
  }
  return places;
}

void ReplicaProcesses::AddTask(uint32_t task, uint64_t incarnation) {
  for (const PeerId place : PlacesOfTask(task)) {
    Shard::Options options;
    options.index = ServerOfPlace(options_.places, place.index);
    options.peer = place.index;
    options.incarnation = incarnation;
    options.life_seed = random_.Bits();
    if (options_.balances) {
      options.processor_time = [this,
                                busy = DrawBusy(options_.seed, place.index)] {
        return simulation_.elapsed() * busy;
      };
    }
    shards_.push_back(std::make_unique<Shard>(options));
    places_now_[place.index] = shards_.back().get();
    if (elections_ != nullptr) elections_->Follow(place);
    storage_.ServeShard(place, &simulation_);
    simulation_.AddNode(place, shards_.back().get());
  }
}

Coordinator* ReplicaProcesses::MakeCoordinator() {
  Coordinator::Options options;
  options.job = job_.config();
  options.job_digest = kReplicaDigest;
  options.run_id = "replicas-1";
  options.variables = job_.variables();
  options.servers = options_.tasks;
  options.places = options_.places;
  options.workers = options_.workers;
  options.examples = job_.examples();
  options.job.set_rebalance(options_.balances);
  options.balance_window = kBalanceWindow;
  options.balance_rest = options_.balance_rest;
  // Some look at one member as those of large jobs do.
  if (job_.config().seed() % 3 == 1) options.few_members = 0;
  options.nonce_seed = coordinators_.empty() ? random_.Bits() : chief_.Bits();
  coordinators_.push_back(std::make_unique<Coordinator>(options));
  return coordinators_.back().get();
}

void ReplicaProcesses::AddCoordinator() {
  storage_.ServeCoordinator(PeerId::Coordinator(), &simulation_);
  simulation_.AddNode(PeerId::Coordinator(), MakeCoordinator());
}

void ReplicaProcesses::AddWorker(uint32_t index) {
  Worker::Options options;
  options.index = index;
  options.incarnation = random_.Bits() | 1;
  options.job = job_.config();
  options.job_digest = kReplicaDigest;
  options.examples = job_.examples();
  Worker* const worker =
      workers_.emplace_back(std::make_unique<Worker>(options)).get();
  const PeerId self = PeerId::Worker(index);
  simulation_.HandleIo(self, v1::FetchPortion::descriptor(), {},
                       [](Outbox::IoItem) { return IoResult{}; });
  simulation_.HandleIo(
      self, v1::CollectRows::descriptor(), {}, [this](Outbox::IoItem item) {
        const auto& compute =
            static_cast<const v1::CollectRows&>(*item.head).compute();
        return ResultOf(std::make_unique<v1::CollectRowsResult>(),
                        job_.RowsOf({compute.epoch(), compute.begin()}));
      });
  simulation_.HandleIo(
      self, v1::CollectEvaluationRows::descriptor(), {},
      [this](Outbox::IoItem) {
        return ResultOf(std::make_unique<v1::CollectEvaluationRowsResult>(),
                        job_.AllRows());
      });
  simulation_.HandleIo(
      self, v1::ComputeGradient::descriptor(),
      {.longest = absl::Milliseconds(200)}, [this](Outbox::IoItem item) {
        return Compute(static_cast<const v1::ComputeGradient&>(*item.head),
                       ValuesOf(item.payload));
      });
  simulation_.HandleIo(self, v1::AbandonGradient::descriptor(), {},
                       [](Outbox::IoItem) { return IoResult{}; });
  simulation_.HandleIo(
      self, v1::EvaluateWeights::descriptor(), {}, [this](Outbox::IoItem item) {
        return Evaluate(static_cast<const v1::EvaluateWeights&>(*item.head),
                        ValuesOf(item.payload));
      });
  if (elections_ != nullptr) elections_->Follow(self);
  simulation_.AddNode(self, worker);
}

IoResult ReplicaProcesses::Compute(const v1::ComputeGradient& request,
                                   const WeightValues& weights) {
  for (size_t v = 0; v < ExactVariables(); ++v) {
    // Of a sparse one there are rows, looked up one by one.
    if (job_.variables()[v].sparse()) continue;
    simulation_.Fail(job_.CheckNotTorn(v, weights[v]));
  }
  auto head = std::make_unique<v1::ComputeGradientResult>();
  head->set_loss(0.5);
  head->set_examples(request.end() - request.begin());
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

IoResult ReplicaProcesses::Evaluate(const v1::EvaluateWeights& request,
                                    const WeightValues& weights) {
  if (request.final()) {
    final_seen_ = true;
    const std::multiset<BatchPlace> all(job_.batches().begin(),
                                        job_.batches().end());
    for (size_t v = 0; v < ExactVariables(); ++v) {
      // Which keys are left depends on the order of pushes.
      if (job_.variables()[v].keyed() && job_.has_evictions()) continue;
      simulation_.Fail(job_.CheckValues(v, weights[v], all));
    }
    simulation_.Fail(options_.check_end());
  }
  auto head = std::make_unique<v1::EvaluateWeightsResult>();
  head->mutable_evaluation()->set_epoch(request.epoch());
  head->mutable_evaluation()->set_examples(10);
  head->mutable_evaluation()->set_final(request.final());
  IoResult result;
  result.head = std::move(head);
  return result;
}

}  // namespace paramd
