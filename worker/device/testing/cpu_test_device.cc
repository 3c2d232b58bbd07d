#include "worker/device/cpu_device.h"
#include "worker/device/testing/test_device.h"

namespace paramd {

std::unique_ptr<Device> MakeTestDevice() {
  return std::make_unique<CpuDevice>();
}

std::string WhyNoTestDevice() { return ""; }

}  // namespace paramd
