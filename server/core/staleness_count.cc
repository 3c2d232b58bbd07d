#include "server/core/staleness_count.h"

#include <algorithm>

#include "absl/numeric/bits.h"

namespace paramd {

void StalenessCount::Add(uint64_t staleness) {
  ++blocks_;
  sum_ += staleness;
  ++histogram_[std::min<int>(absl::bit_width(staleness), kBuckets - 1)];
}

void StalenessCount::Fill(v1::Staleness* stats) const {
  stats->set_blocks(blocks_);
  stats->set_sum(sum_);
  stats->mutable_histogram()->Assign(histogram_.begin(), histogram_.end());
}

}  // namespace paramd
