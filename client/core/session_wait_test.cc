// Pulls that the consistency mode makes wait.
#include "gtest/gtest.h"

#include "client/core/testing/session_test_base.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using testing::kOp;

class SessionWaitTest : public testing::SessionTestBase {
 protected:
  SessionWaitTest() {
    Use(Small());
    Pull();
  }

  static absl::Status Wait(int clock) {
    v1::Refusal refusal;
    refusal.set_reason(v1::Refusal::WAIT);
    refusal.set_entity("worker-3");
    refusal.set_waiting_for("worker-1 generation 1.8");
    return Refuse(refusal, absl::StrCat("worker-1 is at clock ", clock));
  }
};

TEST_F(SessionWaitTest, Promise4_AWaitIsLoggedOnceAndAskedAgain) {
  auto sent = Sent();
  ASSERT_EQ(sent.size(), 2u);
  for (int round = 0; round < 3; ++round) {
    for (const Outbox::SendItem& call : sent) Answer(call, Wait(round));
    EXPECT_TRUE(IsOpen());
    TickWhenWanted();
    sent = Sent();
    ASSERT_EQ(sent.size(), 2u) << "asked again";
  }
  ASSERT_EQ(out_.notes.size(), 1u);
  EXPECT_EQ(out_.notes[0].sentence,
            "waiting for worker-1 generation 1.8: worker-1 is at clock 0");
  for (const Outbox::SendItem& call : sent) {
    const v1::PullReply reply = PullReplyTo(call);
    Answer(call, reply, Values(reply, 5));
  }
  EXPECT_TRUE(End().ok());
  Pull();
  Answer(Sent()[0], Wait(9));
  EXPECT_EQ(out_.notes.size(), 2u) << "the next wait is another one";
}

TEST_F(SessionWaitTest, AfterAWaitThereIsNoBackOff) {
  for (int round = 0; round < 5; ++round) {
    for (const Outbox::SendItem& call : Sent()) Answer(call, Wait(round));
    EXPECT_LE(session_->next_tick() - now_, absl::Milliseconds(10));
    TickWhenWanted();
  }
  EXPECT_EQ(session_->chunks_resent(), 0u);
}

TEST_F(SessionWaitTest, Promise4_PeopleAreToldWhomItWaitsFor) {
  const auto sent = Sent();
  EXPECT_EQ(session_->waiting_for(),
            "ps-0 generation 1.1 to answer a pull of worker-3 generation 1.9");
  Answer(sent[1], Wait(0));
  EXPECT_EQ(session_->waiting_for(),
            "worker-1 generation 1.8, the slowest, to get on: ps-1 generation "
            "1.2 keeps a pull of worker-3 generation 1.9 until then");
  EXPECT_EQ(session_->overdue(now_ + absl::Seconds(3), absl::Seconds(3)), "");
  EXPECT_EQ(session_->overdue(now_ + absl::Seconds(4), absl::Seconds(3)),
            session_->waiting_for());
}

TEST_F(SessionWaitTest, Promise4_WhoIsMissingInAStepIsNotCalledTheSlowest) {
  for (const Outbox::SendItem& call : Sent()) Answer(call, Wait(0));
  session_->Cancel(kOp);
  session_->StartPull(kOp + 1, &weights_, absl::nullopt, /*after_step=*/4, now_,
                      &out_);
  const auto sent = Sent();
  Answer(sent[0],
         RefuseForNow(v1::Refusal::WAIT,
                      "worker-1 generation 1.8 to contribute to step 5",
                      absl::ZeroDuration(), "it reads after step 4"));
  EXPECT_EQ(session_->waiting_for(),
            "worker-1 generation 1.8 to contribute to step 5: ps-0 generation "
            "1.1 keeps a pull of worker-3 generation 1.9 until then");
}

TEST_F(SessionWaitTest, Promise4_AWaitHasADeadline) {
  for (const Outbox::SendItem& call : Sent()) Answer(call, Wait(0));
  TickAt(now_ + absl::Minutes(5));
  const absl::Status given_up = End();
  EXPECT_TRUE(absl::IsDeadlineExceeded(given_up));
  EXPECT_EQ(given_up.message(),
            "pull given up after 5m; waiting for worker-1 generation 1.8, the "
            "slowest, to get on: ps-0 generation 1.1 keeps a pull of worker-3 "
            "generation 1.9 until then");
}

TEST_F(SessionWaitTest, APushSaysTheClockItIsGiven) {
  Sent();
  Session::PushInfo info;
  info.sequence = 1;
  info.clock = 41;
  session_->StartPush(kOp + 1, info,
                      {testing::Floats({1, 2}), testing::Floats({1, 2, 3})},
                      now_, &out_);
  EXPECT_EQ(HeadOf<v1::PushRequest>(Sent()[0]).clock(), 41u);
}

}  // namespace
}  // namespace paramd
