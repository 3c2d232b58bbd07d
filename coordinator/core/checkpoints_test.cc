#include "coordinator/core/checkpoints.h"

#include "gtest/gtest.h"

#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::paramd::testing::JobOptions;
using ::paramd::testing::Pair;
using ::paramd::testing::PartBench;

class CheckpointsTest : public ::testing::Test {
 protected:
  // The directory's preparation is under way then.
  IoId Open(SnapshotRound::Options options = {}) {
    bench_.Do([&](Turn* turn) { checkpoints_.Open(options, turn); });
    return bench_.out.ios.at(0).io;
  }
  // A directory, then cuts of nobody, seals and files, and the manifest is
  // being committed.
  IoId OpenUpToTheCommit(SnapshotRound::Options options = {}) {
    v1::PrepareCheckpointResult prepared;
    prepared.set_directory("dir");
    bench_.End(Open(options), absl::OkStatus(), prepared);
    Advance();
    for (const uint32_t s : {0, 1}) {
      EXPECT_EQ(ServerRecord::Call::kSeal, checkpoints_.CallFor(s));
      v1::SealReply sealed;
      *sealed.mutable_snapshot() = checkpoints_.round()->number();
      Answer(s, sealed);
    }
    for (const uint32_t s : {0, 1}) {
      EXPECT_EQ(ServerRecord::Call::kWritten, checkpoints_.CallFor(s));
      v1::WrittenReply written;
      *written.mutable_snapshot() = checkpoints_.round()->number();
      written.mutable_file()->set_name("file");
      Answer(s, written);
    }
    Advance();
    return bench_.out.ios.at(0).io;
  }
  template <typename Reply>
  void Answer(uint32_t server, const Reply& reply) {
    Message message;
    message.head = &reply;
    bench_.Do(
        [&](Turn* turn) { checkpoints_.OnAnswer(server, message, turn); });
  }
  void Advance() {
    bench_.Do([&](Turn* turn) { checkpoints_.Advance(turn); });
  }
  void GiveUp() {
    bench_.Do([&](Turn* turn) { checkpoints_.GiveUp("ps-0 was lost", turn); });
  }

  PartBench bench_{JobOptions()};
  Checkpoints checkpoints_{bench_.options};
};

TEST_F(CheckpointsTest, WhatIsCommittedIsTheNewest) {
  v1::CommitCheckpointResult committed;
  committed.set_path("path");
  bench_.progress.step = 7;
  bench_.End(OpenUpToTheCommit({.final = true}), absl::OkStatus(), committed);
  EXPECT_EQ("path", checkpoints_.newest().path());
  EXPECT_EQ(7u, checkpoints_.newest().step);
  EXPECT_EQ(nullptr, checkpoints_.round());
  const auto* told = bench_.Raised<CheckpointCommitted>();
  ASSERT_NE(nullptr, told);
  EXPECT_TRUE(told->final);
}

TEST_F(CheckpointsTest, OneThatCanNotBePreparedFails) {
  bench_.End(Open({.final = true}), absl::UnavailableError("no space"),
             v1::PrepareCheckpointResult());
  EXPECT_EQ(nullptr, checkpoints_.round());
  EXPECT_EQ("no space", checkpoints_.failure());
  const auto* failed = bench_.Raised<CheckpointFailed>();
  ASSERT_NE(nullptr, failed);
  EXPECT_TRUE(failed->final);
}

TEST_F(CheckpointsTest, OneThatCanNotBeCommittedFailsWithItsStatus) {
  bench_.End(OpenUpToTheCommit(), absl::InvalidArgumentError("another run's"),
             v1::CommitCheckpointResult());
  const auto* failed = bench_.Raised<CheckpointFailed>();
  ASSERT_NE(nullptr, failed);
  EXPECT_TRUE(absl::IsInvalidArgument(failed->why));
  EXPECT_EQ("", checkpoints_.newest().path());
}

TEST_F(CheckpointsTest, OneThatWasGivenUpTakesANumberOfItsOwn) {
  bench_.End(Open(), absl::OkStatus(), v1::PrepareCheckpointResult());
  EXPECT_EQ(1u, checkpoints_.numbers().counter);
  GiveUp();
  EXPECT_EQ(nullptr, checkpoints_.round());
  EXPECT_EQ(2u, checkpoints_.numbers().counter);
  Open();
  EXPECT_EQ(Pair(1, 3), checkpoints_.round()->number());
}

TEST_F(CheckpointsTest, WhileStorageDecidesNothingIsGivenUp) {
  Open();
  GiveUp();
  EXPECT_NE(nullptr, checkpoints_.round());
}

TEST_F(CheckpointsTest, ASilentWorkerThatHasNotCutIsTold) {
  bench_.workers[0].heard = bench_.now;
  bench_.End(Open(), absl::OkStatus(), v1::PrepareCheckpointResult());
  Advance();
  EXPECT_EQ(nullptr, bench_.Raised<SessionOver>());
  bench_.now = bench_.now + bench_.job.lease() + absl::Milliseconds(1);
  Advance();
  ASSERT_NE(nullptr, bench_.Raised<SessionOver>());
}

TEST_F(CheckpointsTest, OneThatIsNotSealedInTimeIsGivenUp) {
  bench_.workers[0].heard = bench_.now;
  bench_.End(Open(), absl::OkStatus(), v1::PrepareCheckpointResult());
  bench_.now = bench_.now + absl::Seconds(61);
  Advance();
  EXPECT_EQ(nullptr, checkpoints_.round());
  EXPECT_NE("", checkpoints_.failure());
}

TEST_F(CheckpointsTest, ACallOfAnEarlierSnapshotFailsNothing) {
  Open();
  const v1::SnapshotNumber number = checkpoints_.round()->number();
  const auto fail = [&](const v1::SnapshotNumber& snapshot) {
    bench_.Do([&](Turn* turn) {
      checkpoints_.OnCallFailed(snapshot, absl::UnavailableError("no disk"),
                                turn);
    });
  };
  fail(Pair(1, 99));
  EXPECT_NE(nullptr, checkpoints_.round());
  fail(number);
  EXPECT_EQ(nullptr, checkpoints_.round());
  EXPECT_NE(nullptr, bench_.Raised<CheckpointFailed>());
}

}  // namespace
}  // namespace paramd
