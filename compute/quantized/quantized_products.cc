#include "compute/quantized/quantized_products.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"

namespace paramd {
namespace {

constexpr size_t kShiftOfBatchNorm = 1;

}  // namespace

absl::StatusOr<IntegerTensors> ReadIntegers(const std::string& directory,
                                            const Quantization& quantization) {
  std::vector<std::string> names;
  for (const Quantization::Layer& layer : quantization.layers) {
    names.push_back(absl::StrCat(layer.name, "/kernel"));
  }
  return ReadIntegerTensors(directory, names);
}

absl::StatusOr<QuantizedProducts> QuantizedProducts::Find(
    const Quantization& quantization, const IntegerTensors& tensors,
    WeightSpans weights, const NetworkPlan& plan) {
  QuantizedProducts made(quantization, tensors, weights, plan);
  const FoundProducts found = FindProducts(plan, quantization.mode);
  for (const Quantization::Layer& layer : quantization.layers) {
    const auto product = std::find_if(
        found.products.begin(), found.products.end(),
        [&](const FoundProduct& one) { return made.Matches(one, layer); });
    if (product == found.products.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the checkpoint is quantised for another model: its ", layer.kind,
          " layer '", layer.name,
          layer.folded.empty()
              ? std::string("'")
              : absl::StrCat("' with '", layer.folded, "' after it"),
          " is none of the job's"));
    }
    made.products_.emplace(product->layer, *product);
  }
  return made;
}

bool QuantizedProducts::Matches(const FoundProduct& product,
                                const Quantization::Layer& layer) const {
  const std::string folded =
      product.batch_norm.has_value()
          ? plan_.layers->layer(*product.batch_norm).name()
          : "";
  return plan_.layers->layer(product.layer).name() == layer.name &&
         product.kind() == layer.kind && folded == layer.folded;
}

const FoundProduct* QuantizedProducts::At(size_t layer) const {
  const auto found = products_.find(layer);
  return found == products_.end() ? nullptr : &found->second;
}

Affine QuantizedProducts::InputOf(const FoundProduct& product) const {
  const Quantization::Input& input =
      *quantization_.Find(plan_.layers->layer(product.layer).name())->input;
  return {input.scale, static_cast<uint8_t>(input.zero_point)};
}

absl::StatusOr<const IntegerTensor*> QuantizedProducts::TensorOf(
    const FoundProduct& product) const {
  const v1::Variable& variable =
      plan_.variables[VariableOf(plan_, product.layer, 0)];
  const auto found = tensors_.find(variable.name());
  const Dims dims(variable.shape().begin(), variable.shape().end());
  if (found != tensors_.end() && found->second.values.size() == SizeOf(dims) &&
      (found->second.scales.size() == 1 ||
       found->second.scales.size() == dims.back())) {
    return &found->second;
  }
  return absl::DataLossError(
      absl::StrCat("the checkpoint has no integers of the shape of '",
                   variable.name(), "'"));
}

// What a batch norm was folded into has all of the bias in the batch norm.
std::vector<float> QuantizedProducts::BiasOf(
    const FoundProduct& product) const {
  const bool is_folded = product.batch_norm.has_value();
  const size_t layer = is_folded ? *product.batch_norm : product.layer;
  const size_t place = is_folded ? kShiftOfBatchNorm : 1;
  if (place >= plan_.layers->layer(layer).variables().size()) return {};
  const auto bias = weights_[VariableOf(plan_, layer, place)];
  return {bias.begin(), bias.end()};
}

// Without relu, or where an input is cut below 0, what lies between is not what
// both mean.
const FoundProduct* QuantizedProducts::Next(
    const FoundProduct& product, std::vector<const Pool*>* pools) const {
  if (!product.relu) return nullptr;
  for (size_t i = product.end; i < plan_.layers->size(); ++i) {
    const Layer& layer = plan_.layers->layer(i);
    if (const FoundProduct* const next = At(i)) {
      return InputOf(*next).zero_point == 0 ? next : nullptr;
    }
    if (PassesOn(layer)) continue;
    const auto* const pool = dynamic_cast<const Pool*>(&layer);
    if (pool == nullptr || pool->Shape(1).kind != Pooling::Kind::kMax) {
      return nullptr;
    }
    pools->push_back(pool);
  }
  return nullptr;
}

}  // namespace paramd
