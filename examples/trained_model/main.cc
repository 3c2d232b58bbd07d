// All of paramd with one more model: Poisson regression, for counts. An example
// with the features x is expected to count exp(w x + b).
//
//   bazel run //examples/trained_model:poisson -- run --job poisson.json
//
// And a map for its input.

#include "cli/main.h"

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "compute/model/trained_model.h"
#include "input/batch.h"
#include "input/own_map.h"
#include "proto/paramd/v1/types.pb.h"

namespace {

using paramd::Batch;
using paramd::Column;
using paramd::DType;
using paramd::Metrics;

// Reads the feature "features" of float32 and the label, a real number.
//
// Not thread-safe, as every model.
class PoissonRegression : public paramd::TrainedModel {
 public:
  explicit PoissonRegression(uint64_t features) : features_(features) {
    AddVariable("w", features);
    AddVariable("b", 1);
  }

  const std::vector<paramd::v1::Variable>& variables() const override {
    return variables_;
  }
  std::unique_ptr<TrainedModel> Clone() const override {
    return std::make_unique<PoissonRegression>(features_);
  }

  absl::StatusOr<Metrics> Step(paramd::WeightSpans weights, const Batch& batch,
                               const StepOptions& options,
                               paramd::GradientSpans gradients,
                               Ready ready) override {
    for (const absl::Span<float> gradient : gradients) {
      for (float& value : gradient) value = 0;
    }
    auto metrics = Compute(weights, batch, [&](const float* x, double slope) {
      const float scaled = static_cast<float>(slope / options.divisor);
      for (uint64_t f = 0; f < features_; ++f) gradients[0][f] += scaled * x[f];
      gradients[1][0] += scaled;
    });
    if (metrics.ok() && std::isfinite(metrics->loss_sum)) {
      ready(1);
      ready(0);
    }
    return metrics;
  }

  absl::StatusOr<Metrics> Evaluate(paramd::WeightSpans weights,
                                   const Batch& batch) override {
    return Compute(weights, batch, [](const float*, double) {});
  }

  absl::Status Predict(paramd::WeightSpans weights, const Batch& batch,
                       Batch* out) override {
    const Column* const features = FeaturesOf(batch);
    if (features == nullptr) return NoFeatures();
    out->Reset({{{.name = "prediction", .dims = {}}}}, batch.size());
    out->range = batch.range;
    const auto rates = out->columns[0].values<float>();
    const auto x = features->values<float>();
    for (uint64_t i = 0; i < batch.size(); ++i) {
      rates[i] =
          static_cast<float>(std::exp(LogRate(weights, &x[i * features_])));
    }
    return absl::OkStatus();
  }

  paramd::ModelCost cost() const override {
    paramd::ModelCost cost;
    cost.parameters = features_ + 1;
    cost.flops = 2 * features_;
    return cost;
  }

 private:
  // They begin with zeros, as nothing else is said of them.
  void AddVariable(const char* name, uint64_t elements) {
    paramd::v1::Variable& variable = variables_.emplace_back();
    variable.set_name(name);
    variable.set_dtype(paramd::v1::FLOAT32);
    variable.add_shape(elements);
  }

  // Null if they are not as the model was made for.
  const Column* FeaturesOf(const Batch& batch) const {
    const Column* const column = batch.Find("features");
    const bool fits = column != nullptr && !column->spec().ragged &&
                      column->spec().dtype == DType::kFloat32 &&
                      column->spec().size() == features_;
    return fits ? column : nullptr;
  }
  absl::Status NoFeatures() const {
    return absl::InvalidArgumentError(absl::StrCat(
        "a batch lacks the feature 'features' of ", features_, " float32"));
  }

  double LogRate(paramd::WeightSpans weights, const float* x) const {
    double sum = weights[1][0];
    for (uint64_t f = 0; f < features_; ++f) sum += weights[0][f] * x[f];
    return sum;
  }

  // Tells `each` of every example x and the derivative of its loss by w x + b.
  template <class Each>
  absl::StatusOr<Metrics> Compute(paramd::WeightSpans weights,
                                  const Batch& batch, Each each) const {
    Metrics metrics;
    metrics.examples = batch.size();
    if (batch.size() == 0) return metrics;
    const Column* const features = FeaturesOf(batch);
    if (features == nullptr) return NoFeatures();
    const auto x = features->values<float>();
    const auto counts = batch.Find("label")->values<float>();
    for (uint64_t i = 0; i < batch.size(); ++i) {
      if (counts[i] < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("the label of example ", i, " of the batch is ",
                         counts[i], "; it is a count"));
      }
      const float* const example = &x[i * features_];
      const double log_rate = LogRate(weights, example);
      const double rate = std::exp(log_rate);
      metrics.loss_sum += rate - counts[i] * log_rate;
      each(example, rate - counts[i]);
    }
    return metrics;
  }

  const uint64_t features_;
  std::vector<paramd::v1::Variable> variables_;
};

absl::StatusOr<std::unique_ptr<paramd::TrainedModel>> MakeModel(
    const paramd::v1::JobConfig& job, const paramd::InputSpec& input) {
  if (!job.model().custom()) return paramd::BuiltInModels()(job, input);
  const paramd::FeatureSpec* const features = input.Find("features");
  const paramd::FeatureSpec* const label = input.Find("label");
  if (features == nullptr || label == nullptr || label->classes > 0 ||
      label->dtype != DType::kFloat32 || label->size() != 1) {
    return absl::InvalidArgumentError(
        "Poisson regression wants 'features', and counts as 'label'");
  }
  return std::make_unique<PoissonRegression>(features->size());
}

// A map of one's own, for features that span orders of magnitude: the stage
// {"map": "log1p"} of the input.
absl::StatusOr<paramd::FeatureSpec> Reals(const paramd::FeatureSpec& in) {
  if (in.dtype == DType::kFloat32) return in;
  return absl::InvalidArgumentError("log1p is of real numbers");
}

absl::Status Log1p(const paramd::OwnedTensor& in, paramd::RandomStream,
                   paramd::OwnedTensor* out) {
  out->Reset(in.dtype(), in.dims());
  for (uint64_t i = 0; i < in.size(); ++i) {
    out->values<float>()[i] = std::log1p(in.values<float>()[i]);
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  paramd::AddMap("log1p", {.spec = Reals, .change = Log1p});
  return paramd::Main(argc, argv, MakeModel);
}
