#include <algorithm>

#include "compute/model/image_layers.h"
#include "compute/model/interaction_layers.h"
#include "compute/model/layer_kind.h"
#include "compute/model/norm_layers.h"
#include "compute/onnx/write_layers.h"

namespace paramd {
namespace {

// What lies behind an image along one dimension.
int64_t PadBehind(uint64_t outputs, uint64_t stride, uint64_t kernel,
                  uint64_t size, uint64_t before) {
  const auto end = static_cast<int64_t>((outputs - 1) * stride + kernel);
  return std::max<int64_t>(0, end - static_cast<int64_t>(size + before));
}

OnnxGraph::Attributes AttributesOf(const Window& window) {
  const auto pair = [](uint64_t a, uint64_t b) {
    return std::vector<int64_t>{static_cast<int64_t>(a),
                                static_cast<int64_t>(b)};
  };
  std::vector<int64_t> pads = pair(window.top, window.left);
  pads.push_back(PadBehind(window.out_height, window.stride_height,
                           window.kernel_height, window.height, window.top));
  pads.push_back(PadBehind(window.out_width, window.stride_width,
                           window.kernel_width, window.width, window.left));
  return {{"kernel_shape", pair(window.kernel_height, window.kernel_width)},
          {"strides", pair(window.stride_height, window.stride_width)},
          {"pads", std::move(pads)}};
}

// [batch, dims..., channels] to [batch, channels, dims...], or back.
std::vector<int64_t> Rotation(size_t dims, bool back) {
  std::vector<int64_t> order = {0};
  for (size_t i = 1; i <= dims; ++i) order.push_back(static_cast<int64_t>(i));
  if (back) {
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  } else {
    std::rotate(order.begin() + 1, order.end() - 1, order.end());
  }
  return order;
}

// All dimensions of an example but the last.
std::vector<int64_t> Places(const Dims& dims) {
  std::vector<int64_t> axes;
  for (size_t i = 1; i < dims.size(); ++i) {
    axes.push_back(static_cast<int64_t>(i));
  }
  return axes;
}

OnnxValue Write(const Conv2d& layer, const OnnxPass& pass) {
  OnnxGraph* const graph = pass.graph;
  std::vector<std::string> inputs = {
      ChannelsFirst(graph, pass.input, layer.input_dims()).name,
      pass.weights->KernelOf(pass.first_variable)};
  if (layer.has_bias()) inputs.push_back(pass.Weight(1));
  return {graph->Add("Conv", std::move(inputs), WindowOf(layer)),
          layer.output_dims(), /*channels_first=*/true};
}

OnnxValue Write(const Pool& layer, const OnnxPass& pass) {
  OnnxGraph* const graph = pass.graph;
  const Pooling shape = layer.Shape(1);
  const OnnxValue x = ChannelsFirst(graph, pass.input, layer.input_dims());
  const bool is_max = shape.kind == Pooling::Kind::kMax;
  return {graph->Add(is_max ? "MaxPool" : "AveragePool", {x.name},
                     AttributesOf(shape.window)),
          layer.output_dims(), /*channels_first=*/true};
}

OnnxValue Write(const GlobalPool& layer, const OnnxPass& pass) {
  OnnxGraph* const graph = pass.graph;
  const bool is_max = layer.kind() == Pooling::Kind::kMax;
  if (pass.input.channels_first && pass.input.dims == layer.input_dims()) {
    const std::string pooled = graph->Add(
        is_max ? "GlobalMaxPool" : "GlobalAveragePool", {pass.input.name});
    return {graph->Add("Flatten", {pooled}, {{"axis", int64_t{1}}}),
            layer.output_dims()};
  }
  const OnnxValue x = AsDims(graph, pass.input, layer.input_dims());
  return {graph->Add(is_max ? "ReduceMax" : "ReduceMean", {x.name},
                     {{"axes", Places(x.dims)}, {"keepdims", int64_t{0}}}),
          layer.output_dims()};
}

OnnxValue Write(const GlobalSumPool& layer, const OnnxPass& pass) {
  OnnxGraph* const graph = pass.graph;
  const OnnxValue x = AsDims(graph, pass.input, layer.input_dims());
  return {graph->Add("ReduceSum",
                     {x.name,
                      graph->AddInt64s(graph->Local("places"), Places(x.dims))},
                     {{"keepdims", int64_t{0}}}),
          layer.output_dims()};
}

OnnxValue Write(const BatchNormLayer& layer, const OnnxPass& pass) {
  OnnxGraph* const graph = pass.graph;
  const Dims& dims = layer.input_dims();
  const auto normalised = [&](const std::string& x) {
    return graph->Add(
        "BatchNormalization",
        {x, pass.Weight(0), pass.Weight(1), pass.Weight(2), pass.Weight(3)},
        {{"epsilon", static_cast<float>(layer.epsilon())}});
  };
  if (dims.size() == 3) {
    const OnnxValue x = ChannelsFirst(graph, pass.input, dims);
    return {normalised(x.name), dims, /*channels_first=*/true};
  }
  const OnnxValue x = AsDims(graph, pass.input, dims);
  if (dims.size() == 1) return {normalised(x.name), dims};
  const std::string rotated = graph->Add(
      "Transpose", {x.name}, {{"perm", Rotation(dims.size(), false)}});
  return {graph->Add("Transpose", {normalised(rotated)},
                     {{"perm", Rotation(dims.size(), true)}}),
          dims};
}

}  // namespace

OnnxGraph::Attributes WindowOf(const Conv2d& layer) {
  const Convolution shape = layer.Shape(1);
  OnnxGraph::Attributes attributes = AttributesOf(shape.window);
  attributes.emplace_back("group", static_cast<int64_t>(shape.groups));
  return attributes;
}

absl::optional<OnnxValue> WriteImageLayer(const Layer& layer,
                                          const OnnxPass& pass) {
  return CallIfOneOf<BatchNormLayer, Conv2d, GlobalPool, GlobalSumPool, Pool>(
      layer, [&](const auto& kind) { return Write(kind, pass); });
}

}  // namespace paramd
