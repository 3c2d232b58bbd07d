#include "compute/device/testing/host_kernels.h"
#include "compute/device/testing/test_device.h"

namespace paramd {

std::unique_ptr<Device> MakeTestDevice() {
  return std::make_unique<HostKernelDevice>();
}

std::string WhyNoTestDevice() { return ""; }

}  // namespace paramd
