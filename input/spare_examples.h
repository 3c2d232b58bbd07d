#ifndef PARAMD_INPUT_SPARE_EXAMPLES_H_
#define PARAMD_INPUT_SPARE_EXAMPLES_H_

#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "base/mutex.h"
#include "input/example.h"

namespace paramd {

// Examples whose memory is used again, each by one thread at a time: as many as
// there were threads at once. Thread-safe.
class SpareExamples {
 public:
  Example Take() {
    MutexLock lock(&mutex_);
    if (spare_.empty()) return {};
    Example example = std::move(spare_.back());
    spare_.pop_back();
    return example;
  }
  void GiveBack(Example example) {
    MutexLock lock(&mutex_);
    spare_.push_back(std::move(example));
  }

 private:
  Mutex mutex_;
  std::vector<Example> spare_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paramd

#endif  // PARAMD_INPUT_SPARE_EXAMPLES_H_
