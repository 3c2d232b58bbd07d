#include "input/prefetcher.h"

#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/mutex.h"
#include "input/portion_queue.h"
#include "input/testing/fake_source.h"

namespace paramd {
namespace {

using NextBatch = Prefetcher::NextBatch;
using ::testing::HasSubstr;

// Long enough never to pass in a test that succeeds.
constexpr absl::Duration kLong = absl::Minutes(10);

// Counts calls and lets a test wait for them.
class Bell {
 public:
  void Ring() {
    MutexLock lock(&mutex_);
    ++rings_;
    rung_.NotifyAll();
  }
  void WaitFor(int rings) {
    MutexLock lock(&mutex_);
    while (rings_ < rings) rung_.Wait(&mutex_);
  }
  int rings() {
    MutexLock lock(&mutex_);
    return rings_;
  }

 private:
  Mutex mutex_;
  CondVar rung_;
  int rings_ ABSL_GUARDED_BY(mutex_) = 0;
};

std::vector<float> Images(const Batch& batch) {
  const absl::Span<const float> values = batch.Find("image")->values<float>();
  return {values.begin(), values.end()};
}

std::vector<int32_t> Labels(const Batch& batch) {
  const absl::Span<const int32_t> values =
      batch.Find("label")->values<int32_t>();
  return {values.begin(), values.end()};
}

TEST(PrefetcherTest, GivesTheBatchesOfItsPortionsThenTheEnd) {
  const auto dataset = FakePipeline(1000, /*seed=*/3);
  PortionQueue ranges(/*batch_size=*/7, /*max_portions=*/3);
  Prefetcher prefetcher(*dataset, {.batch_size = 7, .depth = 2});
  for (const Portion& portion :
       {Portion{0, 0, 500}, Portion{0, 600, 611}, Portion{1, 0, 1000}}) {
    ASSERT_TRUE(ranges.Add(portion).ok());
    ASSERT_TRUE(prefetcher.Add(portion).ok());
  }
  prefetcher.NoMore();
  Batch expected;
  while (const auto range = ranges.Take()) {
    ASSERT_TRUE(dataset->Read(*range, &expected).ok());
    auto actual = prefetcher.WaitForNext(kLong);
    ASSERT_TRUE(actual.ok()) << actual.status();
    ASSERT_EQ(actual->state, NextBatch::kBatch);
    EXPECT_EQ(actual->batch->range, expected.range);
    EXPECT_EQ(Images(*actual->batch), Images(expected));
    EXPECT_EQ(Labels(*actual->batch), Labels(expected));
    prefetcher.Recycle(std::move(actual->batch));
  }
  EXPECT_EQ(prefetcher.WaitForNext(kLong)->state, NextBatch::kEnd);
  EXPECT_EQ(prefetcher.examples_ahead(), 0u);
}

TEST(PrefetcherTest, WhatIsPeekedAtIsWhatIsTakenThen) {
  const auto dataset = FakePipeline(100, /*seed=*/3);
  Bell made;
  Prefetcher::Options options{.batch_size = 10, .depth = 3};
  options.on_made = [&](const Batch&) { made.Ring(); };
  Prefetcher prefetcher(*dataset, options);
  EXPECT_EQ(prefetcher.Peek(0), nullptr);
  ASSERT_TRUE(prefetcher.Add({0, 0, 50}).ok());
  made.WaitFor(3);
  const Batch* const second = prefetcher.Peek(1);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->range, (Portion{0, 10, 20}));
  EXPECT_EQ(prefetcher.Peek(3), nullptr);
  prefetcher.Recycle(std::move(prefetcher.WaitForNext(kLong)->batch));
  EXPECT_EQ(prefetcher.Peek(0), second);
  EXPECT_EQ(prefetcher.WaitForNext(kLong)->batch.get(), second);
}

TEST(PrefetcherTest, OnReadyIsCalledWhenABatchComesAndWhenTheEndComes) {
  const auto dataset = FakePipeline(100);
  Bell bell;
  Prefetcher prefetcher(*dataset, {.on_ready = [&] { bell.Ring(); }});
  EXPECT_EQ(prefetcher.Next()->state, NextBatch::kNotYet);
  ASSERT_TRUE(prefetcher.Add({0, 0, 4}).ok());
  bell.WaitFor(1);
  EXPECT_EQ(prefetcher.Next()->state, NextBatch::kBatch);
  EXPECT_EQ(prefetcher.Next()->state, NextBatch::kNotYet);
  prefetcher.NoMore();
  bell.WaitFor(2);
  EXPECT_EQ(prefetcher.Next()->state, NextBatch::kEnd);
}

TEST(PrefetcherTest, OnReadyIsNotCalledUnlessSomebodyWaits) {
  const auto dataset = FakePipeline(100);
  Bell bell;
  {
    Prefetcher prefetcher(*dataset, {.on_ready = [&] { bell.Ring(); }});
    ASSERT_TRUE(prefetcher.Add({0, 0, 40}).ok());
    EXPECT_EQ(prefetcher.WaitForNext(kLong)->state, NextBatch::kBatch);
  }
  EXPECT_EQ(bell.rings(), 0);
}

TEST(PrefetcherTest, AnEventDrivenLoopSeesEveryExampleOnce) {
  const auto dataset = FakePipeline(997);
  Bell bell;
  Prefetcher prefetcher(*dataset,
                        {.batch_size = 5, .on_ready = [&] { bell.Ring(); }});
  std::thread coordinator([&] {
    for (uint64_t begin = 0; begin < 997; begin += 50) {
      const Portion portion{0, begin, std::min<uint64_t>(begin + 50, 997)};
      EXPECT_TRUE(prefetcher.Add(portion).ok());
    }
    prefetcher.NoMore();
  });
  std::vector<float> seen;
  int waits = 0;
  for (bool more = true; more;) {
    auto next = prefetcher.Next();
    switch (next->state) {
      case NextBatch::kBatch:
        for (const float image : Images(*next->batch)) seen.push_back(image);
        prefetcher.Recycle(std::move(next->batch));
        break;
      case NextBatch::kNotYet:
        bell.WaitFor(++waits);
        break;
      case NextBatch::kEnd:
        more = false;
        break;
    }
  }
  coordinator.join();
  ASSERT_EQ(seen.size(), 997u);
  for (size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], i);
}

TEST(PrefetcherTest, AWaitThatFailsNamesWhatIsWaitedFor) {
  const auto dataset = FakePipeline(100);
  Prefetcher prefetcher(*dataset, {});
  EXPECT_EQ(prefetcher.WaitForNext(absl::ZeroDuration()).status(),
            absl::DeadlineExceededError(
                "no batch came within 0: the prefetch thread is waiting for a "
                "portion of the input"));
}

TEST(PrefetcherTest, ItsActivityNamesTheFullQueueAndTheEnd) {
  const auto dataset = FakePipeline(100);
  Bell bell;
  Prefetcher prefetcher(
      *dataset,
      {.batch_size = 4, .depth = 1, .on_ready = [&] { bell.Ring(); }});
  EXPECT_EQ(prefetcher.Next()->state, NextBatch::kNotYet);
  ASSERT_TRUE(prefetcher.Add({0, 0, 8}).ok());
  bell.WaitFor(1);
  EXPECT_EQ(prefetcher.activity(),
            "waiting for one of 1 finished batches to be taken");
  prefetcher.NoMore();
  EXPECT_EQ(prefetcher.WaitForNext(kLong)->state, NextBatch::kBatch);
  EXPECT_EQ(prefetcher.WaitForNext(kLong)->state, NextBatch::kBatch);
  EXPECT_EQ(prefetcher.WaitForNext(kLong)->state, NextBatch::kEnd);
  EXPECT_EQ(prefetcher.activity(), "at the end of the input");
}

TEST(PrefetcherTest, ARecycledBatchIsUsedAgain) {
  const auto dataset = FakePipeline(100);
  Prefetcher prefetcher(*dataset, {.batch_size = 4, .depth = 1});
  ASSERT_TRUE(prefetcher.Add({0, 0, 4}).ok());
  std::unique_ptr<Batch> batch =
      std::move(prefetcher.WaitForNext(kLong)->batch);
  const float* memory = batch->Find("image")->values<float>().data();
  prefetcher.Recycle(std::move(batch));
  ASSERT_TRUE(prefetcher.Add({0, 4, 8}).ok());
  batch = std::move(prefetcher.WaitForNext(kLong)->batch);
  EXPECT_EQ(batch->Find("image")->values<float>().data(), memory);
}

TEST(PrefetcherTest, APortionAfterAsManyAsMayWaitIsRefused) {
  const auto dataset = FakePipeline(100, absl::nullopt, /*unreadable=*/0);
  Prefetcher prefetcher(*dataset, {.max_portions = 1});
  // Behind the error nothing is taken any more.
  ASSERT_TRUE(prefetcher.Add({0, 0, 1}).ok());
  ASSERT_FALSE(prefetcher.WaitForNext(kLong).ok());
  ASSERT_TRUE(prefetcher.Add({0, 0, 50}).ok());
  EXPECT_EQ(prefetcher.Add({0, 50, 60}).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(prefetcher.examples_ahead(), 51u);
}

TEST(PrefetcherTest, ARefusedPortionChangesNothing) {
  const auto dataset = FakePipeline(100);
  Prefetcher prefetcher(*dataset, {});
  EXPECT_EQ(prefetcher.Add({0, 0, 101}).code(), absl::StatusCode::kOutOfRange);
  prefetcher.NoMore();
  EXPECT_EQ(prefetcher.Add({0, 0, 100}).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(prefetcher.examples_ahead(), 0u);
}

TEST(PrefetcherTest, AnUnreadableExampleComesAfterTheBatchesBeforeIt) {
  const auto dataset = FakePipeline(100, absl::nullopt, /*unreadable=*/5);
  Prefetcher prefetcher(*dataset, {.batch_size = 4});
  ASSERT_TRUE(prefetcher.Add({0, 0, 100}).ok());
  EXPECT_TRUE(prefetcher.WaitForNext(kLong).ok());
  EXPECT_EQ(prefetcher.WaitForNext(kLong).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(prefetcher.Next().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(prefetcher.activity(), "stopped by an error");
}

TEST(PrefetcherTest, CanBeDestroyedAtAnyMoment) {
  const auto dataset = FakePipeline(1000);
  for (int i = 0; i < 50; ++i) {
    Prefetcher prefetcher(*dataset, {.batch_size = 3});
    ASSERT_TRUE(prefetcher.Add({0, 0, 1000}).ok());
    for (int j = 0; j < i % 5; ++j) {
      ASSERT_TRUE(prefetcher.WaitForNext(kLong).ok());
    }
  }
}

// Each read waits, as on a distant disk.
class WaitingSource : public FakeSource {
 public:
  WaitingSource() : FakeSource(1000) {}
  absl::Status Read(uint64_t index, Example* example) const override {
    absl::SleepFor(absl::Milliseconds(1));
    return FakeSource::Read(index, example);
  }
};

TEST(PrefetcherTest, AutoAddsThreadsWhereReadingWaits) {
  const auto dataset = *Pipeline::Create(std::make_unique<WaitingSource>(),
                                         v1::InputConfig(), {});
  Prefetcher prefetcher(*dataset, {.batch_size = 500, .threads = 0});
  uint64_t epoch = 0;
  while (prefetcher.figures().threads < 8) {
    ASSERT_TRUE(prefetcher.Add({++epoch, 0, 1000}).ok());
    for (int i = 0; i < 2; ++i) {
      auto next = prefetcher.WaitForNext(kLong);
      ASSERT_TRUE(next.ok());
      prefetcher.Recycle(std::move(next->batch));
    }
  }
}

}  // namespace
}  // namespace paramd
