#include "worker/input/prefetcher.h"

#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/mutex.h"
#include "worker/input/direct_batch_source.h"
#include "worker/input/testing/fake_dataset.h"

namespace paramd {
namespace {

using NextBatch = BatchSource::NextBatch;
using testing::HasSubstr;

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

TEST(PrefetcherTest, GivesTheBatchesOfADirectSource) {
  const FakeDataset dataset(1000);
  const BatchSource::Options options{.seed = 3, .batch_size = 7};
  DirectBatchSource direct(dataset, options);
  Prefetcher prefetcher(dataset, options, /*depth=*/2);
  for (const Portion& portion :
       {Portion{0, 0, 500}, Portion{0, 600, 611}, Portion{1, 0, 1000}}) {
    ASSERT_TRUE(direct.Add(portion).ok());
    ASSERT_TRUE(prefetcher.Add(portion).ok());
  }
  direct.NoMore();
  prefetcher.NoMore();
  while (true) {
    auto expected = direct.Next();
    auto actual = prefetcher.WaitForNext(kLong);
    ASSERT_TRUE(expected.ok() && actual.ok());
    ASSERT_EQ(actual->state, expected->state);
    if (actual->state == NextBatch::kEnd) break;
    EXPECT_EQ(actual->batch->range, expected->batch->range);
    EXPECT_EQ(actual->batch->examples, expected->batch->examples);
    EXPECT_EQ(actual->batch->labels, expected->batch->labels);
    prefetcher.Recycle(std::move(actual->batch));
  }
  EXPECT_EQ(prefetcher.examples_ahead(), 0u);
}

TEST(PrefetcherTest, OnReadyIsCalledWhenABatchComesAndWhenTheEndComes) {
  const FakeDataset dataset(100);
  Bell bell;
  Prefetcher prefetcher(dataset, {.on_ready = [&] { bell.Ring(); }});
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
  const FakeDataset dataset(100);
  Bell bell;
  {
    Prefetcher prefetcher(dataset, {.on_ready = [&] { bell.Ring(); }});
    ASSERT_TRUE(prefetcher.Add({0, 0, 40}).ok());
    EXPECT_EQ(prefetcher.WaitForNext(kLong)->state, NextBatch::kBatch);
  }
  EXPECT_EQ(bell.rings(), 0);
}

TEST(PrefetcherTest, AnEventDrivenLoopSeesEveryExampleOnce) {
  const FakeDataset dataset(997);
  Bell bell;
  Prefetcher prefetcher(dataset,
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
        seen.insert(seen.end(), next->batch->examples.begin(),
                    next->batch->examples.end());
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
  const FakeDataset dataset(100);
  Prefetcher prefetcher(dataset, {});
  EXPECT_EQ(prefetcher.WaitForNext(absl::ZeroDuration()).status(),
            absl::DeadlineExceededError(
                "no batch came within 0: the prefetch thread is waiting for a "
                "portion of the input"));
}

TEST(PrefetcherTest, ItsActivityNamesTheFullQueueAndTheEnd) {
  const FakeDataset dataset(100);
  Bell bell;
  Prefetcher prefetcher(dataset,
                        {.batch_size = 4, .on_ready = [&] { bell.Ring(); }},
                        /*depth=*/1);
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

TEST(PrefetcherTest, ARefusedPortionChangesNothing) {
  const FakeDataset dataset(100);
  Prefetcher prefetcher(dataset, {});
  EXPECT_EQ(prefetcher.Add({0, 0, 101}).code(), absl::StatusCode::kOutOfRange);
  prefetcher.NoMore();
  EXPECT_EQ(prefetcher.Add({0, 0, 100}).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(prefetcher.examples_ahead(), 0u);
}

TEST(PrefetcherTest, AnUnreadableExampleComesAfterTheBatchesBeforeIt) {
  FakeDataset dataset(100);
  dataset.set_unreadable(5);
  Prefetcher prefetcher(dataset, {.batch_size = 4});
  ASSERT_TRUE(prefetcher.Add({0, 0, 100}).ok());
  EXPECT_TRUE(prefetcher.WaitForNext(kLong).ok());
  EXPECT_EQ(prefetcher.WaitForNext(kLong).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(prefetcher.Next().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(prefetcher.activity(), "stopped by an error");
}

TEST(PrefetcherTest, CanBeDestroyedAtAnyMoment) {
  const FakeDataset dataset(1000);
  for (int i = 0; i < 50; ++i) {
    Prefetcher prefetcher(dataset, {.seed = i, .batch_size = 3});
    ASSERT_TRUE(prefetcher.Add({0, 0, 1000}).ok());
    for (int j = 0; j < i % 5; ++j) {
      ASSERT_TRUE(prefetcher.WaitForNext(kLong).ok());
    }
  }
}

}  // namespace
}  // namespace paramd
