#ifndef PARAMD_SERVER_CORE_STALENESS_COUNT_H_
#define PARAMD_SERVER_CORE_STALENESS_COUNT_H_

#include <array>
#include <cstdint>

#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// Counts how stale applied gradients were. The staleness of a block's gradient
// is the number of other pushes that the block took in between the read that
// the gradient was computed on and its application.
//
// Not thread-safe: lives inside a ShardContent.
class StalenessCount {
 public:
  void Add(uint64_t staleness);

  // Adds nothing to `stats`: replaces it.
  void Fill(v1::Staleness* stats) const;

 private:
  // 0, 1, 2 to 3, 4 to 7, … and from 2^13 on.
  static constexpr int kBuckets = 15;

  uint64_t blocks_ = 0;
  uint64_t sum_ = 0;
  std::array<uint64_t, kBuckets> histogram_ = {};
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_STALENESS_COUNT_H_
