#include "compute/device/elementwise.h"

#include <algorithm>

#include "base/check.h"

namespace paramd {

void AddBias(absl::Span<const float> bias, Matrix matrix) {
  CHECK(bias.size() == matrix.columns, "there is one bias per column");
  for (size_t i = 0; i < matrix.rows; ++i) {
    float* row = matrix.data + i * matrix.columns;
    for (size_t j = 0; j < matrix.columns; ++j) row[j] += bias[j];
  }
}

void SumRows(ConstMatrix matrix, absl::Span<float> out) {
  CHECK(out.size() == matrix.columns, "there is one sum per column");
  std::fill(out.begin(), out.end(), 0.0f);
  for (size_t i = 0; i < matrix.rows; ++i) {
    const float* row = matrix.data + i * matrix.columns;
    for (size_t j = 0; j < matrix.columns; ++j) out[j] += row[j];
  }
}

void Relu(absl::Span<const float> in, absl::Span<float> out) {
  CHECK(in.size() == out.size(), "relu keeps the size");
  for (size_t i = 0; i < in.size(); ++i) out[i] = in[i] < 0 ? 0.0f : in[i];
}

void ReluBackward(absl::Span<const float> out,
                  absl::Span<const float> out_gradient,
                  absl::Span<float> in_gradient) {
  CHECK(out.size() == out_gradient.size() && out.size() == in_gradient.size(),
        "relu keeps the size");
  for (size_t i = 0; i < out.size(); ++i) {
    in_gradient[i] = out[i] == 0 ? 0.0f : out_gradient[i];
  }
}

}  // namespace paramd
