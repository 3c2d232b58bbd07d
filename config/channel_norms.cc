#include "config/channel_norms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace paramd {
namespace {

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
constexpr double kUnits = 0x1p40;  // Of one.
constexpr double kTooMany = 0x1p64;

// Exact but for the rounding up: a square of float32 has 48 bits.
uint64_t UnitsOf(float value) {
  const double units = std::ceil(static_cast<double>(value) *
                                 static_cast<double>(value) * kUnits);
  return units < kTooMany ? static_cast<uint64_t>(units) : kMost;
}

// The same in any order, as none is negative.
void Add(uint64_t units, uint64_t* sum) {
  *sum = units > kMost - *sum ? kMost : *sum + units;
}

}  // namespace

void ChannelNorms::AddValues(absl::Span<const float> values, uint64_t first) {
  if (squares_.empty()) return;
  size_t channel = first % squares_.size();
  for (const float value : values) {
    Add(UnitsOf(value), &squares_[channel]);
    if (++channel == squares_.size()) channel = 0;
  }
}

bool ChannelNorms::AddSizes(const v1::ChannelSizes& sizes) {
  if (static_cast<size_t>(sizes.squares_size()) != squares_.size()) {
    return false;
  }
  for (int c = 0; c < sizes.squares_size(); ++c) {
    Add(sizes.squares(c), &squares_[c]);
  }
  return true;
}

void ChannelNorms::Fill(v1::ChannelSizes* sizes) const {
  sizes->mutable_squares()->Assign(squares_.begin(), squares_.end());
}

std::vector<uint32_t> ChannelNorms::Smallest(double share) const {
  const size_t all = squares_.size();
  const auto kept = std::max<size_t>(
      1, static_cast<size_t>(static_cast<double>(all) * (1 - share) + 0.5));
  std::vector<uint32_t> channels(all);
  std::iota(channels.begin(), channels.end(), 0);
  std::stable_sort(channels.begin(), channels.end(),
                   [this](uint32_t one, uint32_t other) {
                     return squares_[one] < squares_[other];
                   });
  channels.resize(all - std::min(kept, all));
  std::sort(channels.begin(), channels.end());
  return channels;
}

}  // namespace paramd
