#include "config/initial_values.h"

#include <algorithm>

namespace paramd {

InitialValues::InitialValues(const v1::Variable& variable, uint64_t seed)
    : zeros_(variable.initializer().kind() == v1::Initializer::ZEROS),
      random_(StableHash(variable.name(), seed)),
      low_(variable.initializer().low()),
      width_(variable.initializer().high() - variable.initializer().low()) {}

void InitialValues::Fill(uint64_t first, absl::Span<float> out) const {
  if (zeros_) {
    std::fill(out.begin(), out.end(), 0.0f);
    return;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = low_ + width_ * random_.Uniform(first + i);
  }
}

}  // namespace paramd
