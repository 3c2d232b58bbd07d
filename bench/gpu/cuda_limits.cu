#include <cstdio>

#include "bench/gpu/cuda_limits.h"
#include "compute/device/cuda_accelerator.cuh"

namespace paramd {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;

// What is freed at the end of a measurement. The first error stays.
class Resources {
 public:
  Resources() {
    Check(cudaSetDevice(0));
    Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    Check(cudaEventCreate(&begin_));
    Check(cudaEventCreate(&end_));
  }
  ~Resources() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
    if (begin_ != nullptr) cudaEventDestroy(begin_);
    if (end_ != nullptr) cudaEventDestroy(end_);
    for (void* const memory : device_) cudaFree(memory);
    for (void* const memory : host_) cudaFreeHost(memory);
  }

  cudaStream_t stream() const { return stream_; }
  bool ok() const { return ok_; }

  void Check(cudaError_t error) {
    if (error == cudaSuccess || !ok_) return;
    ok_ = false;
    std::fprintf(stderr, "gpu: a limit of CUDA is not known: %s\n",
                 cudaGetErrorString(error));
  }
  void CheckCublas(cublasStatus_t status) {
    if (status == CUBLAS_STATUS_SUCCESS || !ok_) return;
    ok_ = false;
    std::fprintf(stderr, "gpu: a limit of cuBLAS is not known: %d\n",
                 static_cast<int>(status));
  }
  void* OnDevice(size_t bytes) {
    void* memory = nullptr;
    Check(cudaMalloc(&memory, bytes));
    device_.push_back(memory);
    return memory;
  }
  void* OnHost(size_t bytes) {
    void* memory = nullptr;
    Check(cudaMallocHost(&memory, bytes));
    host_.push_back(memory);
    return memory;
  }

  // Of one of `times` calls of f, which come after one that does not count.
  template <class Function>
  double Seconds(int times, Function f) {
    f();
    Check(cudaEventRecord(begin_, stream_));
    for (int i = 0; i < times; ++i) f();
    Check(cudaEventRecord(end_, stream_));
    Check(cudaEventSynchronize(end_));
    float milliseconds = 0;
    Check(cudaEventElapsedTime(&milliseconds, begin_, end_));
    return ok_ ? 1e-3 * milliseconds / times : -1;
  }

 private:
  bool ok_ = true;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  std::vector<void*> device_;
  std::vector<void*> host_;
};

// Bits of numbers from 0.5 to 1 and from -1 to -0.5, in any of the formats.
__global__ void FillAtRandom(uint32_t* words, uint64_t count, uint32_t mask,
                             uint32_t exponent) {
  const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += step) {
    uint32_t bits = static_cast<uint32_t>(i) * 2654435761u;
    bits ^= bits >> 15;
    bits *= 2246822519u;
    bits ^= bits >> 13;
    words[i] = (bits & mask) | exponent;
  }
}

}  // namespace

double PlainProductSeconds(ComputeFormat format, uint64_t side, int times) {
  const absl::StatusOr<Cublas> cublas = Cublas::Load();
  if (!cublas.ok()) return -1;
  const bool is_half =
      format == ComputeFormat::kBf16 || format == ComputeFormat::kFp16;
  const cudaDataType type = format == ComputeFormat::kBf16   ? CUDA_R_16BF
                            : format == ComputeFormat::kFp16 ? CUDA_R_16F
                                                             : CUDA_R_32F;
  // A sign and a fraction; the exponent of 0.5.
  const uint32_t mask = format == ComputeFormat::kBf16   ? 0x807f807f
                        : format == ComputeFormat::kFp16 ? 0x83ff83ff
                                                         : 0x807fffff;
  const uint32_t exponent = format == ComputeFormat::kBf16   ? 0x3f003f00
                            : format == ComputeFormat::kFp16 ? 0x38003800
                                                             : 0x3f000000;
  Resources resources;
  cublasHandle_t handle = nullptr;
  resources.CheckCublas(cublas->create(&handle));
  if (!resources.ok()) return -1;
  const uint64_t words = side * side / (is_half ? 2 : 1);
  uint32_t* const a = static_cast<uint32_t*>(resources.OnDevice(4 * words));
  uint32_t* const b = static_cast<uint32_t*>(resources.OnDevice(4 * words));
  void* const c = resources.OnDevice(side * side * sizeof(float));
  void* const workspace = resources.OnDevice(kWorkspaceBytes);
  double seconds = -1;
  if (resources.ok()) {
    for (uint32_t* const one : {a, b}) {
      FillAtRandom<<<1024, 256, 0, resources.stream()>>>(one, words, mask,
                                                         exponent);
      resources.Check(cudaGetLastError());
    }
    resources.CheckCublas(cublas->set_stream(handle, resources.stream()));
    resources.CheckCublas(
        cublas->set_workspace(handle, workspace, kWorkspaceBytes));
    const float one = 1;
    const float zero = 0;
    const int n = static_cast<int>(side);
    seconds = resources.Seconds(times, [&] {
      resources.CheckCublas(cublas->multiply(
          handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, type, n, 0, b,
          type, n, 0, &zero, c, CUDA_R_32F, n, 0, 1,
          format == ComputeFormat::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                         : CUBLAS_COMPUTE_32F,
          CUBLAS_GEMM_DEFAULT));
    });
  }
  cublas->destroy(handle);
  return seconds;
}

double PlainCopySeconds(uint64_t bytes, bool up, int times) {
  Resources resources;
  void* const there = resources.OnDevice(bytes);
  void* const here = resources.OnHost(bytes);
  if (!resources.ok()) return -1;
  return resources.Seconds(times, [&] {
    resources.Check(
        cudaMemcpyAsync(up ? there : here, up ? here : there, bytes,
                        up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
                        resources.stream()));
  });
}

}  // namespace paramd
