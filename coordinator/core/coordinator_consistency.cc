// The coordinator and how far workers may be apart: clocks.
#include <algorithm>

#include "coordinator/core/dispatcher.h"

namespace paramd {

uint64_t Dispatcher::HighestClock() const {
  uint64_t highest = highest_clock_;
  for (const auto& [index, worker] : workers_) {
    highest = std::max(highest, worker.clock());
  }
  return highest;
}

// At its own minimum a joiner would be waited for until it had made up all that
// was done before it came.
uint64_t Dispatcher::StartClock(Time now) const {
  bool any = false;
  uint64_t lowest = 0;
  for (const auto& [index, worker] : workers_) {
    if (!job_.IsLive(worker, now) || worker.last.no_input()) continue;
    lowest = any ? std::min(lowest, worker.clock()) : worker.clock();
    any = true;
  }
  return any ? lowest : HighestClock();
}

// How far they came without a bound is nobody's backlog.
void Dispatcher::RaiseStartClocks() {
  const uint64_t highest = HighestClock();
  for (auto& [index, worker] : workers_) {
    worker.start_clock += highest - worker.clock();
  }
  configuration_.SetWorkers(workers_);
}

}  // namespace paramd
