#include "compute/device/cpu_device.h"
#include "compute/device/testing/test_device.h"

namespace paramd {

std::unique_ptr<Device> MakeTestDevice() {
  return std::make_unique<CpuDevice>();
}

std::string WhyNoTestDevice() { return ""; }

}  // namespace paramd
