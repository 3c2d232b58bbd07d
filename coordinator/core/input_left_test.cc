#include "coordinator/core/input_left.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

const Epochs& OfJob() {
  static const Epochs epochs(/*examples=*/100, /*epochs=*/3);
  return epochs;
}

v1::SavedInput::Range Range(uint32_t epoch, uint64_t begin, uint64_t end) {
  v1::SavedInput::Range range;
  range.set_epoch(epoch);
  range.set_begin(begin);
  range.set_end(end);
  return range;
}

v1::SavedInput From(uint32_t epoch, uint64_t offset) {
  v1::SavedInput left;
  left.set_next_epoch(epoch);
  left.set_next_offset(offset);
  return left;
}

InputLeft Left(const v1::SavedInput& left) { return InputLeft(left, OfJob()); }

// "1:20-40 then 2:60".
std::string TextOf(const v1::SavedInput& left) {
  std::string text;
  for (const v1::SavedInput::Range& range : left.remaining()) {
    absl::StrAppend(&text, range.epoch(), ":", range.begin(), "-", range.end(),
                    " ");
  }
  return absl::StrCat(text, "then ", left.next_epoch(), ":",
                      left.next_offset());
}

std::string TextOf(const InputLeft& left) { return TextOf(left.Save({})); }

TEST(InputLeftTest, SavesWhatItWasMadeOf) {
  v1::SavedInput left = From(2, 60);
  *left.add_remaining() = Range(1, 20, 40);
  *left.add_remaining() = Range(2, 0, 10);
  EXPECT_EQ(TextOf(Left(left)), "1:20-40 2:0-10 then 2:60");
  EXPECT_EQ(TextOf(Left({})), "then 1:0");
  EXPECT_EQ(TextOf(Left(From(4, 0))), "then 4:0");
  EXPECT_EQ(TextOf(InputLeft(OfJob())), "then 4:0");
}

TEST(InputLeftTest, JoinsWhatLiesTogether) {
  v1::SavedInput left = From(2, 60);
  *left.add_remaining() = Range(2, 40, 60);
  *left.add_remaining() = Range(1, 90, 100);
  *left.add_remaining() = Range(1, 80, 90);
  EXPECT_EQ(TextOf(Left(left)), "1:80-100 then 2:40");
}

TEST(InputLeftTest, WhatIsRemovedIsNotLeft) {
  InputLeft left = Left(From(1, 0));
  left.Remove(Range(1, 0, 20));
  EXPECT_EQ(TextOf(left), "then 1:20");
  left.Remove(Range(1, 40, 60));
  EXPECT_EQ(TextOf(left), "1:20-40 then 1:60");
  left.Remove(Range(1, 30, 70));
  EXPECT_EQ(TextOf(left), "1:20-30 then 1:70");
  left.Remove(Range(3, 90, 100));
  EXPECT_EQ(TextOf(left), "1:20-30 1:70-100 2:0-100 3:0-90 then 4:0");
  left.Remove(Range(2, 0, 100));
  left.Remove(Range(7, 0, 100));
  EXPECT_EQ(TextOf(left), "1:20-30 1:70-100 3:0-90 then 4:0");
}

TEST(InputLeftTest, TwoThatKnowDifferentThingsArePutTogether) {
  InputLeft a = Left(From(2, 0));
  a.Remove(Range(2, 0, 50));
  InputLeft b = Left(From(2, 0));
  b.Remove(Range(2, 30, 70));
  InputLeft both = a;
  both.Intersect(b);
  EXPECT_EQ(TextOf(both), "then 2:70");
  InputLeft either(OfJob());
  either.Add(a);
  either.Add(b);
  EXPECT_EQ(TextOf(either), "2:0-30 then 2:50");
}

TEST(InputLeftTest, AnEpochThatOnlyOneKnowsLeftIsInTheUnionAlone) {
  v1::SavedInput one = From(3, 0);
  *one.add_remaining() = Range(1, 10, 20);
  InputLeft both = Left(one);
  both.Intersect(Left(From(3, 50)));
  EXPECT_EQ(TextOf(both), "then 3:50");
  both.Add(Left(one));
  EXPECT_EQ(TextOf(both), "1:10-20 then 3:0");
}

TEST(InputLeftTest, TheNextExampleIsNotBeforeTheKnownOne) {
  const InputLeft left = Left(From(1, 40));
  EXPECT_EQ(TextOf(left.Save(From(1, 80))), "1:40-80 then 1:80");
  EXPECT_EQ(TextOf(left.Save(From(2, 10))), "1:40-100 2:0-10 then 2:10");
  EXPECT_EQ(TextOf(left.Save(From(1, 20))), "then 1:40");
}

TEST(InputLeftTest, WhatTheJobDoesNotHaveIsLeftOut) {
  v1::SavedInput left = From(9, 0);
  *left.add_remaining() = Range(0, 0, 10);
  *left.add_remaining() = Range(4, 0, 10);
  *left.add_remaining() = Range(3, 90, 1000);
  *left.add_remaining() = Range(1, 50, 40);
  EXPECT_EQ(TextOf(Left(left)), "then 3:90");
}

TEST(InputLeftTest, FindsWhatIsLeftOfARange) {
  v1::SavedInput saved = From(2, 60);
  *saved.add_remaining() = Range(1, 20, 40);
  const InputLeft left = Left(saved);
  *saved.add_remaining() = Range(1, 50, 60);
  const InputLeft more = Left(saved);
  using Ranges = InputLeft::Ranges;
  EXPECT_EQ(left.Among(1, 0, 30), (Ranges{{20, 30}}));
  EXPECT_EQ(more.Among(1, 25, 100), (Ranges{{25, 40}, {50, 60}}));
  EXPECT_EQ(left.Among(1, 40, 50), Ranges()) << "nothing is";
  EXPECT_EQ(left.Among(1, 30, 30), Ranges());
  EXPECT_EQ(left.Among(2, 0, 100), (Ranges{{60, 100}}));
  EXPECT_EQ(left.Among(9, 0, 5), Ranges()) << "no such epoch";
}

TEST(InputLeftTest, EpochsOfATrainingSetThatGrowsHaveTheirOwnSizes) {
  Epochs epochs = Epochs::Growing(10);
  for (uint32_t epoch = 1; epoch <= 3; ++epoch) {
    v1::EpochFiles found;
    found.set_epoch(epoch);
    found.set_examples(epoch * 10);
    found.add_files();
    epochs.Add(found);
  }
  v1::SavedInput saved = From(2, 15);
  *saved.add_remaining() = Range(1, 5, 100);
  EXPECT_EQ(TextOf(InputLeft(saved, epochs).Save({})), "1:5-10 then 2:15");
  EXPECT_EQ(TextOf(InputLeft(From(4, 0), epochs).Save({})), "then 4:0");
  EXPECT_EQ(TextOf(InputLeft(epochs).Save({})), "then 4:0");
  EXPECT_EQ(TextOf(InputLeft({}, epochs).Save({})), "then 1:0");
}

}  // namespace
}  // namespace paramd
