#include "compute/onnx/write_layers.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "compute/model/image_layers.h"
#include "compute/model/parallel.h"
#include "compute/model/recompute.h"
#include "compute/model/residual.h"
#include "compute/model/simple_layers.h"
#include "compute/onnx/write_integers.h"

namespace paramd {
namespace {

OnnxPass Inside(const OnnxPass& pass, size_t variables_before,
                const OnnxValue& input) {
  OnnxPass inner = pass;
  inner.first_variable += variables_before;
  inner.input = input;
  return inner;
}

OnnxValue AddValues(OnnxGraph* graph, OnnxValue a, OnnxValue b) {
  if (a.channels_first != b.channels_first) {
    a = InOrder(graph, a);
    b = InOrder(graph, b);
  }
  return {graph->Add("Add", {a.name, b.name}), a.dims, a.channels_first};
}

absl::StatusOr<OnnxValue> WriteResidual(const Residual& layer,
                                        const OnnxPass& pass) {
  ASSIGN_OR_RETURN(const OnnxValue body,
                   WriteSequence(layer.body(), Inside(pass, 0, pass.input)));
  OnnxValue around = pass.input;
  if (layer.shortcut() != nullptr) {
    ASSIGN_OR_RETURN(
        around,
        WriteSequence(*layer.shortcut(),
                      Inside(pass, layer.body().variables().size(), around)));
  }
  pass.graph->Enter(layer.name());
  return AddValues(pass.graph, body, around);
}

absl::StatusOr<OnnxValue> WriteParallel(const Parallel& layer,
                                        const OnnxPass& pass) {
  std::vector<OnnxValue> outputs;
  for (size_t i = 0; i < layer.branches(); ++i) {
    const auto feature = layer.feature(i);
    ASSIGN_OR_RETURN(
        outputs.emplace_back(),
        WriteSequence(layer.branch_layers(i),
                      Inside(pass, layer.first_variable(i),
                             feature.has_value() ? (*pass.inputs)[*feature]
                                                 : pass.input)));
  }
  OnnxGraph* const graph = pass.graph;
  graph->Enter(layer.name());
  if (layer.adds()) {
    OnnxValue sum = outputs.front();
    for (size_t i = 1; i < outputs.size(); ++i) {
      sum = AddValues(graph, sum, outputs[i]);
    }
    return sum;
  }
  std::vector<std::string> parts;
  for (const OnnxValue& output : outputs) {
    parts.push_back(AsDims(graph, output, {SizeOf(output.dims)}).name);
  }
  return OnnxValue{graph->Add("Concat", parts, {{"axis", int64_t{1}}}),
                   layer.output_dims()};
}

// What begins with this layer, if it is written with integers: no projection of
// attention, whose layer writes it.
const FoundProduct* ProductAt(const OnnxPass& pass, const Layer& layer) {
  if (pass.products == nullptr) return nullptr;
  const FoundProduct* const product = pass.products->At(layer);
  const bool is_layer =
      product != nullptr && product->kind != FoundProduct::Kind::kProjection;
  return is_layer ? product : nullptr;
}

// If layer i is a relu, how many layers behind it are pools of the largest
// value whose output becomes integers. Behind them the relu gives the same
// numbers; before them, onnxruntime would make the integers before the pool,
// which it computes slowly there (15 ms for 64 images in place of 4).
size_t PoolsBehindRelu(const Sequence& layers, size_t i, const OnnxPass& pass) {
  const auto* const function =
      dynamic_cast<const ElementwiseLayer*>(&layers.layer(i));
  if (function == nullptr || function->function() != Elementwise::kRelu) {
    return 0;
  }
  size_t end = i + 1;
  for (; end < layers.size(); ++end) {
    const auto* const pool = dynamic_cast<const Pool*>(&layers.layer(end));
    if (pool == nullptr || pool->Shape(1).kind != Pooling::Kind::kMax) break;
  }
  const bool is_integer =
      end < layers.size() && ProductAt(pass, layers.layer(end)) != nullptr;
  return is_integer ? end - i - 1 : 0;
}

}  // namespace

absl::StatusOr<OnnxValue> WriteOnnx(const Layer& layer, const OnnxPass& pass) {
  pass.graph->Enter(layer.name());
  if (const auto* const inner = dynamic_cast<const Sequence*>(&layer)) {
    return WriteSequence(*inner, pass);
  }
  if (const auto* const inner = dynamic_cast<const Recompute*>(&layer)) {
    return WriteSequence(inner->layers(), pass);
  }
  if (const auto* const residual = dynamic_cast<const Residual*>(&layer)) {
    return WriteResidual(*residual, pass);
  }
  if (const auto* const parallel = dynamic_cast<const Parallel*>(&layer)) {
    return WriteParallel(*parallel, pass);
  }
  for (const auto write :
       {&WritePlainLayer, &WriteImageLayer, &WritePlaceLayer}) {
    if (auto made = write(layer, pass)) return *std::move(made);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the layer '", layer.name(),
      "' can't be written as ONNX: export the weights as safetensors"));
}

absl::StatusOr<OnnxValue> WriteSequence(const Sequence& layers,
                                        const OnnxPass& pass) {
  return WriteSequenceUntil(layers, layers.size(), pass);
}

absl::StatusOr<OnnxValue> WriteSequenceUntil(const Sequence& layers, size_t end,
                                             const OnnxPass& pass) {
  OnnxValue value = pass.input;
  const auto pass_of = [&](size_t i) {
    return Inside(pass, layers.first_variable(i), value);
  };
  for (size_t i = 0; i < end;) {
    if (const FoundProduct* const product = ProductAt(pass, layers.layer(i))) {
      value = WriteProduct(*pass.products, *product, pass_of(i));
      i = product->end;
      continue;
    }
    const size_t pools = PoolsBehindRelu(layers, i, pass);
    for (size_t pool = i + 1; pool <= i + pools; ++pool) {
      ASSIGN_OR_RETURN(value, WriteOnnx(layers.layer(pool), pass_of(pool)));
    }
    ASSIGN_OR_RETURN(value, WriteOnnx(layers.layer(i), pass_of(i)));
    i += pools + 1;
  }
  return value;
}

std::string WriteAffine(const OnnxPass& pass, const std::string& x,
                        size_t kernel) {
  const std::string product =
      pass.graph->Add("MatMul", {x, pass.Weight(kernel)});
  return pass.graph->Add("Add", {product, pass.Weight(kernel + 1)});
}

}  // namespace paramd
