#include "worker/worker_process.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "proto/paramd/v1/compute.pb.h"
#include "worker/evaluation.h"
#include "worker/input/open_dataset.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;

constexpr absl::Duration kInputPatience = absl::Minutes(5);

std::vector<uint64_t> GradientBytes(const Model& model) {
  std::vector<uint64_t> bytes;
  for (const v1::Variable& variable : model.variables()) {
    uint64_t elements = 1;
    for (const uint64_t dimension : variable.shape()) elements *= dimension;
    bytes.push_back(elements * sizeof(float));
  }
  return bytes;
}

BatchSource::Options InputOptions(const v1::JobConfig& job) {
  BatchSource::Options options;
  options.seed = job.seed();
  options.batch_size = job.batch_per_replica();
  return options;
}

void Add(const GradientPool::Set& gradients, GradientPool::Set* sum) {
  for (size_t v = 0; v < gradients.mutables.size(); ++v) {
    const absl::Span<const float> from = gradients.mutables[v];
    const absl::Span<float> to = sum->mutables[v];
    for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  }
}

Portion ToRange(uint32_t epoch, uint64_t begin, uint64_t end) {
  return {.epoch = epoch, .begin = begin, .end = end};
}

}  // namespace

absl::Status WorkerProcess::Check(const v1::JobConfig& job) {
  ASSIGN_OR_RETURN(const auto training, OpenTrainingData(job.input()));
  RETURN_IF_ERROR(OpenTestData(job.input(), training->spec()).status());
  return Model::Create(job.model(), training->spec()).status();
}

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Create(
    const AsyncWorker::Options& options) {
  ASSIGN_OR_RETURN(auto training, OpenTrainingData(options.job.input()));
  ASSIGN_OR_RETURN(auto test,
                   OpenTestData(options.job.input(), training->spec()));
  ASSIGN_OR_RETURN(auto model,
                   Model::Create(options.job.model(), training->spec()));
  ASSIGN_OR_RETURN(auto evaluator,
                   Model::Create(options.job.model(), training->spec()));
  AsyncWorker::Options worker = options;
  worker.examples = training->size();
  worker.data = training->Describe();
  ASSIGN_OR_RETURN(*worker.data.mutable_directory(),
                   AbsolutePath(options.job.input().directory()));
  worker.data.set_host(options.host);
  return std::unique_ptr<WorkerProcess>(
      new WorkerProcess(worker, std::move(training), std::move(test),
                        std::move(model), std::move(evaluator)));
}

WorkerProcess::WorkerProcess(const AsyncWorker::Options& options,
                             std::unique_ptr<Dataset> training,
                             std::unique_ptr<Dataset> test,
                             std::unique_ptr<Model> model,
                             std::unique_ptr<Model> evaluator)
    : options_(options),
      training_(std::move(training)),
      test_(std::move(test)),
      model_(std::move(model)),
      evaluator_(std::move(evaluator)),
      pool_(GradientBytes(*model_)),
      core_(options),
      prefetcher_(*training_, InputOptions(options.job)),
      assembler_(*training_, options.job.seed()),
      computing_("compute"),
      evaluating_("evaluate") {
  model_->set_abandoned(&abandoned_);
}

void WorkerProcess::AddTo(Runtime* runtime) {
  runtime->AddCore(PeerId::Worker(options_.index), &core_);
  runtime->OnStatus(
      [this](v1::StatusReply* status) { core_.FillStatus(status); });
  runtime->HandleIo(
      v1::FetchPortion::descriptor(),
      [this](Outbox::IoItem item, Runtime::IoDone done) {
        const auto& portion =
            static_cast<const v1::FetchPortion&>(*item.head).portion();
        IoResult result;
        result.status = prefetcher_.Add(
            ToRange(portion.epoch(), portion.begin(), portion.end()));
        done(std::move(result));
      });
  runtime->HandleIo(
      v1::ComputeGradient::descriptor(),
      [this](Outbox::IoItem item, Runtime::IoDone done) {
        const auto request =
            static_cast<const v1::ComputeGradient&>(*item.head);
        abandoned_ = false;  // The one before it has ended.
        ready_.Begin();
        computing_.Post([this, request, done = std::move(done)] {
          IoResult result = Compute(request);
          ready_.End();
          done(std::move(result));
        });
      });
  runtime->HandleIo(v1::TakeGradients::descriptor(),
                    [this](Outbox::IoItem, Runtime::IoDone done) {
                      ready_.Take(std::move(done));
                    });
  runtime->HandleIo(v1::AbandonGradient::descriptor(),
                    [this](Outbox::IoItem, Runtime::IoDone done) {
                      abandoned_ = true;
                      done({});
                    });
  runtime->HandleIo(
      v1::EvaluateWeights::descriptor(),
      [this](Outbox::IoItem item, Runtime::IoDone done) {
        const auto request =
            static_cast<const v1::EvaluateWeights&>(*item.head);
        evaluating_.Post([this, request, done = std::move(done)] {
          done(Evaluate(request));
        });
      });
}

absl::StatusOr<std::unique_ptr<Batch>> WorkerProcess::TakeBatch(
    const Portion& wanted) {
  // Batches before it belong to portions that this worker has no more.
  for (;;) {
    ASSIGN_OR_RETURN(BatchSource::NextBatch next,
                     prefetcher_.WaitForNext(kInputPatience));
    if (next.state != BatchSource::NextBatch::kBatch) {
      return absl::InternalError("the input has ended before the worker");
    }
    if (next.batch->range == wanted) return std::move(next.batch);
    prefetcher_.Recycle(std::move(next.batch));
  }
}

absl::StatusOr<std::unique_ptr<Batch>> WorkerProcess::Assemble(
    const Portion& wanted) {
  auto batch = std::make_unique<Batch>();
  RETURN_IF_ERROR(assembler_.Assemble(wanted, batch.get()));
  return batch;
}

// A share of several batches is the sum of their gradients, in their order.
IoResult WorkerProcess::Compute(const v1::ComputeGradient& request) {
  IoResult result;
  GradientPool::Set sum;
  BatchResult computed;
  const uint64_t step = options_.job.batch_per_replica();
  for (uint64_t begin = request.begin(); begin < request.end(); begin += step) {
    const Portion range = ToRange(request.epoch(), begin,
                                  std::min(begin + step, request.end()));
    // Shares of sync mode are of no portion.
    absl::StatusOr<std::unique_ptr<Batch>> batch =
        request.portion() == 0 ? Assemble(range) : TakeBatch(range);
    if (!batch.ok()) {
      result.status = batch.status();
      return result;
    }
    const uint64_t divisor =
        request.divide_by() > 0 ? request.divide_by() : (*batch)->size();
    GradientPool::Set gradients = pool_.Take();
    const bool is_whole = begin == request.begin() && range.end == request.end();
    computed += model_->ComputeGradient(
        core_.weights(request.weights_buffer()).variables(), **batch,
        static_cast<float>(divisor), gradients.mutables, [&](size_t variable) {
          const auto v = static_cast<uint32_t>(variable);
          if (is_whole) ready_.Add(v, gradients.buffers[v]);
        });
    if (request.portion() != 0) prefetcher_.Recycle(*std::move(batch));
    if (abandoned_) {
      result.status = absl::CancelledError("the gradient was abandoned");
      return result;
    }
    if (sum.buffers.empty()) {
      sum = std::move(gradients);
    } else {
      Add(gradients, &sum);
    }
  }
  auto head = std::make_unique<v1::ComputeGradientResult>();
  head->set_loss(computed.loss_sum);
  head->set_correct(computed.correct);
  head->set_examples(computed.examples);
  result.head = std::move(head);
  for (Buffer& buffer : sum.buffers) {
    result.payload.push_back(std::move(buffer));
  }
  return result;
}

IoResult WorkerProcess::Evaluate(const v1::EvaluateWeights& request) {
  IoResult result;
  const std::vector<absl::Span<const float>> weights =
      core_.weights(request.weights_buffer()).variables();
  const auto sum = EvaluateOn(*test_, weights, evaluator_.get());
  if (!sum.ok()) {
    result.status = sum.status();
    return result;
  }
  auto head = std::make_unique<v1::EvaluateWeightsResult>();
  v1::Evaluation* evaluation = head->mutable_evaluation();
  evaluation->set_epoch(request.epoch());
  evaluation->set_final(request.final());
  evaluation->set_examples(sum->examples);
  evaluation->set_correct(sum->correct);
  evaluation->set_loss(sum->mean_loss());
  evaluation->set_classes(test_->spec().classes);
  result.head = std::move(head);
  return result;
}

}  // namespace paramd
