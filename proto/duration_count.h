#ifndef PARAMD_PROTO_DURATION_COUNT_H_
#define PARAMD_PROTO_DURATION_COUNT_H_

#include <array>
#include <cstdint>

#include "absl/time/time.h"

#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// Counts how long things took, in buckets that double from 100 µs to 52 s.
//
// Not thread-safe.
class DurationCount {
 public:
  static constexpr int kBuckets = 21;  // The last: longer.

  // Where bucket `i` ends, exclusive. REQUIRES: it is not the last.
  static absl::Duration EndOf(int bucket) {
    return absl::Microseconds(int64_t{100} << bucket);
  }

  void Add(absl::Duration took);

  uint64_t count() const { return count_; }
  // Replaces what is there.
  void Fill(v1::Durations* to) const;

 private:
  uint64_t count_ = 0;
  uint64_t total_us_ = 0;
  std::array<uint64_t, kBuckets> histogram_ = {};
};

}  // namespace paramd

#endif  // PARAMD_PROTO_DURATION_COUNT_H_
