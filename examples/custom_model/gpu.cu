// The kernels on a GPU. A compiler of C++ that is not CUDA's has a stand-in, at
// the end: g++ -x c++ gpu.cu.

#include "device.h"

#ifdef __CUDACC__

#include <algorithm>

#include "kernels.h"

namespace {

constexpr unsigned kThreads = 128;

template <class Function>
__global__ void __launch_bounds__(kThreads)
    ForEachElement(Function function, uint64_t count) {
  const uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count) function(i);
}

// Memory of the GPU that grows. After an error every call does nothing.
template <class T>
class Memory {
 public:
  explicit Memory(cudaError_t* error) : error_(error) {}
  ~Memory() { cudaFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  T* Of(size_t count) {
    if (count > count_ && *error_ == cudaSuccess) {
      cudaFree(data_);
      data_ = nullptr;
      *error_ = cudaMalloc(&data_, count * sizeof(T));
      count_ = *error_ == cudaSuccess ? count : 0;
    }
    return data_;
  }
  T* Filled(const T* from, size_t count) {
    T* const to = Of(count);
    if (*error_ == cudaSuccess) {
      *error_ = cudaMemcpy(to, from, count * sizeof(T), cudaMemcpyHostToDevice);
    }
    return to;
  }
  // Waits for what was launched before.
  void Read(T* to, size_t count) const {
    if (*error_ == cudaSuccess) {
      *error_ =
          cudaMemcpy(to, data_, count * sizeof(T), cudaMemcpyDeviceToHost);
    }
  }

 private:
  cudaError_t* const error_;
  T* data_ = nullptr;
  size_t count_ = 0;
};

class Gpu : public Device {
 public:
  Gpu(const Images& training, const Images& test) {
    const Images* const sets[] = {&training, &test};
    for (int i = 0; i < 2; ++i) {
      data_[i].pixels.Filled(sets[i]->pixels.data(), sets[i]->pixels.size());
      data_[i].labels.Filled(sets[i]->labels.data(), sets[i]->labels.size());
    }
  }

  std::string name() const override {
    cudaDeviceProp properties;
    return cudaGetDeviceProperties(&properties, 0) == cudaSuccess
               ? properties.name
               : "a GPU";
  }

  std::string Compute(const paramd_work& work, paramd_result* result) override {
    const bool is_step = work.kind == PARAMD_STEP;
    const uint64_t n = work.index_count;
    Data& data = data_[is_step ? 0 : 1];
    Batch batch = {};
    batch.pixels = data.pixels.Of(0);
    batch.labels = data.labels.Of(0);
    batch.indices = indices_.Filled(work.indices, n);
    batch.size = n;
    batch.divisor = static_cast<float>(work.divisor);
    batch.w = w_.Filled(work.weights[0], kPixels * kClasses);
    batch.b = b_.Filled(work.weights[1], kClasses);
    batch.scores = scores_.Of(n * kClasses);
    batch.losses = losses_.Of(n);
    batch.met = met_.Of(n);
    batch.w_gradient = w_gradient_.Of(kPixels * kClasses);
    batch.b_gradient = b_gradient_.Of(kClasses);
    ::Compute(batch, is_step, [this](auto function, uint64_t count) {
      if (error_ != cudaSuccess || count == 0) return;
      const uint64_t blocks = (count + kThreads - 1) / kThreads;
      ForEachElement<<<static_cast<unsigned>(blocks), kThreads>>>(function,
                                                                  count);
      error_ = cudaGetLastError();
    });
    if (is_step) {
      w_gradient_.Read(work.gradients[0], kPixels * kClasses);
      b_gradient_.Read(work.gradients[1], kClasses);
    }
    host_losses_.resize(n);
    host_met_.resize(n);
    losses_.Read(host_losses_.data(), n);
    met_.Read(host_met_.data(), n);
    for (uint64_t i = 0; i < n; ++i) {
      result->loss_sum += host_losses_[i];
      result->correct += host_met_[i];
    }
    result->examples = result->labels = n;
    return error_ == cudaSuccess
               ? ""
               : std::string("the GPU failed: ") + cudaGetErrorString(error_);
  }

 private:
  struct Data {
    explicit Data(cudaError_t* error) : pixels(error), labels(error) {}
    Memory<uint8_t> pixels, labels;
  };

  cudaError_t error_ = cudaSuccess;  // The first one.
  Data data_[2] = {Data(&error_), Data(&error_)};
  Memory<int64_t> indices_{&error_};
  Memory<float> w_{&error_}, b_{&error_}, scores_{&error_}, losses_{&error_},
      w_gradient_{&error_}, b_gradient_{&error_};
  Memory<int32_t> met_{&error_};
  std::vector<float> host_losses_;
  std::vector<int32_t> host_met_;
};

}  // namespace

std::unique_ptr<Device> MakeGpu(const Images& training, const Images& test) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) return nullptr;
  return std::unique_ptr<Device>(new Gpu(training, test));
}

#else

std::unique_ptr<Device> MakeGpu(const Images&, const Images&) {
  return nullptr;
}

#endif
