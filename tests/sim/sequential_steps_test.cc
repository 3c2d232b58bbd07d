#include "tests/sim/sequential_steps.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "tests/sim/fine_cut.h"

namespace paramd {
namespace {

class SequentialStepsTest : public ::testing::Test {
 protected:
  std::vector<float> After(const std::vector<DecidedStep>& steps) const {
    SequentialSteps sequential(job_);
    for (const DecidedStep& step : steps) sequential.Apply(step);
    return sequential.Numbers(4, "momentum");
  }

  const FineCut cut_{{.block_elements = 8, .slice_bytes = 64}};
  const IntegerJob job_{3,
                        {.examples = 30, .staleness = "sync", .rounded = true}};
};

TEST_F(SequentialStepsTest, AStepTakesABatchForEachContributor) {
  SequentialSteps sequential(job_);
  EXPECT_EQ(sequential.names(0),
            (std::vector<std::string>{"", "momentum", "variance"}));
  EXPECT_EQ(sequential.next(), (BatchPlace{1, 0}));
  sequential.Apply({{0, 1, 2}, {0, 1, 2}});
  EXPECT_EQ(sequential.next(), (BatchPlace{1, 12}));
  sequential.Apply({{0, 2}, {0, 2}});
  EXPECT_EQ(sequential.next(), (BatchPlace{1, 20}));
  // The rest of an epoch is a step of its own.
  sequential.Apply({{0, 1, 2}, {0, 1, 2}});
  EXPECT_EQ(sequential.next(), (BatchPlace{2, 0}));
  EXPECT_EQ(sequential.steps(), 3u);
  EXPECT_NE(sequential.Numbers(2, "momentum"),
            sequential.Numbers(2, "variance"));
}

TEST_F(SequentialStepsTest, WhoContributesIsInTheBits) {
  const auto together = After({{{0, 1}, {0, 1}}});
  EXPECT_EQ(After({{{3, 5}, {3, 5}}}), together) << "whatever they are called";
  EXPECT_NE(After({{{0}, {0}}, {{0}, {0}}}), together);
  EXPECT_NE(After({{{0, 1, 2}, {0, 1}}}), together) << "of three";
  EXPECT_NE(After({{{0, 1, 2}, {0, 1}}}), After({{{0, 1, 2}, {0, 2}}}));
}

// Behind step 24 half of all weights are to be zero, with step 25.
TEST_F(SequentialStepsTest, SmallWeightsBecomeZeroByOneThreshold) {
  const IntegerJob job(
      4,
      {.examples = 200, .staleness = "sync", .rounded = true, .pruned = true});
  SequentialSteps sequential(job);
  const auto zeros = [&] {
    size_t count = 0, all = 0;
    for (size_t v = 0; v < job.variables().size(); ++v) {
      const std::vector<float> numbers = sequential.Numbers(v, "");
      all += numbers.size();
      count +=
          static_cast<size_t>(std::count(numbers.begin(), numbers.end(), 0.0f));
    }
    return std::make_pair(count, all);
  };
  for (int step = 0; step < 24; ++step) sequential.Apply({{0}, {0}});
  const size_t before = zeros().first;
  sequential.Apply({{0}, {0}});
  const auto [after, all] = zeros();
  EXPECT_GE(after, before);
  EXPECT_GT(after, 0u);
  EXPECT_LE(after, all / 2 + 1);
}

TEST_F(SequentialStepsTest, SumsRound) {
  SequentialSteps sequential(job_);
  const std::vector<std::vector<float>> values = {
      sequential.Numbers(0, ""), sequential.Numbers(1, ""),
      sequential.Numbers(2, ""), sequential.Numbers(3, ""),
      sequential.Numbers(4, "")};
  const auto gradient = [&](uint64_t begin) {
    return job_.RoundedGradient({1, begin}, {values.begin(), values.end()},
                                12)[4];
  };
  const auto a = gradient(0), b = gradient(4), c = gradient(8);
  uint64_t differ = 0;
  for (size_t e = 0; e < a.size(); ++e) {
    differ += (a[e] + b[e]) + c[e] != a[e] + (b[e] + c[e]);
  }
  EXPECT_GT(differ, 0u) << "no order of sums would show";
}

}  // namespace
}  // namespace paramd
