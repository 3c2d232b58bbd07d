#include <cmath>
#include <limits>

#include "compute/model/attention.h"
#include "compute/model/gated_sums.h"
#include "compute/model/interaction_layers.h"
#include "compute/model/layer_kind.h"
#include "compute/model/place_layers.h"
#include "compute/onnx/write_integers.h"
#include "compute/onnx/write_layers.h"

namespace paramd {
namespace {

using Order = std::vector<int64_t>;

std::string Transposed(OnnxGraph* graph, const std::string& x, Order order) {
  return graph->Add("Transpose", {x}, {{"perm", std::move(order)}});
}

// [batch, shape...] of what has a batch.
std::string ReshapedTo(OnnxGraph* graph, const std::string& x,
                       std::vector<uint64_t> shape) {
  Order dims = {0};
  for (const uint64_t dimension : shape) {
    dims.push_back(static_cast<int64_t>(dimension));
  }
  return graph->Add(
      "Reshape", {x, graph->AddInt64s(graph->Local("shape"), std::move(dims))});
}

// Places [begin, end) of the first dimension of an example.
std::string PlacesOf(OnnxGraph* graph, const std::string& x, uint64_t begin,
                     uint64_t end) {
  return graph->Add(
      "Slice",
      {x,
       graph->AddInt64s(graph->Local("begin"), {static_cast<int64_t>(begin)}),
       graph->AddInt64s(graph->Local("end"), {static_cast<int64_t>(end)}),
       graph->AddInt64s(graph->Local("axis"), {1})});
}

// Of the parts that `x` has along an axis.
std::vector<std::string> Parts(OnnxGraph* graph, const std::string& x,
                               int64_t axis, std::vector<uint64_t> sizes) {
  const Order parts(sizes.begin(), sizes.end());
  return graph->AddMany("Split",
                        {x, graph->AddInt64s(graph->Local("parts"), parts)},
                        {{"axis", axis}}, parts.size());
}

std::string SumOver(OnnxGraph* graph, const std::string& x, int64_t axis) {
  return graph->Add("ReduceSum",
                    {x, graph->AddInt64s(graph->Local("places"), {axis})},
                    {{"keepdims", int64_t{0}}});
}

// -infinity where a place would see one behind it.
std::string MaskAhead(OnnxGraph* graph, uint64_t places) {
  std::vector<float> mask(places * places, 0);
  for (uint64_t i = 0; i < places; ++i) {
    for (uint64_t j = i + 1; j < places; ++j) {
      mask[i * places + j] = -std::numeric_limits<float>::infinity();
    }
  }
  return graph->AddFloats(graph->Local("ahead"), {places, places}, mask);
}

// 1 for each place whose values are not all zero, else 0: [batch, places, 1].
std::string CountedPlaces(OnnxGraph* graph, const std::string& x) {
  const std::string zero = graph->AddFloat(graph->Local("zero"), 0);
  const std::string has_value =
      graph->Add("Cast", {graph->Add("Not", {graph->Add("Equal", {x, zero})})},
                 {{"to", int64_t{onnx::TensorProto::FLOAT}}});
  return graph->Add("ReduceMax", {has_value},
                    {{"axes", Order{2}}, {"keepdims", int64_t{1}}});
}

std::string LargestCounted(OnnxGraph* graph, const std::string& x,
                           const std::string& counted,
                           const std::string& count) {
  const std::string half = graph->AddFloat(graph->Local("half"), 0.5f);
  const std::string least = graph->AddFloat(
      graph->Local("least"), -std::numeric_limits<float>::infinity());
  const std::string values =
      graph->Add("Where", {graph->Add("Greater", {counted, half}), x, least});
  const std::string largest = graph->Add(
      "ReduceMax", {values}, {{"axes", Order{1}}, {"keepdims", int64_t{0}}});
  return graph->Add("Where", {graph->Add("Greater", {count, half}), largest,
                              graph->AddFloat(graph->Local("none"), 0)});
}

// y = x W + b of attention, in float or with integers.
std::string WriteProjection(const Attention& layer, const OnnxPass& pass,
                            const OnnxValue& x, size_t kernel) {
  const FoundProduct* const product =
      pass.products == nullptr ? nullptr : pass.products->At(layer, kernel);
  if (product == nullptr) return WriteAffine(pass, x.name, kernel);
  OnnxPass inner = pass;
  inner.input = x;
  const OnnxValue made = WriteProduct(*pass.products, *product, inner);
  pass.graph->Enter(layer.name());
  return made.name;
}

OnnxValue Write(const Attention& layer, const OnnxPass& pass) {
  OnnxGraph* const graph = pass.graph;
  const OnnxValue x = AsDims(graph, pass.input, layer.input_dims());
  const uint64_t places = x.dims[0];
  const uint64_t values = x.dims[1];
  const uint64_t of_head = values / layer.heads();
  const auto thirds = Parts(
      graph, WriteProjection(layer, pass, x, Attention::kProjectionKernel), 2,
      {values, values, values});
  const auto by_head = [&](size_t third, Order order) {
    return Transposed(
        graph,
        ReshapedTo(graph, thirds[third], {places, layer.heads(), of_head}),
        std::move(order));
  };
  const std::string queries = by_head(0, {0, 2, 1, 3});
  const std::string keys = by_head(1, {0, 2, 3, 1});
  std::string scores = graph->Add(
      "Mul",
      {graph->Add("MatMul", {queries, keys}),
       graph->AddFloat(
           graph->Local("scale"),
           static_cast<float>(1 / std::sqrt(static_cast<double>(of_head))))});
  if (layer.is_causal()) {
    scores = graph->Add("Add", {scores, MaskAhead(graph, places)});
  }
  const std::string shares =
      graph->Add("Softmax", {scores}, {{"axis", int64_t{-1}}});
  const std::string mixed = Transposed(
      graph, graph->Add("MatMul", {shares, by_head(2, {0, 2, 1, 3})}),
      {0, 2, 1, 3});
  return {WriteProjection(layer, pass,
                          {ReshapedTo(graph, mixed, {places, values}), x.dims},
                          Attention::kOutputKernel),
          x.dims};
}

OnnxValue Write(const Select& layer, const OnnxPass& pass) {
  const OnnxValue x = AsDims(pass.graph, pass.input, layer.input_dims());
  return {PlacesOf(pass.graph, x.name, layer.begin(),
                   layer.begin() + layer.output_dims()[0]),
          layer.output_dims()};
}

OnnxValue Write(const BagPool& layer, const OnnxPass& pass) {
  OnnxGraph* const graph = pass.graph;
  const std::string x = AsDims(graph, pass.input, layer.input_dims()).name;
  const Dims& dims = layer.output_dims();
  if (layer.kind() == Bag::kSum) return {SumOver(graph, x, 1), dims};
  const std::string counted = CountedPlaces(graph, x);
  const std::string count = SumOver(graph, counted, 1);  // [batch, 1]
  if (layer.kind() == Bag::kMax) {
    return {LargestCounted(graph, x, counted, count), dims};
  }
  std::string divisor =
      graph->Add("Max", {count, graph->AddFloat(graph->Local("one"), 1)});
  if (layer.kind() == Bag::kSqrtN) divisor = graph->Add("Sqrt", {divisor});
  return {graph->Add("Div", {SumOver(graph, x, 1), divisor}), dims};
}

OnnxValue Write(const AttentionPool& layer, const OnnxPass& pass) {
  OnnxGraph* const graph = pass.graph;
  const OnnxValue x = AsDims(graph, pass.input, layer.input_dims());
  const std::string query = PlacesOf(graph, x.name, 0, 1);
  const std::string keys = PlacesOf(graph, x.name, 1, x.dims[0]);
  const std::string beside =
      graph->Add("Expand", {query, graph->Add("Shape", {keys})});
  const std::string features =
      graph->Add("Concat",
                 {beside, keys, graph->Add("Sub", {beside, keys}),
                  graph->Add("Mul", {beside, keys})},
                 {{"axis", int64_t{2}}});
  const std::string active =
      graph->Add("Sigmoid", {WriteAffine(pass, features, 0)});
  const std::string weights = WriteAffine(pass, active, 2);
  const std::string sum =
      graph->Add("MatMul", {Transposed(graph, weights, {0, 2, 1}), keys});
  return {graph->Add("Concat", {query, sum}, {{"axis", int64_t{1}}}),
          layer.output_dims()};
}

OnnxValue Write(const DotInteraction& layer, const OnnxPass& pass) {
  OnnxGraph* const graph = pass.graph;
  const OnnxValue x = AsDims(graph, pass.input, layer.input_dims());
  const uint64_t fields = x.dims[0];
  std::vector<int64_t> pairs;
  for (uint64_t i = 0; i < fields; ++i) {
    for (uint64_t j = 0; j < i; ++j) {
      pairs.push_back(static_cast<int64_t>(i * fields + j));
    }
  }
  const std::string products =
      graph->Add("MatMul", {x.name, Transposed(graph, x.name, {0, 2, 1})});
  return {
      graph->Add("Gather",
                 {ReshapedTo(graph, products, {fields * fields}),
                  graph->AddInt64s(graph->Local("pairs"), std::move(pairs))},
                 {{"axis", int64_t{1}}}),
      layer.output_dims()};
}

OnnxValue Write(const Cross& layer, const OnnxPass& pass) {
  OnnxGraph* const graph = pass.graph;
  const OnnxValue first = AsDims(graph, pass.input, layer.input_dims());
  std::string x = first.name;
  for (uint64_t i = 0; i < layer.layers(); ++i) {
    const std::string factor =
        graph->Add("Gemm", {x, pass.Weight(2 * i), pass.Weight(2 * i + 1)});
    x = graph->Add("Add", {graph->Add("Mul", {first.name, factor}), x});
  }
  return {x, first.dims};
}

OnnxValue Write(const GatedSums& layer, const OnnxPass& pass) {
  OnnxGraph* const graph = pass.graph;
  const OnnxValue x = AsDims(graph, pass.input, layer.input_dims());
  const uint64_t gates = layer.output_dims()[0];
  const uint64_t before = gates * layer.experts();
  const auto parts =
      Parts(graph, x.name, 1, {before, layer.input_size() - before});
  const std::string shares = graph->Add(
      "Softmax", {ReshapedTo(graph, parts[0], {gates, layer.experts()})},
      {{"axis", int64_t{-1}}});
  const std::string experts =
      ReshapedTo(graph, parts[1], {layer.experts(), layer.output_dims()[1]});
  return {graph->Add("MatMul", {shares, experts}), layer.output_dims()};
}

}  // namespace

absl::optional<OnnxValue> WritePlaceLayer(const Layer& layer,
                                          const OnnxPass& pass) {
  return CallIfOneOf<Attention, AttentionPool, BagPool, Cross, DotInteraction,
                     GatedSums, Select>(
      layer, [&](const auto& kind) { return Write(kind, pass); });
}

}  // namespace paramd
