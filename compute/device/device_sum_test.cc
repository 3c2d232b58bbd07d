// Devices of several replicas that sum what they have computed.
#include <cmath>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "compute/device/testing/emulated_device.h"

namespace paramd {
namespace {

constexpr uint64_t kSumSize = 1000;
constexpr uint64_t kSumBytes = kSumSize * sizeof(float);
constexpr Accelerator::Stream kKernels = 0;
constexpr Accelerator::Stream kSums = 3;

// A device with a gradient, and what it has for the host.
class Replica {
 public:
  Replica(const EmulatedAccelerator::Options& options,
          std::shared_ptr<ReplicaMeeting> meeting, size_t rank)
      : device(options),
        here(device.AllocateHost(kSumBytes)),
        there(device.Allocate(kSumBytes)),
        gradient(device.Allocate(kSumBytes)),
        sum(device.AllocateHost(kSumBytes)),
        up(device.MakeMark()),
        summed(device.MakeMark()),
        down(device.MakeMark()),
        joined(device.Join({std::move(meeting), rank})) {}

  static Tensor Of(const Device::Memory& memory) {
    return {memory.get(), DType::kFloat32, {kSumSize}};
  }
  float* gradients() const { return static_cast<float*>(gradient.get()); }
  const float* sums() const { return static_cast<const float*>(sum.get()); }

  // The gradient is twice `value` then, divided by the place.
  void Compute(float value) {
    device.Wait(up);
    for (uint64_t i = 0; i < kSumSize; ++i) {
      static_cast<float*>(here.get())[i] = value / static_cast<float>(i + 1);
    }
    device.UploadBehind();
    device.Upload(here.get(), kSumBytes, there.get());
    device.MarkUploads(up);
    device.ComputeBehind(up);
    device.Add(Of(there), 1, Of(there), Of(gradient));
  }
  // In two reductions, of one part and of two.
  void Sum() {
    device.Sum({{gradients(), 300}}, summed);
    device.Sum({{gradients() + 300, 1}, {gradients() + 301, kSumSize - 301}},
               summed);
  }
  void Download() {
    device.Download(gradient.get(), kSumBytes, sum.get(), down);
  }

  EmulatedDevice device;
  const Device::Memory here;
  const Device::Memory there;
  const Device::Memory gradient;
  const Device::Memory sum;
  const DeviceLink::Mark up;
  const DeviceLink::Mark summed;
  const DeviceLink::Mark down;
  const absl::Status joined;
};

// Each of `size` replicas on its own thread, with other delays each time.
void OnReplicas(size_t size, const std::function<void(size_t, Replica*)>& run,
                EmulatedAccelerator::Options options = {}) {
  static uint64_t seed = 0;
  const auto meeting = std::make_shared<ReplicaMeeting>(size);
  std::vector<std::thread> threads;
  for (size_t r = 0; r < size; ++r) {
    options.seed = ++seed;
    threads.emplace_back([&run, options, meeting, r] {
      Replica replica(options, meeting, r);
      ASSERT_TRUE(replica.joined.ok()) << replica.joined;
      run(r, &replica);
      // No device ends while others sum with it.
      static_cast<void>(meeting->Meet(absl::OkStatus()).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(DeviceSumTest, AllHaveTheSumInTheOrderOfRanks) {
  for (const size_t size : {1, 2, 3, 5}) {
    OnReplicas(size, [&](size_t rank, Replica* replica) {
      for (int step = 1; step < 50; ++step) {
        const auto value = [&](size_t r) {
          return 0.1f * static_cast<float>(step) + static_cast<float>(r * r);
        };
        replica->Compute(value(rank));
        replica->Sum();
        replica->device.DownloadBehind(replica->summed);
        replica->Download();
        replica->device.Wait(replica->down);
        for (uint64_t i = 0; i < kSumSize; ++i) {
          float wanted = 0;
          for (size_t r = 0; r < size; ++r) {
            const float half = value(r) / static_cast<float>(i + 1);
            wanted = r == 0 ? half + half : wanted + (half + half);
          }
          ASSERT_EQ(replica->sums()[i], wanted) << i;
        }
      }
    });
  }
}

TEST(DeviceSumTest, SumsRunBesideWhatIsComputedLater) {
  OnReplicas(2, [](size_t, Replica* replica) {
    replica->Compute(1);
    replica->Sum();
    std::promise<void> released;
    replica->device.accelerator()->Launch(
        kKernels, [wait = released.get_future().share()] { wait.wait(); });
    replica->device.Wait(replica->summed);  // Else it would never end.
    released.set_value();
  });
}

TEST(DeviceSumTest, FinishEndsSumsToo) {
  OnReplicas(3, [](size_t, Replica* replica) {
    replica->Compute(1);
    replica->Sum();
    replica->device.Finish();
    replica->Download();
    replica->device.Wait(replica->down);
    EXPECT_EQ(replica->sums()[0], 6);
  });
}

// A mistake that a caller may make, and what the emulation makes of it.
TEST(DeviceSumTest, APlantedDownloadBesideTheSumSeesTheOwnGradient) {
  OnReplicas(2, [](size_t, Replica* replica) {
    std::promise<void> released;
    replica->device.accelerator()->Launch(
        kSums, [wait = released.get_future().share()] { wait.wait(); });
    replica->Compute(1);
    replica->Sum();
    replica->Download();  // Without DownloadBehind.
    replica->device.Wait(replica->down);
    EXPECT_EQ(replica->sums()[0], 2);
    released.set_value();
    replica->device.Finish();
  });
}

TEST(DeviceSumTest, NobodyWaitsForALostDevice) {
  constexpr EmulatedAccelerator::Options kSoon{.lost_after = 4};
  const auto meeting = std::make_shared<ReplicaMeeting>(2);
  std::thread lost([&] {
    Replica replica(kSoon, meeting, 1);
    for (int step = 0; step < 3; ++step) {
      replica.Compute(1);
      if (!replica.device.status().ok()) break;
      replica.Sum();
    }
    EXPECT_EQ(replica.device.status(),
              absl::UnavailableError("emulated:0 is lost"));
    replica.device.AbortSums();
    EXPECT_TRUE(absl::IsCancelled(meeting->Meet(absl::OkStatus())));
  });
  Replica replica({}, meeting, 0);
  for (int step = 0; step < 3; ++step) {
    replica.Compute(1);
    replica.Sum();
    replica.device.Wait(replica.summed);
  }
  EXPECT_EQ(replica.device.status(),
            absl::UnavailableError("emulated:0 is lost"));
  meeting->Abort();
  lost.join();
}

TEST(DeviceSumTest, WhereOneCantJoinNoneDoes) {
  const auto meeting = std::make_shared<ReplicaMeeting>(2);
  std::thread fails([&] {
    // It has no memory for what a replica allocates.
    Replica replica({.memory_bytes = 1}, meeting, 1);
    EXPECT_TRUE(absl::IsResourceExhausted(replica.joined));
  });
  Replica replica({}, meeting, 0);
  EXPECT_TRUE(absl::IsCancelled(replica.joined)) << replica.joined;
  EXPECT_TRUE(replica.device.status().ok());
  fails.join();
}

using DeviceSumDeathTest = ::testing::Test;

TEST_F(DeviceSumDeathTest, ASumOfHostMemoryIsRefused) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto meeting = std::make_shared<ReplicaMeeting>(1);
  Replica replica({}, meeting, 0);
  float* const here = static_cast<float*>(replica.here.get());
  EXPECT_DEATH(replica.device.Sum({{here, kSumSize}}, replica.summed),
               "is given memory of the device");
}

}  // namespace
}  // namespace paramd
