#include "compute/onnx/onnx_value.h"

#include <vector>

namespace paramd {
namespace {

// 0 is what the value has there: the batch.
OnnxValue Reshaped(OnnxGraph* graph, const OnnxValue& value, const Dims& lies,
                   const Dims& dims, bool channels_first) {
  std::vector<int64_t> shape = {0};
  shape.insert(shape.end(), lies.begin(), lies.end());
  return {
      graph->Add("Reshape", {value.name, graph->AddInt64s(graph->Local("shape"),
                                                          std::move(shape))}),
      dims, channels_first};
}

}  // namespace

OnnxValue AsDims(OnnxGraph* graph, const OnnxValue& value, const Dims& dims) {
  const OnnxValue ordered = InOrder(graph, value);
  if (ordered.dims == dims) return ordered;
  return Reshaped(graph, ordered, dims, dims, /*channels_first=*/false);
}

OnnxValue InOrder(OnnxGraph* graph, const OnnxValue& value) {
  if (!value.channels_first) return value;
  const Dims& dims = value.dims;
  if (dims[0] * dims[1] == 1 || dims[2] == 1) {
    return Reshaped(graph, value, dims, dims, /*channels_first=*/false);
  }
  return {graph->Add("Transpose", {value.name},
                     {{"perm", std::vector<int64_t>{0, 2, 3, 1}}}),
          dims};
}

OnnxValue ChannelsFirst(OnnxGraph* graph, const OnnxValue& value,
                        const Dims& image) {
  if (value.channels_first && value.dims == image) return value;
  if (image[2] == 1 || image[0] * image[1] == 1) {
    return Reshaped(graph, InOrder(graph, value),
                    {image[2], image[0], image[1]}, image,
                    /*channels_first=*/true);
  }
  const OnnxValue ordered = AsDims(graph, value, image);
  return {graph->Add("Transpose", {ordered.name},
                     {{"perm", std::vector<int64_t>{0, 3, 1, 2}}}),
          image, /*channels_first=*/true};
}

}  // namespace paramd
