#ifndef PARAMD_CONFIG_MAGNITUDES_H_
#define PARAMD_CONFIG_MAGNITUDES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// How large weights are: how many there are of each class of magnitudes, which
// are those whose upper 18 bits are alike, of the 31 that a float32 has without
// its sign. So classes ascend as magnitudes do, and one of normal numbers is at
// most 1/1024 wide, relative to them.
//
// Invariant: counts are of what was added, in any order; so those of several
// servers, added up, are those of all their weights.
//
// Not thread-safe.
class Magnitudes {
 public:
  Magnitudes();

  void AddValues(absl::Span<const float> values);
  // As Fill gives them. False, with nothing added, if they are no histogram.
  bool AddCounts(const v1::MagnitudeCounts& counts);
  // Sets the classes and their counts.
  void Fill(v1::MagnitudeCounts* counts) const;

  // The border of two classes below which as many lie as possible, but no more
  // than that share of all, rounded, and not all. What lies below is then fewer
  // than the share by less than the number of one class.
  float ThresholdFor(double share) const;

 private:
  std::vector<uint64_t> counts_;  // By class.
};

}  // namespace paramd

#endif  // PARAMD_CONFIG_MAGNITUDES_H_
