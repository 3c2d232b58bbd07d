#ifndef PARAMD_WORKER_MODEL_SOFTMAX_CROSS_ENTROPY_H_
#define PARAMD_WORKER_MODEL_SOFTMAX_CROSS_ENTROPY_H_

#include <cstdint>

#include "absl/types/span.h"

#include "worker/device/matrix.h"

namespace paramd {

// What a loss says about the examples of a batch. Sums, so that results of
// batches and workers are reduced by adding them.
struct BatchResult {
  double loss_sum = 0;
  // Examples whose largest output is that of their label (of equal ones, the
  // first counts).
  uint64_t correct = 0;
  uint64_t examples = 0;

  BatchResult& operator+=(const BatchResult& other);
  double mean_loss() const;  // 0 if there are no examples.
  double accuracy() const;   // 0 if there are no examples.
};

// Of each row z and its label l: -log(softmax(z)[l]), computed from z less its
// maximum, so it overflows for no finite z. An output that is not finite makes
// the sum of the losses not finite. If `gradient` has data it is overwritten
// with (softmax(z) - one at l) * scale.
// REQUIRES: one label per row, each below the number of columns; `gradient` has
// the shape of `outputs` or null data.
BatchResult SoftmaxCrossEntropy(ConstMatrix outputs,
                                absl::Span<const uint32_t> labels, float scale,
                                Matrix gradient);

}  // namespace paramd

#endif  // PARAMD_WORKER_MODEL_SOFTMAX_CROSS_ENTROPY_H_
