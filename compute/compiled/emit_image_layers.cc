#include "compute/compiled/emit_layers.h"
#include "compute/hlo/hlo_ops.h"
#include "compute/hlo/hlo_windows.h"
#include "compute/model/image_layers.h"
#include "compute/model/interaction_layers.h"
#include "compute/model/layer_kind.h"

namespace paramd {
namespace {

HloValue Emit(const Conv2d& layer, const ProgramPass& pass) {
  const HloValue output = hlo::Convolve(layer.Shape(pass.input.dims()[0]),
                                        pass.input, pass.weights[0]);
  if (!layer.has_bias()) return output;
  return hlo::Add(output, hlo::BroadcastLast(pass.weights[1], output.dims()));
}

HloValue Emit(const GlobalPool& layer, const ProgramPass& pass) {
  const uint64_t channels = layer.input_dims().back();
  const uint64_t places = layer.input_size() / channels;
  const HloValue lines =
      hlo::Reshape(pass.input, {pass.input.dims()[0], places, channels});
  if (layer.kind() == Pooling::Kind::kMax) return hlo::MaxPlace(lines);
  return hlo::Scale(hlo::Sum(lines, {1}), 1 / static_cast<double>(places));
}

HloValue Emit(const GlobalSumPool& layer, const ProgramPass& pass) {
  const uint64_t examples = pass.input.dims()[0];
  const uint64_t channels = layer.input_dims().back();
  return hlo::Sum(
      hlo::Reshape(pass.input,
                   {examples, layer.input_size() / channels, channels}),
      {1});
}

HloValue Emit(const Pool& layer, const ProgramPass& pass) {
  const Pooling shape = layer.Shape(pass.input.dims()[0]);
  return shape.kind == Pooling::Kind::kMax
             ? hlo::MaxPool(shape.window, pass.input)
             : hlo::AveragePool(shape.window, pass.input);
}

}  // namespace

absl::optional<HloValue> EmitImageLayer(const Layer& layer,
                                        const ProgramPass& pass) {
  return CallIfOneOf<Conv2d, GlobalPool, GlobalSumPool, Pool>(
      layer, [&](const auto& kind) { return Emit(kind, pass); });
}

}  // namespace paramd
