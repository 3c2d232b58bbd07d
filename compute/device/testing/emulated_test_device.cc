#include "compute/device/testing/emulated_device.h"
#include "compute/device/testing/host_kernels.h"
#include "compute/device/testing/test_device.h"

namespace paramd {

// With the kernels of a GPU, as loops.
std::unique_ptr<Device> MakeTestDevice() {
  static uint64_t seed = 0;
  return std::make_unique<EmulatedDevice>(
      EmulatedAccelerator::Options{.seed = ++seed},
      std::make_unique<HostKernelDevice>());
}

std::string WhyNoTestDevice() { return ""; }

}  // namespace paramd
