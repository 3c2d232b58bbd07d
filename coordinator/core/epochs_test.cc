#include "coordinator/core/epochs.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

v1::EpochFiles Found(uint32_t epoch, uint64_t examples) {
  v1::EpochFiles found;
  found.set_epoch(epoch);
  found.set_examples(examples);
  if (examples > 0) found.add_files()->set_name("a.csv");
  return found;
}

TEST(EpochsTest, OfATrainingSetThatIsThereAllAreAlike) {
  const Epochs epochs(/*examples=*/10, /*epochs=*/3);
  EXPECT_EQ(epochs.number(), 3u);
  EXPECT_EQ(epochs.ExamplesOf(1), 10u);
  EXPECT_EQ(epochs.ExamplesOf(3), 10u);
  EXPECT_EQ(epochs.ExamplesOf(0), 0u);
  EXPECT_EQ(epochs.ExamplesOf(4), 0u);
  EXPECT_EQ(epochs.FilesOf(1), nullptr);
  EXPECT_TRUE(epochs.complete());
}

TEST(EpochsTest, OfOneThatGrowsEachIsWhatWasFound) {
  Epochs epochs = Epochs::Growing(/*most=*/5);
  EXPECT_EQ(epochs.number(), 0u);
  EXPECT_FALSE(epochs.complete());
  EXPECT_TRUE(epochs.Add(Found(1, 7)));
  EXPECT_TRUE(epochs.Add(Found(2, 4)));
  EXPECT_EQ(epochs.number(), 2u);
  EXPECT_EQ(epochs.ExamplesOf(1), 7u);
  EXPECT_EQ(epochs.ExamplesOf(2), 4u);
  EXPECT_EQ(epochs.FilesOf(2)->examples(), 4u);
  EXPECT_EQ(epochs.FilesOf(3), nullptr);
  EXPECT_FALSE(epochs.complete());
}

TEST(EpochsTest, WhatDoesNotFollowChangesNothing) {
  Epochs epochs = Epochs::Growing(5);
  EXPECT_FALSE(epochs.Add(Found(2, 7)));
  v1::EpochFiles without_examples = Found(1, 1);
  without_examples.set_examples(0);
  EXPECT_FALSE(epochs.Add(without_examples));
  EXPECT_EQ(epochs.number(), 0u);
  EXPECT_FALSE(Epochs(10, 1).Add(Found(2, 7)));
}

TEST(EpochsTest, NoFilesAreTheEnd) {
  Epochs epochs = Epochs::Growing(5);
  EXPECT_TRUE(epochs.Add(Found(1, 7)));
  EXPECT_TRUE(epochs.Add(Found(2, 0)));
  EXPECT_TRUE(epochs.complete());
  EXPECT_EQ(epochs.number(), 1u);
  EXPECT_FALSE(epochs.Add(Found(2, 7)));
}

TEST(EpochsTest, SoManyAsTheJobSaysAreTheEndToo) {
  Epochs epochs = Epochs::Growing(1);
  EXPECT_TRUE(epochs.Add(Found(1, 7)));
  EXPECT_TRUE(epochs.complete());
  EXPECT_FALSE(epochs.Add(Found(2, 7)));
}

}  // namespace
}  // namespace paramd
