#include "tests/sim/integer_cluster.h"

#include <set>
#include <utility>

namespace paramd {
namespace {

constexpr char kDigest[] = "digest of the integers";

}  // namespace

IntegerCluster::IntegerCluster(const Options& options, const IntegerJob& job,
                               PushLedger* ledger, SimStorage* storage,
                               Simulation* simulation)
    : options_(options),
      job_(job),
      storage_(*storage),
      simulation_(*simulation),
      random_(StableHash("processes", options.seed)) {
  simulation_.OnRequest([this, ledger](PeerId from, PeerId,
                                       const google::protobuf::Message& head) {
    simulation_.Fail(ledger->See(from, head));
    if (ledger->pushes() >= options_.stop_after_pushes) simulation_.End();
  });
  for (uint32_t i = 0; i < options_.servers; ++i) AddServer(i);
  AddCoordinator();
  for (uint32_t i = 0; i < options_.workers; ++i) AddWorker(i);
  if (random_.Chance(0.3)) CutOffSometimes();
  if (random_.Chance(0.4)) DrainSometimes();
}

// Mostly soon, sometimes when the others have long begun.
absl::Duration IntegerCluster::DrawStart() {
  return random_.Chance(0.9) ? absl::Seconds(1) : absl::Seconds(30);
}

// Up to three times nobody reaches some node; together for less than finished
// processes wait for the others.
void IntegerCluster::CutOffSometimes() {
  std::vector<PeerId> nodes = {PeerId::Coordinator()};
  for (uint32_t i = 0; i < options_.servers; ++i) {
    nodes.push_back(PeerId::Ps(i));
  }
  for (uint32_t i = 0; i < options_.workers; ++i) {
    nodes.push_back(PeerId::Worker(i));
  }
  for (uint64_t i = 1 + random_.Below(3); i > 0; --i) {
    const PeerId node = nodes[random_.Below(nodes.size())];
    const absl::Duration time = absl::Milliseconds(random_.Below(2500));
    simulation_.At(absl::Milliseconds(random_.Below(15000)),
                   [this, node, time] { simulation_.CutOff(node, time); });
  }
}

// Up to three times a server or a worker is told to stop. The chief's process is
// the coordinator's too; it does not stop here.
void IntegerCluster::DrainSometimes() {
  std::vector<PeerId> nodes;
  for (uint32_t i = 0; i < options_.servers; ++i) {
    nodes.push_back(PeerId::Ps(i));
  }
  for (uint32_t i = 1; i < options_.workers; ++i) {
    nodes.push_back(PeerId::Worker(i));
  }
  for (uint64_t i = 1 + random_.Below(3); i > 0; --i) {
    const PeerId node = nodes[random_.Below(nodes.size())];
    simulation_.At(absl::Milliseconds(random_.Below(8000)), [this, node] {
      if (storage_.results().empty() && !simulation_.HasExited(node)) {
        drained_.insert(node);
        simulation_.Drain(node);
        ReplaceDrained(node);
      }
    });
  }
}

void IntegerCluster::ReplaceDrained(PeerId node) {
  if (!storage_.results().empty()) return;  // Nothing is left to do.
  if (!simulation_.HasExited(node)) {
    simulation_.At(simulation_.elapsed() + absl::Milliseconds(100),
                   [this, node] { ReplaceDrained(node); });
    return;
  }
  node.kind == PeerId::Kind::kPs ? AddServer(node.index)
                                 : AddWorker(node.index);
}

void IntegerCluster::AddServer(uint32_t index) {
  Shard::Options options;
  options.index = index;
  options.incarnation = random_.Bits() | 1;
  options.life_seed = random_.Bits();
  options.lease = absl::Milliseconds(job_.config().lease_ms());
  shards_.push_back(std::make_unique<Shard>(options));
  storage_.ServeShard(PeerId::Ps(index), &simulation_);
  simulation_.AddNode(PeerId::Ps(index), shards_.back().get(), DrawStart());
}

void IntegerCluster::AddCoordinator() {
  Coordinator::Options options;
  options.job = job_.config();
  options.job_digest = kDigest;
  options.run_id = "integers-1";
  options.variables = job_.variables();
  options.servers = options_.servers;
  options.workers = options_.workers;
  options.examples = job_.examples();
  options.nonce_seed = random_.Bits();
  coordinator_ = std::make_unique<Coordinator>(options);
  storage_.ServeCoordinator(PeerId::Coordinator(), &simulation_);
  simulation_.AddNode(PeerId::Coordinator(), coordinator_.get(), DrawStart());
}

void IntegerCluster::AddWorker(uint32_t index) {
  AsyncWorker::Options options;
  options.index = index;
  options.incarnation = random_.Bits() | 1;
  options.job = job_.config();
  options.job_digest = kDigest;
  AsyncWorker* const worker =
      workers_.emplace_back(std::make_unique<AsyncWorker>(options)).get();
  const PeerId self = PeerId::Worker(index);
  simulation_.HandleIo(self, v1::FetchPortion::descriptor(), {},
                       [](Outbox::IoItem) { return IoResult{}; });
  simulation_.HandleIo(
      self, v1::ComputeGradient::descriptor(), {},
      [this, worker](Outbox::IoItem item) {
        return Compute(*worker,
                       static_cast<const v1::ComputeGradient&>(*item.head));
      });
  simulation_.HandleIo(
      self, v1::EvaluateWeights::descriptor(),
      {.shortest = absl::Milliseconds(1), .longest = absl::Seconds(1)},
      [this, worker](Outbox::IoItem item) {
        return Evaluate(*worker,
                        static_cast<const v1::EvaluateWeights&>(*item.head));
      });
  // The last to come still finds the coordinator of the shortest job.
  simulation_.AddNode(self, worker, absl::Seconds(3));
}

void IntegerCluster::CheckWeights(const AsyncWorker& worker, uint32_t buffer) {
  const auto variables = worker.weights(buffer).variables();
  for (size_t v = 0; v < variables.size(); ++v) {
    simulation_.Fail(job_.CheckNotTorn(v, variables[v]));
  }
}

IoResult IntegerCluster::Compute(const AsyncWorker& worker,
                                 const v1::ComputeGradient& request) {
  CheckWeights(worker, request.weights_buffer());
  auto head = std::make_unique<v1::ComputeGradientResult>();
  head->set_loss(0.5);
  head->set_examples(request.end() - request.begin());
  IoResult result;
  result.head = std::move(head);
  result.payload = job_.Gradient({request.epoch(), request.begin()});
  return result;
}

IoResult IntegerCluster::Evaluate(const AsyncWorker& worker,
                                  const v1::EvaluateWeights& request) {
  CheckWeights(worker, request.weights_buffer());
  if (request.final()) {
    const auto variables = worker.weights(request.weights_buffer()).variables();
    const std::multiset<BatchPlace> all(job_.batches().begin(),
                                        job_.batches().end());
    for (size_t v = 0; v < variables.size(); ++v) {
      simulation_.Fail(job_.CheckValues(v, variables[v], all));
    }
  }
  auto head = std::make_unique<v1::EvaluateWeightsResult>();
  v1::Evaluation* const evaluation = head->mutable_evaluation();
  evaluation->set_epoch(request.epoch());
  evaluation->set_examples(10);
  evaluation->set_correct(request.epoch());
  evaluation->set_final(request.final());
  IoResult result;
  result.head = std::move(head);
  return result;
}

}  // namespace paramd
