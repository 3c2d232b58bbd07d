#include "compute/compiled/emit_layers.h"
#include "compute/hlo/hlo_ops.h"
#include "compute/model/layer_kind.h"
#include "compute/model/norm_layers.h"

namespace paramd {
namespace {

// Places of a norm's variables; a layer norm has the first two.
constexpr size_t kScale = 0;
constexpr size_t kShift = 1;
constexpr size_t kMean = 2;
constexpr size_t kVariance = 3;

// Of [rows, columns], over one of both.
struct Statistics {
  HloValue mean;
  HloValue variance;  // The mean squared deviation.
};

Statistics StatisticsOf(HloValue x, int64_t over) {
  const auto mean = [&](HloValue of) {
    return hlo::Scale(hlo::Sum(of, {over}),
                      1 / static_cast<double>(x.dims()[over]));
  };
  Statistics statistics;
  statistics.mean = mean(x);
  const HloValue deviation =
      hlo::Subtract(x, hlo::Broadcast(statistics.mean, x.dims(), {1 - over}));
  statistics.variance = mean(hlo::Multiply(deviation, deviation));
  return statistics;
}

// (x - mean) / sqrt(variance + epsilon) * scale + shift, where statistics are
// as large as x, scale and shift a row.
HloValue Normalised(HloValue x, const Statistics& statistics, double epsilon,
                    HloValue scale, HloValue shift) {
  const HloValue inverse = hlo::Rsqrt(hlo::Add(
      statistics.variance, hlo::FilledLike(statistics.variance, epsilon)));
  const HloValue normalised =
      hlo::Multiply(hlo::Subtract(x, statistics.mean), inverse);
  return hlo::Add(
      hlo::Multiply(normalised, hlo::BroadcastLast(scale, x.dims())),
      hlo::BroadcastLast(shift, x.dims()));
}

HloValue Matrix(HloValue x) {
  const uint64_t columns = x.dims().back();
  return hlo::Reshape(x, {SizeOf(x.dims()) / columns, columns});
}

HloValue Emit(const BatchNormLayer& layer, const ProgramPass& pass) {
  const Emission& emission = *pass.emission;
  const HloValue x = Matrix(pass.input);
  Statistics used = {pass.weights[kMean], pass.weights[kVariance]};
  if (emission.training) {
    used = StatisticsOf(x, /*over=*/0);
    const HloValue step = hlo::Scale(emission.share, 1 - layer.momentum());
    const auto update = [&](size_t place, HloValue statistic) {
      pass.updates[place] =
          hlo::Multiply(hlo::Subtract(pass.weights[place], statistic),
                        hlo::BroadcastFirst(step, statistic.dims()));
    };
    update(kMean, used.mean);
    update(kVariance, used.variance);
  }
  used.mean = hlo::BroadcastLast(used.mean, x.dims());
  used.variance = hlo::BroadcastLast(used.variance, x.dims());
  return hlo::Reshape(Normalised(x, used, layer.epsilon(), pass.weights[kScale],
                                 pass.weights[kShift]),
                      pass.input.dims());
}

HloValue Emit(const LayerNormLayer& layer, const ProgramPass& pass) {
  const HloValue x = Matrix(pass.input);
  Statistics used = StatisticsOf(x, /*over=*/1);
  used.mean = hlo::BroadcastFirst(used.mean, x.dims());
  used.variance = hlo::BroadcastFirst(used.variance, x.dims());
  return hlo::Reshape(Normalised(x, used, layer.epsilon(), pass.weights[kScale],
                                 pass.weights[kShift]),
                      pass.input.dims());
}

}  // namespace

absl::optional<HloValue> EmitNormLayer(const Layer& layer,
                                       const ProgramPass& pass) {
  return CallIfOneOf<BatchNormLayer, LayerNormLayer>(
      layer, [&](const auto& kind) { return Emit(kind, pass); });
}

}  // namespace paramd
