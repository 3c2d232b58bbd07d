#include "worker/step_figures.h"

#include <vector>

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(StepFiguresTest, ThoseOfMembersAreAdded) {
  StepFigures one;
  one.metrics.loss_sum = 1.5;
  one.metrics.examples = 3;
  one.metrics.correct = 2;
  one.metrics.labels = 3;
  one.metrics.sums = {
      {.kind = Metrics::Kind::kTopK, .k = 5, .sum = 2, .count = 3}};
  one.left_out = 1;
  std::vector<double> numbers = ToNumbers(one, 1);
  const std::vector<double> again = numbers;
  // One that had nothing to compute knows no metrics.
  const std::vector<double> none = ToNumbers(StepFigures(), 1);
  numbers.insert(numbers.end(), none.begin(), none.end());
  numbers.insert(numbers.end(), again.begin(), again.end());
  const StepFigures all = FromNumbers(numbers, 1);
  EXPECT_EQ(all.metrics.loss_sum, 3);
  EXPECT_EQ(all.metrics.examples, 6u);
  EXPECT_EQ(all.metrics.correct, 4u);
  EXPECT_EQ(all.metrics.labels, 6u);
  EXPECT_EQ(all.left_out, 2u);
  ASSERT_EQ(all.metrics.sums.size(), 1u);
  EXPECT_EQ(all.metrics.sums[0].name(), "top_5");
  EXPECT_EQ(all.metrics.sums[0].sum, 4);
  EXPECT_EQ(all.metrics.sums[0].count, 6);
}

}  // namespace
}  // namespace paramd
