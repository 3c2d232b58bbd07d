#include "checkpoint/number_histogram.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

namespace paramd {
namespace {

// Of a float that is not negative: eight bits of exponent, and seven of the
// mantissa behind its first, which is not stored.
constexpr int kBits = 15;

size_t BinOf(double value) {
  const auto number = static_cast<float>(
      std::min<double>(value, std::numeric_limits<float>::max()));
  uint32_t bits;
  std::memcpy(&bits, &number, sizeof(bits));
  // The sign of -0 goes.
  return (bits & 0x7fffffff) >> (31 - kBits);
}

}  // namespace

NumberHistogram::NumberHistogram() : bins_(size_t{1} << kBits) {}

void NumberHistogram::Add(double value) {
  Bin& bin = bins_[BinOf(value)];
  ++bin.count;
  bin.sum += value;
  least_ = count_ == 0 ? value : std::min(least_, value);
  largest_ = std::max(largest_, value);
  ++count_;
  sum_ += value;
}

double NumberHistogram::Quantile(double share) const {
  const auto rank =
      static_cast<uint64_t>(std::ceil(share * static_cast<double>(count_)));
  if (rank <= 1) return least_;
  if (rank >= count_) return largest_;
  uint64_t before = 0;
  for (const Bin& bin : bins_) {
    before += bin.count;
    if (before < rank) continue;
    return std::clamp(bin.sum / static_cast<double>(bin.count), least_,
                      largest_);
  }
  return largest_;
}

double NumberHistogram::SumOfLargest(uint64_t most) const {
  double sum = 0;
  for (auto bin = bins_.rbegin(); bin != bins_.rend() && most > 0; ++bin) {
    if (bin->count == 0) continue;
    const uint64_t taken = std::min(most, bin->count);
    sum +=
        bin->sum * static_cast<double>(taken) / static_cast<double>(bin->count);
    most -= taken;
  }
  return sum;
}

}  // namespace paramd
