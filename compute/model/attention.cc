#include "compute/model/attention.h"

#include <cmath>

namespace paramd {

Attention::Attention(std::string name, const Dims& dims, uint64_t heads,
                     bool causal)
    : Layer(std::move(name), dims, dims),
      places_(dims[0]),
      values_(dims[1]),
      heads_(heads),
      head_values_(dims[1] / heads),
      causal_(causal) {
  AddKernel("projection/kernel", {values_, 3 * values_}, values_, values_);
  AddVariable("projection/bias", {3 * values_}, 0, 0);
  AddKernel("output/kernel", {values_, values_}, values_, values_);
  AddVariable("output/bias", {values_}, 0, 0);
}

Attention::Tensors Attention::Lay(uint64_t examples, DType dtype,
                                  std::byte* memory) const {
  Arena arena(memory);
  Tensors tensors;
  tensors.projected = arena.Take(dtype, {examples, places_, 3 * values_});
  tensors.shares = arena.Take(dtype, {examples, heads_, places_, places_});
  tensors.mixed = arena.Take(dtype, {examples, places_, values_});
  tensors.bytes = arena.used();
  return tensors;
}

uint64_t Attention::KeptBytes(uint64_t examples, DType dtype) const {
  return Lay(examples, dtype, nullptr).bytes;
}

uint64_t Attention::ScratchBytes(uint64_t examples, DType dtype) const {
  return Lay(examples, dtype, nullptr).bytes;
}

Tensor Attention::WritableThird(const Tensor& projected, uint64_t third) const {
  const uint64_t offset = third * values_;
  return {static_cast<std::byte*>(projected.data) +
              offset * SizeOf(projected.dtype),
          projected.dtype,
          {projected.size() - offset}};
}

ConstTensor Attention::Third(const Tensor& projected, uint64_t third) const {
  return WritableThird(projected, third);
}

Product Attention::PerHead(uint64_t examples, uint64_t m, uint64_t n,
                           uint64_t k) const {
  return {.m = m, .n = n, .k = k, .outer = examples, .inner = heads_};
}

Product::Strides Attention::OfThird() const {
  return {.row = 3 * values_,
          .outer = places_ * 3 * values_,
          .inner = head_values_};
}

Product::Strides Attention::OfShares() const {
  return {.row = places_,
          .outer = heads_ * places_ * places_,
          .inner = places_ * places_};
}

Product::Strides Attention::OfMixed() const {
  return {.row = values_, .outer = places_ * values_, .inner = head_values_};
}

void Attention::Project(const Pass& pass, size_t kernel,
                        const ConstTensor& input, const Tensor& output) const {
  Device& device = *pass.context->device;
  const uint64_t outputs = kernel == kProjectionKernel ? 3 * values_ : values_;
  device.Multiply(
      {.m = pass.context->examples * places_, .n = outputs, .k = values_},
      input, pass.weights[kernel], output);
  device.AddRow(output, pass.weights[kernel + 1], output);
}

void Attention::Forward(const Pass& pass) const {
  const uint64_t examples = pass.context->examples;
  Device& device = *pass.context->device;
  const Tensors kept = Lay(examples, pass.context->dtype, pass.kept);
  Project(pass, kProjectionKernel, pass.input, kept.projected);

  Product scores = PerHead(examples, places_, places_, head_values_);
  scores.transpose_b = true;
  scores.scale = 1 / std::sqrt(static_cast<double>(head_values_));
  scores.a = scores.b = OfThird();
  scores.c = OfShares();
  device.Multiply(scores, Third(kept.projected, 0), Third(kept.projected, 1),
                  kept.shares);
  device.Softmax(causal_, kept.shares, kept.shares);

  Product mix = PerHead(examples, places_, head_values_, places_);
  mix.a = OfShares();
  mix.b = OfThird();
  mix.c = OfMixed();
  device.Multiply(mix, kept.shares, Third(kept.projected, 2), kept.mixed);
  Project(pass, kOutputKernel, kept.mixed, pass.output);
}

void Attention::Backward(const BackwardPass& pass) const {
  const Tensors gradient =
      Lay(pass.context->examples, pass.context->dtype, pass.scratch);
  BackwardThrough(pass, gradient.projected);
  BackwardVariablesFrom(pass, gradient.projected);
}

Tensor Attention::DeferredOf(const BackwardPass& pass) const {
  return {pass.deferred,
          pass.context->dtype,
          {pass.context->examples, places_, 3 * values_}};
}

uint64_t Attention::DeferredBytes(uint64_t examples, DType dtype,
                                  bool /*wanted*/) const {
  return examples * places_ * 3 * values_ * SizeOf(dtype);
}

void Attention::BackwardInput(const BackwardPass& pass) const {
  BackwardThrough(pass, DeferredOf(pass));
}

void Attention::BackwardVariables(const BackwardPass& pass) const {
  BackwardVariablesFrom(pass, DeferredOf(pass));
}

void Attention::BackwardVariablesFrom(const BackwardPass& pass,
                                      const Tensor& projected) const {
  const uint64_t examples = pass.context->examples;
  Device& device = *pass.context->device;
  const Tensors kept = Lay(examples, pass.context->dtype, pass.kept);
  const uint64_t rows = examples * places_;
  device.Multiply({.m = values_, .n = values_, .k = rows, .transpose_a = true},
                  kept.mixed, pass.output_gradient, pass.gradients[2]);
  device.SumRows(pass.output_gradient, pass.gradients[3]);
  device.Multiply(
      {.m = values_, .n = 3 * values_, .k = rows, .transpose_a = true},
      pass.input, projected, pass.gradients[0]);
  device.SumRows(projected, pass.gradients[1]);
}

void Attention::BackwardThrough(const BackwardPass& pass,
                                const Tensor& projected) const {
  const uint64_t examples = pass.context->examples;
  Device& device = *pass.context->device;
  const Tensors kept = Lay(examples, pass.context->dtype, pass.kept);
  const Tensors gradient = Lay(examples, pass.context->dtype, pass.scratch);
  const uint64_t rows = examples * places_;
  device.Multiply({.m = rows, .n = values_, .k = values_, .transpose_b = true},
                  pass.output_gradient, pass.weights[2], gradient.mixed);

  // By the shares, and by the values that they mix.
  Product by_shares = PerHead(examples, places_, places_, head_values_);
  by_shares.transpose_b = true;
  by_shares.a = OfMixed();
  by_shares.b = OfThird();
  by_shares.c = OfShares();
  device.Multiply(by_shares, gradient.mixed, Third(kept.projected, 2),
                  gradient.shares);
  Product by_values = PerHead(examples, places_, head_values_, places_);
  by_values.transpose_a = true;
  by_values.a = OfShares();
  by_values.b = OfMixed();
  by_values.c = OfThird();
  device.Multiply(by_values, kept.shares, gradient.mixed,
                  WritableThird(projected, 2));
  device.SoftmaxBackward(kept.shares, gradient.shares, gradient.shares);

  // By queries, and by keys.
  Product by_queries = PerHead(examples, places_, head_values_, places_);
  by_queries.scale = 1 / std::sqrt(static_cast<double>(head_values_));
  by_queries.a = OfShares();
  by_queries.b = by_queries.c = OfThird();
  device.Multiply(by_queries, gradient.shares, Third(kept.projected, 1),
                  WritableThird(projected, 0));
  Product by_keys = by_queries;
  by_keys.transpose_a = true;
  device.Multiply(by_keys, gradient.shares, Third(kept.projected, 0),
                  WritableThird(projected, 1));
  if (pass.input_gradient.data == nullptr) return;
  device.Multiply(
      {.m = rows, .n = values_, .k = 3 * values_, .transpose_b = true},
      projected, pass.weights[0], pass.input_gradient);
}

uint64_t Attention::flops() const {
  const uint64_t products = 4 * values_ * values_ + 2 * places_ * values_;
  return 2 * places_ * products + 4 * heads_ * places_ * places_;
}

}  // namespace paramd
