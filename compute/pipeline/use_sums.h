#ifndef PARAMD_COMPUTE_PIPELINE_USE_SUMS_H_
#define PARAMD_COMPUTE_PIPELINE_USE_SUMS_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"

namespace paramd {

// Gradients of variables that several layers may share. Each use of a variable
// has a sum over micro-batches of its own, as its uses may be on different
// stages; when all are complete they are added, the last use's first.
//
// Not thread-safe.
class UseSums {
 public:
  using Gradients = absl::Span<const absl::Span<float>>;

  // `variables`: of each use, which variable it is of (NetworkPlan::shared).
  explicit UseSums(std::vector<size_t> variables);

  // Where each use's sum goes: of the last use of a variable to its gradient,
  // of others to memory that stays until the next call.
  std::vector<absl::Span<float>> Place(Gradients gradients);
  // Adds what was placed elsewhere.
  void AddTo(Gradients gradients) const;

 private:
  std::vector<size_t> variables_;
  std::vector<bool> is_last_;
  std::vector<std::vector<float>> further_;  // Of uses but the last ones.
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_PIPELINE_USE_SUMS_H_
