#include "worker/device/elementwise_cuda.h"

#include <cstring>
#include <vector>

#include "gtest/gtest.h"

#include "base/random.h"
#include "worker/device/elementwise.h"

namespace paramd {
namespace {

constexpr size_t kSize = 100003;

std::vector<float> RandomValues(uint64_t key) {
  RandomStream random(key);
  std::vector<float> values(kSize);
  for (float& value : values) value = random.Uniform() - 0.5f;
  return values;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class ElementwiseCudaTest : public testing::Test {
 protected:
  void SetUp() override {
    const absl::Status available = CudaAvailable();
    if (!available.ok()) GTEST_SKIP() << available.message();
  }
};

TEST_F(ElementwiseCudaTest, ReluAgreesWithItsCpuTwin) {
  const std::vector<float> in = RandomValues(1);
  std::vector<float> cpu(kSize), cuda(kSize);
  Relu(in, absl::MakeSpan(cpu));
  const absl::Status status = CudaRelu(in, absl::MakeSpan(cuda));
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(SameBits(cpu, cuda));
}

TEST_F(ElementwiseCudaTest, ReluBackwardAgreesWithItsCpuTwin) {
  const std::vector<float> in = RandomValues(1);
  const std::vector<float> gradient = RandomValues(2);
  std::vector<float> out(kSize), cpu(kSize), cuda(kSize);
  Relu(in, absl::MakeSpan(out));
  ReluBackward(out, gradient, absl::MakeSpan(cpu));
  const absl::Status status =
      CudaReluBackward(out, gradient, absl::MakeSpan(cuda));
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(SameBits(cpu, cuda));
}

TEST(ElementwiseCudaAbsentTest, WithoutAGpuTheKernelsSaySo) {
  if (CudaAvailable().ok()) GTEST_SKIP() << "a GPU is present";
  float value = 1;
  EXPECT_EQ(CudaRelu({1.0f}, absl::MakeSpan(&value, 1)), CudaAvailable());
  EXPECT_FALSE(CudaAvailable().message().empty());
}

}  // namespace
}  // namespace paramd
