#include "compute/compiled/emit_layers.h"
#include "compute/hlo/hlo_ops.h"
#include "compute/model/layer_kind.h"
#include "compute/model/simple_layers.h"

namespace paramd {
namespace {

HloValue Emit(const Dense&, const ProgramPass& pass) {
  return hlo::Affine(pass.input, pass.weights[0], pass.weights[1]);
}

HloValue Emit(const Dropout& layer, const ProgramPass& pass) {
  if (!pass.emission->training) return pass.input;
  const HloValue factors = EmitFactors(pass.emission, layer.name(),
                                       layer.rate(), layer.output_size());
  return hlo::Multiply(pass.input, hlo::Reshape(factors, pass.input.dims()));
}

HloValue Emit(const ElementwiseLayer& layer, const ProgramPass& pass) {
  switch (layer.function()) {
    case Elementwise::kRelu:
      return hlo::Relu(pass.input);
    case Elementwise::kGelu:
      return hlo::Gelu(pass.input);
    case Elementwise::kTanh:
      return hlo::Tanh(pass.input);
    case Elementwise::kSigmoid:
      break;
  }
  return hlo::Sigmoid(pass.input);
}

HloValue Emit(const Embedding& layer, const ProgramPass& pass) {
  const Emission& emission = *pass.emission;
  const uint64_t examples = pass.input.dims()[0];
  const uint64_t begin = emission.starts[layer.number()] * examples;
  const uint64_t end = begin + examples * layer.input_size();
  const HloValue places =
      hlo::Reshape(hlo::Slice(emission.integers[layer.number()], 0, begin, end),
                   pass.input.dims());
  const HloValue rows = hlo::Gather(pass.weights[0], places);
  if (!layer.has_padding()) return rows;
  const HloValue is_row =
      hlo::Compare("GE", places, hlo::FilledLike(places, 0));
  return hlo::Select(hlo::BroadcastFirst(is_row, rows.dims()), rows,
                     hlo::FilledLike(rows, 0));
}

HloValue Emit(const PositionalEmbedding&, const ProgramPass& pass) {
  return hlo::Add(pass.input,
                  hlo::BroadcastLast(pass.weights[0], pass.input.dims()));
}

HloValue Emit(const Reshape& layer, const ProgramPass& pass) {
  return hlo::Reshape(pass.input,
                      Batched(pass.input.dims()[0], layer.output_dims()));
}

}  // namespace

absl::optional<HloValue> EmitPlainLayer(const Layer& layer,
                                        const ProgramPass& pass) {
  return CallIfOneOf<Dense, Dropout, ElementwiseLayer, Embedding,
                     PositionalEmbedding, Reshape>(
      layer, [&](const auto& kind) { return Emit(kind, pass); });
}

}  // namespace paramd
