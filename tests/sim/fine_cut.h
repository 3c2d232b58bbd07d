#ifndef PARAMD_TESTS_SIM_FINE_CUT_H_
#define PARAMD_TESTS_SIM_FINE_CUT_H_

#include <cstdint>
#include <utility>

#include "base/random.h"
#include "tensor/shape.h"

namespace paramd {

// Blocks of 8 to 64 elements, two to a slice.
inline Cut DrawCut(uint64_t seed) {
  const uint64_t elements = uint64_t{8} << RandomStream(seed).Below(4);
  return {.block_elements = elements,
          .slice_bytes = 2 * elements * sizeof(float)};
}

// While it lives, variables are cut into blocks and slices of other sizes than
// in production, so that many of them cost little: with blocks of 262,144
// elements a thousand seeds of pushes of a dozen blocks would take a day. All
// other code reads the sizes as if they were constants.
//
// Not thread-safe: no core may run in another thread.
class FineCut {
 public:
  explicit FineCut(const Cut& cut)
      : before_(std::exchange(internal::cut, cut)) {}
  ~FineCut() { internal::cut = before_; }
  FineCut(const FineCut&) = delete;
  FineCut& operator=(const FineCut&) = delete;

 private:
  const Cut before_;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_FINE_CUT_H_
