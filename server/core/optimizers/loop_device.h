#ifndef PARAMD_SERVER_CORE_OPTIMIZERS_LOOP_DEVICE_H_
#define PARAMD_SERVER_CORE_OPTIMIZERS_LOOP_DEVICE_H_

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "server/core/optimizers/loop.h"
#include "tensor/unified_memory.h"

namespace paramd {

// One loop over arrays, of whatever kind.
struct LoopCall {
  static constexpr size_t kMostConstants = 8;

  template <typename Loop>
  static LoopCall Of(const typename Loop::Constants& constants, bool adjusted,
                     const Adjustment& adjustment) {
    using Constants = typename Loop::Constants;
    static_assert(std::is_trivially_copyable<Constants>::value &&
                  sizeof(Constants) <= sizeof(LoopCall::constants));
    LoopCall call = {};
    call.loop = Loop::kId;
    call.adjusted = adjusted;
    call.adjustment = adjustment;
    std::memcpy(call.constants, &constants, sizeof(Constants));
    return call;
  }
  template <typename Loop>
  typename Loop::Constants ConstantsOf() const {
    typename Loop::Constants of_loop;
    std::memcpy(&of_loop, constants, sizeof(of_loop));
    return of_loop;
  }

  LoopId loop;
  bool adjusted;
  Adjustment adjustment;
  float constants[kMostConstants];
  const std::byte* gradient;
  size_t count;
  RuleArrays arrays;
};

// A device that runs the loops over arrays in its memory, with the bits of
// PortableKernels: the same operations on each element, none fused. What it was
// asked has ended when a call returns. A device that fails in the middle ends
// the process with 138: what it leaves is anything.
//
// Thread-safe.
class LoopDevice : public UnifiedMemory {
 public:
  // REQUIRES: the arrays lie there; the gradient may lie anywhere.
  virtual void Run(const LoopCall& call) = 0;
  // As OptimizerKernels have them, of a gradient that lies there.
  virtual bool AllFinite(const std::byte* gradient, size_t count) = 0;
  virtual void AddSquares(const std::byte* gradient, size_t count, size_t first,
                          double* sums) = 0;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_OPTIMIZERS_LOOP_DEVICE_H_
