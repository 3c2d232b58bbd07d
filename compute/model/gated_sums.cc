#include "compute/model/gated_sums.h"

#include <utility>

namespace paramd {

GatedSums::GatedSums(std::string name, uint64_t gates, uint64_t experts,
                     uint64_t values)
    : Layer(std::move(name), {experts * (gates + values)}, {gates, values}),
      gates_(gates),
      experts_(experts),
      values_(values) {}

uint64_t GatedSums::KeptBytes(uint64_t examples, DType dtype) const {
  return examples * gates_ * experts_ * SizeOf(dtype);
}

uint64_t GatedSums::ScratchBytes(uint64_t examples, DType dtype) const {
  return KeptBytes(examples, dtype);
}

Tensor GatedSums::SharesAt(const Context& context, std::byte* memory) const {
  return {memory, context.dtype, {context.examples * gates_, experts_}};
}

ConstTensor GatedSums::ExpertsOf(const ConstTensor& input) const {
  const uint64_t before = gates_ * experts_;
  return {
      static_cast<const std::byte*>(input.data) + before * SizeOf(input.dtype),
      input.dtype,
      {input.size() - before}};
}

Product::Strides GatedSums::OfExperts() const {
  return {.row = values_, .outer = input_size()};
}

Product::Strides GatedSums::OfShares() const {
  return {.row = experts_, .outer = gates_ * experts_};
}

Product::Strides GatedSums::OfSums() const {
  return {.row = values_, .outer = gates_ * values_};
}

void GatedSums::Forward(const Pass& pass) const {
  const Context& context = *pass.context;
  Device& device = *context.device;
  const Tensor shares = SharesAt(context, pass.kept);
  Tensor rows = shares;
  rows.dims = {context.examples, gates_ * experts_};
  device.CopyColumns(pass.input, 0, gates_ * experts_, rows, 0);
  device.Softmax(/*causal=*/false, shares, shares);
  device.Multiply({.m = gates_,
                   .n = values_,
                   .k = experts_,
                   .outer = context.examples,
                   .a = OfShares(),
                   .b = OfExperts(),
                   .c = OfSums()},
                  shares, ExpertsOf(pass.input), pass.output);
}

void GatedSums::Backward(const BackwardPass& pass) const {
  if (pass.input_gradient.data == nullptr) return;
  const Context& context = *pass.context;
  Device& device = *context.device;
  const ConstTensor shares = SharesAt(context, pass.kept);
  const Tensor by_shares = SharesAt(context, pass.scratch);
  device.Multiply({.m = gates_,
                   .n = experts_,
                   .k = values_,
                   .transpose_b = true,
                   .outer = context.examples,
                   .a = OfSums(),
                   .b = OfExperts(),
                   .c = OfShares()},
                  pass.output_gradient, ExpertsOf(pass.input), by_shares);
  device.SoftmaxBackward(shares, by_shares, by_shares);
  Tensor rows = by_shares;
  rows.dims = {context.examples, gates_ * experts_};
  device.CopyColumns(rows, 0, gates_ * experts_, pass.input_gradient, 0);
  Tensor by_experts = pass.input_gradient;
  const uint64_t before = gates_ * experts_;
  by_experts.data = static_cast<std::byte*>(by_experts.data) +
                    before * SizeOf(by_experts.dtype);
  by_experts.dims = {pass.input_gradient.size() - before};
  device.Multiply({.m = experts_,
                   .n = values_,
                   .k = gates_,
                   .transpose_a = true,
                   .outer = context.examples,
                   .a = OfShares(),
                   .b = OfSums(),
                   .c = OfExperts()},
                  shares, pass.output_gradient, by_experts);
}

uint64_t GatedSums::flops() const {
  return 2 * gates_ * experts_ * values_ + 4 * gates_ * experts_;
}

}  // namespace paramd
