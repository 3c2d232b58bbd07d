#include "compute/model/layer.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace paramd {

namespace {

void Initialise(float low, float high, v1::Initializer* initializer) {
  initializer->set_kind(low == 0 && high == 0 ? v1::Initializer::ZEROS
                                              : v1::Initializer::UNIFORM);
  initializer->set_low(low);
  initializer->set_high(high);
}

}  // namespace

v1::Variable& Layer::AddVariable(const std::string& part, const Dims& shape,
                                 float low, float high) {
  v1::Variable& variable = variables_.emplace_back();
  variable.set_name(absl::StrCat(name_, "/", part));
  variable.set_dtype(v1::FLOAT32);
  for (const uint64_t dimension : shape) variable.add_shape(dimension);
  Initialise(low, high, variable.mutable_initializer());
  return variable;
}

void Layer::AddKernel(const std::string& part, const Dims& shape,
                      uint64_t inputs, uint64_t outputs) {
  const float limit = static_cast<float>(
      std::sqrt(6.0 / static_cast<double>(inputs + outputs)));
  AddVariable(part, shape, -limit, limit);
  kernels_.push_back({variables_.size() - 1, inputs, outputs, false});
}

void Layer::AddBias(const std::string& part, uint64_t outputs,
                    uint64_t inputs) {
  AddVariable(part, {outputs}, 0, 0);
  kernels_.push_back({variables_.size() - 1, inputs, outputs, true});
}

void Layer::InitialiseKernels(
    absl::FunctionRef<Limits(uint64_t inputs, uint64_t outputs)> limits) {
  for (const Kernel& kernel : kernels_) {
    const Limits limit = limits(kernel.inputs, kernel.outputs);
    const auto high =
        static_cast<float>(kernel.is_bias ? limit.bias : limit.kernel);
    Initialise(high == 0 ? 0 : -high, high,
               variables_[kernel.variable].mutable_initializer());
  }
}

std::vector<Tensor> Layer::DeferredGradients(DType dtype,
                                             std::byte* deferred) const {
  Arena arena(deferred);
  std::vector<Tensor> gradients;
  for (const v1::Variable& variable : variables_) {
    gradients.push_back(arena.Take(
        WideOf(dtype), {variable.shape().begin(), variable.shape().end()}));
  }
  return gradients;
}

uint64_t Layer::DeferredBytes(uint64_t /*examples*/, DType dtype,
                              bool wanted) const {
  if (!wanted) return 0;
  uint64_t bytes = 0;
  for (const Tensor& gradient : DeferredGradients(dtype, nullptr)) {
    bytes += Aligned(gradient.size() * SizeOf(gradient.dtype));
  }
  return bytes;
}

void Layer::BackwardInput(const BackwardPass& pass) const {
  if (pass.input_gradient.data == nullptr) return;
  BackwardPass inner = pass;
  const std::vector<Tensor> gradients =
      DeferredGradients(pass.context->dtype, pass.deferred);
  inner.gradients = gradients;
  Backward(inner);
}

void Layer::BackwardVariables(const BackwardPass& pass) const {
  if (variables_.empty()) return;
  if (pass.input_gradient.data == nullptr) {
    Backward(pass);
    return;
  }
  const std::vector<Tensor> gradients =
      DeferredGradients(pass.context->dtype, pass.deferred);
  for (size_t i = 0; i < gradients.size(); ++i) {
    pass.context->device->Copy(gradients[i].data,
                               gradients[i].size() * SizeOf(gradients[i].dtype),
                               pass.gradients[i].data);
  }
}

void Layer::BackwardPart(Part part, const BackwardPass& pass) const {
  switch (part) {
    case Part::kWhole:
      return Backward(pass);
    case Part::kInput:
      return BackwardInput(pass);
    case Part::kVariables:
      return BackwardVariables(pass);
  }
}

void Layer::AddCost(int depth, std::vector<LayerCost>* costs) const {
  LayerCost cost;
  cost.name = name_;
  cost.output = output_;
  cost.depth = depth;
  for (const v1::Variable& variable : variables_) {
    uint64_t size = 1;
    for (const uint64_t dimension : variable.shape()) size *= dimension;
    cost.parameters += size;
  }
  if (!is_view()) {
    cost.flops = flops();
    cost.activation_bytes =
        output_size() * sizeof(float) + KeptBytes(1, DType::kFloat32);
  }
  costs->push_back(std::move(cost));
}

Dims Batched(uint64_t examples, const Dims& dims) {
  Dims batched = {examples};
  batched.insert(batched.end(), dims.begin(), dims.end());
  return batched;
}

Tensor Arena::Take(DType dtype, Dims dims) {
  std::byte* data = TakeBytes(SizeOf(dims) * SizeOf(dtype));
  return {data, dtype, std::move(dims)};
}

std::byte* Arena::TakeBytes(uint64_t bytes) {
  std::byte* data = memory_ == nullptr ? nullptr : memory_ + used_;
  used_ += Aligned(bytes);
  return data;
}

}  // namespace paramd
