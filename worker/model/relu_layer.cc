#include "worker/model/relu_layer.h"

#include "worker/device/elementwise.h"

namespace paramd {
namespace {

absl::Span<const float> Values(ConstMatrix matrix) {
  return {matrix.data, matrix.rows * matrix.columns};
}

absl::Span<float> Values(const Matrix& matrix) {
  return {matrix.data, matrix.rows * matrix.columns};
}

}  // namespace

void ReluLayer::Forward(WeightSpans, ConstMatrix input, Matrix output) const {
  Relu(Values(input), Values(output));
}

void ReluLayer::Backward(const BackwardPass& pass) const {
  if (pass.input_gradient.data == nullptr) return;
  ReluBackward(Values(pass.output), Values(pass.output_gradient),
               Values(pass.input_gradient));
}

}  // namespace paramd
