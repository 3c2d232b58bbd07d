#ifndef PARAMD_WORKER_MODEL_LAYER_H_
#define PARAMD_WORKER_MODEL_LAYER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "proto/paramd/v1/types.pb.h"
#include "worker/device/matrix.h"

namespace paramd {

// Values of variables that lie elsewhere, one span per variable.
using WeightSpans = absl::Span<const absl::Span<const float>>;
using GradientSpans = absl::Span<const absl::Span<float>>;

// One step of a network: rows of input values (one row per example) to rows of
// output values. Has no weights and no memory of what passed: both are handed
// in. Immutable, hence thread-safe.
class Layer {
 public:
  // What Backward reads and writes. `input` and `output` are those of Forward.
  struct BackwardPass {
    WeightSpans weights;
    ConstMatrix input;
    ConstMatrix output;
    // Of the loss, by the output.
    ConstMatrix output_gradient;
    // Overwritten: of the loss, by the variables.
    GradientSpans gradients;
    // Overwritten: of the loss, by the input. Null data: nobody wants it.
    Matrix input_gradient;
  };

  virtual ~Layer() = default;

  // Variables of this layer, in the order of the weights it wants.
  virtual const std::vector<v1::Variable>& variables() const = 0;

  // Values in one row of output.
  virtual size_t output_width() const = 0;

  // Both overwrite what they compute. REQUIRES: sizes fit, and nothing written
  // overlaps anything read.
  virtual void Forward(WeightSpans weights, ConstMatrix input,
                       Matrix output) const = 0;
  virtual void Backward(const BackwardPass& pass) const = 0;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_MODEL_LAYER_H_
