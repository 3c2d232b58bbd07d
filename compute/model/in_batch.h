#ifndef PARAMD_COMPUTE_MODEL_IN_BATCH_H_
#define PARAMD_COMPUTE_MODEL_IN_BATCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "compute/device/device.h"
#include "tensor/tensor.h"

namespace paramd {

// The scores of a batch for the loss in_batch_softmax. Each example is a pair
// of vectors (q, v), of a user and of the item that the user chose, say; the
// items of the other examples are its negatives (Yi et al.,
// "Sampling-bias-corrected neural modeling", RecSys 2019):
//
//   s[i][j] = q[i] v[j] / temperature - log Q[j]
//
// Outputs are [examples, 2, width], scores [examples, examples]; all lie in the
// device's memory. RowLoss::Kind::kInBatchSoftmax is the loss of a row of them.

// RESOURCE_EXHAUSTED, with both sizes and the batch that would fit, if the
// scores of so many examples, and with `training` their derivatives, need more
// than `memory` bytes. 0: nobody knows how much there is.
absl::Status CheckScoresFit(uint64_t examples, bool training, uint64_t memory);

// Sets -log Q for each item, where Q is the probability that it is drawn into a
// batch, or a number in proportion to that. REQUIRES: each is above 0.
void FillCorrections(absl::Span<const float> probabilities,
                     std::vector<float>* corrections);

// `corrections`, [examples], float32 like the scores; null data: there are
// none. Outputs may be of two bytes a number where the device has such.
void ScoreBatch(const ConstTensor& outputs, double temperature,
                const ConstTensor& corrections, const Tensor& scores,
                Device* device);

// Turns the derivative of the loss by the scores into that by the outputs.
void ScoreBatchBackward(const ConstTensor& outputs, double temperature,
                        const ConstTensor& scores_gradient,
                        const Tensor& outputs_gradient, Device* device);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_IN_BATCH_H_
