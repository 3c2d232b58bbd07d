#include "compute/quantized/products.h"

#include <cmath>
#include <utility>

#include "absl/strings/strip.h"

#include "compute/model/attention.h"
#include "compute/model/image_layers.h"
#include "compute/model/nested_layers.h"
#include "compute/model/norm_layers.h"
#include "compute/model/quantization_aware.h"
#include "compute/model/simple_layers.h"

namespace paramd {
namespace {

enum BatchNormVariable : size_t { kScale, kShift, kMean, kVariance };

// Goes through the layers of a plan, in the order of their variables.
class Finder {
 public:
  // Both outlive it.
  Finder(const NetworkPlan& plan, bool static_ranges, FoundProducts* found)
      : plan_(plan), static_ranges_(static_ranges), found_(*found) {}

  // `first`: the place of the first variable in the plan's `shared`.
  void Walk(const Sequence& layers, size_t first) {
    for (size_t i = 0; i < layers.size();) i = Visit(layers, first, i);
  }

 private:
  // The first layer behind what layer i is computed with.
  size_t Visit(const Sequence& layers, size_t first, size_t i) {
    const Layer& layer = layers.layer(i);
    if (layer.variables().empty()) return i + 1;
    size_t variable = first + layers.first_variable(i);
    const std::vector<const Sequence*> held = HeldBy(layer);
    if (held.empty()) {
      const std::string why =
          WhyInFloat(plan_, layer, variable, static_ranges_);
      if (why.empty()) return Add(layers, first, i);
      found_.left.push_back({layer.name(), why});
    }
    for (const Sequence* const inner : held) {
      Walk(*inner, variable);
      variable += inner->variables().size();
    }
    return i + 1;
  }

  size_t Add(const Sequence& layers, size_t first, size_t i) {
    const Layer& layer = layers.layer(i);
    FoundProduct product;
    product.name = layer.name();
    product.sequence = &layers;
    product.first_variable = first;
    product.layer = i;
    product.end = i + 1;
    product.input_dims = layer.input_dims();
    product.output_dims = layer.output_dims();
    product.end_dims = layer.output_dims();
    if (dynamic_cast<const Attention*>(&layer) != nullptr) {
      AddProjections(std::move(product));
      return i + 1;
    }
    if (dynamic_cast<const Conv2d*>(&layer) != nullptr) {
      product.kind = FoundProduct::Kind::kConvolution;
    }
    Follow(&product);
    product.end_dims = layers.layer(product.end - 1).output_dims();
    found_.products.push_back(std::move(product));
    return found_.products.back().end;
  }

  void AddProjections(FoundProduct product) {
    product.kind = FoundProduct::Kind::kProjection;
    for (const size_t kernel :
         {Attention::kProjectionKernel, Attention::kOutputKernel}) {
      product.kernel = kernel;
      const v1::Variable& variable = product.kernel_variable();
      product.name = variable.name();
      absl::string_view name = product.name;
      if (absl::ConsumeSuffix(&name, "/kernel")) {
        product.name = std::string(name);
      }
      product.output_dims.back() = variable.shape(1);
      product.end_dims = product.output_dims;
      found_.products.push_back(product);
    }
  }

  size_t SkipViews(const Sequence& layers, size_t i) const {
    while (i < layers.size() && layers.layer(i).is_view()) ++i;
    return i;
  }

  // What is computed in the same pass.
  void Follow(FoundProduct* product) const {
    const Sequence& layers = *product->sequence;
    size_t next = SkipViews(layers, product->end);
    const auto is = [&](auto* type) {
      return next < layers.size() &&
             dynamic_cast<decltype(type)>(&layers.layer(next)) != nullptr;
    };
    if (is(static_cast<const BatchNormLayer*>(nullptr)) &&
        !SharesVariables(
            plan_, layers.layer(next),
            product->first_variable + layers.first_variable(next)) &&
        layers.layer(next).output_dims().back() ==
            product->output_dims.back()) {
      product->batch_norm = next;
      product->end = next + 1;
      next = SkipViews(layers, product->end);
    }
    if (is(static_cast<const ElementwiseLayer*>(nullptr)) &&
        static_cast<const ElementwiseLayer&>(layers.layer(next)).function() ==
            Elementwise::kRelu) {
      product->relu = true;
      product->end = next + 1;
    }
  }

  const NetworkPlan& plan_;
  const bool static_ranges_;
  FoundProducts& found_;
};

}  // namespace

absl::string_view NameOf(FoundProduct::Kind kind) {
  switch (kind) {
    case FoundProduct::Kind::kDense:
      return "dense";
    case FoundProduct::Kind::kConvolution:
      return "conv2d";
    case FoundProduct::Kind::kProjection:
      return "attention";
  }
  return "";
}

FoundProducts FindProducts(const NetworkPlan& plan, Quantization::Mode mode) {
  FoundProducts found;
  Finder(plan, mode != Quantization::Mode::kDynamic, &found)
      .Walk(*plan.layers, /*first=*/0);
  return found;
}

bool PassesOn(const Layer& layer) {
  return layer.is_view() || dynamic_cast<const Dropout*>(&layer) != nullptr;
}

size_t VariableOf(const NetworkPlan& plan, const FoundProduct& product,
                  size_t layer, size_t which) {
  return plan.shared[product.first_variable +
                     product.sequence->first_variable(layer) + which];
}

FoldedProduct Fold(const NetworkPlan& plan, const FoundProduct& product,
                   WeightSpans weights) {
  FoldedProduct folded;
  const auto of = [&](size_t layer, size_t which) {
    return weights[VariableOf(plan, product, layer, which)];
  };
  const auto kernel = of(product.layer, product.kernel);
  folded.kernel.assign(kernel.begin(), kernel.end());
  if (product.has_bias()) {
    const auto bias = of(product.layer, product.kernel + 1);
    folded.bias.assign(bias.begin(), bias.end());
  }
  if (!product.batch_norm.has_value()) return folded;
  const size_t norm = *product.batch_norm;
  const double epsilon =
      static_cast<const BatchNormLayer&>(product.At(norm)).epsilon();
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
