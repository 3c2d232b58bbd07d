#include "coordinator/core/leaving.h"

#include "gtest/gtest.h"

#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/started_coordinator.h"

namespace paramd {
namespace {

using ::paramd::testing::JobOptions;
using ::paramd::testing::Pair;
using ::paramd::testing::PartBench;

class LeavingTest : public ::testing::Test {
 protected:
  void Advance(const v1::SnapshotNumber& newest = {}) {
    bench_.Do([&](Turn* turn) { leaving_.Advance(newest, turn); });
  }
  bool wants_snapshot() const {
    return bench_.Raised<SnapshotToLeaveWith>() != nullptr;
  }
  bool ends() const {
    const auto* reached = bench_.Raised<Reached>();
    return reached != nullptr && reached->phase == JobPhase::kDone;
  }

  PartBench bench_{JobOptions()};
  Leaving leaving_;
};

TEST_F(LeavingTest, WhereNobodyLeavesNothingIsDone) {
  Advance();
  EXPECT_TRUE(bench_.facts.empty());
}

TEST_F(LeavingTest, AServerThatLeavesHasASnapshotTakenOncePerSecond) {
  bench_.servers[0].draining = true;
  Advance();
  EXPECT_TRUE(wants_snapshot());
  Advance();
  EXPECT_FALSE(wants_snapshot());
  bench_.now = bench_.now + absl::Seconds(1);
  Advance();
  EXPECT_TRUE(wants_snapshot());
}

TEST_F(LeavingTest, WhatAServerWasSealedToLeaveWithIsEnough) {
  bench_.servers[0].draining = true;
  bench_.servers[0].drained_by = Pair(1, 2);
  EXPECT_TRUE(leaving_.NeedsSnapshot(Pair(1, 1), bench_.job));
  EXPECT_FALSE(leaving_.NeedsSnapshot(Pair(1, 2), bench_.job));
}

TEST_F(LeavingTest, NoSnapshotIsTakenWhileAServerIsAway) {
  bench_.servers[0].draining = true;
  bench_.servers[1].suspected = true;
  Advance();
  EXPECT_FALSE(wants_snapshot());
}

TEST_F(LeavingTest, TheChiefLeavesBehindItsSnapshotAndItsOwnWorker) {
  bench_.progress.step = 1;
  bench_.workers[0];
  leaving_.Begin(bench_.now);
  Advance();
  EXPECT_TRUE(bench_.facts.empty()) << "no server was asked whether it drains";
  for (ServerRecord& server : bench_.servers) {
    server.heard = bench_.now + absl::Milliseconds(1);
  }
  Advance();
  EXPECT_TRUE(wants_snapshot());
  leaving_.OnOpened(Pair(1, 5));
  Advance(Pair(1, 5));
  EXPECT_FALSE(ends());
  bench_.workers.clear();
  Advance(Pair(1, 5));
  EXPECT_TRUE(ends());
}

TEST_F(LeavingTest, AnUntouchedJobIsLeftWithoutASnapshot) {
  leaving_.Begin(bench_.now);
  for (ServerRecord& server : bench_.servers) server.suspected = true;
  Advance();
  EXPECT_TRUE(ends());
}

}  // namespace
}  // namespace paramd
