#include "coordinator/core/input_holders.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

constexpr uint64_t kExamples = 100;
constexpr uint32_t kEpochs = 2;

v1::HeldInput Held(uint64_t last_portion) {
  v1::HeldInput held;
  held.set_last_portion(last_portion);
  return held;
}

void AddPart(uint64_t id, uint64_t begin, uint64_t end, uint64_t used_to,
             v1::HeldInput* held) {
  v1::HeldInput::Part* const part = held->add_parts();
  part->mutable_portion()->set_id(id);
  part->mutable_portion()->set_epoch(1);
  part->mutable_portion()->set_begin(begin);
  part->mutable_portion()->set_end(end);
  part->set_used_to(used_to);
}

class InputHoldersTest : public ::testing::Test {
 protected:
  // All but [0, 20) of epoch 1 is left.
  InputHoldersTest() {
    left_.set_next_epoch(1);
    left_.set_next_offset(20);
  }
  v1::Portion Take(uint32_t worker) {
    const auto portion = portions_.Take(worker);
    return portion.value_or(v1::Portion());
  }

  v1::SavedInput left_;
  InputHolders holders_;
  Portions portions_{Epochs(kExamples, kEpochs), /*size=*/40};
};

TEST_F(InputHoldersTest, WithoutSessionsAllIsToBeHandedOut) {
  holders_.Await(left_, {});
  EXPECT_TRUE(holders_.complete());
  holders_.HandOver(&portions_);
  const v1::Portion portion = Take(1);
  EXPECT_EQ(portion.begin(), 20u);
  EXPECT_EQ(portion.end(), 60u);
}

TEST_F(InputHoldersTest, IsCompleteWhenEachHasToldOrIsGone) {
  holders_.Await(left_, {1, 2});
  EXPECT_FALSE(holders_.complete());
  EXPECT_EQ(holders_.awaited(), 1u);
  holders_.Told(1, Held(0));
  EXPECT_FALSE(holders_.IsAwaited(1));
  EXPECT_EQ(holders_.awaited(), 2u);
  holders_.Gone(2);
  EXPECT_TRUE(holders_.complete());
}

TEST_F(InputHoldersTest, Promise1_WhatIsHeldIsLeasedAndNobodyElseGetsIt) {
  holders_.Await(left_, {1});
  v1::HeldInput held = Held(7);
  AddPart(7, 30, 70, 30, &held);
  holders_.Told(1, held);
  holders_.HandOver(&portions_);
  const v1::Portion gap = Take(2);
  EXPECT_EQ(gap.begin(), 20u);
  EXPECT_EQ(gap.end(), 30u);
  EXPECT_GT(gap.id(), 7u);
  EXPECT_EQ(Take(2).begin(), 70u);
  // It is used when its holder says so.
  const auto used = portions_.Finish(1, 7);
  ASSERT_EQ(used.size(), 1u);
  EXPECT_EQ(used[0].begin(), 30u);
  EXPECT_EQ(used[0].end(), 70u);
}

TEST_F(InputHoldersTest, Promise9_APartThatCannotBeChangesNothing) {
  holders_.Await(left_, {1});
  v1::HeldInput held = Held(9);
  AddPart(7, 70, 30, 70, &held);
  AddPart(8, 30, 40, 50, &held);
  AddPart(9, 30, 40, 20, &held);
  holders_.Told(1, held);
  holders_.HandOver(&portions_);
  EXPECT_EQ(Take(2).begin(), 20u);
  EXPECT_EQ(Take(2).begin(), 60u);
}

TEST_F(InputHoldersTest, WhatIsUsedOfAPartIsUsedForGood) {
  holders_.Await(left_, {1});
  v1::HeldInput held = Held(3);
  // [10, 20) is in every block, and [20, 30) was given up.
  AddPart(3, 10, 50, 30, &held);
  holders_.Told(1, held);
  holders_.HandOver(&portions_);
  portions_.Return(1);
  const v1::Portion again = Take(2);
  EXPECT_EQ(again.begin(), 30u);
  EXPECT_EQ(again.end(), 50u);
  EXPECT_EQ(Take(2).begin(), 50u);
}

TEST_F(InputHoldersTest,
       APushThatIsInEverywhereIsUsedThoughItsWorkerHasNotHeard) {
  holders_.Await(left_, {1});
  v1::HeldInput held = Held(3);
  AddPart(3, 10, 50, 10, &held);
  holders_.Told(1, held);
  holders_.HandOver(&portions_);
  portions_.Return(1);
  EXPECT_EQ(Take(2).begin(), 20u);
}

TEST_F(InputHoldersTest, Promise1_WhatADeadOnePushedInTheMiddleIsNotHandedOut) {
  // [40, 50) is in everywhere.
  left_.set_next_offset(50);
  v1::SavedInput::Range* const before = left_.add_remaining();
  before->set_epoch(1);
  before->set_begin(20);
  before->set_end(40);
  holders_.Await(left_, {1});
  v1::HeldInput held = Held(3);
  AddPart(3, 20, 60, 20, &held);
  holders_.Told(1, held);
  holders_.HandOver(&portions_);
  v1::WorkerCut cut;
  cut.set_last_portion(3);
  *cut.add_remaining() = held.parts(0).portion();
  cut.mutable_remaining(0)->set_begin(30);
  const v1::SavedInput saved = portions_.Save({{1, cut}});
  ASSERT_EQ(saved.remaining_size(), 2);
  EXPECT_EQ(saved.remaining(0).begin(), 30u);
  EXPECT_EQ(saved.remaining(0).end(), 40u);
  portions_.Return(1, &cut);
  v1::Portion again = Take(2);
  EXPECT_EQ(again.begin(), 30u);
  EXPECT_EQ(again.end(), 40u);
  again = Take(2);
  EXPECT_EQ(again.begin(), 50u);
  EXPECT_EQ(again.end(), 60u);
}

TEST_F(InputHoldersTest, AllIsFinishedWhenAllIsUsed) {
  left_.set_next_epoch(kEpochs + 1);
  left_.set_next_offset(0);
  v1::SavedInput::Range* const range = left_.add_remaining();
  range->set_epoch(1);
  range->set_begin(60);
  range->set_end(100);
  holders_.Await(left_, {1});
  v1::HeldInput held = Held(9);
  AddPart(9, 40, 80, 60, &held);
  holders_.Told(1, held);
  holders_.HandOver(&portions_);
  const v1::Portion rest = Take(2);
  EXPECT_EQ(rest.begin(), 80u);
  portions_.Finish(2, rest.id());
  EXPECT_FALSE(portions_.finished());
  portions_.Finish(1, 9);
  EXPECT_TRUE(portions_.finished());
}

TEST_F(InputHoldersTest, Promise1_WhatOneThatLeavesHasUsedMeanwhileIsUsed) {
  holders_.Await(left_, {1, 2});
  v1::HeldInput held = Held(3);
  AddPart(3, 20, 60, 20, &held);
  holders_.Told(1, held);
  v1::WorkerCut cut;
  cut.set_last_portion(3);
  *cut.add_remaining() = held.parts(0).portion();
  cut.mutable_remaining(0)->set_begin(50);
  holders_.Gone(1, &cut);
  holders_.Gone(2, &cut);
  holders_.HandOver(&portions_);
  EXPECT_EQ(Take(2).begin(), 50u);
}

TEST_F(InputHoldersTest, WhatOneThatIsGoneHasNotUsedIsNobodys) {
  holders_.Await(left_, {1});
  v1::HeldInput held = Held(3);
  AddPart(3, 20, 60, 40, &held);
  holders_.Told(1, held);
  holders_.Gone(1);
  holders_.HandOver(&portions_);
  EXPECT_EQ(Take(2).begin(), 40u);
}

}  // namespace
}  // namespace paramd
