#include "config/mistakes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(MistakesTest, NoneIsOk) { EXPECT_TRUE(Mistakes().ToStatus().ok()); }

TEST(MistakesTest, AllAreSaidBySourceAndLine) {
  Mistakes mistakes;
  mistakes.Add({"job.json", 7}, "b.c", "second");
  mistakes.Add({"--set", 0}, "d", "third");
  mistakes.Add({"job.json", 2}, "", "first");
  EXPECT_EQ(mistakes.ToStatus(),
            absl::InvalidArgumentError("job.json:2: first\n"
                                       "job.json:7: b.c: second\n"
                                       "--set: d: third"));
}

TEST(MistakesTest, UnderMeansThePathOrInsideIt) {
  Mistakes mistakes;
  mistakes.Add({"x", 0}, "model.layers[1]", "wrong");
  EXPECT_TRUE(mistakes.HasUnder(""));
  EXPECT_TRUE(mistakes.HasUnder("model.layers"));
  EXPECT_TRUE(mistakes.HasUnder("model.layers[1]"));
  EXPECT_FALSE(mistakes.HasUnder("model.layers[1].dense"));
  EXPECT_FALSE(mistakes.HasUnder("mod"));
}

TEST(MistakesTest, TheRestIsCounted) {
  Mistakes mistakes;
  for (int i = 0; i < Mistakes::kMost + 3; ++i) mistakes.Add({"x", 0}, "", "y");
  EXPECT_THAT(std::string(mistakes.ToStatus().message()),
              ::testing::EndsWith("\nand 3 more mistakes"));
}

}  // namespace
}  // namespace paramd
