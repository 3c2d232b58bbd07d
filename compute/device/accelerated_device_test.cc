#include "compute/device/accelerated_device.h"

#include <cmath>
#include <functional>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "compute/device/testing/emulated_device.h"

namespace paramd {
namespace {

constexpr uint64_t kSize = 1000;
constexpr uint64_t kBytes = kSize * sizeof(float);

// As an accelerated device makes them.
constexpr Accelerator::Stream kCompute = 0;
constexpr Accelerator::Stream kUploads = 1;
constexpr Accelerator::Stream kDownloads = 2;

// A device, and memory of both sides.
class AcceleratedDeviceTest : public ::testing::Test {
 protected:
  explicit AcceleratedDeviceTest(
      const EmulatedAccelerator::Options& options = {})
      : device_(options),
        in_(device_.AllocateHost(kBytes)),
        there_(device_.Allocate(kBytes)),
        doubled_(device_.Allocate(kBytes)),
        out_(device_.AllocateHost(kBytes)),
        up_(device_.MakeMark()),
        down_(device_.MakeMark()) {}

  static Tensor Of(const Device::Memory& memory) {
    return {memory.get(), DType::kFloat32, {kSize}};
  }
  static float* Floats(const Device::Memory& memory) {
    return static_cast<float*>(memory.get());
  }

  void Fill(float value) {
    for (uint64_t i = 0; i < kSize; ++i) Floats(in_)[i] = value;
  }
  void Upload() {
    device_.Upload(in_.get(), kBytes, there_.get());
    device_.MarkUploads(up_);
  }
  void Double() { device_.Add(Of(there_), 1, Of(there_), Of(doubled_)); }
  void Download() {
    device_.Download(doubled_.get(), kBytes, out_.get(), down_);
  }

  // Holds a stream up until the promise is set.
  void Block(Accelerator::Stream stream, std::promise<void>* released) {
    device_.accelerator()->Launch(
        stream, [wait = released->get_future().share()] { wait.wait(); });
  }

  EmulatedDevice device_;
  const Device::Memory in_;
  const Device::Memory there_;
  const Device::Memory doubled_;
  const Device::Memory out_;
  const DeviceLink::Mark up_;
  const DeviceLink::Mark down_;
};

TEST_F(AcceleratedDeviceTest, WhatIsMarkedAndWaitedForIsThere) {
  for (int step = 1; step < 200; ++step) {
    device_.UploadBehind();
    Fill(static_cast<float>(step));
    Upload();
    device_.ComputeBehind(up_);
    Double();
    Download();
    device_.Wait(down_);
    for (uint64_t i = 0; i < kSize; ++i) {
      ASSERT_EQ(Floats(out_)[i], static_cast<float>(2 * step));
    }
  }
  EXPECT_EQ(device_.accelerator()->unpinned_copies(), 0u);
}

TEST_F(AcceleratedDeviceTest, UploadsRunBesideWhatIsComputed) {
  std::promise<void> released;
  Block(kCompute, &released);
  Fill(1);
  Upload();
  device_.Wait(up_);  // Else it would never end.
  released.set_value();
}

TEST_F(AcceleratedDeviceTest, DownloadsRunBesideWhatIsComputedLater) {
  Fill(3);
  Upload();
  device_.ComputeBehind(up_);
  Double();
  Download();
  std::promise<void> released;
  Block(kCompute, &released);
  device_.Wait(down_);
  EXPECT_EQ(Floats(out_)[0], 6);
  released.set_value();
}

TEST_F(AcceleratedDeviceTest, UploadBehindKeepsWhatIsStillRead) {
  Fill(3);
  Upload();
  device_.ComputeBehind(up_);
  std::promise<void> released;
  Block(kCompute, &released);
  Double();
  device_.UploadBehind();
  device_.Wait(up_);
  Fill(5);
  Upload();
  Download();
  released.set_value();
  device_.Wait(down_);
  EXPECT_EQ(Floats(out_)[0], 6);
}

TEST_F(AcceleratedDeviceTest, FinishEndsAll) {
  Fill(4);
  Upload();
  device_.ComputeBehind(up_);
  Double();
  Download();
  device_.Finish();
  EXPECT_EQ(Floats(out_)[kSize - 1], 8);
}

TEST_F(AcceleratedDeviceTest, CopyOfUnpinnedMemoryWaits) {
  const std::vector<float> from(kSize, 7);
  std::vector<float> to(kSize);
  device_.Copy(from.data(), kBytes, there_.get());
  device_.Copy(there_.get(), kBytes, to.data());
  device_.Finish();
  EXPECT_EQ(to, from);
  EXPECT_EQ(device_.accelerator()->unpinned_copies(), 2u);
}

TEST_F(AcceleratedDeviceTest, WhatIsReplayedIsComputedInItsPlaceEachTime) {
  Fill(3);
  Upload();
  device_.ComputeBehind(up_);
  device_.BeginRecording();
  Double();
  const auto recording = device_.EndRecording();
  ASSERT_TRUE(recording.ok()) << recording.status();
  ASSERT_NE(*recording, nullptr);
  Download();
  device_.Wait(down_);
  EXPECT_TRUE(std::isnan(Floats(out_)[0]));  // It was not computed.
  for (int step = 1; step < 50; ++step) {
    device_.UploadBehind();
    Fill(static_cast<float>(step));
    Upload();
    device_.ComputeBehind(up_);
    device_.Replay(**recording);
    Download();
    device_.Wait(down_);
    for (uint64_t i = 0; i < kSize; ++i) {
      ASSERT_EQ(Floats(out_)[i], static_cast<float>(2 * step));
    }
  }
}

TEST_F(AcceleratedDeviceTest, ARecordingMayEndBeforeItIsComputed) {
  Fill(3);
  Upload();
  device_.ComputeBehind(up_);
  device_.BeginRecording();
  Double();
  auto recording = device_.EndRecording();
  ASSERT_TRUE(recording.ok()) << recording.status();
  std::promise<void> released;
  Block(kCompute, &released);
  device_.Replay(**recording);
  recording->reset();
  released.set_value();
  Download();
  device_.Wait(down_);
  EXPECT_EQ(Floats(out_)[0], 6);
}

TEST_F(AcceleratedDeviceTest, WhereNothingIsCalledNothingIsRecorded) {
  device_.BeginRecording();
  const auto recording = device_.EndRecording();
  ASSERT_TRUE(recording.ok()) << recording.status();
  EXPECT_EQ(*recording, nullptr);
}

TEST_F(AcceleratedDeviceTest, CopiesOfOtherStreamsGoOnBesideARecording) {
  Fill(3);
  device_.BeginRecording();
  Upload();
  Double();
  const auto recording = device_.EndRecording();
  ASSERT_TRUE(recording.ok()) << recording.status();
  device_.ComputeBehind(up_);
  device_.Replay(**recording);
  Download();
  device_.Wait(down_);
  EXPECT_EQ(Floats(out_)[0], 6);
}

TEST_F(AcceleratedDeviceTest, WhatCantBeRecordedIsSaidAndTheDeviceGoesOn) {
  Device::Memory freed = device_.Allocate(kBytes);
  std::vector<float> unpinned(kSize);
  const std::pair<std::function<void()>, std::string> cases[] = {
      {[&] { EXPECT_EQ(device_.Allocate(8), nullptr); }, "memory is asked for"},
      {[&] { EXPECT_EQ(device_.AllocateHost(8), nullptr); },
       "memory is asked for"},
      {[&] { freed = nullptr; }, "memory is freed"},
      {[&] { device_.Wait(down_); }, "the host waits"},
      {[&] { device_.UploadBehind(); }, "it is marked"},
      {[&] { device_.ComputeBehind(up_); }, "it is to wait"},
      {[&] { Download(); }, "it is marked"},
      {[&] { device_.Copy(in_.get(), kBytes, there_.get()); },
       "a copy is not of the device's memory"},
      {[&] { device_.Copy(unpinned.data(), kBytes, there_.get()); },
       "a copy is not of the device's memory"}};
  for (const auto& [mistake, why] : cases) {
    device_.BeginRecording();
    Double();
    mistake();
    Double();
    EXPECT_EQ(
        device_.EndRecording().status(),
        absl::FailedPreconditionError("emulated:0 does not record: " + why));
    EXPECT_TRUE(device_.status().ok());
  }
  device_.BeginRecording();
  device_.Copy(there_.get(), kBytes, doubled_.get());
  EXPECT_TRUE(device_.EndRecording().ok());
}

// The next are mistakes that a caller may make, and what the emulation makes of
// them: it would be of no use if they went unseen.

TEST_F(AcceleratedDeviceTest, APlantedReadBeforeTheMarkSeesNaN) {
  Fill(3);
  Upload();
  device_.ComputeBehind(up_);
  Double();
  std::promise<void> released;
  Block(kDownloads, &released);
  Download();
  EXPECT_TRUE(std::isnan(Floats(out_)[0]));
  released.set_value();
  device_.Wait(down_);
  EXPECT_EQ(Floats(out_)[0], 6);
}

TEST_F(AcceleratedDeviceTest, APlantedComputationBesideItsUploadSeesNaN) {
  Fill(3);
  std::promise<void> released;
  Block(kUploads, &released);
  Upload();
  Double();  // Without ComputeBehind(up_).
  Download();
  device_.Wait(down_);
  EXPECT_TRUE(std::isnan(Floats(out_)[0]));
  released.set_value();
}

TEST_F(AcceleratedDeviceTest, APlantedWriteToWhatIsUploadedIsSeen) {
  Fill(3);
  std::promise<void> released;
  Block(kUploads, &released);
  Upload();
  Fill(1000);  // Without Wait(up_).
  released.set_value();
  device_.ComputeBehind(up_);
  Double();
  Download();
  device_.Wait(down_);
  EXPECT_EQ(Floats(out_)[0], 2000);
}

using AcceleratedDeviceDeathTest = AcceleratedDeviceTest;

TEST_F(AcceleratedDeviceDeathTest, AHostThatReadsTheDevicesMemoryDies) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const volatile float* const there = Floats(there_);
  EXPECT_DEATH(static_cast<void>(there[0]), "");
}

TEST_F(AcceleratedDeviceDeathTest, APrimitiveRefusesHostMemory) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(device_.Add(Of(in_), 1, Of(there_), Of(doubled_)),
               "is given memory of the device");
}

TEST_F(AcceleratedDeviceDeathTest, APrimitiveRefusesMoreThanWasAllocated) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  Tensor longer = Of(there_);
  longer.dims = {kSize + 1};
  EXPECT_DEATH(device_.Add(longer, 1, longer, Of(doubled_)),
               "within its bounds");
}

TEST_F(AcceleratedDeviceDeathTest, ARecordingOfMemoryThatIsGoneIsRefused) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  Device::Memory gone = device_.Allocate(kBytes);
  device_.BeginRecording();
  device_.Add(Of(there_), 1, Of(there_), Of(gone));
  const auto recording = device_.EndRecording();
  const uint64_t before = device_.counts().allocations;
  gone = nullptr;
  const Device::Memory other = device_.Allocate(2 * kBytes);
  EXPECT_GT(device_.counts().allocations, before);  // Who looks there knows.
  EXPECT_DEATH(device_.Replay(**recording), "is still there");
}

class SmallDeviceTest : public AcceleratedDeviceTest {
 protected:
  SmallDeviceTest() : AcceleratedDeviceTest({.memory_bytes = 2 * kBytes}) {}
};

TEST_F(SmallDeviceTest, MemoryThatIsNotThereIsRefusedInASentence) {
  EXPECT_EQ(device_.FreeBytes(), 0u);
  EXPECT_EQ(device_.Allocate(5), nullptr);
  EXPECT_EQ(device_.status(),
            absl::ResourceExhaustedError(
                "emulated:0 has 0 bytes free; 5 were asked for"));
}

class LostDeviceTest : public AcceleratedDeviceTest {
 protected:
  LostDeviceTest() : AcceleratedDeviceTest({.lost_after = 2}) {}
};

TEST_F(LostDeviceTest, NobodyWaitsForALostDevice) {
  for (int step = 0; step < 3; ++step) {
    Upload();
    device_.ComputeBehind(up_);
    Double();
    Download();
    device_.Wait(down_);
  }
  device_.Finish();
  EXPECT_EQ(device_.status(), absl::UnavailableError("emulated:0 is lost"));
  device_.BeginRecording();
  Double();
  EXPECT_EQ(device_.EndRecording().status(), device_.status());
}

}  // namespace
}  // namespace paramd
