#ifndef PARAMD_BASE_TIME_H_
#define PARAMD_BASE_TIME_H_

#include <cstdint>
#include <limits>

#include "absl/time/time.h"

namespace paramd {

// A moment on a monotonic scale whose zero means nothing: what a core is told
// about time. It cannot be turned into a date; only differences have meaning.
class Time {
 public:
  constexpr Time() = default;
  static constexpr Time FromNanoseconds(int64_t ns) { return Time(ns); }
  // Later than every other moment.
  static constexpr Time Never() {
    return Time(std::numeric_limits<int64_t>::max());
  }

  constexpr int64_t nanoseconds() const { return ns_; }

  // Saturates at Never().
  Time operator+(absl::Duration d) const {
    const int64_t step = absl::ToInt64Nanoseconds(d);
    if (step > 0 && ns_ > std::numeric_limits<int64_t>::max() - step) {
      return Never();
    }
    return Time(ns_ + step);
  }
  absl::Duration operator-(Time other) const {
    return absl::Nanoseconds(ns_ - other.ns_);
  }
  constexpr bool operator==(const Time& other) const = default;
  constexpr auto operator<=>(const Time& other) const = default;

 private:
  explicit constexpr Time(int64_t ns) : ns_(ns) {}
  int64_t ns_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_BASE_TIME_H_
