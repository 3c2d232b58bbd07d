#ifndef PARAMD_COMPUTE_DEVICE_CUDA_ACCELERATOR_CUH_
#define PARAMD_COMPUTE_DEVICE_CUDA_ACCELERATOR_CUH_

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#if __has_include(<nccl.h>)
#include <nccl.h>
#endif

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "compute/device/accelerator.h"
#include "compute/device/nccl_ring.h"
#include "compute/device/nccl_sum.h"

#define PARAMD_TEXT_INNER_(x) #x
#define PARAMD_TEXT_(x) PARAMD_TEXT_INNER_(x)

namespace paramd {

#ifdef NCCL_VERSION_CODE
static_assert(sizeof(Nccl::Id) == sizeof(ncclUniqueId) && ncclSuccess == 0 &&
                  Nccl::kFloat32 == ncclFloat32 && Nccl::kSum == ncclSum,
              "NCCL is what it was");
#if NCCL_VERSION_CODE >= 21400
static_assert(Nccl::kInProgress == ncclInProgress &&
                  Nccl::kRemoteError == ncclRemoteError &&
                  sizeof(Nccl::Config) <= sizeof(ncclConfig_t) &&
                  offsetof(Nccl::Config, blocking) ==
                      offsetof(ncclConfig_t, blocking),
              "NCCL's newer calls are what they were");
#endif
#endif

// A graph that is ready to be launched.
class CudaGraph : public Recording {
 public:
  CudaGraph(int index, cudaGraphExec_t graph) : index_(index), graph_(graph) {}
  ~CudaGraph() override {
    // One that is under way ends before it is freed.
    if (cudaSetDevice(index_) == cudaSuccess) cudaGraphExecDestroy(graph_);
  }

  cudaGraphExec_t get() const { return graph_; }

 private:
  const int index_;
  const cudaGraphExec_t graph_;
};

// CUDA's runtime: a call each. For nvcc alone.
class CudaAccelerator : public Accelerator {
 public:
  explicit CudaAccelerator(int index) : index_(index) { Use(); }
  ~CudaAccelerator() override {
    if (cudaSetDevice(index_) != cudaSuccess) return;
    for (const cudaStream_t stream : *streams_) {
      cudaStreamSynchronize(stream);
      cudaStreamDestroy(stream);
    }
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }

  std::string name() const override { return absl::StrCat("cuda:", index_); }
  absl::Status status() const override { return status_; }

  Memory AllocateDevice(size_t bytes) override {
    void* memory = nullptr;
    if (!Use()) return nullptr;
    Allocated(cudaMalloc(&memory, bytes > 0 ? bytes : 1), bytes);
    if (memory == nullptr) return nullptr;
    return Memory(memory, [index = index_](void* freed) {
      cudaSetDevice(index);
      cudaFree(freed);
    });
  }
  Memory AllocateHost(size_t bytes) override {
    void* memory = nullptr;
    if (!Use()) return nullptr;
    Allocated(cudaMallocHost(&memory, bytes > 0 ? bytes : 1), bytes);
    if (memory == nullptr) return nullptr;
    // Else freeing would not wait. For these streams alone: to wait for the
    // whole device while another thread records would spoil its recording.
    return Memory(memory, [index = index_,
                           streams = std::weak_ptr(streams_)](void* freed) {
      cudaSetDevice(index);
      if (const auto alive = streams.lock()) {
        for (const cudaStream_t stream : *alive) cudaStreamSynchronize(stream);
      }
      cudaFreeHost(freed);
    });
  }
  uint64_t FreeBytes() override {
    const uint64_t free = FreeOnDevice();
    return free > kReserve ? free - kReserve : 0;
  }

  Stream MakeStream() override {
    cudaStream_t stream = nullptr;
    if (Use()) {
      Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
            "a stream");
    }
    streams_->push_back(stream);
    return streams_->size() - 1;
  }
  Event MakeEvent() override {
    // Who waits sleeps: the processor has other work.
    return MakeEventWith(cudaEventDisableTiming | cudaEventBlockingSync);
  }
  Event MakeTimedEvent() override {
    return MakeEventWith(cudaEventBlockingSync);
  }
  absl::optional<absl::Duration> Since(Event from, Event to) override {
    if (!Use()) return absl::nullopt;
    const cudaError_t reached = cudaEventQuery(events_[to]);
    if (reached == cudaErrorNotReady) {
      cudaGetLastError();  // It is no error of what comes.
      return absl::nullopt;
    }
    Check(reached, "time");
    float milliseconds = 0;
    if (!Use()) return absl::nullopt;
    Check(cudaEventElapsedTime(&milliseconds, events_[from], events_[to]),
          "time");
    return absl::Milliseconds(milliseconds);
  }

  void Copy(Stream stream, const void* from, size_t bytes, void* to) override {
    if (!Use()) return;
    Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault,
                          (*streams_)[stream]),
          "a copy");
  }
  void Record(Event event, Stream stream) override {
    if (Use())
      Check(cudaEventRecord(events_[event], (*streams_)[stream]), "mark");
  }
  void StreamWait(Stream stream, Event event) override {
    if (!Use()) return;
    Check(cudaStreamWaitEvent((*streams_)[stream], events_[event], 0), "wait");
  }
  void HostWait(Event event) override {
    if (Use()) Check(cudaEventSynchronize(events_[event]), "wait");
  }
  void* StreamHandle(Stream stream) override { return (*streams_)[stream]; }
  absl::StatusOr<std::unique_ptr<DeviceRing>> OpenRing() override {
    return NcclRing::Open(std::make_unique<CudaAccelerator>(index_),
                          Nccl::Load());
  }
  void BeginCapture(Stream stream) override {
    if (!Use()) return;
    capture_ = absl::OkStatus();
    captures_ = true;
    // Other threads may do what they like meanwhile.
    Check(cudaStreamBeginCapture((*streams_)[stream],
                                 cudaStreamCaptureModeThreadLocal),
          "a recording");
  }
  absl::StatusOr<std::unique_ptr<Recording>> EndCapture(
      Stream stream) override {
    if (!captures_) return status_;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    size_t nodes = 0;
    Check(cudaStreamEndCapture((*streams_)[stream], &graph), "a recording");
    if (graph != nullptr && capture_.ok()) {
      Check(cudaGraphGetNodes(graph, nullptr, &nodes), "a recording");
    }
    if (nodes > 0) {
      Check(cudaGraphInstantiateWithFlags(&ready, graph, 0), "a graph");
    }
    // What it needs there is asked for now, and not beside a sum.
    if (ready != nullptr) {
      Check(cudaGraphUpload(ready, (*streams_)[stream]), "a graph");
    }
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();  // It is no error of what comes.
    captures_ = false;
    std::unique_ptr<Recording> recording;
    if (ready != nullptr) {
      recording = std::make_unique<CudaGraph>(index_, ready);
    }
    if (!capture_.ok()) return capture_;
    return recording;
  }
  void Replay(Stream stream, const Recording& recording) override {
    if (!Use()) return;
    Check(cudaGraphLaunch(static_cast<const CudaGraph&>(recording).get(),
                          (*streams_)[stream]),
          "a graph");
  }
  absl::StatusOr<std::unique_ptr<StreamSum>> Join(
      const ReplicaGroup& group) override {
    return NcclSum<CudaAccelerator>::Join(this, Nccl::Load(), group);
  }

  cudaStream_t stream(Stream stream) const { return (*streams_)[stream]; }
  // Makes the device the thread's. False once an error has come.
  bool Use() {
    if (ok()) Check(cudaSetDevice(index_), "a context");
    return ok();
  }
  // Keeps the first error: what fails after it is its consequence.
  void Check(cudaError_t error, const char* what) {
    if (error == cudaSuccess || !ok()) return;
    if (error == cudaErrorMemoryAllocation) return FailForMemory(what);
    Lose(absl::StrCat(what, ": ", cudaGetErrorString(error)));
  }
  // It is full: others compute there too, or a step took all.
  void FailForMemory(absl::string_view what) {
    cudaGetLastError();  // It is no error of what comes.
    Fail(absl::ResourceExhaustedError(
        absl::StrCat(name(), " has no memory left for ", what)));
  }
  void Lose(absl::string_view why) {
    Fail(absl::UnavailableError(absl::StrCat(
        name(), captures_ ? " does not record: " : " is lost: ", why)));
  }
  // While it captures, it is the recording that fails.
  void Fail(absl::Status status) {
    if (ok()) (captures_ ? capture_ : status_) = std::move(status);
  }

 private:
  bool ok() const { return (captures_ ? capture_ : status_).ok(); }
  Event MakeEventWith(unsigned flags) {
    cudaEvent_t event = nullptr;
    if (Use()) Check(cudaEventCreateWithFlags(&event, flags), "an event");
    events_.push_back(event);
    return events_.size() - 1;
  }
  uint64_t FreeOnDevice() {
    size_t free = 0;
    size_t total = 0;
    if (Use()) Check(cudaMemGetInfo(&free, &total), "memory");
    return free;
  }
  void Allocated(cudaError_t error, size_t bytes) {
    if (error != cudaErrorMemoryAllocation) return Check(error, "memory");
    cudaGetLastError();  // It is no error of what comes.
    Fail(absl::ResourceExhaustedError(
        absl::StrCat(name(), " has ", FreeOnDevice(), " bytes free; ", bytes,
                     " were asked for")));
  }

  // Stays free of what is planned: windows that are unfolded take up to 256
  // MiB, operands that are packed, kernels and libraries that are loaded the
  // rest.
  static constexpr uint64_t kReserve = uint64_t{512} << 20;

  const int index_;
  absl::Status status_;
  bool captures_ = false;
  absl::Status capture_;  // Of the recording that is made, or was made last.
  const std::shared_ptr<std::vector<cudaStream_t>> streams_ =
      std::make_shared<std::vector<cudaStream_t>>();
  std::vector<cudaEvent_t> events_;
};

// cuBLAS, found when it is first needed: a program that computes on no GPU runs
// where it is not installed.
class Cublas {
 public:
  // FAILED_PRECONDITION if it is not there.
  static absl::StatusOr<Cublas> Load() {
    constexpr char kName[] = "libcublas.so." PARAMD_TEXT_(CUBLAS_VER_MAJOR);
    void* const library = dlopen(kName, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat(
          "cuBLAS can't be loaded (put its folder into LD_LIBRARY_PATH): ",
          dlerror()));
    }
    Cublas cublas;
    const bool found =
        Find(library, "cublasCreate_v2", &cublas.create) &&
        Find(library, "cublasDestroy_v2", &cublas.destroy) &&
        Find(library, "cublasSetStream_v2", &cublas.set_stream) &&
        Find(library, "cublasSetWorkspace_v2", &cublas.set_workspace) &&
        Find(library, "cublasSetMathMode", &cublas.set_math_mode) &&
        Find(library, "cublasGemmStridedBatchedEx", &cublas.multiply);
    if (found) return cublas;
    return absl::FailedPreconditionError(
        absl::StrCat("libcublas is not the one it should be: ", dlerror()));
  }

  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasSetWorkspace_v2) set_workspace = nullptr;
  decltype(&cublasSetMathMode) set_math_mode = nullptr;
  // Has an overload of other types, which is no symbol of the library.
  cublasStatus_t (*multiply)(cublasHandle_t, cublasOperation_t,
                             cublasOperation_t, int, int, int, const void*,
                             const void*, cudaDataType, int, long long,
                             const void*, cudaDataType, int, long long,
                             const void*, void*, cudaDataType, int, long long,
                             int, cublasComputeType_t,
                             cublasGemmAlgo_t) = nullptr;

 private:
  template <class Function>
  static bool Find(void* library, const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(library, name));
    return *function != nullptr;
  }
};

}  // namespace paramd

#undef PARAMD_TEXT_
#undef PARAMD_TEXT_INNER_

#endif  // PARAMD_COMPUTE_DEVICE_CUDA_ACCELERATOR_CUH_
