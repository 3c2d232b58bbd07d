#include "worker/evaluation.h"

#include <algorithm>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/types/optional.h"

#include "base/mutex.h"
#include "base/status_macros.h"

namespace paramd {
namespace {

constexpr uint64_t kMostExamples = 500;
constexpr uint64_t kMostBytes = uint64_t{256} << 20;

void KeepEachOnce(std::vector<std::vector<uint64_t>>* rows) {
  for (std::vector<uint64_t>& some : *rows) {
    std::sort(some.begin(), some.end());
    some.erase(std::unique(some.begin(), some.end()), some.end());
  }
}

absl::Status NoExample() {
  return absl::InvalidArgumentError(
      "no example to evaluate on is left after input.stages: none could be "
      "read and mapped, or none has a label that counts");
}

// Hands batches to threads, and lets what they make of them be used one after
// the other, in the order of the input: a thread that is ahead waits, so none
// is more than a batch ahead of the slowest.
//
// Thread-safe.
class Turns {
 public:
  // Of the batches [range.first, range.second).
  explicit Turns(std::pair<uint64_t, uint64_t> range)
      : end_(range.second), taken_(range.first), used_(range.first) {}

  // The next batch that nobody has; nothing if there is none or one failed.
  absl::optional<uint64_t> Take() {
    MutexLock lock(&mutex_);
    if (!status_.ok() || taken_ == end_) return absl::nullopt;
    return taken_++;
  }

  // Waits until all batches before this one are used; false if one failed.
  bool WaitFor(uint64_t batch) {
    MutexLock lock(&mutex_);
    while (status_.ok() && used_ < batch) changed_.Wait(&mutex_);
    return status_.ok();
  }

  // REQUIRES: WaitFor has let this batch be used.
  void End(absl::Status status) {
    MutexLock lock(&mutex_);
    status_ = std::move(status);
    ++used_;
    changed_.NotifyAll();
  }

  absl::Status status() const {
    MutexLock lock(&mutex_);
    return status_;
  }

 private:
  const uint64_t end_;
  mutable Mutex mutex_;
  CondVar changed_;
  uint64_t taken_ ABSL_GUARDED_BY(mutex_);
  uint64_t used_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

template <typename Result>
using Compute =
    absl::FunctionRef<absl::Status(TrainedModel*, const Batch&, Result*)>;

// What one thread does.
template <typename Result>
void Work(const Pipeline& data, TrainedModel* model, Compute<Result> compute,
          absl::FunctionRef<absl::Status(const Result&)> use, Turns* turns) {
  const uint64_t size = EvaluationBatch(model->cost());
  Batch batch;
  Result result;
  while (const auto taken = turns->Take()) {
    const uint64_t begin = *taken * size;
    const uint64_t end = std::min(data.size(), begin + size);
    absl::Status status =
        data.Read({.epoch = 1, .begin = begin, .end = end}, &batch);
    if (status.ok()) status = compute(model, batch, &result);
    if (!turns->WaitFor(*taken)) return;
    if (status.ok()) status = use(result);
    turns->End(std::move(status));
  }
}

template <typename Result>
absl::Status InOrder(const Pipeline& data, TrainedModel* model,
                     const EvaluationOptions& options, Compute<Result> compute,
                     absl::FunctionRef<absl::Status(const Result&)> use) {
  const auto range = options.part.Of(BatchCount(data, *model));
  if (range.first == range.second) return absl::OkStatus();
  Turns turns(range);
  std::vector<std::unique_ptr<TrainedModel>> clones;
  const uint64_t others =
      std::min<uint64_t>(range.second - range.first,
                         static_cast<uint64_t>(options.threads)) -
      1;
  for (uint64_t i = 0; i < others; ++i) clones.push_back(model->Clone());
  std::vector<std::thread> running;
  for (const auto& clone : clones) {
    try {
      running.emplace_back([&, own = clone.get()] {
        Work<Result>(data, own, compute, use, &turns);
      });
    } catch (const std::system_error&) {
      break;  // The system has no more threads: those that are there do it all.
    }
  }
  Work<Result>(data, model, compute, use, &turns);
  for (std::thread& thread : running) thread.join();
  return turns.status();
}

}  // namespace

uint64_t EvaluationBatch(const ModelCost& cost) {
  // The same in each process, whatever its budget for activations.
  const uint64_t bytes =
      std::max<uint64_t>(cost.activation_bytes + cost.saved_bytes, 1);
  return std::clamp<uint64_t>(kMostBytes / bytes, 1, kMostExamples);
}

uint64_t BatchCount(const Pipeline& data, const TrainedModel& model) {
  const uint64_t size = EvaluationBatch(model.cost());
  return (data.size() + size - 1) / size;
}

std::pair<uint64_t, uint64_t> TestPart::Of(uint64_t all) const {
  if (batches.has_value()) {
    const uint64_t end = std::min(batches->second, all);
    return {std::min(batches->first, end), end};
  }
  const auto begin_of = [&](uint64_t part) {
    return (all * part + count - 1) / count;
  };
  return {begin_of(index), begin_of(uint64_t{index} + 1)};
}

absl::Status EvaluateEach(const Pipeline& data, WeightSpans weights,
                          TrainedModel* model, const EvaluationOptions& options,
                          absl::FunctionRef<void(const Metrics&)> use) {
  return InOrder<Metrics>(
      data, model, options,
      [&](TrainedModel* own, const Batch& batch,
          Metrics* metrics) -> absl::Status {
        ASSIGN_OR_RETURN(*metrics,
                         own->EvaluateRows(weights, batch, options.rows));
        return absl::OkStatus();
      },
      [&](const Metrics& metrics) {
        use(metrics);
        return absl::OkStatus();
      });
}

absl::Status CheckEvaluated(const Metrics& sum) {
  return sum.examples == 0 ? NoExample() : absl::OkStatus();
}

absl::StatusOr<Metrics> EvaluateOn(const Pipeline& data, WeightSpans weights,
                                   TrainedModel* model,
                                   const EvaluationOptions& options) {
  Metrics sum;
  RETURN_IF_ERROR(EvaluateEach(data, weights, model, options,
                               [&](const Metrics& batch) { sum += batch; }));
  RETURN_IF_ERROR(CheckEvaluated(sum));
  return sum;
}

absl::StatusOr<std::vector<std::vector<uint64_t>>> RowsReadBy(
    const Pipeline& data, const TrainedModel& model, const TestPart& part) {
  std::vector<std::vector<uint64_t>> rows(
      std::count_if(model.variables().begin(), model.variables().end(),
                    [](const v1::Variable& v) { return v.sparse(); }));
  const uint64_t size = EvaluationBatch(model.cost());
  const auto [first, last] = part.Of(BatchCount(data, model));
  Batch batch;
  for (uint64_t number = first; number < last; ++number) {
    const uint64_t begin = number * size;
    const uint64_t end = std::min(data.size(), begin + size);
    RETURN_IF_ERROR(
        data.Read({.epoch = 1, .begin = begin, .end = end}, &batch));
    // Else as long as the test set.
    if (number % kMostExamples == 0) KeepEachOnce(&rows);
    RETURN_IF_ERROR(model.FindTestRows(batch, absl::MakeSpan(rows)));
  }
  KeepEachOnce(&rows);
  return rows;
}

absl::StatusOr<std::vector<std::vector<uint64_t>>> KeysReadBy(
    const Pipeline& data, const TrainedModel& model, const TestPart& part) {
  const bool keyed =
      std::any_of(model.variables().begin(), model.variables().end(),
                  [](const v1::Variable& v) { return v.keyed(); });
  if (keyed) return RowsReadBy(data, model, part);
  return std::vector<std::vector<uint64_t>>();
}

absl::Status PredictOn(const Pipeline& data, WeightSpans weights,
                       TrainedModel* model, const EvaluationOptions& options,
                       absl::FunctionRef<absl::Status(const Batch&)> use) {
  struct Predicted {
    uint64_t examples = 0;
    Batch out;
  };
  uint64_t examples = 0;
  RETURN_IF_ERROR(InOrder<Predicted>(
      data, model, options,
      [&](TrainedModel* own, const Batch& batch, Predicted* predicted) {
        predicted->examples = batch.size();
        return own->PredictRows(weights, batch, options.rows, &predicted->out);
      },
      [&](const Predicted& predicted) {
        examples += predicted.examples;
        return predicted.examples == 0 ? absl::OkStatus() : use(predicted.out);
      }));
  if (examples > 0) return absl::OkStatus();
  if (options.part.count == 1) return NoExample();
  Batch none;
  none.Reset(data.spec(), 0);
  Batch predicted;
  RETURN_IF_ERROR(model->PredictRows(weights, none, options.rows, &predicted));
  return use(predicted);
}

}  // namespace paramd
