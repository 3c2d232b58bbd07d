#include "server/core/gradient_rms.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace paramd {

bool GradientRms::IsSpike(double mean_square, double factor) const {
  if (gradients_ < kWarmUp || rms_ == 0) return false;
  return std::sqrt(mean_square) > factor * static_cast<double>(rms_);
}

void GradientRms::Add(double mean_square) {
  gradients_ = std::min(gradients_ + 1, kWarmUp);
  const double before = static_cast<double>(rms_) * static_cast<double>(rms_);
  const double now = before + (mean_square - before) / gradients_;
  // A float, so that a checkpoint holds all of it.
  rms_ = static_cast<float>(
      std::min(std::sqrt(std::max(now, 0.0)),
               static_cast<double>(std::numeric_limits<float>::max())));
}

void GradientRms::Set(float value, uint32_t gradients) {
  const bool is_kept = std::isfinite(value) && value >= 0;
  rms_ = is_kept ? value : 0;
  gradients_ = is_kept ? std::min(gradients, kWarmUp) : 0;
}

void GradientRms::Restore(float saved) {
  const bool is_kept = std::isfinite(saved) && saved > 0;
  rms_ = is_kept ? saved : 0;
  gradients_ = is_kept ? kWarmUp : 0;
}

}  // namespace paramd
