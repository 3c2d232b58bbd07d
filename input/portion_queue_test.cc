#include "input/portion_queue.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;

TEST(PortionQueueTest, PortionsAreCutIntoBatchesAndNoBatchSpansTwo) {
  PortionQueue queue(/*batch_size=*/4, /*max_portions=*/10);
  ASSERT_TRUE(queue.Add({.epoch = 1, .begin = 10, .end = 19}).ok());
  ASSERT_TRUE(queue.Add({.epoch = 2, .begin = 0, .end = 2}).ok());
  std::vector<Portion> ranges;
  while (const auto range = queue.Take()) ranges.push_back(*range);
  EXPECT_THAT(ranges, ElementsAre(Portion{1, 10, 14}, Portion{1, 14, 18},
                                  Portion{1, 18, 19}, Portion{2, 0, 2}));
}

TEST(PortionQueueTest, ExamplesAreThoseNotTaken) {
  PortionQueue queue(4, 10);
  ASSERT_TRUE(queue.Add({0, 0, 9}).ok());
  EXPECT_EQ(queue.examples(), 9u);
  queue.Take();
  EXPECT_EQ(queue.examples(), 5u);
}

TEST(PortionQueueTest, EndsAfterNoMoreWhenNothingIsLeft) {
  PortionQueue queue(4, 10);
  ASSERT_TRUE(queue.Add({0, 0, 3}).ok());
  EXPECT_FALSE(queue.ended());
  queue.NoMore();
  queue.NoMore();
  EXPECT_FALSE(queue.ended());
  queue.Take();
  EXPECT_TRUE(queue.ended());
}

TEST(PortionQueueTest, APortionAfterTheEndIsRefused) {
  PortionQueue queue(4, 10);
  queue.NoMore();
  EXPECT_EQ(queue.Add({3, 0, 9}),
            absl::FailedPreconditionError(
                "portion [0, 9) of epoch 3 came after the end of the input"));
}

TEST(PortionQueueTest, MorePortionsThanMayWaitAreRefused) {
  PortionQueue queue(4, /*max_portions=*/2);
  ASSERT_TRUE(queue.Add({0, 0, 8}).ok());
  ASSERT_TRUE(queue.Add({0, 8, 16}).ok());
  EXPECT_EQ(
      queue.Add({0, 16, 24}),
      absl::ResourceExhaustedError("2 portions wait already; at most 2 may"));
  EXPECT_EQ(queue.examples(), 16u);
  queue.Take();
  queue.Take();
  EXPECT_TRUE(queue.Add({0, 16, 24}).ok());
}

}  // namespace
}  // namespace paramd
