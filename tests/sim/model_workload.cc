#include "tests/sim/model_workload.h"

#include <memory>
#include <set>
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
#include "worker/model/model.h"

namespace paramd {
namespace {

// The real model on the weights of a worker's core.
class Trainer {
 public:
  Trainer(const ModelJob& job, const AsyncWorker& worker)
      : worker_(worker),
        test_(*job.test),
        assembler_(*job.training, job.config.seed()) {
    auto model = Model::Create(job.config.model(), job.training->spec());
    CHECK(model.ok(), "a ModelJob has a model that makes sense");
    model_ = *std::move(model);
  }

  const std::vector<v1::Variable>& variables() const {
    return model_->variables();
  }

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
    BatchAssembler assembler(test_, absl::nullopt);
    result.status = assembler.Assemble(
        {.epoch = 0, .begin = 0, .end = test_.size()}, &batch);
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
  const Dataset& test_;
  BatchAssembler assembler_;
  std::unique_ptr<Model> model_;
};

// Names as SimStorage::ReadVariable takes them: "" stands for the values.
std::set<std::string> ValuesAndSlots(const v1::Manifest& manifest) {
  std::set<std::string> names = {""};
  for (const v1::ShardFile& file : manifest.files()) {
    for (const v1::SavedSlice& slice : file.slices()) {
      for (const auto& [slot, tensor] : slice.slot_tensors()) {
        names.insert(slot);
      }
    }
  }
  return names;
}

// The cores of the job and the work outside them, for any transport. The job
// must outlive it.
class ModelCluster {
 public:
  ModelCluster(const ModelJob& job, uint64_t seed) {
    RandomStream random(StableHash("processes", seed));
    for (uint32_t i = 0; i < job.servers; ++i) {
      Shard::Options options;
      options.index = i;
      options.incarnation = random.Bits() | 1;
      options.life_seed = random.Bits();
      options.park_timeout = absl::Milliseconds(job.config.park_timeout_ms());
      options.finish_timeout =
          absl::Milliseconds(job.config.finish_timeout_ms());
      options.spike_factor = job.config.spike_factor();
      options.pull_ahead = job.config.pull_ahead();
      shards_.push_back(std::make_unique<Shard>(options));
    }
    AsyncWorker::Options worker;
    worker.incarnation = random.Bits() | 1;
    worker.job = job.config;
    worker.job_digest = job.digest;
    worker_ = std::make_unique<AsyncWorker>(worker);
    trainer_ = std::make_unique<Trainer>(job, *worker_);
    Coordinator::Options options;
    options.job = job.config;
    options.job_digest = job.digest;
    options.run_id = "model-1";
    options.variables = trainer_->variables();
    options.servers = job.servers;
    options.workers = 1;
    options.examples = job.training->size();
    options.nonce_seed = random.Bits();
    coordinator_ = std::make_unique<Coordinator>(options);
  }

  // Each node with its core and its work.
  template <typename Function>
  void ForEachNode(Function add) {
    for (uint32_t i = 0; i < shards_.size(); ++i) {
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
      for (const std::string& slot : ValuesAndSlots(manifest)) {
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

absl::StatusOr<TrainedWeights> TrainModelInProcess(const ModelJob& job) {
  ModelCluster cluster(job, /*seed=*/0);
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

ModelReport RunModelWorkload(const ModelJob& job, uint64_t seed, bool verbose,
                             const TrainedWeights& expected) {
  RandomStream random(StableHash("network", seed));
  Simulation::Options options;
  options.seed = seed;
  options.faults = Faults::Draw(&random);
  options.verbose = verbose;
  options.replay_command = absl::StrCat("bazel run //tests/sim -- ", job.flags,
                                        " --seed=", seed, " --verbose");
  ModelCluster cluster(job, seed);
  Simulation simulation(std::move(options));
  cluster.ForEachNode(
      [&](PeerId self, Core* core, std::vector<SimStorage::Work> works) {
        simulation.AddNode(self, core);
        for (SimStorage::Work& work : works) {
          simulation.HandleIo(self, work.type, {.longest = work.longest},
                              std::move(work.handler));
        }
      });
  TrainedWeights trained;
  if (simulation.Run().ok()) {
    auto newest = cluster.Trained();
    if (newest.ok()) trained = *std::move(newest);
    simulation.Fail(newest.ok() ? Compare(trained, expected) : newest.status());
  }
  return {{.status = simulation.failure(),
           .trace_hash = simulation.trace_hash(),
           .events = simulation.events(),
           .checkpoints = cluster.storage().committed().size(),
           .faults = simulation.fault_counts()},
          std::move(trained)};
}

}  // namespace paramd
