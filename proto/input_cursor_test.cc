#include "proto/input_cursor.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;

v1::SavedInput FromOffset(uint32_t epoch, uint64_t offset) {
  v1::SavedInput input;
  input.set_next_epoch(epoch);
  input.set_next_offset(offset);
  return input;
}

void AddRemaining(v1::SavedInput* input, uint32_t epoch, uint64_t begin,
                  uint64_t end) {
  v1::SavedInput::Range* const range = input->add_remaining();
  range->set_epoch(epoch);
  range->set_begin(begin);
  range->set_end(end);
}

std::vector<std::string> Steps(InputCursor cursor, uint64_t most) {
  std::vector<std::string> steps;
  for (; !cursor.finished(); cursor.Advance(most)) {
    const InputCursor::Range range = cursor.Next(most);
    steps.push_back(
        absl::StrCat(range.epoch, ":", range.begin, "-", range.end));
  }
  return steps;
}

TEST(InputCursorTest, EveryEpochIsGoneThroughAndItsLastStepMayBeShort) {
  EXPECT_THAT(
      Steps(InputCursor(FromOffset(1, 0), 10, 2), 4),
      ElementsAre("1:0-4", "1:4-8", "1:8-10", "2:0-4", "2:4-8", "2:8-10"));
}

TEST(InputCursorTest, AnInputWithoutAPlaceBeginsWithTheFirstEpoch) {
  EXPECT_THAT(Steps(InputCursor(v1::SavedInput(), 4, 1), 4),
              ElementsAre("1:0-4"));
}

TEST(InputCursorTest, WhatRemainsOfPortionsComesFirstAndIsNotJoined) {
  v1::SavedInput input = FromOffset(2, 6);
  AddRemaining(&input, 1, 3, 8);
  AddRemaining(&input, 2, 0, 2);
  const InputCursor cursor(input, 10, 2);
  EXPECT_THAT(Steps(cursor, 4),
              ElementsAre("1:3-7", "1:7-8", "2:0-2", "2:6-10"));
}

TEST(InputCursorTest, WhoGoesOnFromWhatIsLeftFindsTheSameSteps) {
  v1::SavedInput input = FromOffset(1, 6);
  AddRemaining(&input, 1, 0, 5);
  InputCursor cursor(input, 10, 3);
  while (!cursor.finished()) {
    EXPECT_EQ(Steps(InputCursor(cursor.left(), 10, 3), 3), Steps(cursor, 3));
    cursor.Advance(3);
  }
}

TEST(InputCursorTest, EpochsCountAsFinishedWhenNothingOfThemIsLeft) {
  v1::SavedInput input = FromOffset(2, 0);
  AddRemaining(&input, 1, 8, 10);
  InputCursor cursor(input, 10, 2);
  EXPECT_EQ(cursor.epochs_finished(), 0u);
  EXPECT_DOUBLE_EQ(cursor.epochs_done(), 0.8);
  cursor.Advance(4);
  EXPECT_EQ(cursor.epochs_finished(), 1u);
  EXPECT_DOUBLE_EQ(cursor.epochs_done(), 1.0);
  cursor.Advance(4);
  cursor.Advance(4);
  EXPECT_EQ(cursor.epochs_finished(), 1u);
  EXPECT_DOUBLE_EQ(cursor.epochs_done(), 1.8);
  cursor.Advance(4);
  EXPECT_EQ(cursor.epochs_finished(), 2u);
  EXPECT_DOUBLE_EQ(cursor.epochs_done(), 2.0);
  EXPECT_TRUE(cursor.finished());
}

TEST(InputCursorTest, RangesThatTheJobDoesNotHaveAreLeftOut) {
  v1::SavedInput input = FromOffset(3, 0);
  AddRemaining(&input, 3, 0, 5);
  AddRemaining(&input, 0, 0, 5);
  AddRemaining(&input, 2, 8, 20);
  AddRemaining(&input, 2, 5, 5);
  EXPECT_THAT(Steps(InputCursor(input, 10, 2), 8), ElementsAre("2:8-10"));
  EXPECT_TRUE(InputCursor().finished());
}

}  // namespace
}  // namespace paramd
