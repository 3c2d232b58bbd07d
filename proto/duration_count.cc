#include "proto/duration_count.h"

#include <algorithm>

namespace paramd {

void DurationCount::Add(absl::Duration took) {
  int bucket = 0;
  while (bucket + 1 < kBuckets && took >= EndOf(bucket)) ++bucket;
  ++histogram_[static_cast<size_t>(bucket)];
  ++count_;
  total_us_ += static_cast<uint64_t>(
      std::max<int64_t>(0, absl::ToInt64Microseconds(took)));
}

void DurationCount::Fill(v1::Durations* to) const {
  to->set_count(count_);
  to->set_total_us(total_us_);
  to->mutable_histogram()->Assign(histogram_.begin(), histogram_.end());
}

}  // namespace paramd
