#include "worker/stages/sent_weights.h"

#include <cstring>
#include <utility>

namespace paramd {

bool SentWeights::Are(Weights weights) const {
  if (sent_.size() != weights.size()) return false;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (sent_[i].size() != weights[i].size()) return false;
    // Bits: a NaN is what it is.
    if (!weights[i].empty() &&
        std::memcmp(sent_[i].data(), weights[i].data(),
                    weights[i].size() * sizeof(float)) != 0) {
      return false;
    }
  }
  return true;
}

bool SentWeights::Begin(Weights weights) {
  evaluates_ = !std::exchange(trains_, false) && !weights.empty();
  has_them_ = evaluates_ && Are(weights);
  return has_them_;
}

void SentWeights::Begun(bool is_ok, Weights weights) {
  if (!is_ok) trains_ = true;
  if (!is_ok || !evaluates_) return sent_.clear();
  if (has_them_) return;
  sent_.clear();
  for (const auto& one : weights) sent_.emplace_back(one.begin(), one.end());
}

}  // namespace paramd
