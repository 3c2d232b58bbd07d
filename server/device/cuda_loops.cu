#include <cuda_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "base/mutex.h"
#include "base/status_macros.h"
#include "server/core/optimizer_kernels.h"
#include "server/core/optimizers/loops.h"
#include "server/device/cuda_loops.h"
#include "tensor/buffer_arena.h"

namespace paramd {
namespace {

constexpr unsigned kThreads = 256;
// Threads beyond these take several elements each.
constexpr size_t kMostBlocks = 4096;
constexpr size_t kPage = 4096;
constexpr uint64_t kLeastBytes = uint64_t{4} << 20;
constexpr int kExitRetry = 138;  // As process/exit_code.h has it.

unsigned BlocksFor(size_t count) {
  const size_t blocks = (count + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

template <typename Loop, bool kAdjusted>
__global__ void __launch_bounds__(kThreads)
    RunLoopKernel(typename Loop::Constants constants, Adjustment adjustment,
                  const std::byte* gradient, size_t count, RuleArrays arrays) {
  const size_t step = size_t{gridDim.x} * kThreads;
  for (size_t i = size_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += step) {
    RunElement<Loop, kAdjusted>(constants, adjustment, gradient, i, arrays);
  }
}

// Sets *found to 1 if an element is not finite; whoever writes it writes that.
__global__ void __launch_bounds__(kThreads)
    FindInfinite(const std::byte* gradient, size_t count, int* found) {
  const size_t step = size_t{gridDim.x} * kThreads;
  for (size_t i = size_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += step) {
    if (!IsFiniteAt(gradient, i)) *found = 1;
  }
}

// One thread for each place.
__global__ void AddSquaresKernel(const std::byte* gradient, size_t count,
                                 size_t first, double* sums) {
  const size_t lane = threadIdx.x;
  sums[lane] = AddSquaresOf(lane, OptimizerKernels::kSumLanes, gradient, count,
                            first, sums[lane]);
}

// Before anything depends on it: an error, and no GPU is used.
absl::Status StatusOf(cudaError_t error) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();  // It is no error of what comes.
  return absl::FailedPreconditionError(cudaGetErrorString(error));
}

cudaError_t PreferDevice(void* memory, size_t bytes, int index) {
#if CUDART_VERSION >= 13000
  const cudaMemLocation place = {cudaMemLocationTypeDevice, index};
#else
  const int place = index;
#endif
  return cudaMemAdvise(memory, bytes, cudaMemAdviseSetPreferredLocation, place);
}

// All kernels, so that none is loaded while the GPU sums with others.
cudaError_t LoadKernels() {
  cudaFuncAttributes attributes;
  cudaError_t error = cudaFuncGetAttributes(&attributes, FindInfinite);
  const auto load = [&](auto kernel) {
    if (error != cudaSuccess) return;
    error = cudaFuncGetAttributes(&attributes, kernel);
  };
  load(AddSquaresKernel);
  for (int id = 0; id <= static_cast<int>(kLastLoop); ++id) {
    WithLoop(static_cast<LoopId>(id), [&](auto loop) {
      load(RunLoopKernel<decltype(loop), true>);
      load(RunLoopKernel<decltype(loop), false>);
    });
  }
  return error;
}

class CudaLoops : public LoopDevice {
 public:
  static absl::StatusOr<std::shared_ptr<LoopDevice>> Create(
      int index, const LoopMemory& memory) {
    auto loops = std::shared_ptr<CudaLoops>(new CudaLoops(index));
    const absl::Status status = loops->Open(memory);
    if (!status.ok()) return status;
    return std::shared_ptr<LoopDevice>(std::move(loops));
  }

  ~CudaLoops() override {
    if (cudaSetDevice(index_) != cudaSuccess) return;
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
    cudaFree(sums_);
    cudaFree(staging_);
    cudaFreeHost(answer_);
  }

  Buffer Allocate(size_t size) override { return arena_->Allocate(size); }
  bool Has(absl::Span<const std::byte> bytes) const override {
    return arena_->Has(bytes);
  }
  void Copy(absl::Span<const std::byte> from, std::byte* to) override {
    const MutexLock lock(&mutex_);
    Use();
    Check(cudaMemcpyAsync(to, from.data(), from.size(),
                          cudaMemcpyDeviceToDevice, stream_));
    Wait();
  }

  void Fetch(absl::Span<const std::byte> bytes) override {
    const MutexLock lock(&mutex_);
    Use();
#if CUDART_VERSION >= 13000
    const cudaMemLocation host = {cudaMemLocationTypeHost, 0};
    Check(cudaMemPrefetchAsync(bytes.data(), bytes.size(), host, /*flags=*/0,
                               stream_));
#else
    Check(cudaMemPrefetchAsync(bytes.data(), bytes.size(), cudaCpuDeviceId,
                               stream_));
#endif
    Wait();
  }

  void Run(const LoopCall& call) override {
    const MutexLock lock(&mutex_);
    Use();
    const bool is_here = arena_->Has({call.gradient, call.count * 4}) &&
                         IsAligned(call.gradient);
    const size_t most = is_here ? call.count : kStagedBytes / 4;
    for (size_t begin = 0; begin < call.count; begin += most) {
      LoopCall part = call;
      part.count = std::min(most, call.count - begin);
      part.gradient += begin * 4;
      part.arrays = From(begin, call.arrays);
      if (!is_here) {
        Check(cudaMemcpyAsync(staging_, part.gradient, part.count * 4,
                              cudaMemcpyDefault, stream_));
        part.gradient = staging_;
      }
      Launch(part);
      Wait();
    }
  }

  bool AllFinite(const std::byte* gradient, size_t count) override {
    if (count == 0) return true;
    const MutexLock lock(&mutex_);
    Use();
    auto* const found = reinterpret_cast<int*>(sums_);
    Check(cudaMemsetAsync(found, 0, sizeof(*found), stream_));
    FindInfinite<<<BlocksFor(count), kThreads, 0, stream_>>>(gradient, count,
                                                             found);
    Check(cudaGetLastError());
    Check(cudaMemcpyAsync(answer_, found, sizeof(*found),
                          cudaMemcpyDeviceToHost, stream_));
    Wait();
    int is_found = 0;
    std::memcpy(&is_found, answer_, sizeof(is_found));
    return is_found == 0;
  }

  void AddSquares(const std::byte* gradient, size_t count, size_t first,
                  double* sums) override {
    const MutexLock lock(&mutex_);
    Use();
    std::memcpy(answer_, sums, kSumBytes);
    Check(cudaMemcpyAsync(sums_, answer_, kSumBytes, cudaMemcpyHostToDevice,
                          stream_));
    AddSquaresKernel<<<1, OptimizerKernels::kSumLanes, 0, stream_>>>(
        gradient, count, first, sums_);
    Check(cudaGetLastError());
    Check(cudaMemcpyAsync(answer_, sums_, kSumBytes, cudaMemcpyDeviceToHost,
                          stream_));
    Wait();
    std::memcpy(sums, answer_, kSumBytes);
  }

 private:
  static constexpr size_t kSumBytes =
      OptimizerKernels::kSumLanes * sizeof(double);
  // A gradient that lies elsewhere comes in pieces of so much: of a block.
  static constexpr size_t kStagedBytes = size_t{1} << 20;

  explicit CudaLoops(int index) : index_(index) {}

  // All that is ever asked of CUDA which may wait for what the GPU does: later
  // another replica's sum may be under way there.
  absl::Status Open(const LoopMemory& memory) {
    RETURN_IF_ERROR(StatusOf(cudaSetDevice(index_)));
    int is_concurrent = 0;
    RETURN_IF_ERROR(StatusOf(cudaDeviceGetAttribute(
        &is_concurrent, cudaDevAttrConcurrentManagedAccess, index_)));
    if (is_concurrent == 0) {
      return absl::FailedPreconditionError(
          "the host can't touch this GPU's managed memory while the GPU "
          "computes");
    }
    size_t free = 0;
    size_t total = 0;
    RETURN_IF_ERROR(StatusOf(cudaMemGetInfo(&free, &total)));
    if (memory.lasting_bytes > free / 2 ||
        memory.lasting_bytes + memory.beside_bytes > free) {
      return absl::ResourceExhaustedError(
          absl::StrCat("they need ", memory.lasting_bytes >> 20, " MiB, and ",
                       memory.beside_bytes >> 20,
                       " MiB beside them for steps, evaluations "
                       "and snapshots; the GPU has ",
                       free >> 20,
                       " MiB free, of which they "
                       "may take half"));
    }
    void* managed = nullptr;
    RETURN_IF_ERROR(StatusOf(cudaMallocManaged(&managed, memory.most_bytes)));
    std::shared_ptr<void> owner(managed, [index = index_](void* freed) {
      cudaSetDevice(index);
      cudaFree(freed);
    });
    RETURN_IF_ERROR(StatusOf(PreferDevice(managed, memory.most_bytes, index_)));
    RETURN_IF_ERROR(
        StatusOf(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)));
    RETURN_IF_ERROR(StatusOf(cudaMalloc(&sums_, kSumBytes)));
    RETURN_IF_ERROR(StatusOf(cudaMalloc(&staging_, kStagedBytes)));
    RETURN_IF_ERROR(StatusOf(cudaMallocHost(&answer_, kSumBytes)));
    RETURN_IF_ERROR(StatusOf(LoadKernels()));
    arena_ = BufferArena::Create(
        {static_cast<std::byte*>(managed), memory.most_bytes}, kPage,
        std::move(owner));
    return absl::OkStatus();
  }

  static bool IsAligned(const std::byte* gradient) {
    return reinterpret_cast<uintptr_t>(gradient) % sizeof(float) == 0;
  }
  static RuleArrays From(size_t begin, RuleArrays arrays) {
    arrays.values += begin;
    arrays.new_values += begin;
    for (size_t s = 0; s < RuleArrays::kMostSlots; ++s) {
      if (arrays.slots[s] == nullptr) continue;
      arrays.slots[s] += begin;
      arrays.new_slots[s] += begin;
    }
    return arrays;
  }

  void Launch(const LoopCall& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    WithLoop(call.loop, [&](auto loop) {
      using Loop = decltype(loop);
      const auto launch = [&](auto kernel) {
        kernel<<<BlocksFor(call.count), kThreads, 0, stream_>>>(
            call.ConstantsOf<Loop>(), call.adjustment, call.gradient,
            call.count, call.arrays);
      };
      if (call.adjusted) {
        launch(RunLoopKernel<Loop, true>);
      } else {
        launch(RunLoopKernel<Loop, false>);
      }
    });
    Check(cudaGetLastError());
  }

  void Use() { Check(cudaSetDevice(index_)); }
  void Wait() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Check(cudaStreamSynchronize(stream_));
  }
  // What a call that fails leaves in blocks is anything: nobody may save it.
  void Check(cudaError_t error) const {
    if (error == cudaSuccess) return;
    std::fprintf(stderr,
                 "paramd: cuda:%d, where weights lie, is lost: %s; start this "
                 "process again\n",
                 index_, cudaGetErrorString(error));
    _exit(kExitRetry);
  }

  const int index_;
  std::shared_ptr<BufferArena> arena_;
  Mutex mutex_;  // One at a time: of several shards each has a thread.
  cudaStream_t stream_ ABSL_GUARDED_BY(mutex_) = nullptr;
  double* sums_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::byte* staging_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::byte* answer_ ABSL_GUARDED_BY(mutex_) = nullptr;  // Pinned.
};

}  // namespace

absl::StatusOr<std::shared_ptr<LoopDevice>> MakeCudaLoops(
    const std::string& accelerator, const LoopMemory& memory) {
  absl::string_view number = accelerator;
  int index = 0;
  if (memory.weight_bytes < kLeastBytes) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the weights have ", memory.weight_bytes >> 10, " KiB; from ",
        kLeastBytes >> 10, " on they are worth kernels of their own"));
  }
  if (!absl::ConsumePrefix(&number, "cuda:") ||
      !absl::SimpleAtoi(number, &index)) {
    return absl::FailedPreconditionError(
        absl::StrCat(accelerator, " is no GPU of CUDA's"));
  }
  return CudaLoops::Create(index, memory);
}

}  // namespace paramd
