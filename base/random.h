#ifndef PARAMD_BASE_RANDOM_H_
#define PARAMD_BASE_RANDOM_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace paramd {

// 64-bit FNV-1a over `text`, starting from `seed`: the same on every machine
// and in every build, so it may stand in files and key generators.
uint64_t StableHash(absl::string_view text, uint64_t seed = 0);

// A counter-based generator: Philox4x32-10 (Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", SC11). Number i of key k is a pure function of
// (k, i), so any process can draw any part of a sequence. Immutable, hence
// thread-safe.
class CounterRandom {
 public:
  explicit constexpr CounterRandom(uint64_t key) : key_(key) {}

  // 64 uniformly distributed bits.
  uint64_t Bits(uint64_t counter) const;
  // Uniform in [0, 1), a multiple of 2^-24: exact in float.
  float Uniform(uint64_t counter) const;
  // Uniform in [0, bound), without bias worth naming (bias <= bound / 2^64).
  // REQUIRES: bound > 0.
  uint64_t Below(uint64_t bound, uint64_t counter) const;

 private:
  uint64_t key_;
};

// A CounterRandom read in sequence. Not thread-safe.
class RandomStream {
 public:
  explicit constexpr RandomStream(uint64_t key) : random_(key) {}

  uint64_t Bits() { return random_.Bits(next_++); }
  uint64_t Below(uint64_t bound) { return random_.Below(bound, next_++); }
  float Uniform() { return random_.Uniform(next_++); }
  bool Chance(double probability) { return Uniform() < probability; }

 private:
  CounterRandom random_;
  uint64_t next_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_BASE_RANDOM_H_
