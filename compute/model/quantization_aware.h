#ifndef PARAMD_COMPUTE_MODEL_QUANTIZATION_AWARE_H_
#define PARAMD_COMPUTE_MODEL_QUANTIZATION_AWARE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

#include "compute/model/network_plan.h"
#include "compute/model/trained_model.h"
#include "compute/model/transformed_layer.h"
#include "compute/quantized/affine.h"
#include "proto/paramd/v1/model.pb.h"

namespace paramd {

// A layer computes with its kernel and its input as integers will stand for
// them (FakeQuantizeWeights, FakeQuantizeValues), and gradients pass straight
// through the rounding. A kernel's ranges are those of the weights, one for
// each output channel: so a batch norm behind the layer, whose factor of a
// channel scales weights and their range alike, is folded into the same
// integers (Jacob et al., CVPR 2018, section 3.2), and has the statistics of
// what the layer gives with them.
//
// The variable <name>/input_range has four numbers. The first three are moving
// averages, which begin with 0, of the least value of the input, of the
// greatest, and of 1: divided by the third (as Adam's moments are corrected,
// Kingma and Ba, ICLR 2015, section 3) the first two are the range. So it is
// that of the first batch after one step, and in mode async the ends and what
// they are divided by err together. The fourth rises from 0 to 1 in begin_step
// steps, until which nothing is rounded. All four move as the running
// statistics of a batch norm do (BatchNormLayer), by the mean over the
// replicas.
//
// Computes where the device's memory is the host's, in float32.
class QuantizationAware : public LayerTransform {
 public:
  explicit QuantizationAware(const v1::ModelConfig::QuantizationAware& config);

  std::vector<Variable> variables() const override;
  ConstTensor Kernel(const Use& use, const ConstTensor& kernel,
                     const Tensor& memory) const override;
  ConstTensor Input(const Use& use, const ConstTensor& input,
                    const Tensor& memory) const override;
  void InputGradient(const Use& use, const ConstTensor& input,
                     const Tensor& gradient) const override;
  void Update(const Use& use, const ConstTensor& input,
              absl::Span<const Tensor> updates) const override;

  // What the variable says of how the input is made integers of; none: nothing
  // is rounded yet.
  absl::optional<Affine> InputOf(absl::Span<const float> range) const;

 private:
  bool HasBegun(absl::Span<const float> range) const;

  const int most_;  // The largest integer of a weight.
  const double momentum_;
  const uint64_t begin_step_;
};

// The largest integer of a weight of so many bits.
constexpr int MostOfBits(uint32_t bits) { return (1 << (bits - 1)) - 1; }

// Whether another layer of the plan has a variable of this one, whose first
// variable has the place `first` in the plan's `shared`.
bool SharesVariables(const NetworkPlan& plan, const Layer& layer, size_t first);

// Why a layer of a plan, at any depth, whose first variable has the place
// `first` in the plan's `shared`, can't be computed of integers; empty: it can.
// Those of `static_ranges`, or of each example's own. REQUIRES: it holds no
// layers.
std::string WhyInFloat(const NetworkPlan& plan, const Layer& layer,
                       size_t first, bool static_ranges);

// The dense layers and convolutions of the plan's own sequence that can be
// computed of integers with static ranges become TransformedLayers. Those that
// layers hold, and attention, stay as they are: they would have variables that
// runs of before they could be quantised do not have. INVALID_ARGUMENT, a
// sentence, if there is none, or the plan has a table whose rows have keys,
// which no quantised checkpoint can hold. REQUIRES: the plan's variables are
// known; they are to be found anew.
absl::Status MakeQuantizationAware(
    const v1::ModelConfig::QuantizationAware& config, NetworkPlan* plan);

// Whether layers of the plan are transformed.
bool HasTransforms(const NetworkPlan& plan);

// Gives a plan the layers as they are without. Its variables stay, those of
// the transforms too, which no layer reads then.
void RemoveTransforms(NetworkPlan* plan);

// Of each layer of the plan, the range of its input that training has learned;
// none: the layer is in float. INVALID_ARGUMENT, naming the layer, if it has
// learned none yet.
absl::StatusOr<std::vector<absl::optional<Affine>>> LearnedInputs(
    const NetworkPlan& plan, WeightSpans weights);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_QUANTIZATION_AWARE_H_
