#include "worker/input/direct_batch_source.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "worker/input/testing/fake_dataset.h"

namespace paramd {
namespace {

using NextBatch = BatchSource::NextBatch;

TEST(DirectBatchSourceTest, GivesTheBatchesOfItsPortionsThenTheEnd) {
  const FakeDataset dataset(100);
  DirectBatchSource source(dataset, {.batch_size = 4});
  ASSERT_TRUE(source.Add({0, 0, 6}).ok());
  source.NoMore();
  EXPECT_EQ(source.examples_ahead(), 6u);
  auto next = source.Next();
  ASSERT_TRUE(next.ok()) << next.status();
  ASSERT_EQ(next->state, NextBatch::kBatch);
  EXPECT_THAT(next->batch->examples, testing::ElementsAre(0, 1, 2, 3));
  next = source.Next();
  EXPECT_EQ(next->batch->range, (Portion{0, 4, 6}));
  EXPECT_EQ(source.Next()->state, NextBatch::kEnd);
  EXPECT_EQ(source.examples_ahead(), 0u);
}

TEST(DirectBatchSourceTest, ARecycledBatchIsUsedAgain) {
  const FakeDataset dataset(100);
  DirectBatchSource source(dataset, {.batch_size = 4});
  ASSERT_TRUE(source.Add({0, 0, 8}).ok());
  std::unique_ptr<Batch> batch = std::move(source.Next()->batch);
  const float* memory = batch->examples.data();
  source.Recycle(std::move(batch));
  EXPECT_EQ(source.Next()->batch->examples.data(), memory);
}

TEST(DirectBatchSourceTest, OnReadyIsCalledOnceAfterNotYet) {
  int calls = 0;
  const FakeDataset dataset(100);
  DirectBatchSource source(dataset, {.on_ready = [&] { ++calls; }});
  ASSERT_TRUE(source.Add({0, 0, 1}).ok());
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(source.Next()->state, NextBatch::kBatch);
  EXPECT_EQ(source.Next()->state, NextBatch::kNotYet);
  ASSERT_TRUE(source.Add({0, 1, 2}).ok());
  ASSERT_TRUE(source.Add({0, 2, 3}).ok());
  EXPECT_EQ(calls, 1);
}

TEST(DirectBatchSourceTest, OnReadyIsCalledForTheEnd) {
  int calls = 0;
  const FakeDataset dataset(100);
  DirectBatchSource source(dataset, {.on_ready = [&] { ++calls; }});
  EXPECT_EQ(source.Next()->state, NextBatch::kNotYet);
  source.NoMore();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(source.Next()->state, NextBatch::kEnd);
}

TEST(DirectBatchSourceTest, ARefusedPortionChangesNothing) {
  const FakeDataset dataset(100);
  DirectBatchSource source(dataset, {.max_portions = 1});
  EXPECT_EQ(source.Add({0, 0, 101}).code(), absl::StatusCode::kOutOfRange);
  ASSERT_TRUE(source.Add({0, 0, 50}).ok());
  EXPECT_EQ(source.Add({0, 50, 60}).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(source.examples_ahead(), 50u);
}

TEST(DirectBatchSourceTest, AnUnreadableExampleEndsItWithItsError) {
  FakeDataset dataset(100);
  dataset.set_unreadable(5);
  DirectBatchSource source(dataset, {.batch_size = 4});
  ASSERT_TRUE(source.Add({0, 0, 100}).ok());
  EXPECT_TRUE(source.Next().ok());
  EXPECT_EQ(source.Next().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(source.Next().status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace paramd
