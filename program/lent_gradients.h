#ifndef PARAMD_PROGRAM_LENT_GRADIENTS_H_
#define PARAMD_PROGRAM_LENT_GRADIENTS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

#include "tensor/buffer.h"

namespace paramd {

// Gradients that lie in the program's memory, until nobody reads them any more:
// they may be sent again and again before their push is acknowledged.
//
// Not thread-safe; the buffers may be dropped anywhere, also when this is gone.
class LentGradients {
 public:
  // A loan of this number, of nothing yet; the last one is gone on with. False
  // if it is that of an earlier loan that has not come back.
  bool Begin(uint64_t number);
  // These values, of the loan that was begun last, which stay as they are until
  // its number has come back: once all its buffers are dropped. REQUIRES: it
  // has not come back.
  Buffer Lend(absl::Span<const float> values);
  // Numbers that have come back, each once.
  std::vector<uint64_t> TakeReturned();
  // Waits for those that have not; true if all have within this time.
  bool AwaitAll(absl::Duration patience);

 private:
  struct Loan {
    uint64_t number = 0;
    // Buffers. A drop releases: whoever finds none sees every read as finished.
    std::atomic<uint64_t> held{0};
  };

  // Bound: pushes under way.
  std::vector<std::shared_ptr<Loan>> loans_;
};

}  // namespace paramd

#endif  // PARAMD_PROGRAM_LENT_GRADIENTS_H_
