#include "compute/device/cuda_device.h"
#include "compute/device/device_choice.h"
#include "compute/device/testing/test_device.h"

namespace paramd {

std::unique_ptr<Device> MakeTestDevice() { return MakeCudaDevice(0); }

std::string WhyNoTestDevice() {
  return std::string(ChooseDevice("cuda:0", ProbeCuda(),
                                  [](absl::string_view) { return true; })
                         .status()
                         .message());
}

}  // namespace paramd
