#include "bench/overhead/sleeping_model.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

#include "base/clock.h"
#include "base/status_macros.h"
#include "compute/model/trained_model.h"
#include "input/batch.h"

namespace paramd {
namespace {

constexpr double kForward = 1.0 / 3;

// The share of a step after which the gradient of each variable is ready.
std::vector<double> ReadyTimes(const TrainedModel& model) {
  std::vector<LayerCost> layers = model.cost().layers;
  // What a layer holds comes after it, and is counted itself.
  for (size_t i = 0; i + 1 < layers.size(); ++i) {
    if (layers[i + 1].depth > layers[i].depth) layers[i].flops = 0;
  }
  double all = 0;
  for (const LayerCost& layer : layers) all += layer.flops;
  std::vector<double> times;
  for (const v1::Variable& variable : model.variables()) {
    const std::vector<std::string> names = absl::StrSplit(variable.name(), '/');
    double behind = 0;  // Operations of its layer and of those behind it.
    for (size_t i = layers.size(); i-- > 0;) {
      behind += layers[i].flops;
      if (absl::c_linear_search(names, layers[i].name)) break;
    }
    times.push_back(kForward + (1 - kForward) * behind / all);
  }
  return times;
}

class SleepingModel : public TrainedModel {
 public:
  SleepingModel(std::unique_ptr<TrainedModel> model, absl::Duration step,
                std::string count)
      : model_(std::move(model)),
        step_(step),
        count_(std::move(count)),
        times_(ReadyTimes(*model_)) {
    for (size_t v = times_.size(); v-- > 0;) order_.push_back(v);
    absl::c_stable_sort(
        order_, [this](size_t a, size_t b) { return times_[a] < times_[b]; });
  }

  const std::vector<v1::Variable>& variables() const override {
    return model_->variables();
  }
  std::unique_ptr<TrainedModel> Clone() const override {
    return std::make_unique<SleepingModel>(model_->Clone(), step_, count_);
  }
  absl::StatusOr<Metrics> Step(WeightSpans /*weights*/, const Batch& batch,
                               const StepOptions& options,
                               GradientSpans gradients, Ready ready) override {
    const Time begin = MonotonicNow();
    ++steps_;
    if (!count_.empty()) std::ofstream(count_) << steps_ << '\n';
    for (const size_t v : order_) {
      absl::c_fill(gradients[v], 0.0f);
      SleepUntil(begin + times_[v] * step_);
      if (options.abandoned != nullptr && *options.abandoned) break;
      ready(v);
    }
    SleepUntil(begin + step_);
    Metrics metrics;
    metrics.examples = batch.size();
    metrics.labels = batch.size();
    return metrics;
  }
  absl::StatusOr<Metrics> Evaluate(WeightSpans weights,
                                   const Batch& batch) override {
    return model_->Evaluate(weights, batch);
  }
  absl::Status Predict(WeightSpans weights, const Batch& batch,
                       Batch* out) override {
    return model_->Predict(weights, batch, out);
  }
  ModelCost cost() const override { return model_->cost(); }
  std::string device() const override { return "a sleeping thread"; }
  bool evaluates() const override { return false; }

 private:
  static void SleepUntil(Time until) {
    absl::SleepFor(std::max(absl::ZeroDuration(), until - MonotonicNow()));
  }

  const std::unique_ptr<TrainedModel> model_;
  const absl::Duration step_;
  const std::string count_;
  uint64_t steps_ = 0;
  const std::vector<double>
      times_;                  // Of each variable, as a share of the step.
  std::vector<size_t> order_;  // Of variables, as they become ready.
};

}  // namespace

ModelFactory SleepingModels(absl::Duration step, const std::string& count) {
  return [step, count](const v1::JobConfig& job, const InputSpec& input)
             -> absl::StatusOr<std::unique_ptr<TrainedModel>> {
    ASSIGN_OR_RETURN(auto model, BuiltInModels()(job, input));
    return std::unique_ptr<TrainedModel>(
        std::make_unique<SleepingModel>(std::move(model), step, count));
  };
}

}  // namespace paramd
