#include "worker/gradient_clip.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "config/name_pattern.h"

namespace paramd {
namespace {

// What PyTorch adds, so that the divisor is never zero.
constexpr double kSmallNorm = 1e-6;
// Sums of which none waits for another.
constexpr size_t kLanes = 8;

// In double: no float's square is too large for it.
double SumOfSquares(absl::Span<const float> values) {
  double lanes[kLanes] = {};
  const size_t whole = values.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      lanes[lane] += value * value;
    }
  }
  for (size_t i = whole; i < values.size(); ++i) {
    const double value = values[i];
    lanes[i - whole] += value * value;
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

bool IsFrozen(const v1::OptimizerConfig& config, const v1::Variable& variable) {
  for (const v1::OptimizerConfig::RateFactor& some : config.rate_factors()) {
    if (MatchesAny(some.variables(), variable.name())) {
      return some.factor() == 0;
    }
  }
  return false;
}

}  // namespace

GradientClip::GradientClip(const v1::OptimizerConfig& config,
                           absl::Span<const v1::Variable> variables)
    : most_(config.clip_global_norm()) {
  for (const v1::Variable& variable : variables) {
    counted_.push_back(!variable.untrained() && !IsFrozen(config, variable));
  }
}

void GradientClip::Apply(GradientSpans gradients, double times) const {
  if (!clips()) return;
  double sum = 0;
  for (size_t v = 0; v < gradients.size(); ++v) {
    if (counted_[v]) sum += SumOfSquares(gradients[v]);
  }
  const double norm = std::sqrt(sum) * times;
  if (!std::isfinite(norm)) return;
  const auto scale =
      static_cast<float>(std::min(1.0, most_ / (norm + kSmallNorm)));
  if (scale == 1) return;
  for (size_t v = 0; v < gradients.size(); ++v) {
    if (!counted_[v]) continue;
    for (float& value : gradients[v]) value *= scale;
  }
}

}  // namespace paramd
