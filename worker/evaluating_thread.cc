#include "worker/evaluating_thread.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "config/job_config.h"
#include "worker/evaluation.h"
#include "worker/metric_messages.h"

namespace paramd {
namespace {

// 0 where labels are no classes.
uint32_t ClassesOf(const InputSpec& spec) {
  const FeatureSpec* label = spec.Find("label");
  return label == nullptr ? 0 : label->classes;
}

// Members leave it to one of them; a program may have no test data.
bool Evaluates(const Membership& member, const TrainedModel& model) {
  return member.evaluates && model.evaluates();
}

// Nothing: all batches.
TestPart ToPart(bool is_part, const v1::TestPart& part) {
  TestPart own;
  if (is_part) own.batches.emplace(part.begin(), part.end());
  return own;
}

}  // namespace

uint64_t TestSetOf(const Pipeline& test, const TrainedModel& model,
                   const Membership& member, const v1::JobConfig& job) {
  if (job.model().custom() || !Evaluates(member, model)) return 0;
  v1::DataSet data = test.Describe();
  data.clear_directory();
  data.clear_host();
  const std::string digest = Digest(absl::StrCat(
      test.size(), " in ", BatchCount(test, model), "\n", data.DebugString()));
  uint64_t number = 0;
  if (!absl::SimpleHexAtoi(digest, &number)) return 0;
  return std::max<uint64_t>(number, 1);
}

EvaluatingThread::EvaluatingThread(std::unique_ptr<Pipeline> test,
                                   std::unique_ptr<TrainedModel> model,
                                   const Membership& member, ChromeTrace* trace)
    : test_(std::move(test)),
      model_(std::move(model)),
      member_(member),
      trace_(trace),
      thread_("evaluate") {}

void EvaluatingThread::AddTo(Runtime* runtime) {
  runtime->HandleIo(
      v1::CollectEvaluationRows::descriptor(),
      [this](Outbox::IoItem item, Runtime::IoDone done) {
        const auto request =
            static_cast<const v1::CollectEvaluationRows&>(*item.head);
        thread_.Post([this, request, done = std::move(done)]() {
          done(CollectEvaluationRows(request));
        });
      });
  // The coordinator of this process asks.
  runtime->HandleIo(v1::MergeBatches::descriptor(),
                    [this](Outbox::IoItem item, Runtime::IoDone done) {
                      const auto request =
                          static_cast<const v1::MergeBatches&>(*item.head);
                      thread_.Post([this, request, done = std::move(done)]() {
                        done(Merge(request));
                      });
                    });
  runtime->HandleIo(
      v1::EvaluateWeights::descriptor(),
      [this](Outbox::IoItem item, Runtime::IoDone done) {
        const auto request =
            static_cast<const v1::EvaluateWeights&>(*item.head);
        thread_.Post([this, request, weights = std::move(item.payload),
                      done = std::move(done)]() mutable {
          IoResult result = Evaluate(request, std::move(weights));
          done(std::move(result));
        });
      });
}

uint64_t EvaluatingThread::test_batches() const {
  return BatchCount(*test_, *model_);
}

IoResult EvaluatingThread::CollectEvaluationRows(
    const v1::CollectEvaluationRows& request) {
  IoResult result;
  std::vector<std::vector<uint64_t>> rows;
  if (Evaluates(member_, *model_)) {
    auto read =
        RowsReadBy(*test_, *model_, ToPart(request.has_part(), request.part()));
    result.status = read.status();
    if (!read.ok()) return result;
    rows = *std::move(read);
  } else {
    rows.resize(std::count_if(
        model_->variables().begin(), model_->variables().end(),
        [](const v1::Variable& variable) { return variable.sparse(); }));
  }
  result.payload = PackRows(std::move(rows));
  result.head = std::make_unique<v1::CollectEvaluationRowsResult>();
  return result;
}

IoResult EvaluatingThread::Evaluate(const v1::EvaluateWeights& request,
                                    BufferChain weights) {
  IoResult result;
  if (request.final() && member_.await_end != nullptr) {
    result.status = member_.await_end();
    if (!result.status.ok()) return result;
  }
  // Of no examples: there is nothing to say.
  if (!Evaluates(member_, *model_)) {
    auto head = std::make_unique<v1::EvaluateWeightsResult>();
    head->mutable_evaluation()->set_epoch(request.epoch());
    head->mutable_evaluation()->set_final(request.final());
    result.head = std::move(head);
    return result;
  }
  const ChromeTrace::Scope scope(trace_, ChromeTrace::Lane::kEvaluate,
                                 "evaluate");
  const StepWeights read = ReadWeights(weights, model_->variables());
  if (request.has_part()) return EvaluatePart(request, read);
  const auto sum =
      EvaluateOn(*test_, read.values, model_.get(), {.rows = read.rows});
  if (sum.ok()) return Evaluated(*sum, request.epoch(), request.final());
  result.status = sum.status();
  return result;
}

IoResult EvaluatingThread::EvaluatePart(const v1::EvaluateWeights& request,
                                        const StepWeights& weights) {
  IoResult result;
  auto head = std::make_unique<v1::EvaluateWeightsResult>();
  result.status =
      EvaluateEach(*test_, weights.values, model_.get(),
                   {.rows = weights.rows, .part = ToPart(true, request.part())},
                   [&](const Metrics& batch) {
                     *head->add_batches() = BatchMetricsOf(batch);
                   });
  if (result.status.ok()) result.head = std::move(head);
  return result;
}

IoResult EvaluatingThread::Merge(const v1::MergeBatches& request) const {
  IoResult result;
  Metrics sum;
  for (const v1::BatchMetrics& message : request.batches()) {
    const auto batch = MetricsOf(message);
    if (!batch.ok()) {
      result.status = batch.status();
      return result;
    }
    sum += *batch;
  }
  result.status = CheckEvaluated(sum);
  return result.status.ok() ? Evaluated(sum, request.epoch(), /*final=*/true)
                            : std::move(result);
}

IoResult EvaluatingThread::Evaluated(const Metrics& sum, uint32_t epoch,
                                     bool final) const {
  IoResult result;
  auto head = std::make_unique<v1::EvaluateWeightsResult>();
  v1::Evaluation* evaluation = head->mutable_evaluation();
  evaluation->set_epoch(epoch);
  evaluation->set_final(final);
  SetMetrics(sum, evaluation);
  evaluation->set_classes(ClassesOf(test_->spec()));
  result.head = std::move(head);
  return result;
}

}  // namespace paramd
