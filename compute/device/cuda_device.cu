#include <limits>
#include <utility>

#include <cub/device/device_radix_sort.cuh>

#include "compute/device/accelerated_device.h"
#include "compute/device/cuda_accelerator.cuh"
#include "compute/device/cuda_device.h"
#include "compute/device/kernel_device.h"

namespace paramd {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
// Threads beyond these take several elements each.
constexpr uint64_t kMostBlocks = 8192;
constexpr uint64_t kWorkspaceBytes = uint64_t{32} << 20;

// See kernels.h: the lanes of a warp.
struct WarpLanes {
  __device__ uint64_t lane() const { return threadIdx.x % kWarp; }
  __device__ uint64_t count() const { return kWarp; }
  // By halves: the same order on each run.
  template <class Number>
  __device__ Number Sum(Number value) const {
    for (int other = kWarp / 2; other > 0; other /= 2) {
      value += __shfl_xor_sync(~0u, value, other);
    }
    return value;
  }
  __device__ float Max(float value) const {
    for (int other = kWarp / 2; other > 0; other /= 2) {
      value = kernels::LargerOrNan(__shfl_xor_sync(~0u, value, other), value);
    }
    return value;
  }
};

template <class Function>
__global__ void __launch_bounds__(kThreads)
    ForEachElement(Function function, uint64_t count) {
  const uint64_t step = uint64_t{gridDim.x} * kThreads;
  for (uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += step) {
    function(i);
  }
}

template <class Function>
__global__ void __launch_bounds__(kThreads)
    ForEachRow(Function function, uint64_t rows) {
  const uint64_t step = uint64_t{gridDim.x} * (kThreads / kWarp);
  for (uint64_t row =
           uint64_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp;
       row < rows; row += step) {
    function(row, WarpLanes());
    __syncwarp();
  }
}

unsigned BlocksFor(uint64_t threads) {
  const uint64_t blocks = (threads + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

// What KernelDevice runs on.
class CudaKernels : public AcceleratedDevice {
 public:
  CudaKernels(std::unique_ptr<CudaAccelerator> accelerator,
              const Options& options)
      : AcceleratedDevice(accelerator.get(), options),
        accelerator_(std::move(accelerator)) {
    if (!accelerator_->Use()) return;
    auto loaded = Cublas::Load();
    if (!loaded.ok()) {
      accelerator_->Fail(loaded.status());
      return;
    }
    cublas_ = *loaded;
    const cublasStatus_t created = cublas_.create(&handle_);
    // It says so, too, where it has not the memory to begin with.
    const bool is_full = created == CUBLAS_STATUS_NOT_INITIALIZED &&
                         accelerator_->FreeBytes() == 0;
    CheckCublas(is_full ? CUBLAS_STATUS_ALLOC_FAILED : created);
    if (!accelerator_->Use()) return;
    // Parts of a sum are float32, whatever the result is written as.
    CheckCublas(cublas_.set_math_mode(
        handle_, static_cast<cublasMath_t>(
                     CUBLAS_DEFAULT_MATH |
                     CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
    CheckCublas(cublas_.set_stream(handle_, accelerator_->stream(compute())));
    // Its own, and always the same one: what cuBLAS chooses depends on it, and
    // a recording must not ask for another.
    workspace_ = Allocate(kWorkspaceBytes);
    if (workspace_ == nullptr) return;
    CheckCublas(
        cublas_.set_workspace(handle_, workspace_.get(), kWorkspaceBytes));
  }

  ~CudaKernels() override {
    EndSums();
    if (handle_ != nullptr && accelerator_->Use()) cublas_.destroy(handle_);
  }

 protected:
  template <class Function>
  void Run(uint64_t count, const Function& function) {
    if (count == 0 || !accelerator_->Use()) return;
    ForEachElement<<<BlocksFor(count), kThreads, 0,
                     accelerator_->stream(compute())>>>(function, count);
    accelerator_->Check(cudaGetLastError(), "a kernel");
  }

  template <class Function>
  void RunRows(uint64_t rows, const Function& function) {
    if (rows == 0 || !accelerator_->Use()) return;
    ForEachRow<<<BlocksFor(rows * kWarp), kThreads, 0,
                 accelerator_->stream(compute())>>>(function, rows);
    accelerator_->Check(cudaGetLastError(), "a kernel");
  }

  void MultiplyColumnMajor(const ColumnMajorProduct& p) {
    if (!accelerator_->Use()) return;
    const auto operation = [](bool transpose) {
      return transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
    };
    constexpr uint64_t kMost = std::numeric_limits<int>::max();
    for (const uint64_t n :
         {p.m, p.n, p.k, p.a_leading, p.b_leading, p.c_leading, p.count}) {
      if (n <= kMost) continue;
      return accelerator_->Fail(absl::InvalidArgumentError(
          absl::StrCat(name(), " multiplies matrices of at most ", kMost,
                       " rows or columns; one has ", n,
                       ", so give a smaller batch_per_replica")));
    }
    const auto number = [](uint64_t n) { return static_cast<int>(n); };
    const auto stride = [](uint64_t n) { return static_cast<long long>(n); };
    const auto type = [](DType dtype) {
      return dtype == DType::kBFloat16  ? CUDA_R_16BF
             : dtype == DType::kFloat16 ? CUDA_R_16F
                                        : CUDA_R_32F;
    };
    CheckCublas(cublas_.multiply(
        handle_, operation(p.transpose_a), operation(p.transpose_b),
        number(p.m), number(p.n), number(p.k), &p.alpha, p.a, type(p.operands),
        number(p.a_leading), stride(p.a_stride), p.b, type(p.operands),
        number(p.b_leading), stride(p.b_stride), &p.beta, p.c, type(p.result),
        number(p.c_leading), stride(p.c_stride), number(p.count),
        p.rounds_to_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
        CUBLAS_GEMM_DEFAULT));
  }

  void SortPairs(uint64_t count, const int32_t* keys, const int32_t* values,
                 int32_t* sorted_keys, int32_t* sorted_values) {
    size_t bytes = 0;
    const auto sort = [&](void* temporary) {
      if (!accelerator_->Use()) return;
      accelerator_->Check(
          cub::DeviceRadixSort::SortPairs(
              temporary, bytes, keys, sorted_keys, values, sorted_values,
              static_cast<int>(count), 0, 32, accelerator_->stream(compute())),
          "a sort");
    };
    sort(nullptr);  // Says how many bytes.
    void* const temporary = Scratch(1, bytes);
    if (temporary != nullptr) sort(temporary);
  }

  uint64_t unfolded_bytes() const { return uint64_t{256} << 20; }

  void* Scratch(int number, uint64_t bytes) {
    return scratch_.Get(this, number, bytes);
  }

 private:
  void CheckCublas(cublasStatus_t status) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    // What went wrong before it, if anything did.
    accelerator_->Check(cudaGetLastError(), "cuBLAS");
    if (status == CUBLAS_STATUS_ALLOC_FAILED) {
      return accelerator_->FailForMemory("cuBLAS");
    }
    accelerator_->Lose(absl::StrCat("cuBLAS says ", int{status}));
  }

  const std::unique_ptr<CudaAccelerator> accelerator_;
  Cublas cublas_;
  cublasHandle_t handle_ = nullptr;
  Device::Memory workspace_;
  ScratchMemory scratch_;
};

}  // namespace

CudaProbe ProbeCuda() {
  CudaProbe probe;
  probe.is_built_in = true;
  probe.runtime_version = CUDART_VERSION;
  cudaDriverGetVersion(&probe.driver_version);
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess && error != cudaErrorNoDevice) {
    probe.error = cudaGetErrorString(error);
  }
  if (error != cudaSuccess) count = 0;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) break;
    char address[32] = {};
    cudaDeviceGetPCIBusId(address, sizeof(address), i);
    probe.gpus.push_back({properties.name, address, properties.totalGlobalMem,
                          properties.major * 10 + properties.minor});
  }
  cudaGetLastError();  // It is no error of what comes.
  return probe;
}

std::unique_ptr<Device> MakeCudaDevice(
    int index, const AcceleratedDevice::Options& options) {
  return std::make_unique<KernelDevice<CudaKernels>>(
      std::make_unique<CudaAccelerator>(index), options);
}

}  // namespace paramd
