// Refusals, deadlines, and servers that come back.
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "client/core/session.h"
#include "client/core/testing/configurations.h"
#include "client/core/testing/session_test_base.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using testing::Pair;

using testing::kOp;

using SessionFailuresTest = testing::SessionTestBase;

// ---- refusals ---------------------------------------------------------------

TEST_F(SessionFailuresTest, SupersededEndsAResentChunkOfAPush) {
  Use(Small());
  Push(1);
  for (const auto& item : Sent()) {
    Answer(item, absl::UnavailableError("connection reset"));
  }
  TickWhenWanted();
  const auto sent = Sent();
  ASSERT_EQ(sent.size(), 2u);
  Answer(sent[0], Refuse(v1::Refusal::SUPERSEDED, "push", "later one known"));
  Answer(sent[1],
         PushReplyTo(sent[1], Pair(1, 2), v1::PushedBlock::SUPERSEDED));
  EXPECT_TRUE(End().ok());
}

TEST_F(SessionFailuresTest,
       Promise1_WhatIsInAfterNothingButRefusalsIsNoSuccess) {
  for (const auto reason : {v1::Refusal::NOT_READY, v1::Refusal::OVER_LIMIT}) {
    Use(Small());
    Push(7);
    const auto first = Sent();
    Answer(first[0], PushReplyTo(first[0]));
    Answer(first[1], Refuse(reason, "ps-1", "not now"));
    TickWhenWanted();
    const auto again = Sent();
    ASSERT_EQ(again.size(), 1u);
    Answer(again[0],
           PushReplyTo(again[0], Pair(1, 2), v1::PushedBlock::ALREADY_APPLIED));
    EXPECT_EQ(RefusalOf(End()).reason(), v1::Refusal::SUPERSEDED);
  }
}

// What was lost before may have come, whatever is answered afterwards.
TEST_F(SessionFailuresTest, ALostSendingMayBeInAfterARefusalToo) {
  for (const absl::Status& lost :
       {absl::DeadlineExceededError("no answer"),
        absl::UnavailableError("connection reset"),
        absl::CancelledError("its caller has gone")}) {
    Use(Small());
    Push(7);
    const auto first = Sent();
    Answer(first[0], PushReplyTo(first[0]));
    Answer(first[1], lost);
    TickWhenWanted();
    Answer(Sent()[0], Refuse(v1::Refusal::NOT_READY, "ps-1", "not now"));
    TickWhenWanted();
    const auto again = Sent();
    Answer(again[0],
           PushReplyTo(again[0], Pair(1, 2), v1::PushedBlock::ALREADY_APPLIED));
    EXPECT_TRUE(End().ok()) << lost;
  }
}

// Whoever pushed it did so under this session's name.
TEST_F(SessionFailuresTest, Promise1_WhatIsInAtItsFirstSendingIsNoSuccess) {
  const auto end_of = [&](const auto& answer) {
    Use(Small());
    Push(7);
    answer(Sent()[1]);
    return End();
  };
  for (const auto result :
       {v1::PushedBlock::ALREADY_APPLIED, v1::PushedBlock::SUPERSEDED}) {
    const absl::Status end = end_of([&](const Outbox::SendItem& sent) {
      Answer(sent, PushReplyTo(sent, Pair(1, 2), result));
    });
    EXPECT_EQ(RefusalOf(end).reason(), v1::Refusal::SUPERSEDED);
    EXPECT_EQ(
        end.message(),
        "ps-1 generation 1.2 holds push 7 of worker-3 generation 1.9 or a "
        "later one, which it cannot have from there: another process "
        "pushes as this session");
  }
  const absl::Status refused = end_of([&](const Outbox::SendItem& sent) {
    Answer(sent, Refuse(v1::Refusal::SUPERSEDED, "push", "later one known"));
  });
  EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::SUPERSEDED);
}

// ---- other processes --------------------------------------------------------

class OtherProcessTest : public SessionFailuresTest {
 protected:
  // Generations of two runs are the same, their processes never are.
  void SetUp() override {
    v1::Configuration configuration = Small();
    configuration.mutable_servers(0)->set_incarnation(0xa0);
    configuration.mutable_servers(1)->set_incarnation(0xa1);
    Use(configuration);
  }
};

TEST_F(OtherProcessTest, ACallSaysWhichProcessItMeans) {
  Pull();
  EXPECT_EQ(HeadOf<v1::PullRequest>(Sent()[1]).header().server_incarnation(),
            0xa1u);
  session_->Cancel(kOp);
  Push(1);
  EXPECT_EQ(HeadOf<v1::PushRequest>(Sent()[1]).header().server_incarnation(),
            0xa1u);
}

TEST_F(OtherProcessTest, Promise2_WeightsThatItAnswersAreNotTaken) {
  Pull();
  const auto sent = Sent();
  v1::PullReply reply = PullReplyTo(sent[0]);
  reply.set_incarnation(0xb0);
  Answer(sent[0], reply, Values(reply, 5));
  EXPECT_THAT(weights_.variable(0), ::testing::Each(0));
  EXPECT_TRUE(IsOpen());
  EXPECT_EQ(session_->waiting_for(),
            "ps-0 generation 1.1 to answer a pull of worker-3 generation 1.9: "
            "ps-0 generation 1.1 is process 00000000000000a0 in configuration "
            "1.1; process 00000000000000b0 answered");
  TickWhenWanted();
  const auto again = Sent();
  reply.set_incarnation(0xa0);
  Answer(again[0], reply, Values(reply, 5));
  EXPECT_THAT(weights_.variable(0), ::testing::Each(5));
}

TEST_F(OtherProcessTest, Promise1_ItsAcknowledgementOfAPushDoesNotCount) {
  Push(1);
  const auto sent = Sent();
  for (const auto& item : sent) {
    v1::PushReply reply = PushReplyTo(item);
    reply.set_incarnation(0xb0);
    Answer(item, reply);
  }
  EXPECT_TRUE(IsOpen());
}

// -----------------------------------------------------------------------------

TEST_F(SessionFailuresTest, Promise2_SupersededIsNoAnswerToAPull) {
  Use(Small());
  Pull();
  const auto sent = Sent();
  for (const auto& item : sent) {
    Answer(item, Refuse(v1::Refusal::SUPERSEDED, "pull", "what is this"));
  }
  EXPECT_TRUE(IsOpen());
}

class EndingRefusalTest
    : public SessionFailuresTest,
      public ::testing::WithParamInterface<v1::Refusal::Reason> {};

TEST_P(EndingRefusalTest, TheOperationEndsWithTheServersSentence) {
  Use(Small());
  Push(1);
  const auto sent = Sent();
  Answer(sent[0], Refuse(GetParam(), "worker-3", "so says the server"));
  const absl::Status end = End();
  EXPECT_EQ(RefusalOf(end).reason(), GetParam());
  EXPECT_EQ(end.message(), "so says the server");
  EXPECT_EQ(session_->waiting_for(), "");
  Answer(sent[1], PushReplyTo(sent[1]));  // Too late, and harmless.
  EXPECT_TRUE(Sent().empty());
}

INSTANTIATE_TEST_SUITE_P(
    Reasons, EndingRefusalTest,
    ::testing::Values(v1::Refusal::FENCED, v1::Refusal::QUARANTINED,
                      v1::Refusal::JOB_FINISHED, v1::Refusal::OTHER_JOB,
                      v1::Refusal::PROTOCOL, v1::Refusal::NOT_ALLOWED,
                      v1::Refusal::INVALID));

class PassingRefusalTest
    : public SessionFailuresTest,
      public ::testing::WithParamInterface<v1::Refusal::Reason> {};

TEST_P(PassingRefusalTest, TheChunkIsSentAgainNotBeforeTheHintAndNamesWhy) {
  Use(Small());
  Push(1);
  const auto sent = Sent();
  Answer(sent[1], PushReplyTo(sent[1]));
  Answer(sent[0], RefuseForNow(GetParam(), "coordinator", absl::Seconds(3),
                               "so says the server"));
  EXPECT_EQ(session_->waiting_for(),
            "ps-0 generation 1.1 to answer a push of worker-3 generation 1.9: "
            "so says the server");
  EXPECT_EQ(session_->next_tick() - now_, absl::Seconds(3));
  TickAt(now_ + absl::Milliseconds(2999));
  EXPECT_TRUE(Sent().empty());
  TickWhenWanted();
  EXPECT_EQ(Sent().size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(
    Reasons, PassingRefusalTest,
    ::testing::Values(v1::Refusal::NOT_READY, v1::Refusal::WAIT,
                      v1::Refusal::RETRY, v1::Refusal::WRONG_OWNER,
                      v1::Refusal::OVER_LIMIT, v1::Refusal::OLD_TERM));

TEST_F(SessionFailuresTest, AFailureOfTheTransportIsTriedAgainEverLessOften) {
  Use(Small());
  Push(1);
  const auto sent = Sent();
  Answer(sent[1], PushReplyTo(sent[1]));
  Answer(sent[0], absl::DeadlineExceededError("no answer"));
  absl::Duration last;
  for (int i = 0; i < 10; ++i) {
    const absl::Duration wait = session_->next_tick() - now_;
    EXPECT_GE(wait, last);
    EXPECT_LE(wait, absl::Seconds(1));
    last = wait;
    TickWhenWanted();
    const auto again = Sent();
    ASSERT_EQ(again.size(), 1u);
    Answer(again[0], absl::UnavailableError("connection refused"));
  }
  EXPECT_EQ(last, absl::Seconds(1));
  EXPECT_EQ(session_->chunks_resent(), 10u);
}

TEST_F(SessionFailuresTest, AMethodThatTheServerDoesNotKnowIsNotTriedAgain) {
  Use(Small());
  Push(1);
  Answer(Sent()[0], absl::UnimplementedError("no such method"));
  EXPECT_TRUE(absl::IsUnimplemented(End()));
}

// ---- deadlines --------------------------------------------------------------

TEST_F(SessionFailuresTest, Promise4_AGivenUpPushNamesWhomItWaitedFor) {
  Session::Options options;
  options.give_up_after = absl::Seconds(30);
  Use(Small(), options);
  Push(1);
  const auto sent = Sent();
  Answer(sent[0], PushReplyTo(sent[0]));
  Answer(sent[1], absl::UnavailableError("connection refused"));
  TickAt(now_ + (absl::Seconds(30) - absl::Nanoseconds(1)));
  Sent();
  EXPECT_TRUE(IsOpen());
  TickAt(now_ + absl::Nanoseconds(1));
  const absl::Status end = End();
  EXPECT_TRUE(absl::IsDeadlineExceeded(end)) << end;
  EXPECT_EQ(end.message(),
            "push given up after 30s; waiting for ps-1 generation 1.2 to "
            "answer a push of worker-3 generation 1.9: connection refused");
  EXPECT_EQ(session_->next_tick(), Time::Never());
}

// Through shared memory chunks are longer, so the second one has fewer.
TEST_F(SessionFailuresTest, AnAnswerToAGivenUpPullIsNoneToItsSuccessor) {
  Session::Options options;
  options.chunk_bytes = kMaxBlockElements * sizeof(float);
  options.give_up_after = absl::Seconds(30);
  Use(ThreeBlocks(), options);
  in_shared_memory_ = true;
  Pull();
  const auto first = Sent();
  ASSERT_EQ(first.size(), 3u);
  const v1::PullReply reply = PullReplyTo(first[0]);
  Answer(first[0], reply, Values(reply, 1));
  TickAt(now_ + absl::Seconds(30));
  EXPECT_TRUE(absl::IsDeadlineExceeded(End()));
  Pull();
  const auto again = Sent();
  ASSERT_EQ(again.size(), 1u);
  const v1::PullReply late = PullReplyTo(first[2]);
  Answer(first[2], late, Values(late, 2));
  EXPECT_TRUE(IsOpen());
  const v1::PullReply whole = PullReplyTo(again[0]);
  Answer(again[0], whole, Values(whole, 3));
  EXPECT_TRUE(End().ok());
}

TEST_F(SessionFailuresTest, Promise4_AGivenUpPullNamesItsOwnServer) {
  Use(Small());
  session_->StartPull(1, &weights_, 4, now_, &out_);  // Older, not late below.
  for (const auto& item : Sent()) {
    const v1::PullReply reply = PullReplyTo(item);
    Answer(item, reply, Values(reply, 1));
  }
  session_->TakeFinished();
  Pull();
  const auto sent = Sent();
  const v1::PullReply reply = PullReplyTo(sent[0]);
  Answer(sent[0], reply, Values(reply, 1));
  now_ = now_ + absl::Minutes(4);
  session_->StartPull(1, &weights_, 4, now_, &out_);
  TickAt(now_ + absl::Minutes(1));
  EXPECT_EQ(End().message(),
            "pull given up after 5m; waiting for ps-1 generation 1.2 to answer "
            "a pull of worker-3 generation 1.9");
}

TEST_F(SessionFailuresTest, ThePushAfterOneThatWasGivenUpSaysSo) {
  Use(Small());
  Push(1);
  Sent();
  TickAt(now_ + absl::Minutes(5));
  ASSERT_TRUE(absl::IsDeadlineExceeded(End()));
  Push(2);
  Answer(out_.sends[0], PushReplyTo(out_.sends[0]));
  EXPECT_EQ(HeadOf<v1::PushRequest>(Sent()[0]).acknowledged(), 1u);
}

// ---- configurations ---------------------------------------------------------

v1::Configuration WithNewLife(v1::Configuration configuration,
                              uint32_t server) {
  *configuration.mutable_version() = Pair(1, 2);
  *configuration.mutable_servers(server)->mutable_generation() = Pair(1, 8);
  return configuration;
}

TEST_F(SessionFailuresTest,
       Promise1_BlocksAcknowledgedByALostLifeAreResentToTheNext) {
  Use(Small());
  Push(1);
  const auto first = Sent();
  Answer(first[0], PushReplyTo(first[0]));
  ASSERT_TRUE(session_->Configure(WithNewLife(Small(), 0), Pair(1, 9)).ok());
  EXPECT_LE(session_->next_tick(), now_);
  TickAt(now_);
  const auto again = Sent();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].to, PeerId::Ps(0));
  const v1::Header& header = HeadOf<v1::PushRequest>(again[0]).header();
  EXPECT_EQ(header.sequence(), 1u);
  EXPECT_EQ(header.snapshot(), Pair(1, 2));
  EXPECT_EQ(header.server_generation(), Pair(1, 8));
  EXPECT_EQ(header.configuration(), Pair(1, 2));
  Answer(first[1], PushReplyTo(first[1]));
  EXPECT_TRUE(IsOpen());
  Answer(again[0], PushReplyTo(again[0], Pair(1, 8)));
  EXPECT_TRUE(End().ok());
}

TEST_F(SessionFailuresTest, TheSnapshotThatALifeBeginsWithMayHoldThePush) {
  for (const bool was_answered : {true, false}) {
    Use(Small());
    Push(1);
    const auto first = Sent();
    if (was_answered) Answer(first[0], PushReplyTo(first[0]));
    ASSERT_TRUE(session_->Configure(WithNewLife(Small(), 0), Pair(1, 9)).ok());
    Answer(first[1], PushReplyTo(first[1]));
    TickAt(now_);
    const auto again = Sent();
    ASSERT_EQ(again.size(), 1u);
    Answer(again[0],
           PushReplyTo(again[0], Pair(1, 8), v1::PushedBlock::ALREADY_APPLIED));
    EXPECT_TRUE(End().ok()) << was_answered;
  }
}

TEST_F(SessionFailuresTest, Promise1_AnAnswerFromBeforeTheNewLifeComesTooLate) {
  Use(Small());
  Push(1);
  const auto first = Sent();
  Answer(first[1], PushReplyTo(first[1]));
  ASSERT_TRUE(session_->Configure(WithNewLife(Small(), 0), Pair(1, 9)).ok());
  Answer(first[0], PushReplyTo(first[0]));
  EXPECT_TRUE(IsOpen());
  const auto again = Sent();
  ASSERT_EQ(again.size(), 1u);
  Answer(again[0], PushReplyTo(again[0], Pair(1, 8)));
  EXPECT_TRUE(End().ok());
}

TEST_F(SessionFailuresTest, ANewLifeOfAServerLeavesAPullAlone) {
  Use(Small());
  Pull();
  Sent();
  ASSERT_TRUE(session_->Configure(WithNewLife(Small(), 0), Pair(1, 9)).ok());
  TickAt(now_);
  EXPECT_TRUE(Sent().empty());
}

TEST_F(SessionFailuresTest, AnOlderConfigurationChangesNothing) {
  Use(WithNewLife(Small(), 0));
  EXPECT_TRUE(session_->Configure(Small(), Pair(1, 9)).ok());
  EXPECT_EQ(session_->configuration_version(), Pair(1, 2));
  Push(1);
  EXPECT_EQ(HeadOf<v1::PushRequest>(Sent()[0]).header().server_generation(),
            Pair(1, 8));
}

TEST_F(SessionFailuresTest, Promise9_AnotherLayoutIsRefusedAndChangesNothing) {
  Use(Small());
  v1::Configuration other = WithNewLife(Small(), 0);
  other.mutable_layout()->mutable_slices(0)->set_server(1);
  EXPECT_TRUE(absl::IsInvalidArgument(session_->Configure(other, Pair(1, 9))));
  EXPECT_EQ(session_->configuration_version(), Pair(1, 1));
  EXPECT_EQ(session_->placement().slices()[0].server, 0u);
}

TEST_F(SessionFailuresTest, Promise9_FewerServersAreRefusedAndChangeNothing) {
  Use(testing::MakeConfiguration({{"a", {2}, 0}}, 2));
  v1::Configuration fewer = testing::MakeConfiguration({{"a", {2}, 0}}, 1);
  *fewer.mutable_version() = Pair(1, 2);
  EXPECT_TRUE(absl::IsInvalidArgument(session_->Configure(fewer, Pair(1, 9))));
  fewer.clear_servers();
  fewer.clear_layout();
  EXPECT_TRUE(absl::IsInvalidArgument(session_->Configure(fewer, Pair(1, 9))));
  EXPECT_EQ(session_->configuration_version(), Pair(1, 1));
  Session session({});
  EXPECT_TRUE(absl::IsInvalidArgument(session.Configure(fewer, Pair(1, 9))));
  EXPECT_FALSE(session.configured());
}

TEST_F(SessionFailuresTest, Promise9_ABrokenLayoutIsRefusedAndChangesNothing) {
  Session session({});
  v1::Configuration broken = Small();
  broken.mutable_layout()->mutable_slices(0)->set_row_end(1);
  EXPECT_TRUE(absl::IsInvalidArgument(session.Configure(broken, Pair(1, 9))));
  EXPECT_FALSE(session.configured());
}

TEST_F(SessionFailuresTest, WithNothingOpenNobodyIsWaitedForAndNoTickIsWanted) {
  Use(Small());
  EXPECT_EQ(session_->waiting_for(), "");
  EXPECT_EQ(session_->next_tick(), Time::Never());
  EXPECT_FALSE(session_->TakeFinished().has_value());
}

TEST_F(SessionFailuresTest, Promise4_TheOldestOpenOperationIsNamed) {
  Use(Small());
  Pull();
  EXPECT_EQ(session_->waiting_for(),
            "ps-0 generation 1.1 to answer a pull of worker-3 generation 1.9");
}

}  // namespace
}  // namespace paramd
