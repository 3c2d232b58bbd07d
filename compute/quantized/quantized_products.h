#ifndef PARAMD_COMPUTE_QUANTIZED_QUANTIZED_PRODUCTS_H_
#define PARAMD_COMPUTE_QUANTIZED_QUANTIZED_PRODUCTS_H_

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "checkpoint/quantization.h"
#include "compute/model/image_layers.h"
#include "compute/model/network_plan.h"
#include "compute/model/trained_model.h"
#include "compute/quantized/affine.h"
#include "compute/quantized/products.h"

namespace paramd {

using IntegerTensors = std::map<std::string, IntegerTensor>;  // By variable.

// The integers of the quantised checkpoint in `directory`, whose layers these
// are. The errors of ReadIntegerTensors.
absl::StatusOr<IntegerTensors> ReadIntegers(const std::string& directory,
                                            const Quantization& quantization);

// Which products of a plan are of integers in a quantised checkpoint, and what
// the checkpoint has of them. All arguments outlive it.
class QuantizedProducts {
 public:
  // INVALID_ARGUMENT, naming the layer, if the quantisation is of another
  // network, or has one of the two projections of attention alone. DATA_LOSS if
  // the checkpoint has integers of another shape.
  static absl::StatusOr<QuantizedProducts> Find(
      const Quantization& quantization, const IntegerTensors& tensors,
      WeightSpans weights, const NetworkPlan& plan);

  Quantization::Mode mode() const { return quantization_.mode; }
  // That of this layer of the plan, at any depth; of attention that of the
  // kernel at this place of its variables. Null if it is left in float.
  const FoundProduct* At(const Layer& layer, size_t kernel = 0) const;
  // How its input is made integers of. REQUIRES: static ranges.
  Affine InputOf(const FoundProduct& product) const;
  const IntegerTensor& TensorOf(const FoundProduct& product) const;
  // Of each output, or none.
  std::vector<float> BiasOf(const FoundProduct& product) const;
  // The product of the same sequence that takes what `product` gives as
  // integers, with the pools between both; null: none does, and what it gives
  // is float. REQUIRES: static ranges.
  const FoundProduct* Next(const FoundProduct& product,
                           std::vector<const Pool*>* pools) const;

 private:
  QuantizedProducts(const Quantization& quantization,
                    const IntegerTensors& tensors, WeightSpans weights,
                    const NetworkPlan& plan)
      : quantization_(quantization),
        tensors_(tensors),
        weights_(weights),
        plan_(plan) {}

  // The error of Find about a product that is in the checkpoint.
  absl::Status Check(const FoundProduct& product) const;

  const Quantization& quantization_;
  const IntegerTensors& tensors_;
  const WeightSpans weights_;
  const NetworkPlan& plan_;
  // By their layer, and the kernel among its variables.
  std::map<std::pair<const Layer*, size_t>, FoundProduct> products_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_QUANTIZED_QUANTIZED_PRODUCTS_H_
