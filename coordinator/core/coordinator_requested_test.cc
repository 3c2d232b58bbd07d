// Checkpoints that an operator asks for.
#include <string>

#include "gtest/gtest.h"

#include "coordinator/core/coordinator.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using testing::JobOptions;
using testing::Pair;
using testing::StartedCoordinator;
using Worker = StartedCoordinator::Worker;

// A running job with one worker, which takes no checkpoint by itself.
class CoordinatorRequestedTest : public ::testing::TestWithParam<const char*> {
 protected:
  CoordinatorRequestedTest() : started_(Options(GetParam())) {
    started_.Run();
    started_.Serve();
    worker_ = started_.Join(0);
    CatchUp();
  }
  static Coordinator::Options Options(const char* staleness) {
    Coordinator::Options options = JobOptions();
    options.workers = 1;
    options.job.set_staleness(staleness);
    return options;
  }
  bool IsSync() const { return GetParam() == std::string("sync"); }
  CoreDriver& driver() { return started_.driver(); }
  void CatchUp() {
    started_.Serve();
    started_.CatchUp(&worker_);
  }
  CallId Ask(const v1::SnapshotNumber& number = {}) {
    v1::CheckpointRequest request;
    *request.mutable_snapshot() = number;
    return driver().Begin({PeerId::Kind::kOutside, 1}, request);
  }
  v1::CheckpointReply Take(CallId call) {
    const CoreDriver::Answer answer = driver().Take(call);
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    return static_cast<const v1::CheckpointReply&>(*answer.head);
  }
  // False: no snapshot was opened.
  bool Prepare() {
    const auto prepare = driver().TakeIo<v1::PrepareCheckpoint>();
    if (!prepare.has_value()) return false;
    v1::PrepareCheckpointResult result;
    result.set_directory("/dir");
    driver().Complete(prepare->first, result);
    return true;
  }
  void Seal() {
    if (!IsSync()) {
      CatchUp();
      started_.Cut(&worker_, 3);
    }
    ASSERT_TRUE(started_.Seal(0) && started_.Seal(1));
  }
  uint64_t Commit() {
    EXPECT_TRUE(started_.Write(0) && started_.Write(1));
    const auto commit = driver().TakeIo<v1::CommitCheckpoint>();
    v1::CommitCheckpointResult result;
    result.set_path("/done");
    driver().Complete(commit->first, result);
    return commit->second.manifest().global_step();
  }

  StartedCoordinator started_;
  Worker worker_;
};

TEST_P(CoordinatorRequestedTest, ItIsOpenedNowAndAnsweredWhenItIsCommitted) {
  const CallId call = Ask();
  ASSERT_TRUE(Prepare());
  Seal();
  EXPECT_FALSE(driver().answered(call));
  const uint64_t step = Commit();
  const v1::CheckpointReply reply = Take(call);
  EXPECT_EQ(reply.path(), "/done");
  EXPECT_EQ(reply.step(), step);
  EXPECT_EQ(reply.snapshot(), Pair(1, 1));
}

TEST_P(CoordinatorRequestedTest, WhoAsksBeforeTheCutHasTheSameOne) {
  const CallId first = Ask();
  const CallId second = Ask();
  ASSERT_TRUE(Prepare());
  Seal();
  Commit();
  EXPECT_EQ(Take(first).snapshot(), Take(second).snapshot());
  EXPECT_FALSE(Prepare());
}

TEST_P(CoordinatorRequestedTest, Promise3_WhoAsksBehindTheCutHasALaterOne) {
  const CallId first = Ask();
  ASSERT_TRUE(Prepare());
  Seal();
  const CallId second = Ask();
  Commit();
  EXPECT_EQ(Take(first).snapshot(), Pair(1, 1));
  EXPECT_FALSE(driver().answered(second));
  ASSERT_TRUE(Prepare());
  Seal();
  Commit();
  EXPECT_EQ(Take(second).snapshot(), Pair(1, 2));
}

TEST_P(CoordinatorRequestedTest, Promise4_WhoWaitsLongIsToldWhatToAskAgain) {
  const CallId call = Ask();
  ASSERT_TRUE(Prepare());
  driver().Advance(absl::Seconds(3));
  const v1::CheckpointReply reply = Take(call);
  EXPECT_TRUE(reply.path().empty());
  EXPECT_EQ(reply.snapshot(), Pair(1, 1));
}

TEST_P(CoordinatorRequestedTest, StorageThatFailsIsToldAndNotTriedForEver) {
  const CallId call = Ask();
  const auto prepare = driver().TakeIo<v1::PrepareCheckpoint>();
  ASSERT_TRUE(prepare.has_value());
  driver().End(prepare->first, absl::ResourceExhaustedError("no space"));
  const absl::Status status = driver().Take(call).status;
  EXPECT_EQ(status.message(), "checkpoint 1.1 was given up: no space");
  driver().Advance(absl::Seconds(3));
  EXPECT_FALSE(Prepare());
}

TEST_P(CoordinatorRequestedTest, NoneIsOpenedForItWhileAServerIsAway) {
  driver().Advance(absl::Seconds(1));
  const auto call = driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(0));
  ASSERT_TRUE(call.has_value());
  driver().Fail(*call, absl::UnavailableError("refused"));
  Ask();
  EXPECT_FALSE(Prepare());
  driver().Advance(absl::Seconds(1));
  CatchUp();
  EXPECT_TRUE(Prepare()) << "it was only the connection";
}

TEST_P(CoordinatorRequestedTest, WhatAServerLeavesWithIsEnough) {
  started_.DrainServer(1);
  driver().Advance(absl::Seconds(1));
  CatchUp();
  const CallId first = Ask();
  ASSERT_TRUE(Prepare());
  Seal();
  const CallId second = Ask();
  Commit();
  EXPECT_EQ(Take(first).path(), "/done");
  EXPECT_FALSE(driver().answered(second));
  EXPECT_FALSE(Prepare()) << "the server is about to go";
}

INSTANTIATE_TEST_SUITE_P(Modes, CoordinatorRequestedTest,
                         ::testing::Values("async", "3", "sync"));

}  // namespace
}  // namespace paramd
