#include "tests/sim/integer_workload.h"

#include <cstdint>
#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

#include "tests/sim/few_seeds.h"

namespace paramd {
namespace {

// Seeds 100 * GetParam() + 1 to 100 * (GetParam() + 1).
class IntegerWorkloadTest : public ::testing::TestWithParam<int> {};

TEST_P(IntegerWorkloadTest, Promise1_EachBlockIsExplainedOn100Networks) {
  const uint64_t seeds = FewSeeds() ? 8 : 100;
  const uint64_t first = uint64_t{100} * GetParam() + 1;
  WorkloadReport all;
  uint64_t complete = 0;
  uint64_t incomplete = 0;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    const WorkloadReport report = RunIntegerWorkload(seed, false);
    ASSERT_TRUE(report.status.ok()) << report.status;
    all.faults.Add(report.faults);
    all.probes.Add(report.probes);
    if (IsGentle(seed)) {
      EXPECT_EQ(report.lost + report.doubled, 0u) << "seed " << seed;
      continue;
    }
    EXPECT_GE(report.hits, 10u) << "seed " << seed;
    EXPECT_GE(report.pushes, 300u) << "seed " << seed;
    // A push has three at least; a tenth may be refused for their numbers.
    EXPECT_GE(report.chunks_applied, 2.7 * report.pushes) << "seed " << seed;
    if (report.complete) {
      ++complete;
      EXPECT_GE(report.checkpoints, 2u) << "seed " << seed;
    } else {
      ++incomplete;
    }
  }
  if (FewSeeds()) return;
  // In the others the job was over before there was a checkpoint to go on from,
  // which takes longer where it goes through the chief.
  EXPECT_GE(complete, 12 * incomplete);
  EXPECT_EQ(absl::StrJoin(all.probes.Missing(), "\n"), "") << "never reached";
  // A fault that was never met proves nothing.
  for (const char* fault : {"lose_request", "lose_reply", "duplicate", "ghost",
                            "second_reply", "deadline", "slow", "cut_off"}) {
    for (const char* type : {"PushRequest", "PullRequest"}) {
      EXPECT_GT(all.faults.Of(fault, type), 0u) << fault << " of " << type;
    }
  }
  EXPECT_GT(all.faults.Of("reset", "PushRequest"), 0u);
  for (const char* fault :
       {"kill server", "kill worker", "kill chief", "replace server",
        "pause server", "pause worker", "cut one way server", "jump clock",
        "disk full", "lose storage results", "drain worker",
        "kill at a change: chief"}) {
    EXPECT_GT(all.faults.Of(fault, "open push"), 0u) << fault;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, IntegerWorkloadTest, ::testing::Range(0, 3));
// Of the slow tests.
INSTANTIATE_TEST_SUITE_P(MoreSeeds, IntegerWorkloadTest,
                         ::testing::Range(3, 10));

// With Adam, whose moments tell the order. Of each block of each checkpoint
// ContentModel replays the pushes before its cut, in the order in which the
// server said that it applied them to what is frozen, and compares every bit of
// values and moments; which pushes those are the records in the manifest say.
TEST(IntegerSnapshotTest, Promise3_ASnapshotIsTheReplayOfThePushesThatItNames) {
  const uint64_t last = FewSeeds() ? 5 : 77;
  WorkloadReport all;
  for (uint64_t seed = 1; seed <= last; seed += 4) {
    const WorkloadReport report = RunIntegerWorkload(seed, false);
    ASSERT_TRUE(report.status.ok()) << report.status;
    all.checkpoints += report.checkpoints;
    all.probes.Add(report.probes);
  }
  if (FewSeeds()) return;
  EXPECT_GE(all.checkpoints, last / 4);
  // Where the frozen order is not the live one.
  EXPECT_GT(all.probes.Of("a block is forked by a stamp"), 0u);
  EXPECT_GT(all.probes.Of("a push before the cut is applied to both copies"),
            0u);
  // Where files have bases, both are read for it.
  EXPECT_GT(all.probes.Of("a checkpoint has a base"), 0u);
}

// Rows by key, from one run to another on another number of servers.
TEST(IntegerWarmStartTest, AnotherRunBeginsWithWhatOneHasLearned) {
  const uint64_t last = FewSeeds() ? 37 : 147;
  WorkloadReport all;
  for (uint64_t seed = 7; seed <= last; seed += 10) {
    const WorkloadReport report = RunIntegerWorkload(seed, false);
    ASSERT_TRUE(report.status.ok()) << report.status;
    all.probes.Add(report.probes);
  }
  if (FewSeeds()) return;
  EXPECT_GT(all.probes.Of("a server begins with another run's rows"), 0u);
}

TEST(IntegerWorkloadCasesTest, SeedsThatFailedOnceDoNotFailAgain) {
  std::ifstream file("tests/sim/cases.txt");
  int cases = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    uint64_t seed = 0;
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    ASSERT_TRUE(words.size() == 2 && absl::SimpleAtoi(words[0], &seed)) << line;
    const WorkloadReport report = RunIntegerWorkload(seed, false);
    EXPECT_TRUE(report.status.ok()) << line << ": " << report.status;
    ++cases;
  }
  EXPECT_GT(cases, 0);
}

TEST(IntegerWorkloadTraceTest, OneSeedGivesOneTrace) {
  for (uint64_t seed = 7; seed <= 9; ++seed) {
    const WorkloadReport once = RunIntegerWorkload(seed, false);
    const WorkloadReport again = RunIntegerWorkload(seed, false);
    EXPECT_EQ(once.trace_hash, again.trace_hash) << "seed " << seed;
    EXPECT_EQ(once.events, again.events);
    EXPECT_NE(once.trace_hash, RunIntegerWorkload(seed + 8, false).trace_hash);
  }
}

}  // namespace
}  // namespace paramd
