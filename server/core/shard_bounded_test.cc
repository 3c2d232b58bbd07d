// A server in mode BOUNDED: which pulls wait, and when they are answered.
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/shard.h"
#include "server/core/testing/shard_driver.h"

namespace paramd {
namespace {

using testing::MakeConfiguration;
using testing::Numbers;
using testing::Pair;
using testing::Payload;
using testing::ReasonOf;
using testing::ShardDriver;
using testing::Zeros;

// Workers 0 to 2, bound 1.
class ShardBoundedTest : public ::testing::Test {
 protected:
  ShardBoundedTest() {
    configuration_ = MakeConfiguration({Zeros("w", {2})});
    SetMode(v1::Consistency::BOUNDED, 1);
    driver_.MakeReady(configuration_);
  }

  void SetMode(v1::Consistency::Mode mode, uint64_t bound) {
    configuration_.mutable_consistency()->set_mode(mode);
    configuration_.mutable_consistency()->set_bound(bound);
  }
  void Reconfigure() {
    auto* version = configuration_.mutable_version();
    version->set_counter(version->counter() + 1);
    ASSERT_TRUE(driver_.Configure(configuration_).ok());
  }
  static v1::PullRequest PullOf(uint32_t worker, uint64_t clock) {
    v1::PullRequest pull;
    pull.mutable_header()->set_worker(worker);
    *pull.mutable_header()->mutable_generation() = Pair(1, 10 + worker);
    pull.set_encoding(v1::FP32);
    pull.set_clock(clock);
    pull.add_blocks();
    return pull;
  }
  CallId Pull(uint32_t worker, uint64_t clock) {
    return driver_.Begin(PeerId::Worker(worker), PullOf(worker, clock));
  }
  absl::Status Tell(uint32_t worker, uint64_t clock, bool no_input = false) {
    v1::TellClockRequest told;
    told.mutable_header()->set_worker(worker);
    *told.mutable_header()->mutable_generation() = Pair(1, 10 + worker);
    told.set_clock(clock);
    told.set_no_input(no_input);
    told.set_number(++clocks_told_);
    return driver_.Call(PeerId::Worker(worker), told).status;
  }
  bool Served(CallId call) {
    return driver_.answered(call) && driver_.Take(call).status.ok();
  }

  v1::Configuration configuration_;
  ShardDriver driver_;
  uint64_t clocks_told_ = 0;
};

TEST_F(ShardBoundedTest, APullTooFarAheadIsAnsweredWhenTheSlowestGotOn) {
  EXPECT_TRUE(Served(Pull(0, 1)));
  const CallId pull = Pull(0, 2);
  EXPECT_FALSE(driver_.answered(pull));
  ASSERT_TRUE(Tell(1, 1).ok());
  EXPECT_FALSE(driver_.answered(pull));
  // Its pull says its clock as well.
  EXPECT_TRUE(Served(Pull(2, 1)));
  EXPECT_TRUE(Served(pull));
}

TEST_F(ShardBoundedTest, APushSaysTheClockToo) {
  const CallId pull = Pull(0, 2);
  ASSERT_TRUE(Tell(2, 1).ok());
  v1::PushRequest push = driver_.MakePush(1, {{0, 0}}, 2);
  push.set_clock(1);
  ASSERT_TRUE(driver_.Push(push, {1, 1}).ok());
  ASSERT_TRUE(driver_.answered(pull));
  const ShardDriver::Answer answer = driver_.Take(pull);
  EXPECT_EQ(testing::Numbers(answer.payload), std::vector<float>(2, -1.0f))
      << "it is answered with what is there then";
}

TEST_F(ShardBoundedTest, Promise4_AWaitingPullIsToldForWhom) {
  const CallId pull = Pull(0, 2);
  driver_.Advance(absl::Seconds(5));
  ASSERT_TRUE(driver_.answered(pull));
  const absl::Status why = driver_.Take(pull).status;
  EXPECT_EQ(ReasonOf(why), v1::Refusal::WAIT);
  EXPECT_EQ(RefusalOf(why).waiting_for(), "worker-1 generation 1.11");
  EXPECT_EQ(RefusalOf(why).version(), Pair(1, 1));
}

TEST_F(ShardBoundedTest, EvaluationNeverWaits) {
  v1::PullRequest pull = PullOf(0, 0);
  pull.clear_clock();
  ASSERT_TRUE(Tell(0, 100).ok());
  EXPECT_TRUE(driver_.Call(PeerId::Worker(0), pull).status.ok());
  EXPECT_TRUE(driver_.Call(PeerId{}, pull).status.ok());
}

TEST_F(ShardBoundedTest, OneWithoutInputIsNotWaitedFor) {
  const CallId pull = Pull(0, 2);
  ASSERT_TRUE(Tell(1, 1).ok());
  ASSERT_TRUE(Tell(2, 0, /*no_input=*/true).ok());
  EXPECT_TRUE(Served(pull));
}

TEST_F(ShardBoundedTest, OneThatLeftIsNotWaitedFor) {
  const CallId pull = Pull(0, 2);
  ASSERT_TRUE(Tell(1, 1).ok());
  configuration_.mutable_workers()->DeleteSubrange(2, 1);
  Reconfigure();
  EXPECT_TRUE(Served(pull));
}

TEST_F(ShardBoundedTest, OneThatIsSilentIsNotWaitedForBeyondItsLease) {
  for (int second = 0; second < 9; ++second) {
    driver_.Advance(absl::Seconds(1));
    ASSERT_TRUE(Tell(0, 2).ok());
    ASSERT_TRUE(Tell(1, 1).ok());
  }
  const CallId pull = Pull(0, 2);
  EXPECT_FALSE(driver_.answered(pull));
  driver_.Advance(absl::Seconds(1) + absl::Milliseconds(1));
  EXPECT_TRUE(Served(pull));
}

TEST_F(ShardBoundedTest, TheNextModeHoldsAtOnce) {
  const CallId pull = Pull(0, 3);
  SetMode(v1::Consistency::BOUNDED, 2);
  Reconfigure();
  EXPECT_FALSE(driver_.answered(pull));
  SetMode(v1::Consistency::ASYNC, 0);
  Reconfigure();
  EXPECT_TRUE(Served(pull));
  EXPECT_TRUE(Served(Pull(0, 100)));
  SetMode(v1::Consistency::BOUNDED, 2);
  Reconfigure();
  EXPECT_FALSE(driver_.answered(Pull(0, 100)));
}

TEST_F(ShardBoundedTest, AFencedReaderDoesNotWait) {
  const CallId pull = Pull(0, 2);
  *configuration_.mutable_workers(0)->mutable_generation() = Pair(1, 20);
  Reconfigure();
  ASSERT_TRUE(driver_.answered(pull));
  EXPECT_EQ(ReasonOf(driver_.Take(pull).status), v1::Refusal::FENCED);
}

TEST_F(ShardBoundedTest, TheEndOfTheJobIsTheEndOfTheWait) {
  const CallId pull = Pull(0, 2);
  v1::FinishRequest finish;
  finish.mutable_header()->set_term(1);
  ASSERT_TRUE(driver_.Call(PeerId::Coordinator(), finish).status.ok());
  ASSERT_TRUE(driver_.answered(pull));
  EXPECT_EQ(ReasonOf(driver_.Take(pull).status), v1::Refusal::JOB_FINISHED);
}

TEST_F(ShardBoundedTest, OnlyItsOwnSessionHasAClock) {
  EXPECT_EQ(ReasonOf(driver_.Call(PeerId{}, PullOf(0, 0)).status),
            v1::Refusal::NOT_ALLOWED);
  EXPECT_EQ(ReasonOf(driver_.Call(PeerId::Worker(1), PullOf(0, 0)).status),
            v1::Refusal::NOT_ALLOWED);
  v1::PullRequest pull = PullOf(0, 0);
  *pull.mutable_header()->mutable_generation() = Pair(1, 30);
  EXPECT_EQ(ReasonOf(driver_.Call(PeerId::Worker(0), pull).status),
            v1::Refusal::NOT_READY);
  *pull.mutable_header()->mutable_generation() = Pair(1, 9);
  EXPECT_EQ(ReasonOf(driver_.Call(PeerId::Worker(0), pull).status),
            v1::Refusal::FENCED);
  v1::TellClockRequest told;
  *told.mutable_header() = pull.header();
  EXPECT_EQ(ReasonOf(driver_.Call(PeerId::Worker(0), told).status),
            v1::Refusal::FENCED);
}

TEST_F(ShardBoundedTest, ARestartedServerKnowsTheClocksThatSessionsBeganWith) {
  for (v1::WorkerMember& member : *configuration_.mutable_workers()) {
    member.set_start_clock(50);
  }
  ShardDriver restarted;
  restarted.MakeReady(configuration_);
  EXPECT_TRUE(restarted.Call(PeerId::Worker(0), PullOf(0, 51)).status.ok());
  EXPECT_FALSE(
      restarted.answered(restarted.Begin(PeerId::Worker(0), PullOf(0, 52))));
}

TEST_F(ShardBoundedTest, TheStatusSaysWhoIsWaitedForAndHowOften) {
  Pull(0, 2);
  driver_.Advance(absl::Seconds(4));
  v1::StatusReply status;
  driver_.shard().FillStatus(&status);
  EXPECT_EQ(status.server().pulls_parked(), 1u);
  EXPECT_EQ(status.server().pulls_waiting(), 1u);
  const Time later = Time::FromNanoseconds(1) + absl::Seconds(4);
  EXPECT_EQ(driver_.shard().overdue(later),
            "worker-1 generation 1.11, the slowest: others may be 1 pushes "
            "ahead of it at most");
}

// ---- weights with the answer to a push
// ---------------------------------------

class ShardPullBehindTest : public ShardBoundedTest {
 protected:
  // Of worker 1; its gradient is 1 everywhere, the rate is 1.
  ShardDriver::Answer PushAndPull(uint64_t sequence) {
    v1::PushRequest push = driver_.MakePush(sequence, {{0, 0}}, 2);
    push.set_clock(sequence - 1);
    push.mutable_pull()->set_encoding(v1::FP32);
    push.mutable_pull()->set_clock(sequence);
    return driver_.Call(PeerId::Worker(1), push, Payload({1, 1}));
  }
  static const v1::PushReply& ReplyOf(const ShardDriver::Answer& answer) {
    return static_cast<const v1::PushReply&>(*answer.head);
  }
};

TEST_F(ShardPullBehindTest, AnAnswerHasTheWeightsAsThePushLeftThem) {
  SetMode(v1::Consistency::ASYNC, 0);
  Reconfigure();
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) {
    const auto answer = PushAndPull(sequence);
    ASSERT_TRUE(answer.status.ok());
    const v1::PullReply& pulled = ReplyOf(answer).pulled();
    ASSERT_EQ(pulled.blocks_size(), 1);
    EXPECT_EQ(pulled.blocks(0).version().counter(), sequence);
    EXPECT_EQ(pulled.blocks(0).elements(), 2u);
    EXPECT_EQ(Numbers(answer.payload),
              std::vector<float>(2, -static_cast<float>(sequence)));
  }
}

TEST_F(ShardPullBehindTest, ARepeatedPushBringsThemAgain) {
  SetMode(v1::Consistency::ASYNC, 0);
  Reconfigure();
  ASSERT_TRUE(PushAndPull(1).status.ok());
  const auto answer = PushAndPull(1);
  ASSERT_TRUE(answer.status.ok());
  EXPECT_EQ(ReplyOf(answer).blocks(0).result(),
            v1::PushedBlock::ALREADY_APPLIED);
  EXPECT_EQ(Numbers(answer.payload), std::vector<float>({-1, -1}));
}

TEST_F(ShardPullBehindTest, NoWeightsForOneWhoWouldHaveToWait) {
  EXPECT_TRUE(ReplyOf(PushAndPull(1)).has_pulled());
  const auto answer = PushAndPull(2);  // The others are at 0, the bound is 1.
  ASSERT_TRUE(answer.status.ok());
  EXPECT_EQ(ReplyOf(answer).blocks(0).result(), v1::PushedBlock::APPLIED);
  EXPECT_FALSE(ReplyOf(answer).has_pulled());
  EXPECT_TRUE(answer.payload.empty());
}

}  // namespace
}  // namespace paramd
