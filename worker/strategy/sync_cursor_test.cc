#include "worker/strategy/sync_cursor.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;

v1::Contributors From(uint64_t counter, uint64_t first_step,
                      const std::vector<uint32_t>& workers,
                      uint64_t offset = 0) {
  v1::Contributors contributors;
  contributors.mutable_version()->set_term(1);
  contributors.mutable_version()->set_counter(counter);
  contributors.set_first_step(first_step);
  contributors.mutable_workers()->Assign(workers.begin(), workers.end());
  contributors.mutable_input()->set_next_epoch(1);
  contributors.mutable_input()->set_next_offset(offset);
  return contributors;
}

// 10 examples, one epoch, contributions of 2.
SyncCursor Worker(uint32_t worker) {
  return SyncCursor(
      {.worker = worker, .examples = 10, .epochs = 1, .batch = 2});
}

std::vector<std::string> Shares(SyncCursor* cursor) {
  std::vector<std::string> shares;
  while (!cursor->finished()) {
    const SyncCursor::Share share = cursor->share();
    shares.push_back(absl::StrCat(cursor->step(), ":", share.range.begin, "-",
                                  share.range.end, "/", share.step_examples));
    cursor->Decided(cursor->step());
  }
  return shares;
}

TEST(SyncCursorTest, WorkersTakeAStepsBatchesInTheirOrder) {
  SyncCursor first = Worker(3);
  SyncCursor second = Worker(5);
  ASSERT_TRUE(first.Configure(From(1, 1, {3, 5}), {}));
  ASSERT_TRUE(second.Configure(From(1, 1, {3, 5}), {}));
  EXPECT_THAT(Shares(&first), ElementsAre("1:0-2/4", "2:4-6/4", "3:8-10/2"));
  EXPECT_THAT(Shares(&second), ElementsAre("1:2-4/4", "2:6-8/4", "3:10-10/2"));
}

TEST(SyncCursorTest, NothingIsKnownBeforeSomebodyContributes) {
  SyncCursor cursor = Worker(0);
  EXPECT_FALSE(cursor.contributes());
  EXPECT_FALSE(cursor.finished());
  EXPECT_EQ(cursor.step(), 0u);
  ASSERT_TRUE(cursor.Configure(From(1, 1, {1, 2}), {}));
  EXPECT_FALSE(cursor.contributes());
  EXPECT_FALSE(cursor.finished());
}

TEST(SyncCursorTest, AnEarlierSessionsContributionIsNotItsOwn) {
  v1::SessionId generation;
  generation.set_term(1);
  generation.set_counter(5);
  SyncCursor cursor = Worker(3);
  ASSERT_TRUE(cursor.Configure(From(4, 1, {3, 5}), generation));
  EXPECT_FALSE(cursor.contributes());
  ASSERT_TRUE(cursor.Configure(From(6, 1, {3, 5}), generation));
  EXPECT_TRUE(cursor.contributes());
}

TEST(SyncCursorTest, TheNextShareIsKnownBeforeItsStep) {
  SyncCursor cursor({.worker = 5, .examples = 10, .epochs = 2, .batch = 2});
  cursor.Configure(From(1, 1, {3, 5}), {});
  std::vector<std::string> ranges;
  while (!cursor.finished()) {
    const InputCursor::Range next = cursor.next_range();
    ranges.push_back(absl::StrCat(next.epoch, ":", next.begin, "-", next.end));
    cursor.Decided(cursor.step());
  }
  EXPECT_THAT(ranges, ElementsAre("1:6-8", "1:10-10", "2:2-4", "2:6-8",
                                  "2:10-10", "0:0-0"));
}

TEST(SyncCursorTest, OtherContributorsBeginWithTheirFirstStep) {
  SyncCursor cursor = Worker(5);
  cursor.Configure(From(1, 1, {3, 5}), {});
  cursor.Decided(1);
  EXPECT_FALSE(cursor.Configure(From(1, 1, {3, 5}), {}));
  EXPECT_EQ(cursor.step(), 2u);
  ASSERT_TRUE(cursor.Configure(From(2, 2, {5}, 4), {}));
  EXPECT_THAT(Shares(&cursor), ElementsAre("2:4-6/2", "3:6-8/2", "4:8-10/2"));
}

TEST(SyncCursorTest, WhoIsLateGoesToTheStepAfterTheNewestDecided) {
  SyncCursor cursor = Worker(3);
  cursor.Configure(From(1, 1, {3, 5}), {});
  cursor.Decided(2);
  EXPECT_EQ(cursor.step(), 3u);
  cursor.Decided(1);
  EXPECT_EQ(cursor.step(), 3u);
  cursor.Decided(9);
  EXPECT_TRUE(cursor.finished());
}

}  // namespace
}  // namespace paramd
