#ifndef PARAMD_TESTS_SIM_FINE_CUT_H_
#define PARAMD_TESTS_SIM_FINE_CUT_H_

#include <utility>

#include "tensor/shape.h"

namespace paramd {

// While it lives, variables are cut into blocks and slices of other sizes than
// in production, so that many of them cost little.
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
