#include "config/magnitudes.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace paramd {
namespace {

constexpr int kDroppedBits = 13;
constexpr uint32_t kMagnitudeBits = 0x7fffffff;
constexpr uint32_t kInfinity = 0x7f800000;
constexpr size_t kClasses = (kMagnitudeBits >> kDroppedBits) + 1;
// All classes together can then be counted.
constexpr uint64_t kMostOfClass = uint64_t{1} << 40;

size_t ClassOf(float value) {
  return (std::bit_cast<uint32_t>(value) & kMagnitudeBits) >> kDroppedBits;
}

// The least magnitude of a class; of those that are no numbers, infinity.
float LeastOf(size_t index) {
  const auto bits = static_cast<uint32_t>(index << kDroppedBits);
  return std::bit_cast<float>(std::min(bits, kInfinity));
}

}  // namespace

Magnitudes::Magnitudes() : counts_(kClasses) {}

void Magnitudes::AddValues(absl::Span<const float> values) {
  for (const float value : values) ++counts_[ClassOf(value)];
}

bool Magnitudes::AddCounts(const v1::MagnitudeCounts& counts) {
  if (counts.distances_size() != counts.counts_size()) return false;
  uint64_t index = 0;
  for (int i = 0; i < counts.distances_size(); ++i) {
    index += counts.distances(i);
    if (index >= kClasses || (i > 0 && counts.distances(i) == 0) ||
        counts.counts(i) > kMostOfClass) {
      return false;
    }
  }
  index = 0;
  for (int i = 0; i < counts.distances_size(); ++i) {
    index += counts.distances(i);
    counts_[index] += counts.counts(i);
  }
  return true;
}

void Magnitudes::Fill(v1::MagnitudeCounts* counts) const {
  counts->clear_distances();
  counts->clear_counts();
  size_t last = 0;
  for (size_t index = 0; index < kClasses; ++index) {
    if (counts_[index] == 0) continue;
    counts->add_distances(static_cast<uint32_t>(index - last));
    counts->add_counts(counts_[index]);
    last = index;
  }
}

float Magnitudes::ThresholdFor(double share) const {
  uint64_t all = 0;
  for (const uint64_t count : counts_) all += count;
  const uint64_t kept = std::max<uint64_t>(
      1, static_cast<uint64_t>(static_cast<double>(all) * (1 - share) + 0.5));
  const uint64_t zeros = all - std::min(kept, all);
  uint64_t below = 0;
  for (size_t index = 0; index < kClasses; ++index) {
    below += counts_[index];
    if (below > zeros) return LeastOf(index);
  }
  return 0;
}

}  // namespace paramd
