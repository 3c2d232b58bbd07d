#include "compute/compiled/emit_layers.h"

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "compute/hlo/hlo_ops.h"
#include "compute/model/parallel.h"
#include "compute/model/recompute.h"
#include "compute/model/residual.h"
#include "compute/model/sequence.h"

namespace paramd {
namespace {

// The pass of a layer inside, whose variables begin at that one.
ProgramPass Inside(const ProgramPass& pass, const Layer& layer,
                   size_t first_variable) {
  const size_t variables = layer.variables().size();
  ProgramPass inner = pass;
  inner.weights = pass.weights.subspan(first_variable, variables);
  inner.updates = pass.updates.subspan(first_variable, variables);
  return inner;
}

absl::StatusOr<HloValue> EmitSequence(const Sequence& layers,
                                      const ProgramPass& pass) {
  const uint64_t examples = pass.input.dims()[0];
  HloValue value = pass.input;
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers.layer(i);
    ProgramPass inner = Inside(pass, layer, layers.first_variable(i));
    inner.input = hlo::Reshape(value, Batched(examples, layer.input_dims()));
    ASSIGN_OR_RETURN(value, EmitLayer(layer, inner));
  }
  return value;
}

absl::StatusOr<HloValue> EmitResidual(const Residual& layer,
                                      const ProgramPass& pass) {
  ASSIGN_OR_RETURN(HloValue body,
                   EmitSequence(layer.body(), Inside(pass, layer.body(), 0)));
  if (layer.drop_rate() > 0 && pass.emission->training) {
    const HloValue factors =
        hlo::Reshape(EmitFactors(pass.emission, layer.name(), layer.drop_rate(),
                                 /*width=*/1),
                     {body.dims()[0]});
    body = hlo::Multiply(body, hlo::BroadcastFirst(factors, body.dims()));
  }
  if (layer.shortcut() == nullptr) return hlo::Add(body, pass.input);
  ASSIGN_OR_RETURN(
      const HloValue around,
      EmitSequence(*layer.shortcut(), Inside(pass, *layer.shortcut(),
                                             layer.body().variables().size())));
  return hlo::Add(body, around);
}

absl::StatusOr<HloValue> EmitParallel(const Parallel& layer,
                                      const ProgramPass& pass) {
  const uint64_t examples = pass.input.dims()[0];
  std::vector<HloValue> outputs;
  for (size_t i = 0; i < layer.branches(); ++i) {
    const Sequence& layers = layer.branch_layers(i);
    ProgramPass inner = Inside(pass, layers, layer.first_variable(i));
    const absl::optional<size_t> feature = layer.feature(i);
    if (feature.has_value()) inner.input = pass.emission->inputs[*feature];
    ASSIGN_OR_RETURN(HloValue output, EmitSequence(layers, inner));
    if (!layer.adds()) {
      output = hlo::Reshape(output, {examples, layers.output_size()});
    }
    outputs.push_back(output);
  }
  if (!layer.adds()) return hlo::Concatenate(outputs, 1);
  HloValue sum = outputs.front();
  for (size_t i = 1; i < outputs.size(); ++i) sum = hlo::Add(sum, outputs[i]);
  return sum;
}

}  // namespace

absl::StatusOr<HloValue> EmitLayer(const Layer& layer,
                                   const ProgramPass& pass) {
  if (const auto* const inner = dynamic_cast<const Sequence*>(&layer)) {
    return EmitSequence(*inner, pass);
  }
  // The compiler decides what to compute again.
  if (const auto* const inner = dynamic_cast<const Recompute*>(&layer)) {
    return EmitSequence(inner->layers(), pass);
  }
  if (const auto* const residual = dynamic_cast<const Residual*>(&layer)) {
    return EmitResidual(*residual, pass);
  }
  if (const auto* const parallel = dynamic_cast<const Parallel*>(&layer)) {
    return EmitParallel(*parallel, pass);
  }
  for (const auto emit :
       {&EmitPlainLayer, &EmitImageLayer, &EmitNormLayer, &EmitPlaceLayer}) {
    if (const auto made = emit(layer, pass)) return *made;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the layer '", layer.name(),
      "' is computed on the processor and on GPUs, and not by a PJRT plugin: "
      "choose another device"));
}

HloValue EmitFactors(Emission* emission, const std::string& layer, double rate,
                     uint64_t width) {
  const HloValue key = emission->graph->Parameter({HloElement::kU64, {}});
  emission->draws.push_back({layer, key});
  return hlo::DropFactors(key, emission->offsets, rate, width);
}

}  // namespace paramd
