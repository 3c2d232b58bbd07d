#include "compute/model/loss_scaler.h"

#include <algorithm>

namespace paramd {

LossScaler::LossScaler(Device* device)
    : device_(*device),
      link_(device->link()),
      scales_(device->compute_format() == ComputeFormat::kFp16) {
  if (scales_ && link_ != nullptr) mark_ = link_->MakeMark();
}

void LossScaler::Begin(double fixed, bool remembers, size_t gradients) {
  if (!scales_) return;
  unscaled_ = 0;
  remembers_ = remembers && fixed == 0;
  scale_ = fixed > 0 ? fixed : remembers_ ? remembered_ : kFirst;
  if (gradients <= places_) return;
  places_ = 0;
  flags_ = device_.Allocate(gradients * sizeof(float));
  if (link_ != nullptr) {
    flags_twin_ = link_->AllocateHost(gradients * sizeof(float));
  }
  if (device_.status().ok()) places_ = gradients;
}

void LossScaler::Unscale(const Tensor& gradient) {
  if (!scales_) return;
  device_.Unscale(
      1 / scale_, gradient,
      {static_cast<float*>(flags_.get()) + unscaled_, DType::kFloat32, {1}});
  ++unscaled_;
}

bool LossScaler::Overflowed() {
  if (unscaled_ == 0) return false;
  const void* flags = flags_.get();
  if (link_ != nullptr) {
    link_->Download(flags, unscaled_ * sizeof(float), flags_twin_.get(), mark_);
    link_->Wait(mark_);
    flags = flags_twin_.get();
  }
  const float* const begin = static_cast<const float*>(flags);
  const float* const end = begin + unscaled_;
  unscaled_ = 0;
  return device_.status().ok() &&
         std::any_of(begin, end, [](float flag) { return flag != 0; });
}

bool LossScaler::MustRepeat() {
  if (!scales_) return false;
  used_.store(scale_, std::memory_order_relaxed);
  if (!Overflowed()) {
    if (!remembers_) return false;
    if (scale_ != remembered_) good_steps_ = 0;
    remembered_ = scale_;
    if (++good_steps_ == kStepsToDouble) {
      remembered_ = std::min(2 * remembered_, kLargest);
      good_steps_ = 0;
    }
    return false;
  }
  // It is not for the scale.
  if (scale_ < 2) return false;
  overflows_.fetch_add(1, std::memory_order_relaxed);
  scale_ /= 2;
  return true;
}

}  // namespace paramd
