// Sums by a library that does as NCCL does, as far as calls and their ends go.
#include "compute/device/nccl_sum.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {

// An end of the library's.
struct ncclComm {
  int rank = 0;
  uint64_t calls = 0;  // Of its thread: another one that frees it is seen.
};

namespace {

using ::testing::HasSubstr;

// What the library's functions see. Thread-safe.
class FakeNccl {
 public:
  static FakeNccl* now;

  FakeNccl() { now = this; }
  ~FakeNccl() { now = nullptr; }

  static Nccl Functions() {
    Nccl nccl;
    nccl.make_id = [](Nccl::Id* id) {
      id->internal[0] = 'x';
      return 0;
    };
    nccl.join = [](Nccl::End* end, int, Nccl::Id id, int rank) {
      EXPECT_EQ(id.internal[0], 'x');
      *end = new ncclComm{.rank = rank};
      ++now->ends;
      return 0;
    };
    nccl.abort = [](Nccl::End end) {
      const int rank = end->rank;
      delete end;
      --now->ends;
      const MutexLock lock(&now->mutex_);
      now->freed_.push_back(rank);
      now->changed_.NotifyAll();
      return 0;
    };
    nccl.begin = [] { return 0; };
    nccl.sum = [](const void*, void*, size_t, int, int, Nccl::End end,
                  Nccl::Stream) {
      ++end->calls;
      if (now->stalls && end->rank == 1) return now->Stall();
      absl::SleepFor(absl::Microseconds(20));
      ++end->calls;
      return 0;
    };
    nccl.end = [] { return 0; };
    nccl.words = [](Nccl::Result) { return "a peer has gone"; };
    return nccl;
  }

  void WaitForStall() {
    MutexLock lock(&mutex_);
    while (!has_stalled_) changed_.Wait(&mutex_);
  }
  std::vector<int> freed() {
    const MutexLock lock(&mutex_);
    return freed_;
  }

  std::atomic<int> ends{0};  // That are not freed.
  // A sum of rank 1 ends, with an error, when another one has gone.
  std::atomic<bool> stalls{false};

 private:
  Nccl::Result Stall() {
    MutexLock lock(&mutex_);
    has_stalled_ = true;
    changed_.NotifyAll();
    while (freed_.empty()) changed_.Wait(&mutex_);
    return 6;
  }

  Mutex mutex_;
  CondVar changed_;
  bool has_stalled_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<int> freed_ ABSL_GUARDED_BY(mutex_);  // Ranks.
};

FakeNccl* FakeNccl::now = nullptr;

// As CudaAccelerator, of one thread.
class FakeGpu {
 public:
  explicit FakeGpu(std::string name) : name_(std::move(name)) {}

  std::string name() const { return name_; }
  absl::Status status() const { return status_; }
  bool Use() { return status_.ok(); }
  void Fail(absl::Status status) { status_.Update(status); }
  Nccl::Stream stream(size_t) const { return nullptr; }

 private:
  const std::string name_;
  absl::Status status_;
};

using Sum = NcclSum<FakeGpu>;

// Runs `run` for each of two replicas that have joined, on its thread.
void OnBoth(const std::function<void(size_t, FakeGpu*, StreamSum*)>& run) {
  const auto meeting = std::make_shared<ReplicaMeeting>(2);
  std::vector<std::thread> threads;
  for (size_t r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      FakeGpu gpu("cuda:" + std::to_string(r));
      const auto sum = Sum::Join(&gpu, FakeNccl::Functions(), {meeting, r});
      ASSERT_TRUE(sum.ok()) << sum.status();
      run(r, &gpu, sum->get());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(NcclSumTest, AnEndIsFreedOnce) {
  FakeNccl library;
  OnBoth([](size_t, FakeGpu* gpu, StreamSum* sum) {
    float value = 0;
    sum->Add(0, {{&value, 1}});
    EXPECT_TRUE(gpu->status().ok());
    EXPECT_TRUE(sum->status().ok());
  });
  EXPECT_EQ(library.ends, 0);
  EXPECT_EQ(library.freed().size(), 2u);
}

TEST(NcclSumTest, WhatACallHasIsNotFreedBelowIt) {
  const absl::Status lost = absl::UnavailableError("cuda:0 is lost");
  for (int again = 0; again < 100; ++again) {
    FakeNccl library;
    OnBoth([&](size_t rank, FakeGpu* gpu, StreamSum* sum) {
      float value = 0;
      for (int i = 0; i < 5 + again % 7; ++i) sum->Add(0, {{&value, 1}});
      if (rank == 0) return sum->Abort(lost);
      while (sum->status().ok()) sum->Add(0, {{&value, 1}, {&value, 1}});
      sum->Add(0, {{&value, 1}});
      EXPECT_EQ(sum->status(), lost);
      // It is the other one that is.
      EXPECT_TRUE(gpu->status().ok());
    });
    EXPECT_EQ(library.ends, 0);
  }
}

TEST(NcclSumTest, ACallThatWaitsForAMemberIsLetGo) {
  FakeNccl library;
  library.stalls = true;
  OnBoth([&](size_t rank, FakeGpu* gpu, StreamSum* sum) {
    float value = 0;
    if (rank == 1) {
      sum->Add(0, {{&value, 1}});
      EXPECT_TRUE(gpu->status().ok());
      return;
    }
    library.WaitForStall();
    sum->Abort(absl::UnavailableError("cuda:0 is lost"));
    EXPECT_EQ(library.freed(), std::vector<int>({0, 1}));
  });
  EXPECT_EQ(library.ends, 0);
}

TEST(NcclSumTest, AnErrorThatNobodyCausedByAbortingIsTheDevices) {
  FakeNccl library;
  FakeGpu gpu("cuda:0");
  Nccl functions = FakeNccl::Functions();
  functions.sum = [](const void*, void*, size_t, int, int, Nccl::End,
                     Nccl::Stream) { return 2; };
  const auto sum = Sum::Join(&gpu, functions,
                             {std::make_shared<ReplicaMeeting>(1), /*rank=*/0});
  float value = 0;
  (*sum)->Add(0, {{&value, 1}});
  EXPECT_EQ(gpu.status(), absl::UnavailableError(
                              "cuda:0 is lost: NCCL says: a peer has gone"));
}

TEST(NcclSumTest, WhereItIsMissingOrAGpuIsNamedTwiceNobodyJoins) {
  FakeNccl library;
  const auto join = [](const absl::StatusOr<Nccl>& nccl) {
    const auto meeting = std::make_shared<ReplicaMeeting>(2);
    std::vector<absl::Status> joined(2);
    std::vector<std::thread> threads;
    for (size_t r = 0; r < 2; ++r) {
      threads.emplace_back([&, r] {
        FakeGpu gpu("cuda:0");
        joined[r] = Sum::Join(&gpu, nccl, {meeting, r}).status();
      });
    }
    for (std::thread& thread : threads) thread.join();
    // Which one comes second is open.
    return joined[absl::IsCancelled(joined[0]) ? 1 : 0];
  };
  EXPECT_THAT(std::string(join(FakeNccl::Functions()).message()),
              HasSubstr("several replicas have cuda:0"));
  const absl::Status missing = absl::FailedPreconditionError("no library");
  EXPECT_EQ(join(missing), missing);
  EXPECT_EQ(library.ends, 0);
}

}  // namespace
}  // namespace paramd
