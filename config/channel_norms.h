#ifndef PARAMD_CONFIG_CHANNEL_NORMS_H_
#define PARAMD_CONFIG_CHANNEL_NORMS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// How large the channels of a layer are: of each the sum of the squares of its
// weights, in whole units of 2^-40. A square is rounded up, so that only a
// channel of zeros is 0; a sum of 2^64 or more, or of what is no number, is
// 2^64 - 1.
//
// Invariant: sums are of what was added, in any order, to the last bit; so
// those of several servers, added up, are those of all their weights, wherever
// these are cut.
//
// Not thread-safe.
class ChannelNorms {
 public:
  explicit ChannelNorms(size_t channels) : squares_(channels) {}

  // Of consecutive elements of a variable whose last dimension are the
  // channels, from element `first` on.
  void AddValues(absl::Span<const float> values, uint64_t first);
  // False, with nothing added, if they are of another number of channels.
  bool AddSizes(const v1::ChannelSizes& sizes);
  // Sets the squares.
  void Fill(v1::ChannelSizes* sizes) const;

  // That share of the channels, rounded, but not all: the smallest, of equals
  // the first. Ascending.
  std::vector<uint32_t> Smallest(double share) const;

 private:
  std::vector<uint64_t> squares_;  // By channel.
};

}  // namespace paramd

#endif  // PARAMD_CONFIG_CHANNEL_NORMS_H_
