#ifndef PARAMD_WORKER_MODEL_IN_BATCH_H_
#define PARAMD_WORKER_MODEL_IN_BATCH_H_

#include <vector>

#include "absl/types/span.h"

#include "worker/device/device.h"
#include "worker/device/tensor.h"

namespace paramd {

// The scores of a batch of pairs of vectors, (q, v) as of a user and an item
// that was chosen, of which everybody else's item is a negative of each (Yi et
// al., "Sampling-bias-corrected neural modeling", RecSys 2019):
//
//   s[i][j] = q[i] v[j] / temperature - log Q[j]
//
// Outputs are [examples, 2, width], scores [examples, examples]; all lie in the
// device's memory. What a loss makes of them is RowLoss::Kind::kInBatchSoftmax.

// -log Q, of items that are drawn into a batch with the probability Q, or with
// one in proportion to it. REQUIRES: each is above 0.
void FillCorrections(absl::Span<const float> probabilities,
                     std::vector<float>* corrections);

// `corrections`, [examples], float32 like the scores; null data: there are
// none. Outputs may be of two bytes a number where the device has such.
void ScoreBatch(const ConstTensor& outputs, double temperature,
                const ConstTensor& corrections, const Tensor& scores,
                Device* device);

// The derivative by the outputs, of that by the scores.
void ScoreBatchBackward(const ConstTensor& outputs, double temperature,
                        const ConstTensor& scores_gradient,
                        const Tensor& outputs_gradient, Device* device);

}  // namespace paramd

#endif  // PARAMD_WORKER_MODEL_IN_BATCH_H_
