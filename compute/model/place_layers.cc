#include "compute/model/place_layers.h"

#include <cmath>

#include "compute/model/interaction_layers.h"

namespace paramd {
namespace {

// Values of an example in the first dimension's places.
uint64_t PerPlace(const Dims& dims) { return SizeOf(dims) / dims[0]; }

Dims WithFirst(Dims dims, uint64_t first) {
  dims[0] = first;
  return dims;
}

Tensor As(Tensor tensor, Dims dims) {
  tensor.dims = std::move(dims);
  return tensor;
}

// After the first `values`.
Tensor Behind(const Tensor& tensor, uint64_t values) {
  return {static_cast<std::byte*>(tensor.data) + values * SizeOf(tensor.dtype),
          tensor.dtype,
          {tensor.size() - values}};
}

ConstTensor Behind(const ConstTensor& tensor, uint64_t values) {
  return {static_cast<const std::byte*>(tensor.data) +
              values * SizeOf(tensor.dtype),
          tensor.dtype,
          {tensor.size() - values}};
}

}  // namespace

Select::Select(std::string name, const Dims& input, uint64_t begin,
               uint64_t count, bool of_integers)
    : Layer(std::move(name), input, WithFirst(input, count)),
      first_(begin * PerPlace(input)),
      of_integers_(of_integers) {}

void Select::Forward(const Pass& pass) const {
  pass.context->device->CopyColumns(pass.input, first_, output_size(),
                                    pass.output, 0);
}

void Select::Backward(const BackwardPass& pass) const {
  if (pass.input_gradient.data == nullptr) return;
  Device& device = *pass.context->device;
  // Over no rows: zeros.
  device.SumRows({nullptr, pass.context->dtype, {0}},
                 As(pass.input_gradient, {pass.input.size()}));
  device.CopyColumns(pass.output_gradient, 0, output_size(),
                     pass.input_gradient, first_);
}

void BagPool::Forward(const Pass& pass) const {
  pass.context->device->PoolBag(kind_, pass.input, pass.output);
}

void BagPool::Backward(const BackwardPass& pass) const {
  if (pass.input_gradient.data == nullptr) return;
  pass.context->device->PoolBagBackward(kind_, pass.input, pass.output,
                                        pass.output_gradient,
                                        pass.input_gradient);
}

AttentionPool::AttentionPool(std::string name, const Dims& input,
                             uint64_t units)
    : Layer(std::move(name), input, {2, input[1]}),
      keys_(input[0] - 1),
      width_(input[1]),
      units_(units) {
  AddKernel("hidden_kernel", {4 * width_, units_}, 4 * width_, units_);
  AddBias("hidden_bias", units_, 4 * width_);
  AddKernel("kernel", {units_, 1}, units_, 1);
  AddBias("bias", 1, units_);
}

AttentionPool::Kept AttentionPool::KeptOf(const Context& context,
                                          Arena* arena) const {
  const uint64_t rows = context.examples * keys_;
  Kept kept;
  kept.features = arena->Take(context.dtype, {rows, 4 * width_});
  kept.hidden = arena->Take(context.dtype, {rows, units_});
  kept.active = arena->Take(context.dtype, {rows, units_});
  kept.weights = arena->Take(context.dtype, {rows, 1});
  return kept;
}

uint64_t AttentionPool::KeptBytes(uint64_t examples, DType dtype) const {
  Context context;
  context.examples = examples;
  context.dtype = dtype;
  Arena arena(nullptr);
  KeptOf(context, &arena);
  return arena.used();
}

// Of Backward, which needs more than Forward.
uint64_t AttentionPool::ScratchBytes(uint64_t examples, DType dtype) const {
  const uint64_t rows = examples * keys_;
  Arena arena(nullptr);
  arena.Take(dtype, {rows, units_});
  arena.Take(dtype, {rows, 1});
  arena.Take(dtype, {rows, 4 * width_});
  for (int i = 0; i < 4; ++i) arena.Take(dtype, {rows, width_});
  arena.Take(dtype, {examples, width_});
  return arena.used();
}

Product AttentionPool::PerExample(uint64_t m, uint64_t n, uint64_t k,
                                  const Context& context) const {
  return {.m = m, .n = n, .k = k, .outer = context.examples};
}

Product::Strides AttentionPool::OfKeys() const {
  return {.row = width_, .outer = (keys_ + 1) * width_};
}

void AttentionPool::FillFeatures(const Pass& pass, const Kept& kept) const {
  const Context& context = *pass.context;
  Device& device = *context.device;
  const Dims by_example = {context.examples, keys_ * width_};
  const Dims by_key = {context.examples * keys_, width_};
  Arena scratch(pass.scratch);
  const Tensor query = scratch.Take(context.dtype, by_example);
  const Tensor key = scratch.Take(context.dtype, by_example);
  const Tensor both = scratch.Take(context.dtype, by_key);
  for (uint64_t k = 0; k < keys_; ++k) {
    device.CopyColumns(pass.input, 0, width_, query, k * width_);
  }
  device.CopyColumns(pass.input, width_, keys_ * width_, key, 0);
  const auto fill = [&](uint64_t part, const Tensor& from) {
    device.CopyColumns(As(from, by_key), 0, width_, kept.features,
                       part * width_);
  };
  fill(0, query);
  fill(1, key);
  device.Add(query, -1, key, both);
  fill(2, both);
  MultiplyElements(&device, query, key, both);
  fill(3, both);
}

void AttentionPool::Forward(const Pass& pass) const {
  const Context& context = *pass.context;
  Device& device = *context.device;
  const uint64_t rows = context.examples * keys_;
  Arena arena(pass.kept);
  const Kept kept = KeptOf(context, &arena);
  FillFeatures(pass, kept);
  device.Multiply({.m = rows, .n = units_, .k = 4 * width_}, kept.features,
                  pass.weights[0], kept.hidden);
  device.AddRow(kept.hidden, pass.weights[1], kept.hidden);
  device.Apply(Elementwise::kSigmoid, kept.hidden, kept.active);
  device.Multiply({.m = rows, .n = 1, .k = units_}, kept.active,
                  pass.weights[2], kept.weights);
  device.AddRow(kept.weights, pass.weights[3], kept.weights);
  device.CopyColumns(pass.input, 0, width_, pass.output, 0);
  Product sum = PerExample(1, width_, keys_, context);
  sum.a = OfWeights();
  sum.b = OfKeys();
  sum.c = OfSum();
  device.Multiply(sum, kept.weights, Behind(pass.input, width_),
                  Behind(pass.output, width_));
}

void AttentionPool::Backward(const BackwardPass& pass) const {
  const Context& context = *pass.context;
  Device& device = *context.device;
  const uint64_t rows = context.examples * keys_;
  Arena arena(pass.kept);
  const Kept kept = KeptOf(context, &arena);
  Arena scratch(pass.scratch);
  const Tensor by_hidden = scratch.Take(context.dtype, {rows, units_});
  const Tensor by_weight = scratch.Take(context.dtype, {rows, 1});
  Product products = PerExample(keys_, 1, width_, context);
  products.a = OfKeys();
  products.b = OfSum();
  products.c = OfWeights();
  device.Multiply(products, Behind(pass.input, width_),
                  Behind(pass.output_gradient, width_), by_weight);
  device.Multiply({.m = units_, .n = 1, .k = rows, .transpose_a = true},
                  kept.active, by_weight, pass.gradients[2]);
  device.SumRows(by_weight, pass.gradients[3]);
  device.Multiply({.m = rows, .n = units_, .k = 1, .transpose_b = true},
                  by_weight, pass.weights[2], by_hidden);
  device.ApplyBackward(Elementwise::kSigmoid, kept.hidden, kept.active,
                       by_hidden, by_hidden);
  device.Multiply(
      {.m = 4 * width_, .n = units_, .k = rows, .transpose_a = true},
      kept.features, by_hidden, pass.gradients[0]);
  device.SumRows(by_hidden, pass.gradients[1]);
  if (pass.input_gradient.data == nullptr) return;
  InputBackward(pass, kept, by_hidden, &scratch);
}

// By way of the features q, k, q - k and q * k, and of the keys that are
// summed.
void AttentionPool::InputBackward(const BackwardPass& pass, const Kept& kept,
                                  const Tensor& by_hidden,
                                  Arena* scratch) const {
  const Context& context = *pass.context;
  Device& device = *context.device;
  const uint64_t rows = context.examples * keys_;
  const Dims by_key = {rows, width_};
  const Tensor features = scratch->Take(context.dtype, {rows, 4 * width_});
  const Tensor query = scratch->Take(context.dtype, by_key);
  const Tensor key = scratch->Take(context.dtype, by_key);
  const Tensor part = scratch->Take(context.dtype, by_key);
  const Tensor factor = scratch->Take(context.dtype, by_key);
  device.Multiply(
      {.m = rows, .n = 4 * width_, .k = units_, .transpose_b = true}, by_hidden,
      pass.weights[0], features);
  device.CopyColumns(features, 0, width_, query, 0);
  device.CopyColumns(features, width_, width_, key, 0);
  device.CopyColumns(features, 2 * width_, width_, part, 0);
  device.Add(query, 1, part, query);
  device.Add(key, -1, part, key);
  device.CopyColumns(features, 3 * width_, width_, part, 0);
  device.CopyColumns(kept.features, 0, width_, factor, 0);
  MultiplyElements(&device, factor, part, factor);
  device.Add(key, 1, factor, key);
  device.CopyColumns(kept.features, width_, width_, factor, 0);
  MultiplyElements(&device, factor, part, factor);
  device.Add(query, 1, factor, query);
  Product summed = PerExample(keys_, width_, 1, context);
  summed.a = OfWeights();
  summed.b = OfSum();
  summed.c = {.outer = keys_ * width_};
  device.Multiply(summed, kept.weights, Behind(pass.output_gradient, width_),
                  part);
  device.Add(key, 1, part, key);

  // The query is beside each key, and comes out as it is.
  const Tensor sum = scratch->Take(context.dtype, {context.examples, width_});
  const Tensor itself = As(part, sum.dims);
  device.PoolBag(Bag::kSum, As(query, {context.examples, keys_, width_}), sum);
  device.CopyColumns(pass.output_gradient, 0, width_, itself, 0);
  device.Add(sum, 1, itself, sum);
  device.CopyColumns(sum, 0, width_, pass.input_gradient, 0);
  device.CopyColumns(As(key, {context.examples, keys_ * width_}), 0,
                     keys_ * width_, pass.input_gradient, width_);
}

uint64_t AttentionPool::flops() const {
  const uint64_t network = 8 * width_ * units_ + 4 * units_;
  return keys_ * (network + 4 * width_);
}

}  // namespace paramd
