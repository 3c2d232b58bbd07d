#include "input/thread_tuner.h"

#include <algorithm>

namespace paramd {
namespace {

constexpr double kWorthwhile = 1.05;

}  // namespace

void ThreadTuner::Observe(double rate, bool waited) {
  if (!waited) return;
  if (keep_ > 0) {
    if (--keep_ == 0) best_ = 0;  // What was measured is old.
    return;
  }
  if (best_ == 0 || rate > best_rate_ * kWorthwhile) {
    best_ = threads_;
    best_rate_ = rate;
    threads_ = std::min(most_, threads_ * 2);
  } else {
    threads_ = best_;
  }
  if (threads_ == best_) keep_ = kKeep;
}

}  // namespace paramd
