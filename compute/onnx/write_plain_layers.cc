#include <cmath>

#include "compute/model/layer_kind.h"
#include "compute/model/norm_layers.h"
#include "compute/model/simple_layers.h"
#include "compute/onnx/write_layers.h"

namespace paramd {
namespace {

OnnxValue Write(const Dense& layer, const OnnxPass& pass) {
  OnnxGraph* const graph = pass.graph;
  const OnnxValue x = AsDims(graph, pass.input, layer.input_dims());
  if (x.dims.size() == 1) {
    return {graph->Add("Gemm", {x.name, pass.Weight(0), pass.Weight(1)}),
            layer.output_dims()};
  }
  return {WriteAffine(pass, x.name, 0), layer.output_dims()};
}

OnnxValue Write(const Dropout&, const OnnxPass& pass) { return pass.input; }

OnnxValue Write(const Reshape& layer, const OnnxPass& pass) {
  if (pass.input.dims == layer.output_dims()) return pass.input;
  return AsDims(pass.graph, pass.input, layer.output_dims());
}

OnnxValue Write(const ElementwiseLayer& layer, const OnnxPass& pass) {
  OnnxGraph* const graph = pass.graph;
  const std::string& x = pass.input.name;
  OnnxValue y = pass.input;
  y.integers = absl::nullopt;
  switch (layer.function()) {
    case Elementwise::kRelu:
      y.name = graph->Add("Relu", {x});
      break;
    case Elementwise::kTanh:
      y.name = graph->Add("Tanh", {x});
      break;
    case Elementwise::kSigmoid:
      y.name = graph->Add("Sigmoid", {x});
      break;
    case Elementwise::kGelu: {
      const std::string root =
          graph->AddFloat(graph->Local("root_of_two"), std::sqrt(2.0f));
      const std::string one = graph->AddFloat(graph->Local("one"), 1);
      const std::string half = graph->AddFloat(graph->Local("half"), 0.5f);
      const std::string share = graph->Add(
          "Add", {graph->Add("Erf", {graph->Add("Div", {x, root})}), one});
      y.name = graph->Add("Mul", {graph->Add("Mul", {x, share}), half});
      break;
    }
  }
  return y;
}

OnnxValue Write(const Embedding& layer, const OnnxPass& pass) {
  OnnxGraph* const graph = pass.graph;
  const std::string ids = AsDims(graph, pass.input, layer.input_dims()).name;
  const OnnxGraph::Attributes rows = {{"axis", int64_t{0}}};
  if (!layer.has_padding()) {
    return {graph->Add("Gather", {pass.Weight(0), ids}, rows),
            layer.output_dims()};
  }
  const int32_t zero = 0;
  const std::string none =
      graph->AddConstant(graph->Local("first"), onnx::TensorProto::INT32, {},
                         {reinterpret_cast<const char*>(&zero), sizeof(zero)});
  const std::string found = graph->Add(
      "Gather", {pass.Weight(0), graph->Add("Max", {ids, none})}, rows);
  const std::string is_padding =
      graph->Add("Unsqueeze", {graph->Add("Less", {ids, none}),
                               graph->AddInt64s(graph->Local("last"), {-1})});
  return {
      graph->Add("Where",
                 {is_padding, graph->AddFloat(graph->Local("zero"), 0), found}),
      layer.output_dims()};
}

OnnxValue Write(const PositionalEmbedding& layer, const OnnxPass& pass) {
  const OnnxValue x = AsDims(pass.graph, pass.input, layer.input_dims());
  return {pass.graph->Add("Add", {x.name, pass.Weight(0)}), x.dims};
}

OnnxValue Write(const LayerNormLayer& layer, const OnnxPass& pass) {
  OnnxGraph* const graph = pass.graph;
  const OnnxValue value = AsDims(graph, pass.input, layer.input_dims());
  const std::string& x = value.name;
  const auto epsilon = static_cast<float>(layer.epsilon());
  if (graph->opset() >= 17) {
    return {
        graph->Add("LayerNormalization", {x, pass.Weight(0), pass.Weight(1)},
                   {{"axis", int64_t{-1}}, {"epsilon", epsilon}}),
        value.dims};
  }
  const OnnxGraph::Attributes last = {{"axes", std::vector<int64_t>{-1}},
                                      {"keepdims", int64_t{1}}};
  const std::string from_mean =
      graph->Add("Sub", {x, graph->Add("ReduceMean", {x}, last)});
  const std::string variance = graph->Add(
      "ReduceMean", {graph->Add("Mul", {from_mean, from_mean})}, last);
  const std::string deviation = graph->Add(
      "Sqrt",
      {graph->Add("Add", {variance,
                          graph->AddFloat(graph->Local("epsilon"), epsilon)})});
  const std::string scaled = graph->Add(
      "Mul", {graph->Add("Div", {from_mean, deviation}), pass.Weight(0)});
  return {graph->Add("Add", {scaled, pass.Weight(1)}), value.dims};
}

}  // namespace

absl::optional<OnnxValue> WritePlainLayer(const Layer& layer,
                                          const OnnxPass& pass) {
  return CallIfOneOf<Dense, Dropout, ElementwiseLayer, Embedding,
                     LayerNormLayer, PositionalEmbedding, Reshape>(
      layer, [&](const auto& kind) { return Write(kind, pass); });
}

}  // namespace paramd
