#include "compute/model/loss_scaler.h"

#include <limits>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

#include "compute/device/testing/test_device.h"

namespace paramd {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class LossScalerTest : public OnTestDevice {
 protected:
  void SetUp() override {
    OnTestDevice::SetUp();
    if (IsSkipped()) return;
    device_ = MakeTestDevice();
    device_->SetComputeFormat(ComputeFormat::kFp16);
    memory_ = device_->Allocate(sizeof(float));
    scaler_ = std::make_unique<LossScaler>(device_.get());
  }

  // A step whose gradients are infinite with a scale above `limit`. How often
  // they were computed.
  int Step(double limit, double fixed = 0, bool remembers = true) {
    scaler_->Begin(fixed, remembers, /*gradients=*/2);
    for (int times = 1;; ++times) {
      const float scaled = static_cast<float>(scaler_->scale());
      Write(scaled > limit ? kInfinity : 3 * scaled);
      scaler_->Unscale(gradient());
      Write(5 * scaled);
      scaler_->Unscale(gradient());
      if (!scaler_->MustRepeat()) return times;
    }
  }

  // Whose gradients are none.
  void GoodSteps(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      scaler_->Begin(/*fixed=*/0, /*remembers=*/true, /*gradients=*/2);
      EXPECT_FALSE(scaler_->MustRepeat());
    }
  }

  void Write(float value) {
    device_->Copy(&value, sizeof(value), memory_.get());
    device_->Finish();
  }
  float Read() {
    float value = 0;
    device_->Copy(memory_.get(), sizeof(value), &value);
    device_->Finish();
    return value;
  }
  Tensor gradient() const { return {memory_.get(), DType::kFloat32, {1}}; }

  std::unique_ptr<Device> device_;
  Device::Memory memory_;
  std::unique_ptr<LossScaler> scaler_;
};

TEST_F(LossScalerTest, GradientsAreDividedByWhatTheLossWasMultipliedBy) {
  EXPECT_EQ(Step(/*limit=*/1e9), 1);
  EXPECT_EQ(Read(), 5);
  EXPECT_EQ(scaler_->scale(), 65536);
  EXPECT_EQ(scaler_->figures().overflows, 0u);
  EXPECT_EQ(scaler_->figures().scale, 65536);
}

TEST_F(LossScalerTest, HalvesTheScaleUntilAllIsFiniteAndRemembersIt) {
  EXPECT_EQ(Step(/*limit=*/10000), 4);
  EXPECT_EQ(scaler_->scale(), 8192);
  EXPECT_EQ(Read(), 5);
  EXPECT_EQ(scaler_->figures().overflows, 3u);
  EXPECT_EQ(Step(/*limit=*/10000), 1);
  EXPECT_EQ(scaler_->figures().overflows, 3u);
  EXPECT_EQ(scaler_->figures().scale, 8192);
}

TEST_F(LossScalerTest, DoublesTheScaleBehindManyStepsUpToALimit) {
  GoodSteps(LossScaler::kStepsToDouble);
  EXPECT_EQ(scaler_->scale(), 65536);
  GoodSteps(1);
  EXPECT_EQ(scaler_->scale(), 2 * 65536);
  // An overflow in between begins the count anew.
  GoodSteps(LossScaler::kStepsToDouble - 2);
  EXPECT_EQ(Step(/*limit=*/65536), 2);
  GoodSteps(LossScaler::kStepsToDouble - 1);
  EXPECT_EQ(scaler_->scale(), 65536);
  GoodSteps(20 * LossScaler::kStepsToDouble);
  EXPECT_EQ(scaler_->scale(), LossScaler::kLargest);
}

TEST_F(LossScalerTest, AStepThatIsAFunctionOfItsBatchBeginsAsEachDoes) {
  EXPECT_EQ(Step(/*limit=*/10000, /*fixed=*/0, /*remembers=*/false), 4);
  EXPECT_EQ(Step(/*limit=*/10000, /*fixed=*/0, /*remembers=*/false), 4);
  EXPECT_EQ(Step(/*limit=*/1e9, /*fixed=*/0, /*remembers=*/false), 1);
  EXPECT_EQ(scaler_->scale(), 65536);
}

TEST_F(LossScalerTest, AFixedScaleBeginsEachStep) {
  EXPECT_EQ(Step(/*limit=*/1e9, /*fixed=*/1000), 1);
  EXPECT_EQ(scaler_->scale(), 1000);
  EXPECT_EQ(Step(/*limit=*/300, /*fixed=*/1000), 3);
  EXPECT_EQ(scaler_->scale(), 250);
  EXPECT_EQ(Step(/*limit=*/1e9, /*fixed=*/1000), 1);
  EXPECT_EQ(scaler_->scale(), 1000);
}

TEST_F(LossScalerTest, WhatNoScaleMakesFiniteIsHandedOnAndLeavesTheScale) {
  EXPECT_EQ(Step(/*limit=*/0), 17);
  EXPECT_EQ(scaler_->scale(), 1);
  EXPECT_EQ(Step(/*limit=*/1e9), 1);
  EXPECT_EQ(scaler_->scale(), 65536);
}

TEST_F(LossScalerTest, ScalesNothingInOtherFormats) {
  const auto device = MakeTestDevice();
  device->SetComputeFormat(ComputeFormat::kBf16);
  LossScaler scaler(device.get());
  EXPECT_FALSE(scaler.scales());
  scaler.Begin(/*fixed=*/1024, /*remembers=*/true, 1);
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_FALSE(scaler.MustRepeat());
  EXPECT_EQ(scaler.figures().scale, 0);
}

}  // namespace
}  // namespace paramd
