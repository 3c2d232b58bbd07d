#include "compute/shrink/shrink.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "base/status_macros.h"
#include "compute/model/image_layers.h"
#include "compute/model/interaction_layers.h"
#include "compute/model/network_plan.h"
#include "compute/model/norm_layers.h"
#include "compute/model/quantization_aware.h"
#include "compute/model/simple_layers.h"

namespace paramd {
namespace {

// Places of a dimension: not 0 where it goes.
using Places = std::vector<uint8_t>;

constexpr absl::string_view kLeaveItOut =
    "; leave that layer out of optimizer.pruning";

struct Values {
  std::vector<uint64_t> shape;
  std::vector<float> numbers;
};

// What is gone of the last dimension of the tensor at hand.
struct Gone {
  std::string layer;  // Whose outputs they are.
  Places places;      // Empty: nothing is.
  // What they were in every example, by place.
  std::vector<double> constants;

  uint64_t kept() const {
    return static_cast<uint64_t>(
        std::count(places.begin(), places.end(), uint8_t{0}));
  }
};

bool Any(const Places& places) {
  return std::any_of(places.begin(), places.end(),
                     [](uint8_t gone) { return gone != 0; });
}

// Outputs of a kernel all of whose weights are zero.
Places ZeroOutputs(const Values& kernel) {
  const uint64_t outputs = kernel.shape.back();
  Places zero(outputs, 1);
  for (size_t i = 0; i < kernel.numbers.size(); ++i) {
    if (kernel.numbers[i] != 0) zero[i % outputs] = 0;
  }
  return zero;
}

// Takes these places of a dimension out.
void Cut(size_t dimension, const Places& gone, Values* values) {
  uint64_t inner = 1;
  for (size_t d = dimension + 1; d < values->shape.size(); ++d) {
    inner *= values->shape[d];
  }
  const uint64_t places = values->shape[dimension];
  std::vector<float> kept;
  for (uint64_t i = 0; i < values->numbers.size(); ++i) {
    if (gone[i / inner % places] == 0) kept.push_back(values->numbers[i]);
  }
  values->numbers = std::move(kept);
  values->shape[dimension] =
      static_cast<uint64_t>(std::count(gone.begin(), gone.end(), uint8_t{0}));
}

double ValueOf(Elementwise function, double x) {
  switch (function) {
    case Elementwise::kRelu:
      return x < 0 ? 0 : x;
    case Elementwise::kGelu:
      return x * (1 + std::erf(x / std::sqrt(2.0))) / 2;
    case Elementwise::kTanh:
      return std::tanh(x);
    case Elementwise::kSigmoid:
      return 1 / (1 + std::exp(-x));
  }
  return x;
}

// Whether each window lies inside of the image.
bool IsInside(const Window& window) {
  const auto fits = [](uint64_t size, uint64_t outputs, uint64_t stride,
                       uint64_t kernel, uint64_t before) {
    return before == 0 && (outputs - 1) * stride + kernel <= size;
  };
  return fits(window.height, window.out_height, window.stride_height,
              window.kernel_height, window.top) &&
         fits(window.width, window.out_width, window.stride_width,
              window.kernel_width, window.left);
}

// One walk over the layers. Not thread-safe.
class Walk {
 public:
  // The plan is that of the model.
  Walk(const NetworkPlan& plan, const v1::ModelConfig& model,
       WeightSpans weights)
      : plan_(plan) {
    shrunk_.model = model;
    for (size_t v = 0; v < plan.variables.size(); ++v) {
      const v1::Variable& variable = plan.variables[v];
      values_[variable.name()] = {
          {variable.shape().begin(), variable.shape().end()},
          {weights[v].begin(), weights[v].end()}};
    }
  }

  absl::Status Do() {
    for (size_t i = 0; i < plan_.layers->size(); ++i) {
      RETURN_IF_ERROR(Take(i));
    }
    if (IsGone()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", gone_.layer, "' gives the model's outputs, of which ",
          GoneCount(), " are pruned, and these can't be cut", kLeaveItOut));
    }
    if (!shrunk_.layers.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "no dense layer or convolution has an output whose weights are all "
        "zero; prune channels first (optimizer.pruning with structure "
        "\"channels\")");
  }

  // REQUIRES: Do was OK.
  absl::StatusOr<Shrunk> Result(const InputSpec& input) && {
    ASSIGN_OR_RETURN(const auto plan, PlanNetwork(shrunk_.model, input));
    for (const v1::Variable& variable : plan->variables) {
      Values& values = values_[variable.name()];
      if (!std::equal(values.shape.begin(), values.shape.end(),
                      variable.shape().begin(), variable.shape().end())) {
        return absl::InternalError(absl::StrCat(
            "the smaller model has '", variable.name(), "' in another shape"));
      }
      shrunk_.variables.push_back(variable);
      shrunk_.weights.push_back(std::move(values.numbers));
    }
    return std::move(shrunk_);
  }

 private:
  bool IsGone() const { return !gone_.places.empty(); }
  uint64_t GoneCount() const { return gone_.places.size() - gone_.kept(); }
  Values& Of(const Layer& layer, size_t which) {
    return values_[layer.variables()[which].name()];
  }

  absl::Status CantCut(const Layer& layer, absl::string_view why) const {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", GoneCount(), " pruned outputs of '", gone_.layer,
                     "' can't be cut: '", layer.name(), "', which reads them, ",
                     why, kLeaveItOut));
  }

  absl::Status Take(size_t i) {
    const Layer& layer = plan_.layers->layer(i);
    if (dynamic_cast<const Dense*>(&layer) != nullptr) {
      return TakeProduct(i, /*convolution=*/nullptr);
    }
    if (const auto* conv = dynamic_cast<const Conv2d*>(&layer)) {
      return TakeProduct(i, conv);
    }
    RETURN_IF_ERROR(CheckWithin(layer));
    if (!IsGone() || dynamic_cast<const Dropout*>(&layer) != nullptr ||
        dynamic_cast<const GlobalPool*>(&layer) != nullptr) {
      return absl::OkStatus();
    }
    if (const auto* one = dynamic_cast<const ElementwiseLayer*>(&layer)) {
      for (double& x : gone_.constants) x = ValueOf(one->function(), x);
      return absl::OkStatus();
    }
    if (dynamic_cast<const Pool*>(&layer) != nullptr) return CheckImage(layer);
    if (dynamic_cast<const GlobalSumPool*>(&layer) != nullptr) {
      const auto places =
          static_cast<double>(layer.input_size() / gone_.places.size());
      for (double& x : gone_.constants) x *= places;
      return absl::OkStatus();
    }
    if (const auto* norm = dynamic_cast<const BatchNormLayer*>(&layer)) {
      return TakeNorm(i, *norm);
    }
    if (dynamic_cast<const Reshape*>(&layer) != nullptr) return TakeView(i);
    return CantCut(layer, "is no layer that passes channels on one by one");
  }

  // Layers of such a layer are left, and must not be pruned.
  absl::Status CheckWithin(const Layer& layer) {
    for (const v1::Variable& variable : layer.variables()) {
      const Values& values = values_[variable.name()];
      if (values.shape.size() < 2 ||
          !absl::EndsWith(variable.name(), "kernel") ||
          !Any(ZeroOutputs(values))) {
        continue;
      }
      return absl::InvalidArgumentError(absl::StrCat(
          "'", variable.name(), "' has pruned outputs and lies within '",
          layer.name(),
          "'; only dense layers and convolutions that follow one another can "
          "be cut",
          kLeaveItOut));
    }
    return absl::OkStatus();
  }

  // Of two dimensions it makes an image of one channel.
  absl::Status CheckImage(const Layer& layer) const {
    return layer.input_dims().back() == gone_.places.size()
               ? absl::OkStatus()
               : CantCut(layer, "takes them for columns of an image");
  }

  absl::Status CheckOwn(size_t i) const {
    if (!SharesVariables(plan_, plan_.layers->layer(i),
                         plan_.layers->first_variable(i))) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("'", plan_.layers->layer(i).name(),
                     "' shares its variables with another layer, so its "
                     "channels can't be cut",
                     kLeaveItOut));
  }

  absl::Status TakeProduct(size_t i, const Conv2d* convolution) {
    const Layer& layer = plan_.layers->layer(i);
    Places zero = ZeroOutputs(Of(layer, 0));
    if (!IsGone() && !Any(zero)) return absl::OkStatus();
    RETURN_IF_ERROR(CheckOwn(i));
    if (convolution != nullptr && convolution->Shape(1).groups > 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", layer.name(),
          "' has groups, from which channels can't be cut; leave it and the "
          "layer before it out of optimizer.pruning"));
    }
    if (IsGone()) RETURN_IF_ERROR(CutInputs(i, convolution));
    gone_ = Gone();
    if (!Any(zero)) return absl::OkStatus();
    if (!Any(Inverse(zero))) zero[0] = 0;
    if (Any(zero)) CutOutputs(i, std::move(zero));
    return absl::OkStatus();
  }

  static Places Inverse(Places places) {
    for (uint8_t& place : places) place = place == 0 ? 1 : 0;
    return places;
  }

  // Where the bias begins, which is made if there is none.
  Values& BiasOf(size_t i) {
    const Layer& layer = plan_.layers->layer(i);
    Values& bias = values_[absl::StrCat(layer.name(), "/bias")];
    if (bias.shape.empty()) {
      bias.shape = {layer.output_dims().back()};
      bias.numbers.resize(bias.shape[0]);
      shrunk_.model.mutable_layers(static_cast<int>(i))
          ->mutable_conv2d()
          ->set_bias(true);
    }
    return bias;
  }

  absl::Status CutInputs(size_t i, const Conv2d* convolution) {
    const Layer& layer = plan_.layers->layer(i);
    if (convolution != nullptr) RETURN_IF_ERROR(CheckImage(layer));
    Values& kernel = Of(layer, 0);
    const size_t inputs = kernel.shape.size() - 2;
    const uint64_t outputs = kernel.shape.back();
    std::vector<double> sums(outputs);
    bool adds = false;
    for (size_t e = 0; e < kernel.numbers.size(); ++e) {
      const size_t input = e / outputs % kernel.shape[inputs];
      if (gone_.places[input] == 0 || gone_.constants[input] == 0) continue;
      adds = true;
      sums[e % outputs] +=
          gone_.constants[input] * static_cast<double>(kernel.numbers[e]);
    }
    if (adds && convolution != nullptr &&
        !IsInside(convolution->Shape(1).window)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the ", GoneCount(), " pruned outputs of '", gone_.layer,
          "' can't be cut: they are constants other than zero, which '",
          layer.name(),
          "' does not see beyond the border of an image (padding \"same\"); "
          "name the biases, scales and shifts between the two in the same "
          "entry of optimizer.pruning, which makes these zero, too"));
    }
    for (const double sum : sums) {
      if (std::isfinite(sum)) continue;
      return CantCut(layer, "would get a bias that is not finite");
    }
    if (adds) {
      Values& bias = BiasOf(i);
      for (size_t o = 0; o < outputs; ++o) {
        bias.numbers[o] =
            static_cast<float>(static_cast<double>(bias.numbers[o]) + sums[o]);
      }
    }
    Cut(inputs, gone_.places, &kernel);
    return absl::OkStatus();
  }

  void CutOutputs(size_t i, Places zero) {
    const Layer& layer = plan_.layers->layer(i);
    gone_ = {layer.name(), std::move(zero), {}};
    gone_.constants.resize(gone_.places.size());
    Values& kernel = Of(layer, 0);
    Cut(kernel.shape.size() - 1, gone_.places, &kernel);
    const auto bias = values_.find(absl::StrCat(layer.name(), "/bias"));
    if (bias != values_.end()) {
      gone_.constants.assign(bias->second.numbers.begin(),
                             bias->second.numbers.end());
      Cut(0, gone_.places, &bias->second);
    }
    const auto kept = static_cast<uint32_t>(gone_.kept());
    v1::Layer* const config = shrunk_.model.mutable_layers(static_cast<int>(i));
    if (config->has_dense()) {
      config->mutable_dense()->set_units(kept);
    } else {
      config->mutable_conv2d()->set_filters(kept);
    }
    shrunk_.layers.push_back({layer.name(), gone_.places.size(), kept});
  }

  absl::Status TakeNorm(size_t i, const BatchNormLayer& norm) {
    RETURN_IF_ERROR(CheckOwn(i));
    enum : size_t { kScale, kShift, kMean, kVariance, kAll };
    for (size_t c = 0; c < gone_.constants.size(); ++c) {
      const auto at = [&](size_t which) {
        return static_cast<double>(Of(norm, which).numbers[c]);
      };
      gone_.constants[c] = at(kScale) * (gone_.constants[c] - at(kMean)) /
                               std::sqrt(at(kVariance) + norm.epsilon()) +
                           at(kShift);
    }
    for (size_t which = 0; which < kAll; ++which) {
      Cut(0, gone_.places, &Of(norm, which));
    }
    return absl::OkStatus();
  }

  // Channels stay channels, or all become one dimension.
  absl::Status TakeView(size_t i) {
    const Layer& layer = plan_.layers->layer(i);
    const Dims& from = layer.input_dims();
    const Dims& to = layer.output_dims();
    if (to.size() != 1 && (to.empty() || to.back() != from.back())) {
      return CantCut(layer, "makes other dimensions of them");
    }
    if (to.size() == 1) {
      Gone flat = {gone_.layer, {}, {}};
      for (uint64_t e = 0; e < layer.input_size(); ++e) {
        flat.places.push_back(gone_.places[e % gone_.places.size()]);
        flat.constants.push_back(gone_.constants[e % gone_.places.size()]);
      }
      gone_ = std::move(flat);
    }
    v1::Layer* const config = shrunk_.model.mutable_layers(static_cast<int>(i));
    if (config->has_reshape()) {
      config->mutable_reshape()->set_dims(config->reshape().dims_size() - 1,
                                          static_cast<uint32_t>(gone_.kept()));
    }
    return absl::OkStatus();
  }

  const NetworkPlan& plan_;
  std::map<std::string, Values> values_;  // By variable.
  Gone gone_;
  Shrunk shrunk_;
};

}  // namespace

absl::StatusOr<Shrunk> Shrink(const v1::ModelConfig& model,
                              const InputSpec& input, WeightSpans weights) {
  if (model.custom()) {
    return absl::InvalidArgumentError(
        "a program brings the job's model; layers of a job file are cut");
  }
  if (model.has_quantization_aware()) {
    return absl::InvalidArgumentError(
        "the model has quantization_aware, whose rounding depends on the "
        "channels that would be cut; prune and shrink before training for it");
  }
  ASSIGN_OR_RETURN(const auto plan, PlanNetwork(model, input));
  Walk walk(*plan, model, weights);
  RETURN_IF_ERROR(walk.Do());
  return std::move(walk).Result(input);
}

}  // namespace paramd
