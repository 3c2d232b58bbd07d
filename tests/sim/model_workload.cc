#include "tests/sim/model_workload.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "coordinator/core/coordinator.h"
#include "net/in_process_runtime.h"
#include "server/core/shard.h"
#include "tests/sim/simulation.h"
#include "tests/sim/storage.h"
#include "worker/core/async_worker.h"
#include "worker/input/batch_assembler.h"
#include "worker/input/dataset.h"
#include "worker/model/model.h"

namespace paramd {
namespace {

constexpr uint32_t kServers = 2;
constexpr char kDigest[] = "digest of the model";

// Labelled noise: every value is a pure function of its place.
class DrawnDataset : public Dataset {
 public:
  DrawnDataset() {
    spec_.example_shape = {6, 6};
    spec_.classes = 5;
  }
  const InputSpec& spec() const override { return spec_; }
  uint64_t size() const override { return 230; }
  absl::Status Read(absl::Span<const uint32_t> indices,
                    Batch* batch) const override {
    batch->examples.clear();
    batch->labels.clear();
    for (const uint32_t index : indices) {
      const CounterRandom random(StableHash("example", index));
      batch->labels.push_back(index % spec_.classes);
      for (uint64_t i = 0; i < spec_.example_size(); ++i) {
        // A third of the values say the label.
        batch->examples.push_back(i % 3 == 0 && i % 5 == batch->labels.back()
                                      ? 1.0f
                                      : random.Uniform(i));
      }
    }
    return absl::OkStatus();
  }

 private:
  InputSpec spec_;
};

v1::JobConfig Job() {
  v1::JobConfig job;
  job.set_name("model");
  job.set_seed(11);
  job.mutable_model()->add_layers()->mutable_flatten();
  job.mutable_model()->add_layers()->mutable_dense()->set_units(16);
  job.mutable_model()->add_layers()->mutable_relu();
  job.mutable_model()->add_layers()->mutable_dense()->set_units(5);
  job.mutable_model()->set_loss(v1::SOFTMAX_CROSS_ENTROPY);
  v1::OptimizerConfig* const optimizer = job.mutable_optimizer();
  optimizer->mutable_adam()->set_beta1(0.9);
  optimizer->mutable_adam()->set_beta2(0.999);
  optimizer->mutable_adam()->set_epsilon(1e-7);
  optimizer->set_learning_rate(0.01);
  optimizer->set_schedule(v1::OptimizerConfig::COSINE);
  optimizer->set_decay_steps(0);
  job.set_batch_per_replica(8);
  job.set_epochs(3);
  job.set_staleness("async");
  job.mutable_checkpoint()->set_every_steps(20);
  job.mutable_checkpoint()->set_keep(3);
  job.set_evaluate_every_epochs(1);
  job.set_portion_batches(3);
  job.set_chunk_bytes(1 << 20);
  job.set_start_timeout_ms(600000);
  job.set_lease_ms(120000);
  job.set_heartbeat_ms(1000);
  job.set_park_timeout_ms(5000);
  job.set_finish_timeout_ms(10000);
  job.set_drain_timeout_ms(25000);
  return job;
}

// The real model on the weights of a worker's core.
class Trainer {
 public:
  explicit Trainer(const AsyncWorker* worker)
      : worker_(*worker), assembler_(dataset_, Job().seed()) {
    auto model = Model::Create(Job().model(), dataset_.spec());
    CHECK(model.ok(), "the model of the test makes sense");
    model_ = *std::move(model);
  }

  const std::vector<v1::Variable>& variables() const {
    return model_->variables();
  }
  uint64_t examples() const { return dataset_.size(); }

  std::vector<SimStorage::Work> Works() {
    return {
        {v1::FetchPortion::descriptor(), absl::Milliseconds(1),
         [](Outbox::IoItem) { return IoResult{}; }},
        {v1::ComputeGradient::descriptor(), absl::Milliseconds(50),
         [this](Outbox::IoItem item) {
           return Compute(static_cast<const v1::ComputeGradient&>(*item.head));
         }},
        {v1::EvaluateWeights::descriptor(), absl::Seconds(1),
         [this](Outbox::IoItem item) {
           return Evaluate(static_cast<const v1::EvaluateWeights&>(*item.head));
         }},
    };
  }

 private:
  IoResult Compute(const v1::ComputeGradient& request) {
    IoResult result;
    Batch batch;
    result.status = assembler_.Assemble({.epoch = request.epoch(),
                                         .begin = request.begin(),
                                         .end = request.end()},
                                        &batch);
    if (!result.status.ok()) return result;
    const auto weights = worker_.weights(request.weights_buffer()).variables();
    std::vector<absl::Span<float>> gradients;
    for (const absl::Span<const float> variable : weights) {
      Buffer buffer = Buffer::Allocate(variable.size() * sizeof(float));
      gradients.push_back(
          {reinterpret_cast<float*>(buffer.mutable_bytes().data()),
           variable.size()});
      result.payload.push_back(std::move(buffer));
    }
    const BatchResult computed =
        model_->ComputeGradient(weights, batch, batch.size(), gradients);
    auto head = std::make_unique<v1::ComputeGradientResult>();
    head->set_loss(computed.loss_sum);
    head->set_correct(computed.correct);
    head->set_examples(computed.examples);
    result.head = std::move(head);
    return result;
  }

  IoResult Evaluate(const v1::EvaluateWeights& request) {
    IoResult result;
    Batch batch;
    BatchAssembler assembler(dataset_, absl::nullopt);
    result.status = assembler.Assemble(
        {.epoch = 0, .begin = 0, .end = dataset_.size()}, &batch);
    if (!result.status.ok()) return result;
    const BatchResult evaluated = model_->Evaluate(
        worker_.weights(request.weights_buffer()).variables(), batch);
    auto head = std::make_unique<v1::EvaluateWeightsResult>();
    v1::Evaluation* const evaluation = head->mutable_evaluation();
    evaluation->set_epoch(request.epoch());
    evaluation->set_final(request.final());
    evaluation->set_examples(evaluated.examples);
    evaluation->set_correct(evaluated.correct);
    evaluation->set_loss(evaluated.mean_loss());
    result.head = std::move(head);
    return result;
  }

  const AsyncWorker& worker_;
  const DrawnDataset dataset_;
  BatchAssembler assembler_;
  std::unique_ptr<Model> model_;
};

// The cores of the job and the work outside them, for any transport.
class ModelCluster {
 public:
  explicit ModelCluster(uint64_t seed) {
    RandomStream random(StableHash("processes", seed));
    for (uint32_t i = 0; i < kServers; ++i) {
      Shard::Options options;
      options.index = i;
      options.incarnation = random.Bits() | 1;
      options.life_seed = random.Bits();
      shards_.push_back(std::make_unique<Shard>(options));
    }
    AsyncWorker::Options worker;
    worker.incarnation = random.Bits() | 1;
    worker.job = Job();
    worker.job_digest = kDigest;
    worker_ = std::make_unique<AsyncWorker>(worker);
    trainer_ = std::make_unique<Trainer>(worker_.get());
    Coordinator::Options options;
    options.job = Job();
    options.job_digest = kDigest;
    options.run_id = "model-1";
    options.variables = trainer_->variables();
    options.servers = kServers;
    options.workers = 1;
    options.examples = trainer_->examples();
    options.nonce_seed = random.Bits();
    coordinator_ = std::make_unique<Coordinator>(options);
  }

  // Each node with its core and its work.
  template <typename Function>
  void ForEachNode(Function add) {
    for (uint32_t i = 0; i < kServers; ++i) {
      add(PeerId::Ps(i), shards_[i].get(), storage_.ShardWorks());
    }
    add(PeerId::Coordinator(), coordinator_.get(), storage_.CoordinatorWorks());
    add(PeerId::Worker(0), worker_.get(), trainer_->Works());
  }

  // Out of the newest checkpoint.
  absl::StatusOr<TrainedWeights> Trained() {
    if (storage_.results().size() != 1) {
      return absl::DataLossError("the job did not write its result once");
    }
    const v1::Manifest& manifest = storage_.committed().back();
    TrainedWeights trained;
    for (const v1::Variable& variable : trainer_->variables()) {
      for (const std::string slot : {"", "momentum", "variance"}) {
        ASSIGN_OR_RETURN(
            const std::vector<float> values,
            storage_.ReadVariable(manifest, variable.name(), slot));
        trained[absl::StrCat(variable.name(),
                             slot.empty() ? "" : "/slot:", slot)] =
            FlattenForTest({Buffer::Copy(AsBytes<float>(values))});
      }
    }
    return trained;
  }

  const SimStorage& storage() const { return storage_; }

 private:
  SimStorage storage_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::unique_ptr<AsyncWorker> worker_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<Coordinator> coordinator_;
};

absl::Status Compare(const TrainedWeights& trained,
                     const TrainedWeights& expected) {
  for (const auto& [name, bytes] : expected) {
    const auto found = trained.find(name);
    if (found == trained.end() || found->second != bytes) {
      return absl::DataLossError(
          absl::StrCat("'", name, "' has other bits than in one process"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrainedWeights> TrainModelInProcess() {
  ModelCluster cluster(/*seed=*/0);
  const std::unique_ptr<Runtime> runtime = MakeInProcessRuntime();
  cluster.ForEachNode(
      [&](PeerId self, Core* core, std::vector<SimStorage::Work> works) {
        runtime->AddCore(self, core);
        for (SimStorage::Work& work : works) {
          runtime->HandleIo(work.type,
                            [handler = std::move(work.handler)](
                                Outbox::IoItem item, Runtime::IoDone done) {
                              done(handler(std::move(item)));
                            });
        }
      });
  RETURN_IF_ERROR(runtime->Run());
  return cluster.Trained();
}

WorkloadReport RunModelWorkload(uint64_t seed, bool verbose,
                                const TrainedWeights& expected) {
  RandomStream random(StableHash("network", seed));
  Simulation::Options options;
  options.seed = seed;
  options.faults = Faults::Draw(&random);
  options.verbose = verbose;
  options.replay_command = absl::StrCat(
      "bazel run //tests/sim -- --workload=model --seed=", seed, " --verbose");
  ModelCluster cluster(seed);
  Simulation simulation(std::move(options));
  cluster.ForEachNode(
      [&](PeerId self, Core* core, std::vector<SimStorage::Work> works) {
        simulation.AddNode(self, core);
        for (SimStorage::Work& work : works) {
          simulation.HandleIo(self, work.type, {.longest = work.longest},
                              std::move(work.handler));
        }
      });
  if (simulation.Run().ok()) {
    const auto trained = cluster.Trained();
    simulation.Fail(trained.ok() ? Compare(*trained, expected)
                                 : trained.status());
  }
  return {.status = simulation.failure(),
          .trace_hash = simulation.trace_hash(),
          .events = simulation.events(),
          .checkpoints = cluster.storage().committed().size(),
          .faults = simulation.fault_counts()};
}

}  // namespace paramd
