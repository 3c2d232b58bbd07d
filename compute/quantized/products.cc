#include "compute/quantized/products.h"

#include <algorithm>
#include <cmath>

#include "compute/model/image_layers.h"
#include "compute/model/norm_layers.h"
#include "compute/model/quantization_aware.h"
#include "compute/model/simple_layers.h"

namespace paramd {
namespace {

enum BatchNormVariable : size_t { kScale, kShift, kMean, kVariance };

const Layer& At(const NetworkPlan& plan, size_t i) {
  return plan.layers->layer(i);
}

size_t SkipViews(const NetworkPlan& plan, size_t i) {
  while (i < plan.layers->size() && At(plan, i).is_view()) ++i;
  return i;
}

FoundProduct Follow(const NetworkPlan& plan, size_t i) {
  FoundProduct product;
  product.layer = i;
  product.is_convolution = dynamic_cast<const Conv2d*>(&At(plan, i)) != nullptr;
  product.end = i + 1;
  size_t next = SkipViews(plan, product.end);
  const auto is = [&](auto* type) {
    return next < plan.layers->size() &&
           dynamic_cast<decltype(type)>(&At(plan, next)) != nullptr;
  };
  if (is(static_cast<const BatchNormLayer*>(nullptr)) &&
      !SharesVariables(plan, next) &&
      At(plan, next).output_dims().back() == At(plan, i).output_dims().back()) {
    product.batch_norm = next;
    product.end = next + 1;
    next = SkipViews(plan, product.end);
  }
  if (is(static_cast<const ElementwiseLayer*>(nullptr)) &&
      static_cast<const ElementwiseLayer&>(At(plan, next)).function() ==
          Elementwise::kRelu) {
    product.relu = true;
    product.end = next + 1;
  }
  return product;
}

}  // namespace

FoundProducts FindProducts(const NetworkPlan& plan, Quantization::Mode mode) {
  FoundProducts found;
  for (size_t i = 0; i < plan.layers->size();) {
    const Layer& layer = At(plan, i);
    const std::string why =
        layer.variables().empty()
            ? "-"
            : WhyInFloat(plan, i, mode != Quantization::Mode::kDynamic);
    if (why.empty()) {
      found.products.push_back(Follow(plan, i));
      i = found.products.back().end;
      continue;
    }
    if (!layer.variables().empty()) {
      found.left.push_back({layer.name(), why});
    }
    ++i;
  }
  return found;
}

bool PassesOn(const Layer& layer) {
  return layer.is_view() || dynamic_cast<const Dropout*>(&layer) != nullptr;
}

size_t VariableOf(const NetworkPlan& plan, size_t layer, size_t which) {
  return plan.shared[plan.layers->first_variable(layer) + which];
}

FoldedProduct Fold(const NetworkPlan& plan, const FoundProduct& product,
                   WeightSpans weights) {
  FoldedProduct folded;
  const auto of = [&](size_t layer, size_t which) {
    return weights[VariableOf(plan, layer, which)];
  };
  const auto kernel = of(product.layer, 0);
  folded.kernel.assign(kernel.begin(), kernel.end());
  if (At(plan, product.layer).variables().size() > 1) {
    const auto bias = of(product.layer, 1);
    folded.bias.assign(bias.begin(), bias.end());
  }
  if (!product.batch_norm.has_value()) return folded;
  const size_t norm = *product.batch_norm;
  const double epsilon =
      static_cast<const BatchNormLayer&>(At(plan, norm)).epsilon();
  const size_t channels = of(norm, kScale).size();
  folded.bias.resize(channels);
  std::vector<double> factors(channels);
  for (size_t c = 0; c < channels; ++c) {
    factors[c] =
        of(norm, kScale)[c] / std::sqrt(of(norm, kVariance)[c] + epsilon);
    folded.bias[c] = static_cast<float>(
        (static_cast<double>(folded.bias[c]) - of(norm, kMean)[c]) *
            factors[c] +
        of(norm, kShift)[c]);
  }
  for (size_t i = 0; i < folded.kernel.size(); ++i) {
    folded.kernel[i] =
        static_cast<float>(folded.kernel[i] * factors[i % channels]);
  }
  return folded;
}

}  // namespace paramd
