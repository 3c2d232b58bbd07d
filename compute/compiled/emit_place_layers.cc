#include <cmath>
#include <vector>

#include "compute/compiled/emit_layers.h"
#include "compute/hlo/hlo_ops.h"
#include "compute/hlo/hlo_windows.h"
#include "compute/model/attention.h"
#include "compute/model/gated_sums.h"
#include "compute/model/interaction_layers.h"
#include "compute/model/layer_kind.h"
#include "compute/model/place_layers.h"

namespace paramd {
namespace {

HloValue Emit(const Attention& layer, const ProgramPass& pass) {
  const uint64_t examples = pass.input.dims()[0];
  const uint64_t places = layer.input_dims()[0];
  const uint64_t values = layer.input_dims()[1];
  const uint64_t heads = layer.heads();
  const uint64_t head_values = values / heads;
  HloGraph* const graph = pass.input.graph;
  const HloValue projected =
      hlo::Affine(pass.input, pass.weights[0], pass.weights[1]);
  // Queries, keys or values, [examples, heads, places, values of a head].
  const auto third = [&](uint64_t number) {
    const HloValue part =
        hlo::Slice(projected, 2, number * values, (number + 1) * values);
    return hlo::Transpose(
        hlo::Reshape(part, {examples, places, heads, head_values}),
        {0, 2, 1, 3});
  };
  HloValue scores =
      hlo::Scale(hlo::Multiply2d(third(0), hlo::SwapLast(third(1))),
                 1 / std::sqrt(static_cast<double>(head_values)));
  if (layer.is_causal()) {
    const HloType numbers = {HloElement::kS32, scores.dims()};
    const HloValue is_ahead = hlo::Compare("GT", hlo::Iota(graph, numbers, 3),
                                           hlo::Iota(graph, numbers, 2));
    scores = hlo::Select(is_ahead, hlo::FilledLike(scores, -INFINITY), scores);
  }
  const HloValue mixed = hlo::Transpose(
      hlo::Multiply2d(hlo::Softmax(scores), third(2)), {0, 2, 1, 3});
  return hlo::Affine(hlo::Reshape(mixed, {examples, places, values}),
                     pass.weights[2], pass.weights[3]);
}

HloValue Emit(const AttentionPool& layer, const ProgramPass& pass) {
  const uint64_t examples = pass.input.dims()[0];
  const uint64_t width = layer.input_dims()[1];
  const HloValue query = hlo::Slice(pass.input, 1, 0, 1);
  const HloValue keys = hlo::Slice(pass.input, 1, 1, layer.input_dims()[0]);
  const HloValue beside = hlo::Broadcast(hlo::Reshape(query, {examples, width}),
                                         keys.dims(), {0, 2});
  const HloValue features = hlo::Concatenate(
      {beside, keys, hlo::Subtract(beside, keys), hlo::Multiply(beside, keys)},
      2);
  const HloValue active =
      hlo::Sigmoid(hlo::Affine(features, pass.weights[0], pass.weights[1]));
  const HloValue weights =
      hlo::Affine(active, pass.weights[2], pass.weights[3]);
  const HloValue sum = hlo::Multiply2d(hlo::SwapLast(weights), keys);
  return hlo::Concatenate({query, sum}, 1);
}

HloValue Emit(const BagPool& layer, const ProgramPass& pass) {
  const HloValue x = pass.input;  // [examples, places, values]
  if (layer.kind() == Bag::kSum) return hlo::Sum(x, {1});
  const HloValue zeros = hlo::FilledLike(x, 0);
  // 1 for each place that counts.
  const HloValue counts = hlo::Largest(
      hlo::Convert(hlo::Compare("NE", x, zeros), HloElement::kF32), {2});
  const HloValue by_place = hlo::BroadcastFirst(counts, x.dims());
  const HloValue count = hlo::Sum(counts, {1});
  const HloValue is_empty =
      hlo::Compare("EQ", count, hlo::FilledLike(count, 0));
  if (layer.kind() == Bag::kMax) {
    const HloValue largest = hlo::MaxPlace(hlo::Select(
        hlo::Compare("EQ", by_place, zeros), hlo::FilledLike(x, -INFINITY), x));
    return hlo::Select(hlo::BroadcastFirst(is_empty, largest.dims()),
                       hlo::FilledLike(largest, 0), largest);
  }
  const HloValue sum = hlo::Sum(hlo::Multiply(x, by_place), {1});
  const HloValue one = hlo::FilledLike(count, 1);
  const HloValue divisor = hlo::Select(is_empty, one, count);
  const HloValue factor = layer.kind() == Bag::kSqrtN
                              ? hlo::Rsqrt(divisor)
                              : hlo::Divide(one, divisor);
  return hlo::Multiply(sum, hlo::BroadcastFirst(factor, sum.dims()));
}

HloValue Emit(const Cross& layer, const ProgramPass& pass) {
  HloValue x = pass.input;
  for (uint64_t i = 0; i < layer.layers(); ++i) {
    const HloValue factor =
        hlo::Affine(x, pass.weights[2 * i], pass.weights[2 * i + 1]);
    x = hlo::Add(hlo::Multiply(pass.input, factor), x);
  }
  return x;
}

HloValue Emit(const DotInteraction& layer, const ProgramPass& pass) {
  const uint64_t examples = pass.input.dims()[0];
  const uint64_t fields = layer.input_dims()[0];
  const HloValue products =
      hlo::Multiply2d(pass.input, hlo::SwapLast(pass.input), /*exact=*/true);
  std::vector<double> pairs;
  for (uint64_t i = 0; i < fields; ++i) {
    for (uint64_t j = 0; j < i; ++j) {
      pairs.push_back(static_cast<double>(i * fields + j));
    }
  }
  const HloValue columns =
      hlo::SwapLast(hlo::Reshape(products, {examples, fields * fields}));
  const HloValue places = hlo::Constants(
      pass.input.graph, {HloElement::kS32, {pairs.size()}}, pairs);
  return hlo::SwapLast(hlo::Gather(columns, places));
}

HloValue Emit(const GatedSums& layer, const ProgramPass& pass) {
  const uint64_t examples = pass.input.dims()[0];
  const uint64_t gates = layer.output_dims()[0];
  const uint64_t values = layer.output_dims()[1];
  const uint64_t count = layer.experts();
  const uint64_t before = gates * count;
  const HloValue shares = hlo::Softmax(hlo::Reshape(
      hlo::Slice(pass.input, 1, 0, before), {examples, gates, count}));
  const HloValue experts =
      hlo::Reshape(hlo::Slice(pass.input, 1, before, layer.input_size()),
                   {examples, count, values});
  return hlo::Multiply2d(shares, experts);
}

HloValue Emit(const Select& layer, const ProgramPass& pass) {
  const uint64_t begin = layer.begin();
  return hlo::Slice(pass.input, 1, begin, begin + layer.output_dims()[0]);
}

}  // namespace

absl::optional<HloValue> EmitPlaceLayer(const Layer& layer,
                                        const ProgramPass& pass) {
  return CallIfOneOf<Attention, AttentionPool, BagPool, Cross, DotInteraction,
                     GatedSums, Select>(
      layer, [&](const auto& kind) { return Emit(kind, pass); });
}

}  // namespace paramd
