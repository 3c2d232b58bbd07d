#include "coordinator/core/portions.h"

#include <map>
#include <vector>

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(PortionsTest, EveryExampleIsHandedOutOnceInOrder) {
  Portions portions(Epochs(10, 2), /*size=*/4);
  std::vector<std::vector<uint64_t>> got;
  while (const auto portion = portions.Take(0)) {
    got.push_back({portion->epoch(), portion->begin(), portion->end()});
  }
  EXPECT_EQ(
      got,
      (std::vector<std::vector<uint64_t>>{
          {1, 0, 4}, {1, 4, 8}, {1, 8, 10}, {2, 0, 4}, {2, 4, 8}, {2, 8, 10}}));
  EXPECT_FALSE(portions.finished());
  portions.Finish(0, 6);
  EXPECT_TRUE(portions.finished());
  EXPECT_EQ(portions.epochs_done(), 2.0);
}

TEST(PortionsTest, AnEpochIsFinishedWhenAllItsPortionsAre) {
  Portions portions(Epochs(8, 2), /*size=*/4);
  const auto a = portions.Take(0);
  const auto b = portions.Take(1);
  portions.Finish(1, b->id());
  EXPECT_EQ(portions.epochs_finished(), 0u);
  EXPECT_EQ(portions.epochs_done(), 0.5);
  portions.Finish(0, a->id());
  EXPECT_EQ(portions.epochs_finished(), 1u);
}

TEST(PortionsTest, WhatALostWorkerHadIsHandedOutAgain) {
  Portions portions(Epochs(8, 1), /*size=*/4);
  const auto lost = portions.Take(0);
  portions.Take(1);
  portions.Return(0);
  const auto again = portions.Take(1);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->begin(), lost->begin());
  EXPECT_GT(again->id(), lost->id());
  EXPECT_FALSE(portions.Take(1).has_value());
}

TEST(PortionsTest, Promise1_OfAWorkerThatLeavesOnlyWhatItHasNotUsedComesAgain) {
  Portions portions(Epochs(12, 1), /*size=*/4);
  const auto used = portions.Take(0);
  const auto open = portions.Take(0);
  const auto unheard = portions.Take(0);
  v1::WorkerCut cut;
  cut.set_last_portion(open->id());
  *cut.add_remaining() = *open;
  cut.mutable_remaining(0)->set_begin(open->begin() + 1);
  portions.Return(0, &cut);
  EXPECT_NEAR(portions.epochs_done(), 5.0 / 12, 1e-12);
  const auto rest = portions.Take(1);
  EXPECT_EQ(rest->begin(), open->begin() + 1);
  EXPECT_EQ(rest->end(), open->end());
  EXPECT_EQ(portions.Take(1)->begin(), unheard->begin());
  EXPECT_FALSE(portions.Take(1).has_value());
  EXPECT_LT(used->id(), rest->id());
}

TEST(PortionsTest, Promise9_ACutCannotGiveBackMoreThanWasLeased) {
  Portions portions(Epochs(8, 1), /*size=*/4);
  const auto leased = portions.Take(0);
  v1::WorkerCut cut;
  cut.set_last_portion(leased->id());
  *cut.add_remaining() = *leased;
  cut.mutable_remaining(0)->set_begin(7);
  portions.Return(0, &cut);
  EXPECT_EQ(portions.epochs_done(), 0.5);
  EXPECT_EQ(portions.Take(1)->begin(), 4u);
  EXPECT_FALSE(portions.Take(1).has_value());
}

TEST(PortionsTest, ASavedInputGoesOnExactlyWhereItWas) {
  Portions before(Epochs(20, 3), 4);
  const auto a = before.Take(0);
  const auto b = before.Take(1);
  before.Finish(0, a->id());
  before.Take(0);
  v1::Portion rest = *b;
  rest.set_begin(b->begin() + 1);
  v1::WorkerCut cut;
  cut.set_last_portion(b->id());
  *cut.add_remaining() = rest;
  before.Take(1);  // The worker has not heard of this one.
  const v1::SavedInput saved = before.Save({{1, cut}});

  Portions after(Epochs(20, 3), 4);
  after.Restore(saved);
  uint64_t left = 0;
  uint64_t last = 0;
  while (const auto portion = after.Take(0)) {
    left += portion->end() - portion->begin();
    last = portion->id();
  }
  EXPECT_EQ(left, 60u - 4 - 1);
  EXPECT_NEAR(after.epochs_done(), 5.0 / 20, 1e-12);
  after.Finish(0, last);
  EXPECT_TRUE(after.finished());
}

TEST(PortionsTest, WhatIsLeftTogetherIsHandedOutInPortions) {
  v1::SavedInput saved;
  saved.set_next_epoch(2);
  v1::SavedInput::Range* const range = saved.add_remaining();
  range->set_epoch(1);
  range->set_begin(6);
  range->set_end(16);
  Portions portions(Epochs(20, 1), /*size=*/4);
  portions.Restart(saved);
  EXPECT_EQ(portions.Take(0)->end(), 10u);
  EXPECT_EQ(portions.Take(0)->end(), 14u);
  EXPECT_EQ(portions.Take(0)->end(), 16u);
  EXPECT_FALSE(portions.Take(0).has_value());
}

TEST(PortionsTest, WhatIsHeldSinceBeforeIsItsHoldersAndLaterIdsAreAboveIt) {
  Portions portions(Epochs(8, 1), /*size=*/4);
  v1::SavedInput saved;
  saved.set_next_epoch(1);
  saved.set_next_offset(4);
  portions.Restart(saved);
  v1::Portion held;
  held.set_id(17);
  held.set_epoch(1);
  held.set_end(4);
  portions.Lease(3, held);
  const auto other = portions.Take(1);
  EXPECT_EQ(other->begin(), 4u);
  EXPECT_GT(other->id(), 17u);
  EXPECT_EQ(portions.Save({}).remaining_size(), 2);
  portions.Finish(1, other->id());
  EXPECT_FALSE(portions.finished());
  EXPECT_EQ(portions.Finish(3, 17).size(), 1u);
  EXPECT_TRUE(portions.finished());
}

TEST(PortionsTest, AWorkerEndsItsOwnLeasesWhoeverHasEarlierOrLaterOnes) {
  constexpr uint32_t kHolders = 5;
  Portions portions(Epochs(60, 1), /*size=*/4);
  std::map<uint32_t, std::vector<uint64_t>> ids;
  for (uint32_t i = 0; i < 15; ++i) {
    const uint32_t worker = i % kHolders;
    ids[worker].push_back(portions.Take(worker)->id());
  }
  const auto finished = portions.Finish(2, ids[2][1]);
  ASSERT_EQ(finished.size(), 2u);
  EXPECT_EQ(finished[0].id(), ids[2][0]);
  EXPECT_EQ(finished[1].id(), ids[2][1]);
  EXPECT_TRUE(portions.Finish(2, ids[2][1]).empty());
  EXPECT_TRUE(portions.Finish(7, ids[4][2]).empty()) << "it holds none";
  EXPECT_EQ(portions.Save({}).remaining_size(), 13);
  // In the order in which they were handed out, whoever had them.
  portions.Return(4);
  EXPECT_EQ(portions.Finish(4, ids[4][2]).size(), 0u);
  portions.Return(0);
  std::vector<uint64_t> begins;
  for (int i = 0; i < 6; ++i) begins.push_back(portions.Take(1)->begin());
  EXPECT_EQ(begins, (std::vector<uint64_t>{16, 36, 56, 0, 20, 40}));
  EXPECT_FALSE(portions.Take(1).has_value());
  EXPECT_EQ(portions.Finish(1, 1000).size(), 9u);
  EXPECT_EQ(portions.Finish(2, 1000).size(), 1u);
  EXPECT_EQ(portions.Finish(3, 1000).size(), 3u);
  EXPECT_TRUE(portions.finished());
}

v1::EpochFiles Found(uint32_t epoch, uint64_t examples) {
  v1::EpochFiles found;
  found.set_epoch(epoch);
  found.set_examples(examples);
  if (examples > 0) found.add_files();
  return found;
}

TEST(GrowingPortionsTest, EpochsAreHandedOutAsTheyAreFound) {
  Portions portions(Epochs::Growing(10), /*size=*/4);
  EXPECT_FALSE(portions.Take(0).has_value());
  EXPECT_FALSE(portions.finished());
  EXPECT_TRUE(portions.all_begun());
  ASSERT_TRUE(portions.OnFound(Found(1, 5)));
  EXPECT_FALSE(portions.OnFound(Found(1, 5)));
  EXPECT_FALSE(portions.all_begun());
  EXPECT_EQ(portions.Take(0)->end(), 4u);
  EXPECT_TRUE(portions.all_begun());
  EXPECT_EQ(portions.Take(0)->end(), 5u);
  EXPECT_FALSE(portions.Take(0).has_value());
  ASSERT_TRUE(portions.OnFound(Found(2, 3)));
  const auto next = portions.Take(1);
  EXPECT_EQ(next->epoch(), 2u);
  EXPECT_EQ(next->end(), 3u);
}

TEST(GrowingPortionsTest, AreFinishedWhenNoMoreEpochsCome) {
  Portions portions(Epochs::Growing(10), 4);
  portions.OnFound(Found(1, 8));
  portions.Finish(0, portions.Take(0)->id());
  EXPECT_DOUBLE_EQ(portions.epochs_done(), 0.5);
  portions.Finish(0, portions.Take(0)->id());
  EXPECT_EQ(portions.epochs_finished(), 1u);
  EXPECT_TRUE(portions.all_used());
  EXPECT_FALSE(portions.finished());
  portions.OnFound(Found(2, 0));
  EXPECT_TRUE(portions.finished());
}

TEST(GrowingPortionsTest, ASaveAtTheEndOfWhatIsKnownGoesOnWithWhatComes) {
  Portions portions(Epochs::Growing(10), 4);
  portions.OnFound(Found(1, 4));
  portions.Finish(0, portions.Take(0)->id());
  const v1::SavedInput saved = portions.Save({});
  EXPECT_EQ(saved.next_epoch(), 2u);
  Portions next(Epochs::Growing(10), 4);
  next.OnFound(Found(1, 4));
  next.OnFound(Found(2, 6));
  next.Restart(saved);
  EXPECT_EQ(next.epochs_finished(), 1u);
  EXPECT_EQ(next.Take(0)->epoch(), 2u);
}

}  // namespace
}  // namespace paramd
