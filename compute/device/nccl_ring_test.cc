// Rings of emulated devices, by a library that does as NCCL does.
#include "compute/device/nccl_ring.h"

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "compute/device/testing/emulated_device.h"

namespace paramd {
namespace {

using Ring = std::shared_ptr<DeviceRing>;

// More than crosses at a time.
constexpr size_t kRingValues = (size_t{1} << 20) + 1003;

// Numbers whose sum depends on the order of adding.
float RingTerm(size_t rank, size_t i) {
  return static_cast<float>((rank + 1) * (i % 1009 + 3)) * 1e7f / 3 -
         1.7f * static_cast<float>(rank);
}
float RingSumOf(size_t size, size_t i) {
  float sum = RingTerm(0, i);
  for (size_t r = 1; r < size; ++r) sum += RingTerm(r, i);
  return sum;
}

Ring OpenRing(uint64_t seed) {
  EmulatedAccelerator accelerator({.seed = seed});
  auto ring = accelerator.OpenRing();
  EXPECT_TRUE(ring.ok()) << ring.status();
  return *std::move(ring);
}

absl::Status AwaitFormed(DeviceRing* ring) {
  while (true) {
    const absl::StatusOr<bool> formed = ring->HasFormed();
    if (!formed.ok()) return formed.status();
    if (*formed) return absl::OkStatus();
    absl::SleepFor(absl::Milliseconds(1));
  }
}

absl::Status AwaitOver(const DeviceRing& ring) {
  while (ring.status().ok()) absl::SleepFor(absl::Milliseconds(1));
  return ring.status();
}

class NcclRingTest : public ::testing::Test {
 protected:
  ~NcclRingTest() override {
    EmulatedNccl::SetFaults({});
    EXPECT_EQ(EmulatedNccl::ends(), 0);
  }

  // Each of `size` members, on its thread, when all have come.
  static void OnRing(size_t size,
                     const std::function<void(size_t, const Ring&)>& run) {
    static uint64_t seed = 0;
    std::vector<Ring> rings;
    for (size_t r = 0; r < size; ++r) rings.push_back(OpenRing(++seed));
    const auto id = rings[0]->MakeId();
    ASSERT_TRUE(id.ok()) << id.status();
    std::vector<std::thread> threads;
    for (size_t r = 0; r < size; ++r) {
      threads.emplace_back([&, r, ring = std::move(rings[r])]() mutable {
        ring->Begin(*id, r, size);
        EXPECT_EQ(ring->size(), size);
        EXPECT_TRUE(AwaitFormed(ring.get()).ok());
        run(r, ring);
        ring = nullptr;
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_F(NcclRingTest, HostMemoryBecomesTheSumInTheOrderOfRanks) {
  for (const size_t size : {1, 2, 3}) {
    OnRing(size, [&](size_t rank, const Ring& ring) {
      for (const size_t count : {kRingValues, size_t{1}, size_t{0}}) {
        std::vector<float> values(count);
        for (size_t i = 0; i < count; ++i) values[i] = RingTerm(rank, i);
        EXPECT_TRUE(ring->Sum(absl::MakeSpan(values)).ok());
        for (size_t i = 0; i < count; ++i) {
          ASSERT_EQ(values[i], RingSumOf(size, i));
        }
      }
      // Nobody leaves before all have their sums.
      float last = 0;
      EXPECT_TRUE(ring->Sum({&last, 1}).ok());
    });
  }
}

// What a device has computed is summed where it lies, after what computes it
// and before what is downloaded, in two reductions.
TEST_F(NcclRingTest, ADevicesMemoryBecomesTheSumInItsPlaceInTheStream) {
  constexpr uint64_t kSize = 1000;
  constexpr uint64_t kBytes = kSize * sizeof(float);
  for (const size_t size : {2, 3}) {
    OnRing(size, [&](size_t rank, const Ring& ring) {
      EmulatedDevice device({.seed = 7 + rank});
      const auto meeting = std::make_shared<ReplicaMeeting>(1);
      EXPECT_TRUE(device.Join({.meeting = meeting, .ring = ring}).ok());
      const size_t events = device.accelerator()->events();
      EXPECT_TRUE(device.Join({.meeting = meeting, .ring = ring}).ok());
      EXPECT_EQ(device.accelerator()->events(), events);
      const auto here = device.AllocateHost(kBytes);
      const auto there = device.Allocate(kBytes);
      const auto gradient = device.Allocate(kBytes);
      const auto sum = device.AllocateHost(kBytes);
      const DeviceLink::Mark up = device.MakeMark();
      const DeviceLink::Mark summed = device.MakeMark();
      const DeviceLink::Mark down = device.MakeMark();
      const Tensor half{there.get(), DType::kFloat32, {kSize}};
      float* const values = static_cast<float*>(gradient.get());
      for (int step = 0; step < 5; ++step) {
        for (uint64_t i = 0; i < kSize; ++i) {
          static_cast<float*>(here.get())[i] = RingTerm(rank, i) / 2;
        }
        device.UploadBehind();
        device.Upload(here.get(), kBytes, there.get());
        device.MarkUploads(up);
        device.ComputeBehind(up);
        device.Add(half, 1, half, {values, DType::kFloat32, {kSize}});
        device.Sum({{values, 300}}, summed);
        device.Sum({{values + 300, 1}, {values + 301, kSize - 301}}, summed);
        device.DownloadBehind(summed);
        device.Download(values, kBytes, sum.get(), down);
        device.Wait(down);
        EXPECT_TRUE(ring->status().ok());
        for (uint64_t i = 0; i < kSize; ++i) {
          ASSERT_EQ(static_cast<float*>(sum.get())[i], RingSumOf(size, i));
        }
      }
      device.Finish();
      float last = 0;
      EXPECT_TRUE(ring->Sum({&last, 1}).ok());
    });
  }
}

TEST_F(NcclRingTest, AMemberThatIsLostEndsTheSumsOfTheOthers) {
  for (const size_t lost : {0, 1, 2}) {
    OnRing(3, [&](size_t rank, const Ring& ring) {
      std::vector<float> values(1000, 1.0f);
      EXPECT_TRUE(ring->Sum(absl::MakeSpan(values)).ok());
      if (rank == lost) return;
      absl::Status status;
      while (status.ok()) status = ring->Sum(absl::MakeSpan(values));
      EXPECT_TRUE(absl::IsUnavailable(status));
      EXPECT_THAT(std::string(status.message()),
                  ::testing::HasSubstr("another process is lost"));
      EXPECT_EQ(ring->status(), status);
      EXPECT_EQ(ring->Sum(absl::MakeSpan(values)), status);
    });
  }
}

// The host waits in the device for a sum that will never be, as for any other
// work of a stream.
TEST_F(NcclRingTest, ADeviceThatWaitsForALostMemberGoesOnAndIsSound) {
  OnRing(2, [&](size_t rank, const Ring& ring) {
    if (rank == 1) return;
    EmulatedDevice device;
    EXPECT_TRUE(device
                    .Join({.meeting = std::make_shared<ReplicaMeeting>(1),
                           .ring = ring})
                    .ok());
    const auto gradient = device.Allocate(sizeof(float));
    const DeviceLink::Mark summed = device.MakeMark();
    device.Sum({{static_cast<float*>(gradient.get()), 1}}, summed);
    device.Wait(summed);
    EXPECT_TRUE(absl::IsUnavailable(AwaitOver(*ring)));
    EXPECT_TRUE(device.status().ok()) << device.status();
    device.Sum({{static_cast<float*>(gradient.get()), 1}}, summed);
    device.Finish();
  });
}

TEST_F(NcclRingTest, AnAbortBesideSumsFreesNothingBelowThem) {
  const absl::Status why = absl::UnavailableError("the round is over");
  for (int again = 0; again < 30; ++again) {
    OnRing(2, [&](size_t rank, const Ring& ring) {
      std::thread aborting;
      if (rank == 0) {
        aborting = std::thread([&] {
          absl::SleepFor(absl::Microseconds(200 * again));
          ring->Abort(why);
          ring->Abort(absl::UnavailableError("it comes second"));
        });
      }
      std::vector<float> values(100, 1.0f);
      absl::Status status;
      while (status.ok()) status = ring->Sum(absl::MakeSpan(values));
      if (rank > 0) return;
      EXPECT_EQ(status, why);
      aborting.join();
    });
  }
}

TEST_F(NcclRingTest, OneThatNeverFormsIsLeftAtOnce) {
  for (const int absent : {0, 1}) {
    EmulatedNccl::SetFaults({.absent_rank = absent});
    std::vector<Ring> rings = {OpenRing(1), OpenRing(2)};
    const auto id = rings[0]->MakeId();
    for (size_t r = 0; r < 2; ++r) rings[r]->Begin(*id, r, 2);
    for (int i = 0; i < 20; ++i) {
      for (const Ring& ring : rings) {
        const auto formed = ring->HasFormed();
        ASSERT_TRUE(formed.ok()) << formed.status();
        EXPECT_FALSE(*formed);
      }
    }
    rings[absent]->Abort(absl::DeadlineExceededError("nobody came"));
    EXPECT_EQ(rings[absent]->HasFormed().status(),
              absl::UnavailableError("nobody came"));
  }
}

TEST_F(NcclRingTest, WhereItIsMissingOrTooOldNoneIsOpened) {
  const auto open = [](absl::StatusOr<Nccl> (*nccl)()) {
    return EmulatedAccelerator({.nccl = nccl}).OpenRing().status();
  };
  EXPECT_EQ(open([]() -> absl::StatusOr<Nccl> {
              return absl::FailedPreconditionError("no library");
            }),
            absl::FailedPreconditionError("no library"));
  EmulatedNccl::SetFaults({.version = 21304});
  EXPECT_EQ(open(EmulatedNccl::Load),
            absl::FailedPreconditionError(
                "NCCL 2.13 is too old to sum between processes (install "
                "libnccl2 of version 2.14 or newer)"));
  // It has none of the calls.
  EXPECT_TRUE(absl::IsFailedPrecondition(
      open([]() -> absl::StatusOr<Nccl> { return Nccl(); })));
}

TEST_F(NcclRingTest, AnErrorOfACallEndsIt) {
  EmulatedAccelerator accelerator({.nccl = [] {
    auto nccl = EmulatedNccl::Load();
    nccl->sum = [](const void*, void*, size_t, int, int, Nccl::End,
                   Nccl::Stream) { return 5; };
    return nccl;
  }});
  const auto ring = accelerator.OpenRing();
  ASSERT_TRUE(ring.ok()) << ring.status();
  (*ring)->Begin(*(*ring)->MakeId(), 0, 1);
  ASSERT_TRUE(AwaitFormed(ring->get()).ok());
  float value = 0;
  EXPECT_EQ((*ring)->Sum({&value, 1}),
            absl::UnavailableError("NCCL says: an error that nobody made"));
}

}  // namespace
}  // namespace paramd
