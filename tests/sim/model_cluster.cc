#include "tests/sim/model_cluster.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "client/core/weights.h"
#include "proto/paramd/v1/compute.pb.h"
#include "worker/gradient_step.h"
#include "worker/metric_messages.h"
#include "worker/model_factory.h"

namespace paramd {

// The real model on the weights of a worker's core.
class ModelTrainer {
 public:
  explicit ModelTrainer(const ModelJob& job)
      : training_(*job.training),
        test_(*job.test),
        model_(MakeModel(job)),
        step_(job.config, model_.get()) {}

  const std::vector<v1::Variable>& variables() const {
    return model_->variables();
  }

  std::vector<SimStorage::Work> Works() {
    return {
        {v1::FetchPortion::descriptor(), absl::Milliseconds(1),
         [](Outbox::IoItem) { return IoResult{}; }},
        {v1::ComputeGradient::descriptor(), absl::Milliseconds(50),
         [this](Outbox::IoItem item) {
           return Compute(static_cast<const v1::ComputeGradient&>(*item.head),
                          item.payload);
         }},
        {v1::CollectRows::descriptor(), absl::Milliseconds(10),
         [this](Outbox::IoItem item) {
           return CollectRows(
               static_cast<const v1::CollectRows&>(*item.head).compute());
         }},
        {v1::CollectEvaluationRows::descriptor(), absl::Milliseconds(10),
         [this](Outbox::IoItem) { return CollectEvaluationRows(); }},
        {v1::AbandonGradient::descriptor(), absl::Milliseconds(1),
         [](Outbox::IoItem) { return IoResult{}; }},
        // Here gradients leave as a whole.
        {v1::TakeGradients::descriptor(), absl::Milliseconds(1),
         [](Outbox::IoItem) { return IoResult{}; }},
        {v1::EvaluateWeights::descriptor(), absl::Seconds(1),
         [this](Outbox::IoItem item) {
           return Evaluate(static_cast<const v1::EvaluateWeights&>(*item.head),
                           item.payload);
         }},
    };
  }

 private:
  static std::unique_ptr<TrainedModel> MakeModel(const ModelJob& job) {
    auto model = BuiltInModels()(job.config, job.training->spec());
    CHECK(model.ok(), "a ModelJob has a model that makes sense");
    return *std::move(model);
  }

  IoResult CollectRows(const v1::ComputeGradient& request) {
    IoResult result;
    std::vector<std::vector<uint64_t>> rows(CountSparse(model_->variables()));
    Batch batch;
    for (const Portion& range : step_.BatchesOf(request)) {
      result.status = training_.Read(range, &batch);
      if (result.status.ok()) {
        result.status = model_->FindRows(batch, absl::MakeSpan(rows));
      }
      if (!result.status.ok()) return result;
    }
    result.payload = PackRows(std::move(rows));
    result.head = std::make_unique<v1::CollectRowsResult>();
    return result;
  }

  IoResult Compute(const v1::ComputeGradient& request,
                   const BufferChain& payload) {
    const StepWeights weights = ReadWeights(payload, model_->variables());
    IoResult result;
    Batch batch;
    const auto next =
        [&](const Portion& range) -> absl::StatusOr<const Batch*> {
      RETURN_IF_ERROR(training_.Read(range, &batch));
      return &batch;
    };
    std::vector<Buffer> buffers;
    std::vector<absl::Span<float>> spans;
    for (const absl::Span<const float> variable : weights.values) {
      Buffer& buffer = buffers.emplace_back(
          Buffer::Allocate(variable.size() * sizeof(float)));
      spans.push_back({reinterpret_cast<float*>(buffer.mutable_bytes().data()),
                       variable.size()});
    }
    const auto computed =
        step_.Compute(request, weights, next,
                      /*abandoned=*/nullptr, spans, [](size_t) {});
    if (!computed.ok()) {
      result.status = computed.status();
      return result;
    }
    result.payload = {buffers.begin(), buffers.end()};
    auto head = std::make_unique<v1::ComputeGradientResult>();
    SetMetrics(*computed, head.get());
    result.head = std::move(head);
    return result;
  }

  IoResult CollectEvaluationRows() {
    IoResult result;
    std::vector<std::vector<uint64_t>> rows(CountSparse(model_->variables()));
    Batch batch;
    result.status =
        test_.Read({.epoch = 0, .begin = 0, .end = test_.size()}, &batch);
    if (result.status.ok()) {
      result.status = model_->FindRows(batch, absl::MakeSpan(rows));
    }
    if (!result.status.ok()) return result;
    result.payload = PackRows(std::move(rows));
    result.head = std::make_unique<v1::CollectEvaluationRowsResult>();
    return result;
  }

  IoResult Evaluate(const v1::EvaluateWeights& request,
                    const BufferChain& payload) {
    const StepWeights weights = ReadWeights(payload, model_->variables());
    IoResult result;
    Batch batch;
    result.status =
        test_.Read({.epoch = 0, .begin = 0, .end = test_.size()}, &batch);
    if (!result.status.ok()) return result;
    const auto computed =
        model_->EvaluateRows(weights.values, batch, weights.rows);
    CHECK(computed.ok(), "the data of a ModelJob fits its model");
    const Metrics& evaluated = *computed;
    auto head = std::make_unique<v1::EvaluateWeightsResult>();
    v1::Evaluation* const evaluation = head->mutable_evaluation();
    evaluation->set_epoch(request.epoch());
    evaluation->set_final(request.final());
    SetMetrics(evaluated, evaluation);
    result.head = std::move(head);
    return result;
  }

  const Pipeline& training_;
  const Pipeline& test_;
  const std::unique_ptr<TrainedModel> model_;
  GradientStep step_;
};

namespace {

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

}  // namespace

ModelCluster::ModelCluster(const ModelJob& job, uint64_t seed,
                           SimStorage* storage)
    : storage_(storage) {
  RandomStream random(StableHash("processes", seed));
  for (uint32_t i = 0; i < job.servers; ++i) {
    Shard::Options options;
    options.index = i;
    options.incarnation = random.Bits() | 1;
    options.life_seed = random.Bits();
    shards_.push_back(std::make_unique<Shard>(options));
  }
  for (uint32_t i = 0; i < job.workers; ++i) {
    Worker::Options worker;
    worker.index = i;
    worker.incarnation = random.Bits() | 1;
    worker.job = job.config;
    worker.job_digest = job.digest;
    worker.examples = job.training->size();
    workers_.push_back(std::make_unique<Worker>(worker));
    trainers_.push_back(std::make_unique<ModelTrainer>(job));
  }
  Coordinator::Options options;
  options.job = job.config;
  options.job_digest = job.digest;
  options.run_id = "model-1";
  options.variables = trainers_[0]->variables();
  options.servers = job.servers;
  options.workers = job.workers;
  options.examples = job.training->size();
  options.nonce_seed = random.Bits();
  coordinator_ = std::make_unique<Coordinator>(options);
}

ModelCluster::~ModelCluster() = default;

void ModelCluster::ForEachNode(const Add& add) {
  for (uint32_t i = 0; i < shards_.size(); ++i) {
    add(PeerId::Ps(i), shards_[i].get(), storage_->ShardWorks());
  }
  add(PeerId::Coordinator(), coordinator_.get(), storage_->CoordinatorWorks());
  for (uint32_t i = 0; i < workers_.size(); ++i) {
    add(PeerId::Worker(i), workers_[i].get(), trainers_[i]->Works());
  }
}

absl::StatusOr<TrainedWeights> ModelCluster::Trained() const {
  if (storage_->results().empty()) {
    return absl::DataLossError("the job did not write its result");
  }
  const v1::Manifest& manifest = storage_->committed().back();
  TrainedWeights trained;
  for (const v1::Variable& variable : trainers_[0]->variables()) {
    for (const std::string& slot : ValuesAndSlots(manifest)) {
      ASSIGN_OR_RETURN(const std::vector<float> values,
                       storage_->ReadVariable(manifest, variable.name(), slot));
      trained[absl::StrCat(variable.name(),
                           slot.empty() ? "" : "/slot:", slot)] =
          FlattenForTest({Buffer::Copy(AsBytes<float>(values))});
    }
  }
  return trained;
}

std::map<std::string, std::string> ModelCluster::Counts() const {
  std::map<std::string, std::string> counts;
  if (storage_->committed().empty()) return counts;
  for (const v1::ShardFile& file : storage_->committed().back().files()) {
    for (const v1::SavedSlice& slice : file.slices()) {
      const std::string name = absl::StrCat(
          slice.variable(), "[", slice.row_begin(), ":", slice.row_end(), "]");
      for (const v1::AppliedRun& run : slice.applied()) {
        absl::StrAppend(&counts[name], run.blocks(), " x ", run.applied(), " ");
      }
      for (const float rms : slice.gradient_rms()) {
        absl::StrAppend(&counts[absl::StrCat(name, kRunning)],
                        absl::Hex(absl::bit_cast<uint32_t>(rms)), " ");
      }
    }
  }
  return counts;
}

absl::Status CompareWeights(const TrainedWeights& trained,
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

}  // namespace paramd
