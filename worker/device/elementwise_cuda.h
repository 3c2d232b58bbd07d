#ifndef PARAMD_WORKER_DEVICE_ELEMENTWISE_CUDA_H_
#define PARAMD_WORKER_DEVICE_ELEMENTWISE_CUDA_H_

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace paramd {

// The CUDA twins of the kernels in elementwise.h, bit for bit the same. They
// take host memory, copy there and back, and wait: proof of the path, not of
// speed. Thread-safe.

// OK if kernels can run here; UNIMPLEMENTED if this binary was built without
// CUDA; UNAVAILABLE, with the driver's words, if there is no GPU.
absl::Status CudaAvailable();

// See Relu and ReluBackward. Errors: those of CudaAvailable, and INTERNAL, with
// CUDA's words, if a call fails; the output is then unspecified.
// REQUIRES: the sizes fit.
absl::Status CudaRelu(absl::Span<const float> in, absl::Span<float> out);
absl::Status CudaReluBackward(absl::Span<const float> out,
                              absl::Span<const float> out_gradient,
                              absl::Span<float> in_gradient);

}  // namespace paramd

#endif  // PARAMD_WORKER_DEVICE_ELEMENTWISE_CUDA_H_
