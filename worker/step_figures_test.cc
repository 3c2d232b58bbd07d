#include "worker/step_figures.h"

#include <string>
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
  std::vector<double> numbers = ToNumbers(one, {"top_5"});
  const std::vector<double> again = numbers;
  // One that had nothing to compute knows no metrics.
  const std::vector<double> none = ToNumbers(StepFigures(), {"top_5"});
  numbers.insert(numbers.end(), none.begin(), none.end());
  numbers.insert(numbers.end(), again.begin(), again.end());
  const StepFigures all = FromNumbers(numbers, {"top_5"});
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

TEST(StepFiguresTest, TheyAreWeightedWhereExamplesAre) {
  StepFigures one;
  one.metrics.sums = {
      {.kind = Metrics::Kind::kAccuracy, .sum = 1.5, .count = 2}};
  one.metrics.correct = 1;
  one.metrics.labels = 2;
  one.metrics.weighted = true;
  std::vector<double> numbers = ToNumbers(StepFigures(), {"accuracy"});
  const std::vector<double> some = ToNumbers(one, {"accuracy"});
  numbers.insert(numbers.end(), some.begin(), some.end());
  const StepFigures all = FromNumbers(numbers, {"accuracy"});
  EXPECT_TRUE(all.metrics.weighted);
  EXPECT_EQ(all.metrics.Values()[1].value, 0.75);
  EXPECT_FALSE(FromNumbers(ToNumbers(StepFigures(), {"accuracy"}), {"accuracy"})
                   .metrics.weighted);
}

TEST(StepFiguresTest, EachOutputHasItsOwn) {
  const std::vector<std::string> counted = {"click/loss", "click/accuracy",
                                            "stars/loss", "stars/mse"};
  StepFigures one;
  one.metrics.loss_sum = 5;
  one.metrics.examples = 4;
  Metrics click;
  click.output = "click";
  click.loss_sum = 2;
  click.examples = 4;
  click.correct = 3;
  click.labels = 4;
  click.sums = {{.kind = Metrics::Kind::kAccuracy, .sum = 3, .count = 4}};
  Metrics stars;
  stars.output = "stars";
  stars.loss_sum = 3;
  stars.examples = 4;
  stars.sums = {
      {.kind = Metrics::Kind::kMeanSquaredError, .sum = 6, .count = 4}};
  one.metrics.outputs = {click, stars};
  one.left_out = 2;
  std::vector<double> numbers = ToNumbers(one, counted);
  const std::vector<double> again = numbers;
  const std::vector<double> none = ToNumbers(StepFigures(), counted);
  ASSERT_EQ(none.size(), numbers.size());
  numbers.insert(numbers.begin(), none.begin(), none.end());
  numbers.insert(numbers.end(), again.begin(), again.end());
  const StepFigures all = FromNumbers(numbers, counted);
  EXPECT_EQ(all.left_out, 4u);
  EXPECT_EQ(all.metrics.examples, 8u);
  EXPECT_EQ(all.metrics.loss_sum, 10);
  ASSERT_EQ(all.metrics.outputs.size(), 2u);
  EXPECT_EQ(all.metrics.outputs[0].output, "click");
  EXPECT_EQ(all.metrics.outputs[0].loss_sum, 4);
  EXPECT_EQ(all.metrics.outputs[0].accuracy(), 0.75);
  EXPECT_EQ(all.metrics.outputs[1].output, "stars");
  ASSERT_EQ(all.metrics.outputs[1].sums.size(), 1u);
  EXPECT_EQ(all.metrics.outputs[1].sums[0].sum, 12);
  EXPECT_EQ(all.metrics.outputs[1].sums[0].count, 8);
}

}  // namespace
}  // namespace paramd
