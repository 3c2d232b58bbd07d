#ifndef PARAMD_COMPUTE_ONNX_ONNX_VALUE_H_
#define PARAMD_COMPUTE_ONNX_ONNX_VALUE_H_

#include <string>

#include "absl/types/optional.h"

#include "compute/onnx/onnx_graph.h"
#include "compute/quantized/affine.h"
#include "tensor/tensor.h"

namespace paramd {

// What a layer gets or gives, in a graph. Our images are [height, width,
// channels], those of ONNX [channels, height, width]: a value stays in the
// order that its layer gives until somebody needs the other one.
struct OnnxValue {
  std::string name;
  Dims dims;  // Of one example, as layers mean it.
  // It is [batch, channels, height, width], where dims are [height, width,
  // channels].
  bool channels_first = false;
  // It is what DequantizeLinear gives of integers with this scale.
  absl::optional<Affine> integers = absl::nullopt;
};

// The same value as [batch, dims...].
OnnxValue AsDims(OnnxGraph* graph, const OnnxValue& value, const Dims& dims);
// The same, in the order of its own dims.
OnnxValue InOrder(OnnxGraph* graph, const OnnxValue& value);
// As an image of these dims, channels first.
OnnxValue ChannelsFirst(OnnxGraph* graph, const OnnxValue& value,
                        const Dims& image);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_ONNX_ONNX_VALUE_H_
