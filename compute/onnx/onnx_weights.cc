#include "compute/onnx/onnx_weights.h"

#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

Dims ShapeOf(const v1::Variable& variable) {
  return {variable.shape().begin(), variable.shape().end()};
}

}  // namespace

std::string OnnxWeights::Add(const std::string& name, const Dims& dims,
                             absl::Span<const float> values) {
  if (matrices_ == NumberFormat::kFp32 || dims.size() < 2) {
    return graph_.AddFloats(name, dims, values);
  }
  std::string bytes(values.size() * BytesOf(matrices_), '\0');
  EncodeNumbers(matrices_, values.data(), values.size(),
                reinterpret_cast<std::byte*>(bytes.data()));
  const std::string stored = graph_.AddConstant(
      name,
      matrices_ == NumberFormat::kFp16 ? onnx::TensorProto::FLOAT16
                                       : onnx::TensorProto::BFLOAT16,
      dims, bytes);
  return graph_.Add("Cast", {stored},
                    {{"to", int64_t{onnx::TensorProto::FLOAT}}});
}

Dims OnnxWeights::DimsOf(size_t first_variable, size_t which) const {
  return ShapeOf(plan_.variables[plan_.shared[first_variable + which]]);
}

std::string OnnxWeights::Of(size_t first_variable, size_t which) {
  const size_t variable = plan_.shared[first_variable + which];
  std::string& made = made_[variable];
  if (made.empty()) {
    made = Add(plan_.variables[variable].name(), DimsOf(first_variable, which),
               weights_[variable]);
  }
  return made;
}

std::string OnnxWeights::KernelOf(size_t first_variable) {
  const size_t variable = plan_.shared[first_variable];
  std::string& made = made_[variable];
  if (made.empty()) {
    const Dims dims = DimsOf(first_variable, 0);
    made = Add(plan_.variables[variable].name(),
               {dims[3], dims[2], dims[0], dims[1]},
               OutputsFirst<float>(weights_[variable], dims));
  }
  return made;
}

}  // namespace paramd
