#ifndef PARAMD_COMPUTE_DEVICE_TESTING_EMULATED_KERNELS_H_
#define PARAMD_COMPUTE_DEVICE_TESTING_EMULATED_KERNELS_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "compute/device/accelerated_device.h"
#include "compute/device/kernel_device.h"
#include "compute/device/testing/emulated_accelerator.h"
#include "compute/device/testing/host_kernels.h"

namespace paramd {

// An emulated accelerator that KernelDevice runs on as it runs on CUDA: each
// launch is a piece of work of the computing stream, and scratch memory is the
// accelerator's, which counts it. What EmulatedDevice does whole, a primitive,
// is here what a GPU makes of it.
class EmulatedKernels : public AcceleratedDevice {
 public:
  explicit EmulatedKernels(EmulatedAccelerator::Options options)
      : EmulatedKernels(MakeAccelerator(options)) {}

  EmulatedAccelerator* accelerator() { return accelerator_.get(); }

 protected:
  template <class Function>
  void Run(uint64_t count, const Function& function) {
    if (count == 0) return;
    accelerator_->Launch(compute(), [count, function] {
      for (uint64_t i = 0; i < count; ++i) function(i);
    });
  }

  template <class Function>
  void RunRows(uint64_t rows, const Function& function) {
    if (rows == 0) return;
    accelerator_->Launch(compute(), [rows, function] {
      for (uint64_t row = 0; row < rows; ++row) function(row, OneLane());
    });
  }

  void MultiplyColumnMajor(const ColumnMajorProduct& product) {
    accelerator_->Launch(compute(), [product] { MultiplyByLoops(product); });
  }

  void SortPairs(uint64_t count, const int32_t* keys, const int32_t* values,
                 int32_t* sorted_keys, int32_t* sorted_values) {
    accelerator_->Launch(compute(), [=] {
      SortPairsByLoops(count, keys, values, sorted_keys, sorted_values);
    });
  }

  // Few, so that a convolution is of several pieces.
  uint64_t unfolded_bytes() const { return 3000; }

  void* Scratch(int number, uint64_t bytes) {
    return scratch_.Get(this, number, bytes);
  }

 private:
  struct OneLane {
    uint64_t lane() const { return 0; }
    uint64_t count() const { return 1; }
    template <class Number>
    Number Sum(Number value) const {
      return value;
    }
    float Max(float value) const { return value; }
  };

  explicit EmulatedKernels(std::unique_ptr<EmulatedAccelerator> accelerator)
      : AcceleratedDevice(accelerator.get(), {}),
        accelerator_(std::move(accelerator)) {}

  static std::unique_ptr<EmulatedAccelerator> MakeAccelerator(
      EmulatedAccelerator::Options options) {
    options.is_plain = true;
    return std::make_unique<EmulatedAccelerator>(options);
  }

  const std::unique_ptr<EmulatedAccelerator> accelerator_;
  ScratchMemory scratch_;  // After it: it is freed before.
};

using EmulatedKernelDevice = KernelDevice<EmulatedKernels>;

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_TESTING_EMULATED_KERNELS_H_
