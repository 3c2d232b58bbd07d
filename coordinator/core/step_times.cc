#include "coordinator/core/step_times.h"

#include <algorithm>

namespace paramd {

void StepTimes::Count(uint32_t worker, uint64_t pushes, Time now) {
  const auto [last, is_new] = counts_.try_emplace(worker, Last{pushes, now});
  if (is_new || pushes == last->second.pushes) return;
  if (pushes > last->second.pushes) {
    const auto steps = static_cast<int64_t>(pushes - last->second.pushes);
    longest_ =
        std::min(std::max(longest_, (now - last->second.at) / steps), kLongest);
  }
  last->second = {pushes, now};
}

}  // namespace paramd
