#ifndef PARAMD_COMPUTE_QUANTIZED_QUANTIZED_NETWORK_H_
#define PARAMD_COMPUTE_QUANTIZED_QUANTIZED_NETWORK_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "checkpoint/quantization.h"
#include "compute/model/network_plan.h"
#include "compute/model/trained_model.h"
#include "compute/quantized/integer_kernels.h"
#include "compute/quantized/quantized_products.h"
#include "input/batch.h"
#include "proto/paramd/v1/model.pb.h"

namespace paramd {

// Replaces the layers of a plan that are quantised by what computes them of
// integers. The plan's variables stay, and weights are handed in as ever: what
// they are for those layers is in `tensors`, but for their biases, which are
// taken out of `weights` now. INVALID_ARGUMENT, naming the layer, if the
// quantisation is of another network, DATA_LOSS if a tensor is of another
// shape.
absl::Status UseIntegers(const Quantization& quantization,
                         const IntegerTensors& tensors, WeightSpans weights,
                         NetworkPlan* plan);

// The job's network with the weights of the quantised checkpoint in
// `directory`, which are `weights` as ReadWeights gives them, for evaluation
// and prediction on the processor. The errors of PlanNetwork, of
// ReadQuantization and of UseIntegers. Of halves it is an ordinary one.
absl::StatusOr<std::unique_ptr<TrainedModel>> OpenQuantized(
    const v1::ModelConfig& model, const InputSpec& input,
    const std::string& directory, WeightSpans weights,
    IntegerKernels::Use use = IntegerKernels::Use::kWhatIsRight);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_QUANTIZED_QUANTIZED_NETWORK_H_
