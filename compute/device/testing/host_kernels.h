#ifndef PARAMD_COMPUTE_DEVICE_TESTING_HOST_KERNELS_H_
#define PARAMD_COMPUTE_DEVICE_TESTING_HOST_KERNELS_H_

#include <algorithm>
#include <cstdint>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "compute/device/kernel_device.h"
#include "compute/device/reference_device.h"
#include "compute/device/rounding.h"
#include "tensor/number_format.h"

namespace paramd {

// As tensor/number_format.h reads it, which kernels do not use.
inline float ValueOf(const ColumnMajorProduct& p, const void* values,
                     uint64_t i) {
  float value;
  if (IsHalf(p.operands)) {
    DecodeNumbers(p.operands == DType::kBFloat16 ? NumberFormat::kBf16
                                                 : NumberFormat::kFp16,
                  static_cast<const std::byte*>(values) + 2 * i, 1, &value);
  } else {
    Round(p.rounds_to_tf32 ? ComputeFormat::kTf32 : ComputeFormat::kFp32,
          static_cast<const float*>(values) + i, 1, &value);
  }
  return value;
}

// What cuBLAS computes.
inline void MultiplyByLoops(const ColumnMajorProduct& p) {
  for (uint64_t g = 0; g < p.count; ++g) {
    const auto a = [&](uint64_t i) {
      return ValueOf(p, p.a, g * p.a_stride + i);
    };
    const auto b = [&](uint64_t i) {
      return ValueOf(p, p.b, g * p.b_stride + i);
    };
    for (uint64_t j = 0; j < p.n; ++j) {
      for (uint64_t i = 0; i < p.m; ++i) {
        float sum = 0;
        for (uint64_t k = 0; k < p.k; ++k) {
          sum += a(p.transpose_a ? i * p.a_leading + k : k * p.a_leading + i) *
                 b(p.transpose_b ? k * p.b_leading + j : j * p.b_leading + k);
        }
        const uint64_t place = g * p.c_stride + j * p.c_leading + i;
        WithElement(p.result, [&](auto zero) {
          auto& c = static_cast<decltype(zero)*>(p.c)[place];
          c = p.beta == 0 ? p.alpha * sum : p.alpha * sum + p.beta * c;
        });
      }
    }
  }
}

// What a stable sort on the device gives.
inline void SortPairsByLoops(uint64_t count, const int32_t* keys,
                             const int32_t* values, int32_t* sorted_keys,
                             int32_t* sorted_values) {
  std::vector<std::pair<int32_t, int32_t>> pairs(count);
  for (uint64_t i = 0; i < count; ++i) pairs[i] = {keys[i], values[i]};
  std::stable_sort(
      pairs.begin(), pairs.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  for (uint64_t i = 0; i < count; ++i) {
    std::tie(sorted_keys[i], sorted_values[i]) = pairs[i];
  }
}

// The host as what kernels run on: the text that a GPU runs, as loops. A row is
// done by one lane, or by several, each a thread, so that what lanes owe each
// other is seen.
class HostKernels : public Device {
 public:
  // `unfolded_bytes`: few, so that a convolution is of several pieces.
  explicit HostKernels(uint64_t lanes = 1, uint64_t unfolded_bytes = 3000)
      : lanes_(lanes), unfolded_bytes_(unfolded_bytes) {}

  Memory Allocate(size_t bytes) override { return host_.Allocate(bytes); }
  void Copy(const void* from, size_t bytes, void* to) override {
    host_.Copy(from, bytes, to);
  }

 protected:
  template <class Function>
  void Run(uint64_t count, const Function& function) {
    for (uint64_t i = 0; i < count; ++i) function(i);
  }

  template <class Function>
  void RunRows(uint64_t rows, const Function& function) {
    Meeting meeting(lanes_);
    const auto run = [&](uint64_t lane) {
      for (uint64_t row = 0; row < rows; ++row) {
        function(row, Lanes(lane, &meeting));
        // A warp is done with a row before it begins the next.
        meeting.Wait();
      }
    };
    std::vector<std::thread> threads;
    for (uint64_t lane = 1; lane < lanes_; ++lane) {
      threads.emplace_back(run, lane);
    }
    run(0);
    for (std::thread& thread : threads) thread.join();
  }

  void MultiplyColumnMajor(const ColumnMajorProduct& p) { MultiplyByLoops(p); }

  void SortPairs(uint64_t count, const int32_t* keys, const int32_t* values,
                 int32_t* sorted_keys, int32_t* sorted_values) {
    SortPairsByLoops(count, keys, values, sorted_keys, sorted_values);
  }

  uint64_t unfolded_bytes() const { return unfolded_bytes_; }

  void* Scratch(int number, uint64_t bytes) {
    scratch_[number] = host_.Allocate(bytes);
    return scratch_[number].get();
  }

 private:
  // Where lanes wait for each other.
  class Meeting {
   public:
    explicit Meeting(uint64_t lanes) : values(lanes) {}

    void Wait() ABSL_LOCKS_EXCLUDED(mutex_) {
      if (values.size() == 1) return;
      MutexLock lock(&mutex_);
      const uint64_t round = round_;
      if (++arrived_ == values.size()) {
        arrived_ = 0;
        ++round_;
        changed_.NotifyAll();
      }
      while (round_ == round) changed_.Wait(&mutex_);
    }

    std::vector<double> values;  // Of each lane, floats as well.

   private:
    Mutex mutex_;
    CondVar changed_;
    uint64_t arrived_ ABSL_GUARDED_BY(mutex_) = 0;
    uint64_t round_ ABSL_GUARDED_BY(mutex_) = 0;
  };

  class Lanes {
   public:
    Lanes(uint64_t lane, Meeting* meeting) : lane_(lane), meeting_(*meeting) {}

    uint64_t lane() const { return lane_; }
    uint64_t count() const { return meeting_.values.size(); }
    template <class Number>
    Number Sum(Number value) const {
      return Reduce(value, [](Number a, Number b) { return a + b; });
    }
    float Max(float value) const { return Reduce(value, kernels::LargerOrNan); }

   private:
    template <class Number, class Function>
    Number Reduce(Number value, Function f) const {
      meeting_.values[lane_] = value;
      meeting_.Wait();
      Number result = static_cast<Number>(meeting_.values[0]);
      for (uint64_t i = 1; i < count(); ++i) {
        result = f(static_cast<Number>(meeting_.values[i]), result);
      }
      meeting_.Wait();
      return result;
    }

    const uint64_t lane_;
    Meeting& meeting_;
  };

  const uint64_t lanes_;
  const uint64_t unfolded_bytes_;
  ReferenceDevice host_;  // Its memory.
  Memory scratch_[2];
};

using HostKernelDevice = KernelDevice<HostKernels>;

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_TESTING_HOST_KERNELS_H_
