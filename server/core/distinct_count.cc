#include "server/core/distinct_count.h"

#include <algorithm>
#include <cmath>

#include "absl/numeric/bits.h"

#include "tensor/keyed_rows.h"

namespace paramd {

void DistinctCount::Add(uint64_t key) {
  // Keys of a bucket are mixed already, but begin alike.
  const uint64_t hash = MixKey(key ^ 0x9e3779b97f4a7c15);
  uint8_t& rank = ranks_[hash >> (64 - kBits)];
  // The bit that ends the zeros, if all are.
  const uint64_t rest = hash << kBits | uint64_t{1} << (kBits - 1);
  rank = std::max(rank, static_cast<uint8_t>(absl::countl_zero(rest) + 1));
}

uint64_t DistinctCount::Estimate() const {
  constexpr double kCount = kRegisters;
  constexpr double kBias = 0.7213 / (1 + 1.079 / kCount);
  double sum = 0;
  double empty = 0;
  for (const uint8_t rank : ranks_) {
    sum += std::ldexp(1.0, -rank);
    if (rank == 0) ++empty;
  }
  const double raw = kBias * kCount * kCount / sum;
  if (raw <= 2.5 * kCount && empty > 0) {
    return std::llround(kCount * std::log(kCount / empty));
  }
  return std::llround(raw);
}

}  // namespace paramd
