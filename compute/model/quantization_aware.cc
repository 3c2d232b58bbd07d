#include "compute/model/quantization_aware.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "compute/model/attention.h"
#include "compute/model/image_layers.h"
#include "compute/model/nested_layers.h"
#include "compute/model/simple_layers.h"
#include "compute/quantized/integer_product.h"

namespace paramd {
namespace {

// Of a convolution of fewer, integers are slower than float: a register has
// four of them for each output.
constexpr uint64_t kLeastChannels = 4;

// Places of a range.
enum RangePlace : size_t { kLeast, kGreatest, kWeight, kProgress };
constexpr uint64_t kRangePlaces = 4;

uint64_t TermsOf(const v1::Variable& kernel) {
  uint64_t terms = 1;
  for (int i = 0; i + 1 < kernel.shape_size(); ++i) terms *= kernel.shape(i);
  return terms;
}

absl::Span<const float> OwnRange(const LayerTransform::Use& use) {
  return use.own.front().values<float>();
}

const TransformedLayer* AsTransformed(const Layer& layer) {
  return dynamic_cast<const TransformedLayer*>(&layer);
}

// Why a layer of the plan's own sequence is not trained to be quantised.
std::string WhyNotTrained(const NetworkPlan& plan, size_t i) {
  const Layer& layer = plan.layers->layer(i);
  if (!HeldBy(layer).empty()) {
    return "it holds layers; those of the network itself are trained for it";
  }
  if (dynamic_cast<const Attention*>(&layer) != nullptr) {
    return "attention is not trained for it";
  }
  return WhyInFloat(plan, layer, plan.layers->first_variable(i),
                    /*static_ranges=*/true);
}

}  // namespace

QuantizationAware::QuantizationAware(
    const v1::ModelConfig::QuantizationAware& config)
    : most_(MostOfBits(config.weight_bits())),
      momentum_(config.momentum()),
      begin_step_(config.begin_step()) {}

std::vector<LayerTransform::Variable> QuantizationAware::variables() const {
  return {{"input_range", {kRangePlaces}}};
}

bool QuantizationAware::HasBegun(absl::Span<const float> range) const {
  // Its sum is short by roundings.
  return begin_step_ == 0 ||
         range[kProgress] >= 1 - 0.5 / static_cast<double>(begin_step_);
}

absl::optional<Affine> QuantizationAware::InputOf(
    absl::Span<const float> range) const {
  const float weight = range[kWeight];
  if (!(weight > 0) || !HasBegun(range)) return absl::nullopt;
  return AffineOf({range[kLeast] / weight, range[kGreatest] / weight});
}

ConstTensor QuantizationAware::Kernel(const Use& use, const ConstTensor& kernel,
                                      const Tensor& memory) const {
  CHECK(use.context.device->link() == nullptr,
        "numbers are rounded where the device's memory is the host's");
  if (!HasBegun(OwnRange(use))) return kernel;
  FakeQuantizeWeights(kernel.values<float>(), most_, use.channels,
                      memory.values<float>().data());
  return memory;
}

ConstTensor QuantizationAware::Input(const Use& use, const ConstTensor& input,
                                     const Tensor& memory) const {
  const auto affine = InputOf(OwnRange(use));
  if (!affine.has_value()) return input;
  FakeQuantizeValues(*affine, input.values<float>(),
                     memory.values<float>().data());
  return memory;
}

void QuantizationAware::InputGradient(const Use& use, const ConstTensor& input,
                                      const Tensor& gradient) const {
  const auto affine = InputOf(OwnRange(use));
  if (!affine.has_value()) return;
  PassStraightThrough(*affine, input.values<float>(), gradient.values<float>());
}

void QuantizationAware::Update(const Use& use, const ConstTensor& input,
                               absl::Span<const Tensor> updates) const {
  const absl::Span<const float> range = OwnRange(use);
  const absl::Span<float> update = updates.front().values<float>();
  const FloatRange seen = RangeOf(input.values<float>());
  const double share = use.context.share;
  const auto move = [&](RangePlace place, double to) {
    update[place] =
        static_cast<float>((range[place] - to) * (1 - momentum_) * share);
  };
  move(kLeast, seen.min);
  move(kGreatest, seen.max);
  move(kWeight, 1);
  update[kProgress] =
      HasBegun(range)
          ? 0
          : static_cast<float>(-share / static_cast<double>(begin_step_));
}

bool SharesVariables(const NetworkPlan& plan, const Layer& layer,
                     size_t first) {
  const size_t count = layer.variables().size();
  for (size_t v = first; v < first + count; ++v) {
    if (plan.IsUsedBefore(v) || plan.IsUsedBehind(v)) return true;
  }
  return false;
}

std::string WhyInFloat(const NetworkPlan& plan, const Layer& layer,
                       size_t first, bool static_ranges) {
  const bool is_dense = dynamic_cast<const Dense*>(&layer) != nullptr;
  const bool is_attention = dynamic_cast<const Attention*>(&layer) != nullptr;
  const auto* const convolution = dynamic_cast<const Conv2d*>(&layer);
  if (!is_dense && !is_attention && convolution == nullptr) {
    return "it is neither a dense layer nor a convolution nor attention";
  }
  if (SharesVariables(plan, layer, first)) {
    return "another layer has the same variables";
  }
  const uint64_t terms = TermsOf(layer.variables()[0]);
  if (terms > kMostInputs) {
    return absl::StrCat("sums of its ", terms,
                        " products need not fit 32 bits");
  }
  if (convolution == nullptr) return "";
  if (!static_ranges) {
    return "a convolution needs static ranges (--calibrate): with those of "
           "each example it would be slower than in float";
  }
  const uint64_t channels = convolution->Shape(1).group_inputs();
  if (channels < kLeastChannels) {
    return absl::StrCat("of ", channels,
                        channels == 1 ? " channel" : " channels",
                        " it would be slower than in float");
  }
  return "";
}

absl::Status MakeQuantizationAware(
    const v1::ModelConfig::QuantizationAware& config, NetworkPlan* plan) {
  for (const v1::Variable& variable : plan->variables) {
    if (!variable.keyed()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "quantization_aware: the variable '", variable.name(),
        "' has rows by key (capacity), which a quantised checkpoint can't "
        "hold; leave quantization_aware out"));
  }
  const auto transform = std::make_shared<const QuantizationAware>(config);
  Sequence::Layers layers;
  std::string why;
  bool any = false;
  for (size_t i = 0; i < plan->layers->size(); ++i) {
    layers.push_back(plan->layers->shared_layer(i));
    if (layers.back()->variables().empty()) continue;
    const std::string why_not = WhyNotTrained(*plan, i);
    if (why_not.empty()) {
      layers.back() =
          std::make_shared<TransformedLayer>(layers.back(), transform);
      any = true;
    } else {
      absl::StrAppend(&why, why.empty() ? ": '" : "; '", layers.back()->name(),
                      "': ", why_not);
    }
  }
  if (!any) {
    return absl::InvalidArgumentError(absl::StrCat(
        "quantization_aware: no layer of the model can be quantised", why,
        "; leave it out"));
  }
  plan->layers = std::make_unique<Sequence>(plan->layers->name(), layers);
  return absl::OkStatus();
}

bool HasTransforms(const NetworkPlan& plan) {
  for (size_t i = 0; i < plan.layers->size(); ++i) {
    if (AsTransformed(plan.layers->layer(i)) != nullptr) return true;
  }
  return false;
}

void RemoveTransforms(NetworkPlan* plan) {
  Sequence::Layers layers;
  std::vector<size_t> shared;
  for (size_t i = 0; i < plan->layers->size(); ++i) {
    const auto& layer = plan->layers->shared_layer(i);
    const TransformedLayer* const transformed = AsTransformed(*layer);
    layers.push_back(transformed == nullptr ? layer : transformed->layer());
    const size_t first = plan->layers->first_variable(i);
    for (size_t v = 0; v < layers.back()->variables().size(); ++v) {
      shared.push_back(plan->shared[first + v]);
    }
  }
  plan->layers = std::make_unique<Sequence>(plan->layers->name(), layers);
  plan->shared = std::move(shared);
}

absl::StatusOr<std::vector<absl::optional<Affine>>> LearnedInputs(
    const NetworkPlan& plan, WeightSpans weights) {
  std::vector<absl::optional<Affine>> inputs(plan.layers->size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TransformedLayer* const layer = AsTransformed(plan.layers->layer(i));
    if (layer == nullptr) continue;
    const auto* const aware =
        dynamic_cast<const QuantizationAware*>(&layer->transform());
    if (aware == nullptr) continue;
    const size_t range =
        plan.layers->first_variable(i) + layer->layer()->variables().size();
    inputs[i] = aware->InputOf(weights[plan.shared[range]]);
    if (inputs[i].has_value()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("'", layer->name(),
                     "' has learned no range yet: train it for longer than "
                     "quantization_aware.begin_step"));
  }
  return inputs;
}

}  // namespace paramd
