#ifndef PARAMD_WORKER_READY_GRADIENTS_H_
#define PARAMD_WORKER_READY_GRADIENTS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/optional.h"

#include "base/mutex.h"
#include "net/runtime.h"
#include "tensor/buffer.h"

namespace paramd {

// Gradients of the layers that are computed, on their way from the computing
// thread to the worker's core, while the layers before them are still computed.
//
// Invariant: each Take is answered once: with what is ready and was not taken,
// as soon as that is kAtOnceBytes, or with nothing when the computation has
// ended. Nothing of one computation is taken in the next.
//
// Thread-safe: Begin and Take on the loop thread, the others on the computing
// one. At most one Take is open: a second one answers the first with nothing.
class ReadyGradients {
 public:
  // Less is not worth a message of its own.
  static constexpr size_t kAtOnceBytes = size_t{1} << 20;

  void Begin() ABSL_LOCKS_EXCLUDED(mutex_);
  // What each Take is told from now on: examples that the input left out.
  void SetLeftOut(uint64_t examples) ABSL_LOCKS_EXCLUDED(mutex_);
  void Add(uint32_t variable, Buffer gradient) ABSL_LOCKS_EXCLUDED(mutex_);
  void End() ABSL_LOCKS_EXCLUDED(mutex_);
  // `done` gets a TakeGradientsResult.
  void Take(Runtime::IoDone done) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Ready {
    std::vector<std::pair<uint32_t, Buffer>> gradients;
    uint64_t left_out = 0;
  };

  // What is ready, which then is taken.
  Ready TakeReadyLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void Answer(absl::optional<Runtime::IoDone> done, Ready ready);

  Mutex mutex_;
  bool computing_ ABSL_GUARDED_BY(mutex_) = false;
  Ready ready_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::optional<Runtime::IoDone> taker_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paramd

#endif  // PARAMD_WORKER_READY_GRADIENTS_H_
