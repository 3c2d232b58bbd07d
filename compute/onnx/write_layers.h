#ifndef PARAMD_COMPUTE_ONNX_WRITE_LAYERS_H_
#define PARAMD_COMPUTE_ONNX_WRITE_LAYERS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"

#include "compute/model/layer.h"
#include "compute/model/sequence.h"
#include "compute/onnx/onnx_graph.h"
#include "compute/onnx/onnx_value.h"
#include "compute/onnx/onnx_weights.h"
#include "compute/quantized/quantized_products.h"

namespace paramd {

class Conv2d;

// What a layer is written with.
struct OnnxPass {
  OnnxGraph* graph = nullptr;
  OnnxWeights* weights = nullptr;
  // What layers read of each feature, [batch, dims...].
  const std::vector<OnnxValue>* inputs = nullptr;
  // What is written with integers; null: nothing.
  const QuantizedProducts* products = nullptr;
  size_t first_variable = 0;  // Of the layer, among those of the network.
  OnnxValue input = {};

  std::string Weight(size_t which) const {
    return weights->Of(first_variable, which);
  }
};

// Writes a layer's forward pass, as it is when the network is used.
// INVALID_ARGUMENT, naming the layer and what can be done, if it has no form in
// ONNX.
absl::StatusOr<OnnxValue> WriteOnnx(const Layer& layer, const OnnxPass& pass);
// All of them in a row, or those before `end`.
absl::StatusOr<OnnxValue> WriteSequence(const Sequence& layers,
                                        const OnnxPass& pass);
absl::StatusOr<OnnxValue> WriteSequenceUntil(const Sequence& layers, size_t end,
                                             const OnnxPass& pass);

// The kinds of layers that hold no others, in a file each: nullopt if it is
// none of them.
absl::optional<OnnxValue> WritePlainLayer(const Layer& layer,
                                          const OnnxPass& pass);
absl::optional<OnnxValue> WriteImageLayer(const Layer& layer,
                                          const OnnxPass& pass);
absl::optional<OnnxValue> WritePlaceLayer(const Layer& layer,
                                          const OnnxPass& pass);

// The attributes of a convolution's window.
OnnxGraph::Attributes WindowOf(const Conv2d& layer);
// y = x W + b over the last dimension, of x in the order of its dims. W is the
// layer's variable `kernel`, b the one behind it.
std::string WriteAffine(const OnnxPass& pass, const std::string& x,
                        size_t kernel);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_ONNX_WRITE_LAYERS_H_
