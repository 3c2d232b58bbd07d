#ifndef PARAMD_INPUT_THREAD_TUNER_H_
#define PARAMD_INPUT_THREAD_TUNER_H_

#include <cstdint>

namespace paramd {

// How many threads make batches, found by hill climbing on their measured rate:
// while whoever takes batches has to wait, the number is doubled for as long as
// the rate rises by a twentieth; the best so far is kept for a while, and tried
// to be beaten again. Nothing is changed while nobody waits.
//
// Not thread-safe.
class ThreadTuner {
 public:
  // Windows for which the best number is kept.
  static constexpr uint32_t kKeep = 5;

  // REQUIRES: most > 0.
  explicit ThreadTuner(uint32_t most) : most_(most) {}

  uint32_t threads() const { return threads_; }

  // What was measured with this number of threads over a window: what was made
  // a second, and whether it was waited for.
  void Observe(double rate, bool waited);

 private:
  const uint32_t most_;
  uint32_t threads_ = 1;
  uint32_t best_ = 0;  // 0: none is known.
  double best_rate_ = 0;
  uint32_t keep_ = 0;  // Windows left.
};

}  // namespace paramd

#endif  // PARAMD_INPUT_THREAD_TUNER_H_
