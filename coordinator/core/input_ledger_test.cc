#include "coordinator/core/input_ledger.h"

#include "gtest/gtest.h"

#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/started_coordinator.h"

namespace paramd {
namespace {

using ::paramd::testing::JobOptions;
using ::paramd::testing::PartBench;

class InputLedgerTest : public ::testing::Test {
 protected:
  void SetMode(v1::Consistency::Mode mode) {
    bench_.configuration.mutable_plan()->mutable_consistency()->set_mode(mode);
  }
  // Of the 8 examples of either epoch, so many of the second are left.
  static v1::SavedInput Left(uint64_t examples) {
    v1::SavedInput left;
    left.set_next_epoch(2);
    left.set_next_offset(8 - examples);
    return left;
  }
  void AddWorker(uint32_t index, uint64_t acknowledged, uint64_t told) {
    WorkerRecord& worker = bench_.workers[index];
    worker.acknowledged = acknowledged;
    worker.last.set_number(1);
    worker.last.mutable_stats()->set_pushes(told);
    worker.last.mutable_stats()->set_step(told);
  }

  PartBench bench_{JobOptions()};
  InputLedger ledger_{bench_.options, bench_.job};
};

TEST_F(InputLedgerTest, WithoutStepsThePushesOfAllSessionsCount) {
  SetMode(v1::Consistency::ASYNC);
  ledger_.GoOnFrom(10, Left(4));
  AddWorker(0, 3, 2);
  AddWorker(1, 2, 2);
  EXPECT_EQ(15u, ledger_.global_step());
  EXPECT_EQ(14u, ledger_.ToldStep());
  EXPECT_EQ(4u, ledger_.InputLeft({}).next_offset());
  v1::JobStats status;
  ledger_.FillStatus(&status);
  EXPECT_EQ(15u, status.global_step());
  EXPECT_EQ(5u, status.pushes());
}

TEST_F(InputLedgerTest, InSyncModeTheStepsCount) {
  SetMode(v1::Consistency::SYNC);
  ledger_.GoOnFrom(10, Left(4));
  AddWorker(0, 3, 99);
  EXPECT_EQ(10u, ledger_.global_step());
  EXPECT_EQ(10u, ledger_.ToldStep());
  EXPECT_EQ(4u, ledger_.InputLeft({}).next_offset());
  EXPECT_EQ(1u, ledger_.EpochsFinished());
}

TEST_F(InputLedgerTest, AChangeOfTheModeKeepsTheStepAndTheInput) {
  SetMode(v1::Consistency::ASYNC);
  ledger_.GoOnFrom(10, Left(8));
  ledger_.ChangeMode(/*to_sync=*/true, 12, Left(4));
  SetMode(v1::Consistency::SYNC);
  EXPECT_EQ(12u, ledger_.global_step());
  EXPECT_EQ(4u, ledger_.InputLeft({}).next_offset());
  ledger_.ChangeMode(/*to_sync=*/false, 13, Left(2));
  SetMode(v1::Consistency::ASYNC);
  EXPECT_EQ(13u, ledger_.global_step());
  EXPECT_EQ(6u, ledger_.InputLeft({}).next_offset());
}

TEST_F(InputLedgerTest, WhereServersGoBackTheStepsDoNotStandStill) {
  EXPECT_TRUE(ledger_.IsBetweenSteps());
  ledger_.steps().GoBack();
  EXPECT_FALSE(ledger_.IsBetweenSteps());
}

TEST_F(InputLedgerTest, TheLongestStepIsOfHeartbeatsThatPush) {
  v1::HeartbeatRequest beat;
  const Time begin = bench_.now;
  ledger_.OnHeartbeat(beat, 1, begin);
  ledger_.OnHeartbeat(beat, 2, begin + absl::Seconds(1));
  ledger_.OnHeartbeat(beat, 3, begin + absl::Seconds(5));
  const absl::Duration longest = ledger_.LongestStep();
  EXPECT_LT(absl::ZeroDuration(), longest);
  // Nobody makes a step in a pause of this process.
  ledger_.OnPause(begin + absl::Hours(1));
  ledger_.OnHeartbeat(beat, 4, begin + absl::Hours(1));
  EXPECT_EQ(longest, ledger_.LongestStep());
}

}  // namespace
}  // namespace paramd
