#ifndef PARAMD_COMPUTE_QUANTIZED_PRODUCTS_H_
#define PARAMD_COMPUTE_QUANTIZED_PRODUCTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "checkpoint/quantization.h"
#include "compute/model/layer.h"
#include "compute/model/network_plan.h"
#include "compute/model/sequence.h"
#include "compute/model/trained_model.h"

namespace paramd {

// A product that a layer of a network computes, a dense layer, a convolution or
// one of the two projections of attention, with what is computed in the same
// pass. The plan that it was found in outlives it.
struct FoundProduct {
  enum class Kind : uint8_t { kDense, kConvolution, kProjection };

  Kind kind = Kind::kDense;
  // Its variables begin with it: that of the layer, or of attention also which
  // projection it is, "attention_1/output".
  std::string name;
  // Which holds the layer, itself the plan's or of a layer that holds layers,
  // and where its first variable is in the plan's `shared`.
  const Sequence* sequence = nullptr;
  size_t first_variable = 0;
  size_t layer = 0;   // Of the sequence's layers.
  size_t kernel = 0;  // Of the layer's variables; a bias is behind it.
  // Of one example: what it gets, gives, and what all of it gives.
  Dims input_dims;
  Dims output_dims;
  Dims end_dims;
  absl::optional<size_t> batch_norm;  // Of the sequence's layers.
  bool relu = false;                  // Behind both.
  size_t end = 0;                     // The first layer behind all of them.

  bool is_convolution() const { return kind == Kind::kConvolution; }
  const Layer& At(size_t i) const { return sequence->layer(i); }
  const v1::Variable& kernel_variable() const {
    return At(layer).variables()[kernel];
  }
  bool has_bias() const { return At(layer).variables().size() > kernel + 1; }
};

// As a quantised checkpoint has it: "dense", "conv2d", "attention".
absl::string_view NameOf(FoundProduct::Kind kind);

struct FoundProducts {
  std::vector<FoundProduct> products;  // In the order of their variables.
  // The other layers that have variables and hold no layers, and why they stay
  // as they are.
  std::vector<Quantization::Left> left;
};

// The products that can be computed of integers, static or dynamic ones, of the
// plan's layers and those that they hold, at any depth.
FoundProducts FindProducts(const NetworkPlan& plan, Quantization::Mode mode);

// When the network is used, not trained, such a layer gives what it gets.
bool PassesOn(const Layer& layer);

// The float weights of a product with its batch norm folded: w g / sqrt(v + e)
// and (b - m) g / sqrt(v + e) + s, with the scale g, the shift s, the running
// mean m and variance v of each channel. A bias of each channel, or none.
struct FoldedProduct {
  std::vector<float> kernel;
  std::vector<float> bias;
};
FoldedProduct Fold(const NetworkPlan& plan, const FoundProduct& product,
                   WeightSpans weights);

// Which of the plan's variables is that of a layer of the product's sequence:
// the first, of so many as it has.
size_t VariableOf(const NetworkPlan& plan, const FoundProduct& product,
                  size_t layer, size_t which);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_QUANTIZED_PRODUCTS_H_
