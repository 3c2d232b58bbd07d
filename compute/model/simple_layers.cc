#include "compute/model/simple_layers.h"

#include "compute/model/drops.h"

namespace paramd {
namespace {

// What tables begin with, either side of 0.
constexpr float kTableLimit = 0.05f;

Dims WithLast(Dims dims, uint64_t last) {
  dims.back() = last;
  return dims;
}

Dims WithOneMore(Dims dims, uint64_t last) {
  dims.push_back(last);
  return dims;
}

}  // namespace

void ElementwiseLayer::Forward(const Pass& pass) const {
  pass.context->device->Apply(function_, pass.input, pass.output);
}

void ElementwiseLayer::Backward(const BackwardPass& pass) const {
  if (pass.input_gradient.data == nullptr) return;
  pass.context->device->ApplyBackward(function_, pass.input, pass.output,
                                      pass.output_gradient,
                                      pass.input_gradient);
}

Dense::Dense(std::string name, const Dims& input, uint64_t units)
    : Layer(std::move(name), input, WithLast(input, units)),
      inputs_(input.back()),
      units_(units) {
  AddKernel("kernel", {inputs_, units_}, inputs_, units_);
  AddBias("bias", units_, inputs_);
}

void Dense::Forward(const Pass& pass) const {
  Device& device = *pass.context->device;
  device.Multiply({.m = pass.input.size() / inputs_, .n = units_, .k = inputs_},
                  pass.input, pass.weights[0], pass.output);
  device.AddRow(pass.output, pass.weights[1], pass.output);
}

void Dense::Backward(const BackwardPass& pass) const {
  BackwardVariables(pass);
  BackwardInput(pass);
}

void Dense::BackwardVariables(const BackwardPass& pass) const {
  Device& device = *pass.context->device;
  const uint64_t rows = pass.input.size() / inputs_;
  device.Multiply({.m = inputs_, .n = units_, .k = rows, .transpose_a = true},
                  pass.input, pass.output_gradient, pass.gradients[0]);
  device.SumRows(pass.output_gradient, pass.gradients[1]);
}

void Dense::BackwardInput(const BackwardPass& pass) const {
  if (pass.input_gradient.data == nullptr) return;
  Device& device = *pass.context->device;
  const uint64_t rows = pass.input.size() / inputs_;
  device.Multiply({.m = rows, .n = inputs_, .k = units_, .transpose_b = true},
                  pass.output_gradient, pass.weights[0], pass.input_gradient);
}

Tensor Dropout::Factors(const Pass& pass) const {
  return {pass.kept, pass.context->dtype, pass.output.dims};
}

void Dropout::Forward(const Pass& pass) const {
  const Context& context = *pass.context;
  if (!context.training) {
    context.device->Copy(pass.input.data,
                         pass.input.size() * SizeOf(context.dtype),
                         pass.output.data);
    return;
  }
  DrawFactors(context, name(), rate_, output_size(), Factors(pass));
  context.device->ScaleRows(pass.input, Factors(pass), pass.output);
}

void Dropout::Backward(const BackwardPass& pass) const {
  if (pass.input_gradient.data == nullptr) return;
  pass.context->device->ScaleRows(pass.output_gradient, Factors(pass),
                                  pass.input_gradient);
}

Embedding::Embedding(std::string name, const Dims& input, const Table& table)
    : Layer(std::move(name), input, WithOneMore(input, table.width)),
      number_(table.number),
      padding_(table.padding) {
  v1::Variable& variable = AddVariable("table", {table.rows, table.width},
                                       -kTableLimit, kTableLimit);
  variable.set_sparse(table.sparse);
  if (!table.keyed) return;
  variable.set_keyed(true);
  variable.set_when_full(table.when_full);
  variable.set_admit_after(table.admit_after);
  variable.set_expire_after(table.expire_after);
  variable.set_memory_rows(table.memory_rows);
  if (table.row_format == v1::Variable::ROW_FORMAT_BF16) {
    variable.set_row_format(table.row_format);
  }
}

ConstTensor Embedding::IndicesOf(const Pass& pass) const {
  ConstTensor indices = pass.input;
  const Context& context = *pass.context;
  if (!context.starts.empty()) {
    indices.data = static_cast<const int32_t*>(indices.data) +
                   context.starts[number_] * context.examples;
  }
  return indices;
}

void Embedding::Forward(const Pass& pass) const {
  pass.context->device->Gather(pass.weights[0], IndicesOf(pass), pass.output);
}

void Embedding::Backward(const BackwardPass& pass) const {
  pass.context->device->ScatterAdd(IndicesOf(pass), pass.output_gradient,
                                   pass.gradients[0]);
}

PositionalEmbedding::PositionalEmbedding(std::string name, Dims dims)
    : Layer(std::move(name), dims, dims) {
  AddVariable("table", dims, -kTableLimit, kTableLimit);
}

void PositionalEmbedding::Forward(const Pass& pass) const {
  pass.context->device->AddRow(pass.input, pass.weights[0], pass.output);
}

void PositionalEmbedding::Backward(const BackwardPass& pass) const {
  BackwardVariables(pass);
  BackwardInput(pass);
}

void PositionalEmbedding::BackwardVariables(const BackwardPass& pass) const {
  pass.context->device->SumRows(pass.output_gradient, pass.gradients[0]);
}

void PositionalEmbedding::BackwardInput(const BackwardPass& pass) const {
  if (pass.input_gradient.data == nullptr) return;
  pass.context->device->Copy(
      pass.output_gradient.data,
      pass.output_gradient.size() * SizeOf(pass.context->dtype),
      pass.input_gradient.data);
}

}  // namespace paramd
