#include "compute/device/cuda_device.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

#include "compute/device/device_link.h"

namespace paramd {
namespace {

// Runs where there is no GPU: of what is computed on one, see gpu_device_test.

TEST(CudaDeviceTest, TheProbeKnowsWhetherCudaIsBuiltIn) {
#ifdef PARAMD_CUDA
  EXPECT_TRUE(ProbeCuda().is_built_in);
  EXPECT_GE(ProbeCuda().runtime_version, 11000);
#else
  EXPECT_FALSE(ProbeCuda().is_built_in);
#endif
}

TEST(CudaDeviceTest, ADeviceThatIsNotThereSaysSoAndComputesNothing) {
  const size_t count = ProbeCuda().gpus.size();
  const auto device = MakeCudaDevice(static_cast<int>(count));
  EXPECT_FALSE(device->status().ok());
  EXPECT_FALSE(device->status().message().empty());
  if (device->link() == nullptr) return;  // Built without CUDA.
  EXPECT_EQ(device->Allocate(4), nullptr);
  const Tensor tensor{nullptr, DType::kFloat32, {4}};
  device->Add(tensor, 1, tensor, tensor);
  device->SumRows(tensor, tensor);
  device->Softmax(false, tensor, tensor);
  device->Multiply({.m = 2, .n = 2, .k = 1}, tensor, tensor, tensor);
  device->Finish();
  EXPECT_FALSE(
      device->link()->Join({std::make_shared<ReplicaMeeting>(1)}).ok());
  EXPECT_EQ(MakeCudaDevice(static_cast<int>(count))->status(),
            device->status());
}

}  // namespace
}  // namespace paramd
