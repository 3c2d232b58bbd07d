#include "tests/sim/rounds_workload.h"

#include "gtest/gtest.h"

#include "tests/sim/few_seeds.h"

namespace paramd {
namespace {

uint64_t Seeds() { return FewSeeds() ? 200 : 2000; }

RoundsCounts RunAll(RoundsOptions options) {
  RoundsCounts all;
  for (uint64_t seed = 1; seed <= Seeds(); ++seed) {
    options.seed = seed;
    RoundsCounts counts;
    const auto wrong = RunRounds(options, &counts);
    EXPECT_FALSE(wrong.has_value()) << "seed " << seed << ": " << *wrong;
    if (wrong.has_value()) break;
    all.rounds += counts.rounds;
    all.kills += counts.kills;
    all.made_again += counts.made_again;
    all.was_made += counts.was_made;
    all.brought += counts.brought;
  }
  return all;
}

TEST(RoundsWorkloadTest, WorkersThatAreKilledMakeTheStepsOfTheUndisturbedRun) {
  const RoundsCounts counts = RunAll({});
  EXPECT_GT(counts.kills, Seeds());
  EXPECT_GT(counts.brought, counts.kills / 2);
  EXPECT_GT(counts.made_again, 0u);
  // The rare one: one had made the step, another had the sums alone.
  EXPECT_GT(counts.was_made, 0u);
}

TEST(RoundsWorkloadTest, TwoWorkersDoToo) {
  RoundsOptions options;
  options.workers = 2;
  const RoundsCounts counts = RunAll(options);
  EXPECT_GT(counts.made_again, 0u);
  // If one had made the step, the other one that had the sums was the lost one.
  EXPECT_EQ(counts.was_made, 0u);
}

TEST(RoundsWorkloadTest, TheOthersGoOnWithoutOneThatStaysAway) {
  RoundsOptions options;
  options.workers = 4;
  options.one_stays_away = true;
  EXPECT_GT(RunAll(options).rounds, Seeds());
}

}  // namespace
}  // namespace paramd
