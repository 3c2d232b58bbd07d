#ifndef PARAMD_COMPUTE_DEVICE_ELEMENTWISE_H_
#define PARAMD_COMPUTE_DEVICE_ELEMENTWISE_H_

#include "absl/types/span.h"

#include "compute/device/matrix.h"

namespace paramd {

// Plain loops over somebody else's floats, thread-safe. REQUIRES: the sizes of
// the arguments fit.

// Adds bias[j] to every row's element j.
void AddBias(absl::Span<const float> bias, Matrix matrix);

// out[j] = the sum over rows, from the first to the last, of element j.
void SumRows(ConstMatrix matrix, absl::Span<float> out);

// out = in where in is not negative, else 0. NaN stays NaN, so a broken input
// reaches the loss, where it is noticed. `out` may be `in`.
void Relu(absl::Span<const float> in, absl::Span<float> out);

// in_gradient = out_gradient where out is not zero (out: what Relu gave), else
// 0. `in_gradient` may be `out_gradient`.
void ReluBackward(absl::Span<const float> out,
                  absl::Span<const float> out_gradient,
                  absl::Span<float> in_gradient);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_ELEMENTWISE_H_
