#ifndef PARAMD_TESTS_RESIDENT_EMULATED_LOOPS_H_
#define PARAMD_TESTS_RESIDENT_EMULATED_LOOPS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "compute/device/testing/emulated_accelerator.h"
#include "compute/device/testing/emulated_unified_memory.h"
#include "server/core/optimizers/loop_device.h"
#include "tensor/buffer_arena.h"

namespace paramd {

// The LoopDevice of an emulated accelerator: each call is a piece of work of a
// stream that dawdles, done as a GPU's threads do it, element by element, and
// the caller waits for it.
class EmulatedLoops : public LoopDevice {
 public:
  struct Options {
    uint64_t bytes = uint64_t{64} << 20;
    EmulatedAccelerator::Options accelerator = {};
    bool waits = true;  // False: a mistake that is to be found.
  };

  explicit EmulatedLoops(const Options& options);

  const std::shared_ptr<EmulatedUnifiedMemory>& memory() const {
    return memory_;
  }
  // What streams do after this waits until the end of what is returned.
  std::shared_ptr<void> Hold();
  // Calls, and bytes of gradients that lay in host memory.
  uint64_t calls() const { return calls_; }
  uint64_t staged_bytes() const { return staged_bytes_; }
  // That the host said it would read.
  uint64_t fetched_bytes() const { return fetched_bytes_; }

  Buffer Allocate(size_t size) override;
  bool Has(absl::Span<const std::byte> bytes) const override;
  void Copy(absl::Span<const std::byte> from, std::byte* to) override;
  void Fetch(absl::Span<const std::byte> bytes) override;
  void Run(const LoopCall& call) override;
  bool AllFinite(const std::byte* gradient, size_t count) override;
  void AddSquares(const std::byte* gradient, size_t count, size_t first,
                  double* sums) override;

 private:
  using Written = std::vector<std::pair<void*, size_t>>;  // And how many bytes.

  // Has the stream do it; `written`: what it writes of the memory.
  void Do(const Written& written, std::function<void()> work)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The arrays, as the stream sees them.
  RuleArrays Inside(const RuleArrays& arrays) const;

  const bool waits_;
  const std::shared_ptr<EmulatedUnifiedMemory> memory_;
  const std::shared_ptr<BufferArena> arena_;
  Mutex mutex_;  // An accelerator is of one thread at a time.
  EmulatedAccelerator accelerator_ ABSL_GUARDED_BY(mutex_);
  const EmulatedAccelerator::Stream stream_;
  const EmulatedAccelerator::Event done_;
  std::atomic<uint64_t> calls_{0};
  std::atomic<uint64_t> staged_bytes_{0};
  std::atomic<uint64_t> fetched_bytes_{0};
};

}  // namespace paramd

#endif  // PARAMD_TESTS_RESIDENT_EMULATED_LOOPS_H_
