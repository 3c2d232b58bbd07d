// Rings of real GPUs, by NCCL: of one alone, of all of this machine in threads,
// and in processes of which one is killed.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"

#include "compute/device/cuda_device.h"
#include "compute/device/device_choice.h"
#include "compute/device/device_link.h"

namespace paramd {
namespace {

// Several megabytes, and no round number of them.
constexpr uint64_t kSize = 3000017;
constexpr uint64_t kBytes = kSize * sizeof(float);

using Ring = std::shared_ptr<DeviceRing>;

float InverseOf(size_t rank, uint64_t place) {
  return 1.0f / static_cast<float>(1 + place * (rank + 3) % 1013);
}
// Whole numbers, whose sums are exact in any order.
float WholeOf(size_t rank, uint64_t place) {
  return static_cast<float>((rank + 1) * (place % 1000));
}

absl::Status AwaitFormed(DeviceRing* ring) {
  while (true) {
    const absl::StatusOr<bool> formed = ring->HasFormed();
    if (!formed.ok()) return formed.status();
    if (*formed) return absl::OkStatus();
    absl::SleepFor(absl::Milliseconds(1));
  }
}

class GpuRingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto chosen = ChooseDevice("cuda:0", ProbeCuda(),
                                     [](absl::string_view) { return true; });
    if (!chosen.ok()) GTEST_SKIP() << chosen.status().message();
    // Found when it is first needed, as here.
    const auto opened = MakeCudaDevice(0)->link()->OpenRing();
    if (!opened.ok()) GTEST_SKIP() << opened.status().message();
  }

  // Each of the first `count` GPUs, on its thread, when all have come.
  static void OnRing(
      size_t count,
      const std::function<void(size_t, Device*, const Ring&)>& run) {
    DeviceRing::Id id;
    std::vector<std::unique_ptr<Device>> devices;
    std::vector<Ring> rings;
    for (size_t r = 0; r < count; ++r) {
      devices.push_back(MakeCudaDevice(static_cast<int>(r)));
      rings.push_back(*devices[r]->link()->OpenRing());
    }
    id = *rings[0]->MakeId();
    std::vector<std::thread> threads;
    for (size_t r = 0; r < count; ++r) {
      threads.emplace_back([&, r] {
        rings[r]->Begin(id, r, count);
        const absl::Status formed = AwaitFormed(rings[r].get());
        ASSERT_TRUE(formed.ok()) << formed;
        run(r, devices[r].get(), rings[r]);
        EXPECT_TRUE(devices[r]->status().ok()) << devices[r]->status();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // The sum of `value` on the device, in two reductions, as the host gets it.
  static std::vector<float> SumThere(size_t rank, Device* device,
                                     const Ring& ring,
                                     float (*value)(size_t rank,
                                                    uint64_t place)) {
    DeviceLink& link = *device->link();
    EXPECT_TRUE(
        link.Join({std::make_shared<ReplicaMeeting>(1), 0, 0, ring}).ok());
    const auto in = link.AllocateHost(kBytes);
    const auto there = device->Allocate(kBytes);
    const auto out = link.AllocateHost(kBytes);
    const DeviceLink::Mark up = link.MakeMark();
    const DeviceLink::Mark summed = link.MakeMark();
    const DeviceLink::Mark down = link.MakeMark();
    EXPECT_TRUE(device->status().ok()) << device->status();
    float* const values = static_cast<float*>(in.get());
    float* const gradient = static_cast<float*>(there.get());
    for (uint64_t i = 0; i < kSize; ++i) values[i] = value(rank, i);
    link.Upload(values, kBytes, gradient);
    link.MarkUploads(up);
    link.ComputeBehind(up);
    link.Sum({{gradient, 17}, {gradient + 17, kSize - 17}}, summed);
    link.DownloadBehind(summed);
    link.Download(gradient, kBytes, out.get(), down);
    link.Wait(down);
    device->Finish();
    const float* const found = static_cast<const float*>(out.get());
    return {found, found + kSize};
  }

  // Of host memory.
  static absl::StatusOr<std::vector<float>> SumHere(
      size_t rank, const Ring& ring,
      float (*value)(size_t rank, uint64_t place)) {
    std::vector<float> values(kSize);
    for (uint64_t i = 0; i < kSize; ++i) values[i] = value(rank, i);
    const absl::Status summed = ring->Sum(absl::MakeSpan(values));
    if (!summed.ok()) return summed;
    return values;
  }
};

TEST_F(GpuRingTest, ASumHasAllTermsThereAndInHostMemory) {
  const size_t all = ProbeCuda().gpus.size();
  for (const size_t count : {size_t{1}, all}) {
    OnRing(count, [&](size_t rank, Device* device, const Ring& ring) {
      const auto there = SumThere(rank, device, ring, WholeOf);
      const auto here = SumHere(rank, ring, WholeOf);
      ASSERT_TRUE(here.ok()) << here.status();
      EXPECT_TRUE(ring->status().ok()) << ring->status();
      for (uint64_t i = 0; i < kSize; ++i) {
        const float expected =
            WholeOf(0, i) * static_cast<float>(count * (count + 1) / 2);
        ASSERT_EQ(there[i], expected);
        ASSERT_EQ((*here)[i], expected);
      }
    });
  }
}

TEST_F(GpuRingTest, AllHaveTheSameBitsInEachRing) {
  const size_t all = ProbeCuda().gpus.size();
  std::vector<std::vector<float>> first;
  for (int again = 0; again < 2; ++again) {
    std::vector<std::vector<float>> sums(all);
    OnRing(all, [&](size_t rank, Device* device, const Ring& ring) {
      sums[rank] = SumThere(rank, device, ring, InverseOf);
    });
    for (const std::vector<float>& sum : sums) EXPECT_TRUE(sum == sums[0]);
    if (again == 0) first = sums;
    EXPECT_TRUE(sums == first);
  }
  if (all < 2) return;
  // Of two each element is one addition, in whichever order.
  OnRing(2, [&](size_t rank, Device* device, const Ring& ring) {
    const auto sum = SumThere(rank, device, ring, InverseOf);
    for (uint64_t i = 0; i < kSize; ++i) {
      ASSERT_EQ(sum[i], InverseOf(0, i) + InverseOf(1, i));
    }
  });
}

TEST_F(GpuRingTest, OneThatNobodyJoinsIsLeftAtOnceAndItsDeviceIsSound) {
  const auto device = MakeCudaDevice(0);
  const Ring ring = *device->link()->OpenRing();
  ring->Begin(*ring->MakeId(), 0, 2);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(ring->HasFormed().ok()) << ring->status();
    EXPECT_FALSE(*ring->HasFormed());
    absl::SleepFor(absl::Milliseconds(50));
  }
  ring->Abort(absl::CancelledError("nobody came"));
  EXPECT_FALSE(ring->HasFormed().ok());
  EXPECT_NE(device->Allocate(kBytes), nullptr);
  EXPECT_TRUE(device->status().ok()) << device->status();
}

// The first GPU waits in a kernel for one that has left.
TEST_F(GpuRingTest, AMemberThatLeavesHarmsNoOthersDevice) {
  const size_t all = ProbeCuda().gpus.size();
  if (all < 2) GTEST_SKIP() << "there is one GPU";
  for (int again = 0; again < 2; ++again) {
    OnRing(all, [&](size_t rank, Device* device, const Ring& ring) {
      ASSERT_TRUE(SumHere(rank, ring, WholeOf).ok());
      if (rank == 1) {
        return ring->Abort(absl::CancelledError("it leaves"));
      }
      std::thread heartbeats([&] {
        absl::SleepFor(absl::Seconds(2));
        ring->Abort(absl::UnavailableError("it is silent"));
      });
      static_cast<void>(SumThere(rank, device, ring, WholeOf));
      EXPECT_FALSE(ring->status().ok());
      heartbeats.join();
    });
  }
}

// What a child process does: it sums until its ring is over, or it is killed.
class GpuRingChild : public GpuRingTest {};

TEST_F(GpuRingChild, Sums) {
  const char* const rank_text = std::getenv("PARAMD_RING_RANK");
  const char* const path = std::getenv("PARAMD_RING_ID");
  if (rank_text == nullptr || path == nullptr) {
    GTEST_SKIP() << "it is for processes that another test starts";
  }
  const size_t rank = static_cast<size_t>(std::atoi(rank_text));
  DeviceRing::Id id;
  std::ifstream(path).read(id.bytes, sizeof(id.bytes));
  const auto device = MakeCudaDevice(static_cast<int>(rank));
  const Ring ring = *device->link()->OpenRing();
  ring->Begin(id, rank, ProbeCuda().gpus.size());
  ASSERT_TRUE(AwaitFormed(ring.get()).ok());
  while (ring->status().ok()) {
    static_cast<void>(SumThere(rank, device.get(), ring, WholeOf));
  }
  EXPECT_TRUE(device->status().ok()) << device->status();
}

TEST_F(GpuRingTest, ProcessesSumUntilOneIsKilledAndThenInAnotherRing) {
  const size_t all = ProbeCuda().gpus.size();
  if (all < 2) GTEST_SKIP() << "there is one GPU";
  const std::string path = ::testing::TempDir() + "/ring-id";
  const auto device = MakeCudaDevice(0);
  for (int again = 0; again < 2; ++again) {
    const Ring ring = *device->link()->OpenRing();
    const DeviceRing::Id id = *ring->MakeId();
    std::ofstream(path).write(id.bytes, sizeof(id.bytes));
    std::vector<pid_t> children;
    for (size_t r = 1; r < all; ++r) {
      // Made before: a process that has begun with CUDA only executes.
      const std::string number = absl::StrCat("PARAMD_RING_RANK=", r);
      const std::string where = "PARAMD_RING_ID=" + path;
      const std::string library = absl::StrCat(
          "LD_LIBRARY_PATH=", std::getenv("LD_LIBRARY_PATH") == nullptr
                                  ? ""
                                  : std::getenv("LD_LIBRARY_PATH"));
      const char* const environment[] = {number.c_str(), where.c_str(),
                                         library.c_str(), nullptr};
      const pid_t child = fork();
      if (child == 0) {
        execle("/proc/self/exe", "gpu_ring_test",
               "--gtest_filter=GpuRingChild.Sums", nullptr, environment);
        _exit(1);
      }
      children.push_back(child);
    }
    ring->Begin(id, 0, all);
    const absl::Status formed = AwaitFormed(ring.get());
    EXPECT_TRUE(formed.ok()) << formed;
    for (int step = 0; formed.ok() && step < 5; ++step) {
      const auto sum = SumThere(0, device.get(), ring, WholeOf);
      EXPECT_EQ(sum[999], WholeOf(0, 999) * all * (all + 1) / 2);
    }
    kill(children[0], SIGKILL);
    while (ring->status().ok()) {
      static_cast<void>(SumThere(0, device.get(), ring, WholeOf));
    }
    EXPECT_TRUE(device->status().ok()) << device->status();
    for (size_t c = 0; c < children.size(); ++c) {
      int status = 0;
      waitpid(children[c], &status, 0);
      EXPECT_EQ(WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                c == 0 ? SIGKILL : 0);
    }
  }
}

}  // namespace
}  // namespace paramd
