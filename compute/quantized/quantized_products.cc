#include "compute/quantized/quantized_products.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "compute/model/attention.h"

namespace paramd {
namespace {

constexpr size_t kShiftOfBatchNorm = 1;

bool Matches(const FoundProduct& product, const Quantization::Layer& layer) {
  const std::string folded = product.batch_norm.has_value()
                                 ? product.At(*product.batch_norm).name()
                                 : "";
  return product.name == layer.name && NameOf(product.kind) == layer.kind &&
         folded == layer.folded;
}

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
        [&](const FoundProduct& one) { return Matches(one, layer); });
    if (product == found.products.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the checkpoint is quantised for another model: its ", layer.kind,
          " layer '", layer.name,
          layer.folded.empty()
              ? std::string("'")
              : absl::StrCat("' with '", layer.folded, "' after it"),
          " is none of the job's"));
    }
    made.products_.emplace(
        std::pair(&product->At(product->layer), product->kernel), *product);
  }
  for (const auto& [place, product] : made.products_) {
    RETURN_IF_ERROR(made.Check(product));
  }
  return made;
}

absl::Status QuantizedProducts::Check(const FoundProduct& product) const {
  const Layer& layer = product.At(product.layer);
  if (product.kind == FoundProduct::Kind::kProjection &&
      (At(layer, Attention::kProjectionKernel) == nullptr ||
       At(layer, Attention::kOutputKernel) == nullptr)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the checkpoint has integers of '", product.name,
        "' and none of the other projection of '", layer.name(), "'"));
  }
  const v1::Variable& variable = product.kernel_variable();
  const auto found = tensors_.find(variable.name());
  const Dims dims(variable.shape().begin(), variable.shape().end());
  if (found != tensors_.end() && found->second.values.size() == SizeOf(dims) &&
      (found->second.scales.size() == 1 ||
       found->second.scales.size() == dims.back())) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat("the checkpoint has no integers of the shape of '",
                   variable.name(), "'"));
}

const FoundProduct* QuantizedProducts::At(const Layer& layer,
                                          size_t kernel) const {
  const auto found = products_.find({&layer, kernel});
  return found == products_.end() ? nullptr : &found->second;
}

Affine QuantizedProducts::InputOf(const FoundProduct& product) const {
  const Quantization::Input& input = *quantization_.Find(product.name)->input;
  return {input.scale, static_cast<uint8_t>(input.zero_point)};
}

const IntegerTensor& QuantizedProducts::TensorOf(
    const FoundProduct& product) const {
  return tensors_.at(product.kernel_variable().name());
}

// What a batch norm was folded into has all of the bias in the batch norm.
std::vector<float> QuantizedProducts::BiasOf(
    const FoundProduct& product) const {
  const bool is_folded = product.batch_norm.has_value();
  if (!is_folded && !product.has_bias()) return {};
  const size_t layer = is_folded ? *product.batch_norm : product.layer;
  const size_t place = is_folded ? kShiftOfBatchNorm : product.kernel + 1;
  const auto bias = weights_[VariableOf(plan_, product, layer, place)];
  return {bias.begin(), bias.end()};
}

// Without relu, or where an input is cut below 0, what lies between is not what
// both mean.
const FoundProduct* QuantizedProducts::Next(
    const FoundProduct& product, std::vector<const Pool*>* pools) const {
  if (!product.relu) return nullptr;
  for (size_t i = product.end; i < product.sequence->size(); ++i) {
    const Layer& layer = product.At(i);
    if (const FoundProduct* const next = At(layer)) {
      const bool takes_integers =
          next->kind != FoundProduct::Kind::kProjection &&
          InputOf(*next).zero_point == 0;
      return takes_integers ? next : nullptr;
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
