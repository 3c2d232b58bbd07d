#include "coordinator/core/mode_changes.h"

#include "gtest/gtest.h"

#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::paramd::testing::JobOptions;
using ::paramd::testing::PartBench;

class ModeChangesTest : public ::testing::Test {
 protected:
  ModeChangesTest() {
    bench_.configuration.mutable_plan()->mutable_consistency()->set_mode(
        v1::Consistency::ASYNC);
  }
  void Set(const std::string& staleness,
           const ModeChanges::Obstacles& obstacles = {}) {
    v1::SetRequest request;
    request.set_key("staleness");
    request.set_value(staleness);
    Message message;
    message.call = 5;
    bench_.Do(
        [&](Turn* turn) { changes_.OnSet(message, request, obstacles, turn); });
  }
  void Advance(const ModeChanges::Obstacles& obstacles = {}) {
    bench_.Do([&](Turn* turn) { changes_.Advance(obstacles, turn); });
  }
  // What the operator was answered in the last turn.
  absl::Status Answer() const { return bench_.out.replies.at(0).status; }
  bool IsLogging() const { return bench_.out.ios.size() == 1; }

  PartBench bench_{JobOptions()};
  ModeChanges changes_;
};

TEST_F(ModeChangesTest, WhatHoldsAlreadyIsAnsweredAtOnce) {
  Set("async");
  EXPECT_TRUE(Answer().ok());
  EXPECT_EQ(nullptr, changes_.change());
}

TEST_F(ModeChangesTest, ABoundHoldsWhenTheLogHasIt) {
  Set("4");
  ASSERT_TRUE(IsLogging());
  EXPECT_TRUE(bench_.out.replies.empty());
  bench_.End(bench_.out.ios[0].io, absl::OkStatus(), v1::AppendLog());
  ASSERT_NE(nullptr, bench_.Raised<ModeLogged>());
  const v1::ConfigurationVersion before = bench_.configuration.get().version();
  bench_.Do([&](Turn* turn) { changes_.Finish(turn); });
  EXPECT_TRUE(Answer().ok());
  EXPECT_EQ(v1::Consistency::BOUNDED,
            bench_.configuration.get().consistency().mode());
  EXPECT_LT(before, bench_.configuration.get().version());
  EXPECT_EQ(nullptr, changes_.change());
}

TEST_F(ModeChangesTest, ToSyncEveryWorkerStopsFirst) {
  bench_.workers[0].heard = bench_.now;
  Set("sync");
  EXPECT_FALSE(changes_.StopsWorkers()) << "servers must have heard before";
  Advance();
  EXPECT_TRUE(changes_.StopsWorkers());
  EXPECT_FALSE(IsLogging());
  bench_.workers.clear();
  Advance();
  EXPECT_TRUE(IsLogging());
  EXPECT_TRUE(changes_.IsLoggingEndOfSessions());
}

TEST_F(ModeChangesTest, ASnapshotIsWaitedFor) {
  Set("sync");
  Advance({.snapshot = true});
  EXPECT_FALSE(changes_.IsUnderWay());
}

TEST_F(ModeChangesTest, AnotherOneIsRefusedMeanwhile) {
  Set("sync");
  bench_.awaited = "worker-1 to join";
  Set("4");
  EXPECT_EQ(v1::Refusal::RETRY, RefusalOf(Answer()).reason());
  EXPECT_EQ(
      "waiting for staleness to change from async to sync: worker-1 to join",
      Answer().message());
}

TEST_F(ModeChangesTest, WhereTheChiefLeavesItIsGivenUp) {
  Set("sync");
  Advance({.draining = true});
  EXPECT_EQ(v1::Refusal::RETRY, RefusalOf(Answer()).reason());
  EXPECT_EQ(nullptr, changes_.change());
}

TEST_F(ModeChangesTest, TheLogSaysWhetherTheModeWasChanged) {
  v1::Configuration logged;
  logged.mutable_consistency()->set_mode(v1::Consistency::ASYNC);
  EXPECT_FALSE(changes_.Read(logged));
  logged.mutable_consistency()->set_mode(v1::Consistency::SYNC);
  logged.set_decay_steps(9);
  EXPECT_TRUE(changes_.Read(logged));
  EXPECT_TRUE(changes_.has_changed());
  EXPECT_EQ(9u, *changes_.logged_decay_steps());
}

}  // namespace
}  // namespace paramd
