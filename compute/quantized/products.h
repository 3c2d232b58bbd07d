#ifndef PARAMD_COMPUTE_QUANTIZED_PRODUCTS_H_
#define PARAMD_COMPUTE_QUANTIZED_PRODUCTS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/types/optional.h"

#include "checkpoint/quantization.h"
#include "compute/model/layer.h"
#include "compute/model/network_plan.h"
#include "compute/model/trained_model.h"

namespace paramd {

// A dense layer or a convolution of a network, with what is computed in the
// same pass.
struct FoundProduct {
  size_t layer = 0;  // Of the plan's layers.
  bool is_convolution = false;
  absl::optional<size_t> batch_norm;  // Directly behind it.
  bool relu = false;                  // Behind both.
  size_t end = 0;                     // The first layer behind all of them.

  absl::string_view kind() const { return is_convolution ? "conv2d" : "dense"; }
};

struct FoundProducts {
  std::vector<FoundProduct> products;  // In order.
  // The other layers that have variables, and why they stay as they are.
  std::vector<Quantization::Left> left;
};

// The products that can be computed of integers, static or dynamic ones. Layers
// within layers are left.
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

// Which of the plan's variables are a layer's: the first, of so many as it has.
size_t VariableOf(const NetworkPlan& plan, size_t layer, size_t which);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_QUANTIZED_PRODUCTS_H_
