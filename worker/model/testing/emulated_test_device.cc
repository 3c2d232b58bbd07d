#include "worker/device/testing/emulated_device.h"
#include "worker/model/testing/test_device.h"

namespace paramd {

std::unique_ptr<Device> MakeTestDevice() {
  static uint64_t seed = 0;
  return std::make_unique<EmulatedDevice>(
      EmulatedAccelerator::Options{.seed = ++seed});
}

}  // namespace paramd
