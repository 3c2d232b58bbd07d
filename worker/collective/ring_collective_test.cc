#include "worker/collective/ring_collective.h"

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/mutex.h"
#include "compute/device/testing/emulated_accelerator.h"
#include "worker/collective/gloo_collective.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kInHostMemory[] =
    "gradients of workers are summed in host memory, not by their devices";
constexpr char kByDevices[] = "workers' devices sum their gradients";

absl::StatusOr<std::unique_ptr<DeviceRing>> OpenEmulated() {
  return EmulatedAccelerator({}).OpenRing();
}

// A value whose sum depends on the order of adding.
float TermOf(size_t rank) {
  return static_cast<float>(rank + 1) * 1e7f / 3 - 1.7f * rank;
}

// Processes, each a thread, and the collectives that they have one after the
// other.
class RingCollectiveTest : public ::testing::Test {
 protected:
  using Member = std::unique_ptr<LinkedCollective>;
  using Run = std::function<void(size_t rank, LinkedCollective*)>;

  ~RingCollectiveTest() override { EmulatedNccl::SetFaults({}); }

  void AddProcess(OpenRing open = OpenEmulated,
                  absl::Duration patience = absl::Seconds(30)) {
    processes_.push_back(std::make_unique<RingCollectives>(
        RingCollectives::Options{
            .name = absl::StrCat("worker-", processes_.size()),
            .patience = patience},
        [](size_t rank, size_t size) {
          return MakeGlooCollective("127.0.0.1", rank, size);
        },
        std::move(open)));
  }

  // A collective of all; each connects, and runs `run` if it could.
  std::vector<absl::Status> Meet(const Run& run) {
    std::vector<Member> members;
    std::vector<std::vector<std::string>> links;
    const size_t size = processes_.size();
    for (size_t r = 0; r < size; ++r) {
      members.push_back(*processes_[r]->Make(r, size));
      links.push_back(members.back()->links());
    }
    std::vector<absl::Status> connected(size);
    std::vector<std::thread> threads;
    for (size_t r = 0; r < size; ++r) {
      threads.emplace_back([&, r, member = std::move(members[r])]() mutable {
        connected[r] = member->Connect(links);
        if (connected[r].ok()) run(r, member.get());
        member = nullptr;  // As a process's end.
      });
    }
    for (std::thread& thread : threads) thread.join();
    return connected;
  }

  // The sum of all, at each, and what was logged.
  std::string SumOfAll(bool by_devices) {
    const size_t size = processes_.size();
    float expected = TermOf(0);
    for (size_t r = 1; r < size; ++r) expected += TermOf(r);
    ::testing::internal::CaptureStderr();
    const auto connected = Meet([&](size_t rank, LinkedCollective* member) {
      EXPECT_EQ(member->ring() != nullptr, by_devices);
      std::vector<float> values(5, TermOf(rank));
      const absl::Status summed = member->Sum(absl::MakeSpan(values));
      EXPECT_TRUE(summed.ok()) << summed;
      for (const float value : values) EXPECT_EQ(value, expected);
      // Nobody leaves before all have their sums.
      std::vector<double> all(size);
      const double own = static_cast<double>(rank);
      EXPECT_TRUE(member->Gather({&own, 1}, absl::MakeSpan(all)).ok());
      EXPECT_EQ(all.back(), size - 1.0);
    });
    std::string log = ::testing::internal::GetCapturedStderr();
    for (const absl::Status& status : connected) {
      EXPECT_TRUE(status.ok()) << status;
    }
    return log;
  }

  static size_t CountIn(const std::string& log, const std::string& text) {
    size_t count = 0;
    for (size_t at = log.find(text); at != std::string::npos;
         at = log.find(text, at + 1)) {
      ++count;
    }
    return count;
  }

  std::vector<std::unique_ptr<RingCollectives>> processes_;
};

TEST_F(RingCollectiveTest, DevicesOfAllSumInTheOrderOfRanks) {
  AddProcess();
  AddProcess();
  const std::string log = SumOfAll(/*by_devices=*/true);
  EXPECT_EQ(CountIn(log, kByDevices), 2u);
  EXPECT_THAT(log, HasSubstr("workers=2 by=\"NCCL 2.20.0\""));
  AddProcess();
  EXPECT_EQ(CountIn(SumOfAll(/*by_devices=*/true), kByDevices), 1u);
  // In each collective anew.
  EXPECT_EQ(CountIn(SumOfAll(/*by_devices=*/true), kByDevices), 0u);
  EXPECT_EQ(EmulatedNccl::ends(), 0);
}

TEST_F(RingCollectiveTest, WhereOneCannotAllSumInHostMemoryAndSayWhyOnce) {
  for (const size_t without : {0, 1}) {
    processes_.clear();
    for (size_t r = 0; r < 3; ++r) {
      if (r != without) {
        AddProcess();
        continue;
      }
      AddProcess([]() -> absl::StatusOr<std::unique_ptr<DeviceRing>> {
        return absl::FailedPreconditionError("NCCL can't be loaded");
      });
    }
    const std::string log = SumOfAll(/*by_devices=*/false);
    EXPECT_EQ(CountIn(log, kInHostMemory), 3u) << log;
    EXPECT_EQ(CountIn(log, absl::StrCat("why=\"worker-", without,
                                        ": NCCL can't be loaded\"")),
              3u)
        << log;
    EXPECT_THAT(SumOfAll(/*by_devices=*/false), Not(HasSubstr(kInHostMemory)));
  }
  EXPECT_EQ(EmulatedNccl::ends(), 0);
}

TEST_F(RingCollectiveTest, WhereVersionsDifferAllSumInHostMemory) {
  AddProcess();
  AddProcess([] {
    // As if it had been loaded from elsewhere.
    struct Other {
      static absl::StatusOr<Nccl> Load() {
        auto nccl = EmulatedNccl::Load();
        nccl->version = [](int* number) {
          *number = 21903;
          return 0;
        };
        return nccl;
      }
    };
    return EmulatedAccelerator({.nccl = Other::Load}).OpenRing();
  });
  EXPECT_EQ(CountIn(SumOfAll(/*by_devices=*/false),
                    "why=\"one worker has NCCL 2.20.0, another NCCL 2.19.3: "
                    "give all the same version\""),
            2u);
}

TEST_F(RingCollectiveTest, OnProcessorsNothingIsSaid) {
  for (size_t r = 0; r < 2; ++r) {
    AddProcess([]() -> absl::StatusOr<std::unique_ptr<DeviceRing>> {
      return absl::UnimplementedError("a processor");
    });
  }
  EXPECT_EQ(SumOfAll(/*by_devices=*/false), "");
}

TEST_F(RingCollectiveTest, ARingThatDoesNotFormInTimeIsNotTriedAgain) {
  EmulatedNccl::SetFaults({.absent_rank = 1});
  AddProcess(OpenEmulated, absl::Milliseconds(100));
  AddProcess();
  const std::string log = SumOfAll(/*by_devices=*/false);
  EXPECT_EQ(CountIn(log,
                    "why=\"worker-0: NCCL did not connect the workers "
                    "within 100ms"),
            2u)
      << log;
  // Nor with one that has begun after it.
  EmulatedNccl::SetFaults({});
  processes_.resize(1);
  AddProcess();
  EXPECT_EQ(CountIn(SumOfAll(/*by_devices=*/false), "did not connect"), 1u);
  EXPECT_EQ(EmulatedNccl::ends(), 0);
}

TEST_F(RingCollectiveTest, OneThatIsLostWhileTheRingFormsEndsItForAll) {
  EmulatedNccl::SetFaults({.absent_rank = 1});
  for (size_t r = 0; r < 3; ++r) AddProcess();
  std::vector<Member> members;
  std::vector<std::vector<std::string>> links;
  for (size_t r = 0; r < 3; ++r) {
    members.push_back(*processes_[r]->Make(r, 3));
    links.push_back(members.back()->links());
  }
  std::vector<std::thread> threads;
  for (size_t r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      EXPECT_TRUE(absl::IsUnavailable(members[r]->Connect(links)));
    });
  }
  while (EmulatedNccl::ends() < 3) std::this_thread::yield();
  members[1]->Abort();
  for (std::thread& thread : threads) thread.join();
  members.clear();
  // It was no fault of NCCL's: who is left has a ring when all are there again.
  EmulatedNccl::SetFaults({});
  EXPECT_THAT(SumOfAll(/*by_devices=*/true), HasSubstr(kByDevices));
}

TEST_F(RingCollectiveTest, OneThatIsLostBetweenSumsEndsThemForAll) {
  for (size_t r = 0; r < 3; ++r) AddProcess();
  for (size_t lost = 0; lost < 3; ++lost) {
    Meet([&](size_t rank, LinkedCollective* member) {
      std::vector<float> values(1000, 1.0f);
      EXPECT_TRUE(member->Sum(absl::MakeSpan(values)).ok());
      if (rank == lost) return;
      absl::Status status;
      while (status.ok()) status = member->Sum(absl::MakeSpan(values));
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      std::vector<double> all(3);
      EXPECT_TRUE(absl::IsUnavailable(
          member->Gather({&all[rank], 1}, absl::MakeSpan(all))));
    });
    // All come back to another one.
    static_cast<void>(SumOfAll(/*by_devices=*/true));
  }
  EXPECT_EQ(EmulatedNccl::ends(), 0);
}

TEST_F(RingCollectiveTest, WhoWaitsInASumIsLetGoByAnAbort) {
  for (size_t r = 0; r < 2; ++r) AddProcess();
  Mutex mutex;
  CondVar changed;
  bool has_ended = false;
  Meet([&](size_t rank, LinkedCollective* member) {
    if (rank == 1) {
      // It is there, and does not come.
      MutexLock lock(&mutex);
      while (!has_ended) changed.Wait(&mutex);
      return;
    }
    std::thread heartbeats([member] { member->Abort(); });
    std::vector<float> values(1000, 1.0f);
    EXPECT_TRUE(absl::IsUnavailable(member->Sum(absl::MakeSpan(values))));
    heartbeats.join();
    const MutexLock lock(&mutex);
    has_ended = true;
    changed.NotifyAll();
  });
}

TEST_F(RingCollectiveTest, OneAloneNeedsNoRing) {
  AddProcess();
  EXPECT_EQ(SumOfAll(/*by_devices=*/false), "");
}

}  // namespace
}  // namespace paramd
