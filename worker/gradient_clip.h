#ifndef PARAMD_WORKER_GRADIENT_CLIP_H_
#define PARAMD_WORKER_GRADIENT_CLIP_H_

#include <vector>

#include "absl/types/span.h"

#include "compute/model/trained_model.h"
#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// Clips by the norm of all gradients together, as PyTorch's clip_grad_norm_:
// with optimizer.clip_global_norm c, all are multiplied by c / (norm + 1e-6) if
// that is below 1.
//
// What does not learn counts as little as it does there: neither updates of
// untrained variables, which stay as they are, nor gradients of variables whose
// rate factor is 0. Sums are made in one order, so equal gradients stay equal.
//
// Thread-safe: immutable.
class GradientClip {
 public:
  GradientClip(const v1::OptimizerConfig& config,
               absl::Span<const v1::Variable> variables);

  // Whether the job wants it. Then no gradient is final before Apply.
  bool clips() const { return most_ > 0; }

  // Clips as if `gradients`, by variable, were these times `times`. Nothing if
  // the job doesn't want it, or if a number is not finite: whoever takes the
  // gradients sees that.
  void Apply(GradientSpans gradients, double times = 1) const;

 private:
  const double most_;          // 0: whatever they are.
  std::vector<bool> counted_;  // By variable.
};

}  // namespace paramd

#endif  // PARAMD_WORKER_GRADIENT_CLIP_H_
