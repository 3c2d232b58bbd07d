#include "compute/pipeline/use_sums.h"

#include <algorithm>
#include <utility>

namespace paramd {

UseSums::UseSums(std::vector<size_t> variables)
    : variables_(std::move(variables)), further_(variables_.size()) {
  for (auto use = variables_.begin(); use != variables_.end(); ++use) {
    is_last_.push_back(std::find(use + 1, variables_.end(), *use) ==
                       variables_.end());
  }
}

std::vector<absl::Span<float>> UseSums::Place(Gradients gradients) {
  std::vector<absl::Span<float>> places;
  for (size_t i = 0; i < variables_.size(); ++i) {
    const absl::Span<float> gradient = gradients[variables_[i]];
    if (is_last_[i]) {
      places.push_back(gradient);
      continue;
    }
    further_[i].resize(gradient.size());
    places.push_back(absl::MakeSpan(further_[i]));
  }
  return places;
}

void UseSums::AddTo(Gradients gradients) const {
  for (size_t i = variables_.size(); i-- > 0;) {
    if (is_last_[i]) continue;
    const absl::Span<float> gradient = gradients[variables_[i]];
    for (size_t j = 0; j < gradient.size(); ++j) gradient[j] += further_[i][j];
  }
}

}  // namespace paramd
