// Pushes whose answers bring the weights of the next step.
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "client/core/session.h"
#include "client/core/testing/configurations.h"
#include "client/core/testing/session_test_base.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::testing::Each;
using testing::kOp;
using testing::Pair;
using testing::SessionTestBase;

// Three chunks to one server.
class SessionPullBehindTest : public SessionTestBase {
 protected:
  void SetUp() override {
    Use(ThreeBlocks());
    next_ = Weights(session_->placement());
  }
  void PushAndPull() {
    pull_into_ = &next_;
    Push(4);
  }
  // The answer with every number of the chunk's blocks as `value`.
  void AnswerWithWeights(const Outbox::SendItem& sent, float value,
                         size_t bytes_short = 0) {
    v1::PushReply reply = PushReplyTo(sent);
    v1::PullReply* const pulled = reply.mutable_pulled();
    pulled->set_encoding(v1::FP32);
    for (const v1::PushBlock& pushed : HeadOf<v1::PushRequest>(sent).blocks()) {
      v1::PulledBlock* const block = pulled->add_blocks();
      block->set_slice(pushed.slice());
      block->set_block(pushed.block());
      block->mutable_version()->set_life(1);
      block->mutable_version()->set_counter(sent.call & 0xff);
      block->set_elements(pushed.elements());
    }
    BufferChain values = Values(*pulled, value);
    values[0] = values[0].Part(0, values[0].size() - bytes_short);
    Answer(sent, reply, values);
  }
  absl::optional<Session::Finished> Finished() {
    return session_->TakeFinished();
  }

  Weights next_;
};

TEST_F(SessionPullBehindTest, APushAsksForWeightsOneClockAhead) {
  PushAndPull();
  for (const auto& sent : Sent()) {
    const auto& push = HeadOf<v1::PushRequest>(sent);
    ASSERT_TRUE(push.has_pull());
    EXPECT_EQ(push.pull().clock(), push.clock() + 1);
    EXPECT_EQ(push.pull().encoding(), v1::FP32);
    EXPECT_EQ(push.pull().blocks_size(), 0);
  }
}

TEST_F(SessionPullBehindTest, APushThatHasNothingToFillAsksForNone) {
  Push(4);
  for (const auto& sent : Sent()) {
    EXPECT_FALSE(HeadOf<v1::PushRequest>(sent).has_pull());
  }
}

TEST_F(SessionPullBehindTest, WeightsOfAllBlocksEndThePull) {
  PushAndPull();
  for (const auto& sent : Sent()) AnswerWithWeights(sent, 7);
  const auto finished = Finished();
  ASSERT_TRUE(finished.has_value());
  EXPECT_TRUE(finished->status.ok());
  EXPECT_TRUE(finished->pulled);
  EXPECT_THAT(next_.variable(0), Each(7));
}

TEST_F(SessionPullBehindTest, WithOneBlockLeftThereIsStillAPullToMake) {
  PushAndPull();
  const auto sent = Sent();
  AnswerWithWeights(sent[0], 7);
  Answer(sent[1], PushReplyTo(sent[1]));
  AnswerWithWeights(sent[2], 7);
  const auto finished = Finished();
  ASSERT_TRUE(finished.has_value());
  EXPECT_TRUE(finished->status.ok());
  EXPECT_FALSE(finished->pulled);
  // It names what has come already.
  session_->StartPull(kOp, &next_, 5, now_, &out_);
  const auto pulls = Sent();
  ASSERT_EQ(pulls.size(), 3u);
  EXPECT_EQ(HeadOf<v1::PullRequest>(pulls[0]).blocks(0).known().life(), 1u);
  EXPECT_EQ(HeadOf<v1::PullRequest>(pulls[1]).blocks(0).known().life(), 0u);
}

TEST_F(SessionPullBehindTest, ASupersededChunkBringsNoWeights) {
  PushAndPull();
  const auto sent = Sent();
  AnswerWithWeights(sent[0], 7);
  AnswerWithWeights(sent[1], 7);
  Answer(sent[2], absl::UnavailableError("connection reset"));
  TickWhenWanted();
  Answer(Sent()[0],
         Refuse(v1::Refusal::SUPERSEDED, "push", "a later one is in"));
  const auto finished = Finished();
  ASSERT_TRUE(finished.has_value());
  EXPECT_FALSE(finished->pulled);
}

TEST_F(SessionPullBehindTest, Promise9_WeightsCutShortChangeNothing) {
  PushAndPull();
  AnswerWithWeights(Sent()[0], 7, /*bytes_short=*/4);
  EXPECT_THAT(next_.variable(0), Each(0));
  const auto finished = Finished();
  ASSERT_TRUE(finished.has_value());
  EXPECT_TRUE(absl::IsInvalidArgument(finished->status));
}

TEST_F(SessionPullBehindTest, WeightsOfAnEarlierLifeOfAServerDoNotCount) {
  PushAndPull();
  const auto sent = Sent();
  AnswerWithWeights(sent[0], 7);
  AnswerWithWeights(sent[1], 7);
  v1::Configuration next = ThreeBlocks();
  next.mutable_version()->set_counter(9);
  *next.mutable_servers(0)->mutable_generation() = Pair(2, 1);
  ASSERT_TRUE(session_->Configure(next, Pair(1, 9)).ok());
  TickAt(now_);
  const auto again = Sent();
  ASSERT_EQ(again.size(), 3u);
  for (const auto& item : again) {
    Answer(item, PushReplyTo(item, Pair(2, 1)));
  }
  const auto finished = Finished();
  ASSERT_TRUE(finished.has_value());
  EXPECT_TRUE(finished->status.ok());
  EXPECT_FALSE(finished->pulled);
}

}  // namespace
}  // namespace paramd
