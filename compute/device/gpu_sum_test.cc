// Sums of real GPUs: of one alone, and of all of this machine.
#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "compute/device/cuda_device.h"
#include "compute/device/device_choice.h"
#include "compute/device/device_link.h"

namespace paramd {
namespace {

// Several megabytes, and no round number of them.
constexpr uint64_t kSize = 3000017;
constexpr uint64_t kBytes = kSize * sizeof(float);

class GpuSumTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto chosen = ChooseDevice("cuda:0", ProbeCuda(),
                                     [](absl::string_view) { return true; });
    if (!chosen.ok()) GTEST_SKIP() << chosen.status().message();
    // Found when it is first needed, as here.
    const absl::Status joined =
        MakeCudaDevice(0)->link()->Join({std::make_shared<ReplicaMeeting>(1)});
    if (absl::IsFailedPrecondition(joined)) GTEST_SKIP() << joined.message();
  }

  // What each of the first `count` GPUs has after `steps` sums of what `value`
  // gives for its rank and a place.
  static std::vector<std::vector<float>> Sums(size_t count, int steps,
                                              float (*value)(size_t rank,
                                                             uint64_t place)) {
    const auto meeting = std::make_shared<ReplicaMeeting>(count);
    std::vector<std::vector<float>> sums(count);
    std::vector<std::thread> threads;
    for (size_t r = 0; r < count; ++r) {
      threads.emplace_back([&, r] {
        const auto device = MakeCudaDevice(static_cast<int>(r));
        DeviceLink& link = *device->link();
        const absl::Status joined = link.Join({meeting, r});
        ASSERT_TRUE(joined.ok()) << joined;
        const auto in = link.AllocateHost(kBytes);
        const auto there = device->Allocate(kBytes);
        const auto doubled = device->Allocate(kBytes);
        const auto out = link.AllocateHost(kBytes);
        const DeviceLink::Mark up = link.MakeMark();
        const DeviceLink::Mark summed = link.MakeMark();
        const DeviceLink::Mark down = link.MakeMark();
        ASSERT_TRUE(device->status().ok()) << device->status();
        float* const values = static_cast<float*>(in.get());
        for (uint64_t i = 0; i < kSize; ++i) values[i] = value(r, i);
        float* const gradient = static_cast<float*>(doubled.get());
        const Tensor tensor{there.get(), DType::kFloat32, {kSize}};
        for (int step = 0; step < steps; ++step) {
          link.UploadBehind();
          link.Upload(values, kBytes, there.get());
          link.MarkUploads(up);
          link.ComputeBehind(up);
          device->Add(tensor, 1, tensor, {gradient, tensor.dtype, {kSize}});
          link.Sum({{gradient, 17}, {gradient + 17, kSize - 17}}, summed);
          link.DownloadBehind(summed);
          link.Download(gradient, kBytes, out.get(), down);
          link.Wait(down);
        }
        EXPECT_TRUE(device->status().ok()) << device->status();
        const float* const found = static_cast<const float*>(out.get());
        sums[r].assign(found, found + kSize);
        // No device ends while others sum with it.
        EXPECT_TRUE(meeting->Meet(absl::OkStatus()).ok());
      });
    }
    for (std::thread& thread : threads) thread.join();
    return sums;
  }
};

TEST_F(GpuSumTest, ASumHasAllGpusTerms) {
  const size_t all = ProbeCuda().gpus.size();
  for (const size_t count : {size_t{1}, all}) {
    // Whole numbers, whose sums are exact in any order.
    const auto sums = Sums(count, 3, [](size_t rank, uint64_t place) {
      return static_cast<float>((rank + 1) * (place % 1000));
    });
    for (const std::vector<float>& sum : sums) {
      ASSERT_EQ(sum.size(), kSize);
      for (uint64_t i = 0; i < kSize; ++i) {
        ASSERT_EQ(sum[i], static_cast<float>(count * (count + 1) * (i % 1000)));
      }
    }
  }
}

TEST_F(GpuSumTest, AllGpusHaveTheSameBitsOnEachRun) {
  const auto run = [] {
    return Sums(ProbeCuda().gpus.size(), 5, [](size_t rank, uint64_t place) {
      return 1.0f / static_cast<float>(1 + place * (rank + 3) % 1013);
    });
  };
  const auto first = run();
  for (const std::vector<float>& sum : first) EXPECT_TRUE(sum == first[0]);
  EXPECT_TRUE(run() == first);
}

TEST_F(GpuSumTest, OneGpuTwiceIsRefused) {
  const auto meeting = std::make_shared<ReplicaMeeting>(2);
  std::vector<std::thread> threads;
  for (size_t r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      const auto device = MakeCudaDevice(0);
      EXPECT_FALSE(device->link()->Join({meeting, r}).ok());
      EXPECT_TRUE(device->status().ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace paramd
