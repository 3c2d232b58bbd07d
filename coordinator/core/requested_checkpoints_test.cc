#include "coordinator/core/requested_checkpoints.h"

#include "gtest/gtest.h"

#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::paramd::testing::JobOptions;
using ::paramd::testing::Pair;
using ::paramd::testing::PartBench;

// Checkpoint 1.3 is the newest one, and no snapshot is under way.
class RequestedCheckpointsTest : public ::testing::Test {
 protected:
  RequestedCheckpointsTest() {
    present_.committed = Pair(1, 3);
    present_.path = "/run/three";
    present_.step = 30;
    present_.next = Pair(1, 4);
  }
  // Snapshot 1.`counter` is under way.
  void Open(uint64_t counter, bool has_all) {
    present_.under_way = Pair(1, counter);
    present_.next = Pair(1, counter + 1);
    present_.has_all = has_all;
  }
  void Commit() {
    present_.committed = present_.under_way;
    present_.path = "/run/newer";
    present_.step = 40;
    GiveUp();
  }
  void GiveUp() {
    present_.under_way.Clear();
    present_.has_all = false;
  }
  void Ask(const v1::SnapshotNumber& number = {}) {
    v1::CheckpointRequest request;
    *request.mutable_snapshot() = number;
    Message message;
    message.call = 7;
    bench_.Do([&](Turn* turn) {
      requested_.OnRequest(message, request, present_, turn);
      requested_.Advance(present_, turn);
    });
  }
  void Advance() {
    bench_.Do([&](Turn* turn) { requested_.Advance(present_, turn); });
  }
  bool answered() const { return !bench_.out.replies.empty(); }
  const v1::CheckpointReply& reply() const {
    EXPECT_TRUE(bench_.out.replies.at(0).status.ok())
        << bench_.out.replies[0].status;
    return static_cast<const v1::CheckpointReply&>(*bench_.out.replies[0].head);
  }
  absl::Status refusal() const { return bench_.out.replies.at(0).status; }
  v1::Refusal::Reason reason() const { return RefusalOf(refusal()).reason(); }

  PartBench bench_{JobOptions()};
  RequestedCheckpoints requested_;
  RequestedCheckpoints::Present present_;
};

TEST_F(RequestedCheckpointsTest, OneIsOpenedAndTheAnswerComesWithItsCommit) {
  Ask();
  EXPECT_FALSE(answered());
  EXPECT_TRUE(requested_.WantsOne());
  Open(4, true);
  Advance();
  EXPECT_FALSE(requested_.WantsOne());
  EXPECT_FALSE(answered());
  Commit();
  Advance();
  ASSERT_TRUE(answered());
  EXPECT_EQ(reply().path(), "/run/newer");
  EXPECT_EQ(reply().step(), 40u);
  EXPECT_EQ(reply().snapshot(), Pair(1, 4));
}

TEST_F(RequestedCheckpointsTest, OneThatHasEverythingIsJoined) {
  Open(4, true);
  Ask();
  EXPECT_FALSE(requested_.WantsOne());
  Commit();
  Advance();
  EXPECT_TRUE(answered());
}

TEST_F(RequestedCheckpointsTest, BehindOneThatIsCutAnotherIsOpened) {
  Open(4, false);
  Ask();
  EXPECT_TRUE(requested_.WantsOne());
  Commit();
  Advance();
  EXPECT_FALSE(answered());
  EXPECT_TRUE(requested_.WantsOne());
  Open(5, true);
  Commit();
  Advance();
  ASSERT_TRUE(answered());
  EXPECT_EQ(reply().snapshot(), Pair(1, 5));
}

TEST_F(RequestedCheckpointsTest, AfterAWhileTheAnswerIsTheNumberToAskAgain) {
  Ask();
  Open(4, true);
  bench_.now = bench_.now + RequestedCheckpoints::kPatience;
  Advance();
  ASSERT_TRUE(answered());
  EXPECT_TRUE(reply().path().empty());
  EXPECT_EQ(reply().snapshot(), Pair(1, 4));
  Ask(Pair(1, 4));
  EXPECT_FALSE(answered());
  EXPECT_FALSE(requested_.WantsOne());
  Commit();
  Ask(Pair(1, 4));
  EXPECT_EQ(reply().path(), "/run/newer");
}

TEST_F(RequestedCheckpointsTest, OneThatWasGivenUpIsFollowedByAnother) {
  Open(4, true);
  Ask();
  GiveUp();
  present_.next = Pair(1, 6);
  Advance();
  EXPECT_FALSE(answered());
  EXPECT_TRUE(requested_.WantsOne());
}

TEST_F(RequestedCheckpointsTest, WhyOneCanNotBeWrittenIsToldOfThatAlone) {
  Open(4, true);
  Ask();
  bench_.Do([&](Turn* turn) {
    requested_.OnFailed(Pair(1, 4), absl::UnavailableError("the disk is full"),
                        turn);
  });
  ASSERT_TRUE(answered());
  EXPECT_EQ(reason(), v1::Refusal::NOT_READY);
  EXPECT_EQ(refusal().message(),
            "checkpoint 1.4 was given up: the disk is full");
  EXPECT_FALSE(requested_.WantsOne());
  GiveUp();
  present_.next = Pair(1, 6);
  Ask(Pair(1, 4));
  EXPECT_EQ(reason(), v1::Refusal::NOT_READY);
  Ask();
  EXPECT_FALSE(answered());
  EXPECT_TRUE(requested_.WantsOne());
}

TEST_F(RequestedCheckpointsTest, ANumberOfAnEarlierTermIsMetByWhatIsThere) {
  present_.committed = Pair(2, 1);
  present_.next = Pair(2, 2);
  Ask(Pair(1, 9));
  ASSERT_TRUE(answered());
  EXPECT_EQ(reply().snapshot(), Pair(2, 1));
  present_.committed = Pair(1, 8);
  Ask(Pair(1, 9));
  EXPECT_FALSE(answered());
  EXPECT_TRUE(requested_.WantsOne());
}

TEST_F(RequestedCheckpointsTest, ANumberThatNobodyWasToldIsRefused) {
  Ask(Pair(1, 5));
  EXPECT_EQ(reason(), v1::Refusal::INVALID);
  EXPECT_FALSE(requested_.WantsOne());
}

TEST_F(RequestedCheckpointsTest, BeforeTheJobRunsItIsToBeAskedAgain) {
  bench_.phase = JobPhase::kFilling;
  bench_.awaited = "ps-1 to restore";
  Ask();
  EXPECT_EQ(reason(), v1::Refusal::RETRY);
  EXPECT_EQ(refusal().message(),
            "no checkpoint can be written yet: waiting for ps-1 to restore");
  EXPECT_FALSE(requested_.WantsOne());
}

TEST_F(RequestedCheckpointsTest, BehindTheLastOneThatIsTheAnswer) {
  bench_.phase = JobPhase::kLoggingEnd;
  Ask();
  ASSERT_TRUE(answered());
  EXPECT_EQ(reply().path(), "/run/three");
  bench_.phase = JobPhase::kTellingEnd;
  Ask();
  EXPECT_EQ(reason(), v1::Refusal::JOB_FINISHED);
}

TEST_F(RequestedCheckpointsTest, Promise8_PastTheBoundNobodyWaits) {
  for (size_t i = 0; i < RequestedCheckpoints::kMostWaiting; ++i) {
    Ask();
    EXPECT_FALSE(answered());
  }
  Ask();
  ASSERT_TRUE(answered());
  EXPECT_TRUE(reply().path().empty());
  EXPECT_EQ(reply().snapshot(), Pair(1, 4));
}

}  // namespace
}  // namespace paramd
