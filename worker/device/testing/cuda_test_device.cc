#include <string>

#include "gtest/gtest.h"

#include "worker/device/cuda_device.h"
#include "worker/device/device_choice.h"
#include "worker/device/testing/test_device.h"

namespace paramd {
namespace {

// Skips every test of the program, and says why, where no GPU can be used.
class NeedsGpu : public testing::Environment {
 public:
  void SetUp() override {
    const auto chosen = ChooseDevice("cuda:0", ProbeCuda());
    if (!chosen.ok()) GTEST_SKIP() << chosen.status().message();
  }
};

testing::Environment* const needs_gpu =
    testing::AddGlobalTestEnvironment(new NeedsGpu);

}  // namespace

std::unique_ptr<Device> MakeTestDevice() { return MakeCudaDevice(0); }

}  // namespace paramd
