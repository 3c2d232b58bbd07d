#include "worker/model/dense.h"

#include <cmath>

#include "absl/strings/str_cat.h"

#include "worker/device/elementwise.h"

namespace paramd {

Dense::Dense(const std::string& name, size_t inputs, size_t units)
    : inputs_(inputs), units_(units), variables_(2) {
  v1::Variable& kernel = variables_[0];
  kernel.set_name(absl::StrCat(name, "/kernel"));
  kernel.set_dtype(v1::FLOAT32);
  kernel.add_shape(inputs);
  kernel.add_shape(units);
  const float limit = static_cast<float>(
      std::sqrt(6.0 / (static_cast<double>(inputs) + units)));
  kernel.mutable_initializer()->set_kind(v1::Initializer::UNIFORM);
  kernel.mutable_initializer()->set_low(-limit);
  kernel.mutable_initializer()->set_high(limit);

  v1::Variable& bias = variables_[1];
  bias.set_name(absl::StrCat(name, "/bias"));
  bias.set_dtype(v1::FLOAT32);
  bias.add_shape(units);
  bias.mutable_initializer()->set_kind(v1::Initializer::ZEROS);
}

void Dense::Forward(WeightSpans weights, ConstMatrix input,
                    Matrix output) const {
  Multiply(input, {weights[0].data(), inputs_, units_}, output);
  AddBias(weights[1], output);
}

void Dense::Backward(const BackwardPass& pass) const {
  MultiplyTransposedLeft(pass.input, pass.output_gradient,
                         {pass.gradients[0].data(), inputs_, units_});
  SumRows(pass.output_gradient, pass.gradients[1]);
  if (pass.input_gradient.data == nullptr) return;
  MultiplyTransposedRight(pass.output_gradient,
                          {pass.weights[0].data(), inputs_, units_},
                          pass.input_gradient);
}

}  // namespace paramd
