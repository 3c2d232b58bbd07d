#include "base/clock.h"

#include <time.h>

namespace paramd {

Time MonotonicNow() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return Time::FromNanoseconds(int64_t{1000000000} * now.tv_sec + now.tv_nsec);
}

}  // namespace paramd
