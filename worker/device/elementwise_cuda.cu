#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "worker/device/elementwise_cuda.h"

namespace paramd {
namespace {

constexpr int kThreads = 256;

__global__ void ReluKernel(const float* in, float* out, size_t size) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < size) out[i] = in[i] < 0 ? 0.0f : in[i];
}

__global__ void ReluBackwardKernel(const float* out, const float* out_gradient,
                                   float* in_gradient, size_t size) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < size) in_gradient[i] = out[i] == 0 ? 0.0f : out_gradient[i];
}

unsigned Blocks(size_t size) {
  return static_cast<unsigned>((size + kThreads - 1) / kThreads);
}

absl::Status ToStatus(cudaError_t error, absl::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(what, ": ", cudaGetErrorString(error)));
}

// Device memory of `size` floats; freed with the object.
class DeviceFloats {
 public:
  explicit DeviceFloats(size_t size)
      : size_(size),
        status_(
            ToStatus(cudaMalloc(&data_, size * sizeof(float)), "cudaMalloc")) {}
  ~DeviceFloats() { cudaFree(data_); }
  DeviceFloats(const DeviceFloats&) = delete;
  DeviceFloats& operator=(const DeviceFloats&) = delete;

  float* data() { return data_; }

  absl::Status CopyFrom(absl::Span<const float> values) {
    if (!status_.ok()) return status_;
    return ToStatus(cudaMemcpy(data_, values.data(), size_ * sizeof(float),
                               cudaMemcpyHostToDevice),
                    "copy to the device");
  }

  absl::Status CopyTo(absl::Span<float> values) {
    if (!status_.ok()) return status_;
    return ToStatus(cudaMemcpy(values.data(), data_, size_ * sizeof(float),
                               cudaMemcpyDeviceToHost),
                    "copy from the device");
  }

 private:
  const size_t size_;
  float* data_ = nullptr;
  const absl::Status status_;
};

}  // namespace

absl::Status CudaAvailable() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "no GPU is present: ",
      error == cudaSuccess ? "0 devices" : cudaGetErrorString(error)));
}

absl::Status CudaRelu(absl::Span<const float> in, absl::Span<float> out) {
  RETURN_IF_ERROR(CudaAvailable());
  if (in.empty()) return absl::OkStatus();
  DeviceFloats values(in.size());
  RETURN_IF_ERROR(values.CopyFrom(in));
  ReluKernel<<<Blocks(in.size()), kThreads>>>(values.data(), values.data(),
                                              in.size());
  RETURN_IF_ERROR(ToStatus(cudaGetLastError(), "relu"));
  return values.CopyTo(out);
}

absl::Status CudaReluBackward(absl::Span<const float> out,
                              absl::Span<const float> out_gradient,
                              absl::Span<float> in_gradient) {
  RETURN_IF_ERROR(CudaAvailable());
  if (out.empty()) return absl::OkStatus();
  DeviceFloats values(out.size());
  DeviceFloats gradient(out.size());
  RETURN_IF_ERROR(values.CopyFrom(out));
  RETURN_IF_ERROR(gradient.CopyFrom(out_gradient));
  ReluBackwardKernel<<<Blocks(out.size()), kThreads>>>(
      values.data(), gradient.data(), gradient.data(), out.size());
  RETURN_IF_ERROR(ToStatus(cudaGetLastError(), "relu backward"));
  return gradient.CopyTo(in_gradient);
}

}  // namespace paramd
