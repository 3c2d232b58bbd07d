#include "client/core/session.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "client/core/testing/configurations.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using testing::Floats;
using ::testing::HasSubstr;
using testing::MakeConfiguration;
using testing::Numbers;
using testing::Pair;

constexpr Session::OpId kOp = 9;

// A session and what it sent; the test answers in the place of the servers.
class SessionTest : public ::testing::Test {
 protected:
  // Variable "a" of two elements on ps-0, "b" of three on ps-1.
  static v1::Configuration Small() {
    return MakeConfiguration({{"a", {2}, 0}, {"b", {3}, 1}}, 2);
  }
  // One variable of two whole blocks and one of two elements, all on ps-0.
  static v1::Configuration ThreeBlocks() {
    return MakeConfiguration({{"w", {2 * kBlockElements + 2}, 0}}, 1);
  }

  void Use(const v1::Configuration& configuration,
           Session::Options options = {}) {
    options.worker = 3;
    options.request_id_seed = 5;
    session_ = std::make_unique<Session>(options);
    ASSERT_TRUE(session_->Configure(configuration, Pair(1, 9)).ok());
    weights_ = Weights(session_->placement());
  }

  void Pull(Session::OpId op = kOp) {
    session_->StartPull(op, &weights_, 4, now_, &out_);
  }
  void Push(uint64_t sequence) {
    Session::PushInfo info;
    info.sequence = sequence;
    info.snapshot = Pair(1, 2);
    info.epoch = 6;
    info.portion = 7;
    info.offset = 8;
    info.weights = &weights_;
    std::vector<Buffer> gradients;
    for (const uint64_t elements : session_->placement().elements()) {
      std::vector<float> numbers(elements);
      for (uint64_t i = 0; i < elements; ++i) numbers[i] = 1 + i;
      gradients.push_back(Floats(numbers));
    }
    session_->StartPush(kOp, info, std::move(gradients), now_, &out_);
  }

  // What was sent since the last call of this.
  std::vector<Outbox::SendItem> Sent() { return std::exchange(out_.sends, {}); }
  template <typename Head>
  static const Head& HeadOf(const Outbox::SendItem& sent) {
    return dynamic_cast<const Head&>(*sent.head);
  }

  void Answer(const Outbox::SendItem& sent, absl::Status status,
              const google::protobuf::Message* head = nullptr,
              BufferChain payload = {}) {
    Message message;
    message.from = sent.to;
    message.call = sent.call;
    message.is_reply = true;
    message.status = std::move(status);
    message.head = head;
    message.payload = std::move(payload);
    EXPECT_TRUE(session_->Receive(message, now_, &out_));
  }
  void Answer(const Outbox::SendItem& sent,
              const google::protobuf::Message& head, BufferChain payload = {}) {
    Answer(sent, absl::OkStatus(), &head, std::move(payload));
  }

  // The server's good answer: every block in this life with `value` everywhere.
  static v1::PullReply PullReplyTo(const Outbox::SendItem& sent,
                                   const Placement& placement,
                                   uint64_t life = 1) {
    v1::PullReply reply;
    reply.set_encoding(v1::FP32);
    for (const v1::PullBlock& asked : HeadOf<v1::PullRequest>(sent).blocks()) {
      v1::PulledBlock* block = reply.add_blocks();
      block->set_slice(asked.slice());
      block->set_block(asked.block());
      block->mutable_version()->set_life(life);
      block->set_elements(BlockElements(
          placement.slices()[asked.slice()].elements, asked.block()));
    }
    return reply;
  }
  v1::PullReply PullReplyTo(const Outbox::SendItem& sent) const {
    return PullReplyTo(sent, session_->placement());
  }
  static BufferChain Values(const v1::PullReply& reply, float value) {
    size_t elements = 0;
    for (const auto& block : reply.blocks()) elements += block.elements();
    return {Floats(std::vector<float>(elements, value))};
  }
  static v1::PushReply PushReplyTo(
      const Outbox::SendItem& sent, const v1::Version& generation,
      v1::PushedBlock::Result result = v1::PushedBlock::APPLIED) {
    v1::PushReply reply;
    *reply.mutable_server_generation() = generation;
    for (const v1::PushBlock& asked : HeadOf<v1::PushRequest>(sent).blocks()) {
      v1::PushedBlock* block = reply.add_blocks();
      block->set_slice(asked.slice());
      block->set_block(asked.block());
      block->set_result(result);
    }
    return reply;
  }
  static v1::PushReply PushReplyTo(const Outbox::SendItem& sent) {
    return PushReplyTo(sent, Pair(1, sent.to.index + 1));
  }

  // Advances to the next tick, at least.
  void TickAt(Time when) {
    now_ = std::max(now_, when);
    session_->Tick(now_, &out_);
  }
  void TickWhenWanted() { TickAt(session_->next_tick()); }

  // The end of the one operation; UNKNOWN while it is open.
  absl::Status End() {
    const auto finished = session_->TakeFinished();
    if (!finished.has_value()) return absl::UnknownError("still open");
    EXPECT_EQ(finished->op, kOp);
    return finished->status;
  }
  bool IsOpen() { return absl::IsUnknown(End()); }

  std::unique_ptr<Session> session_;
  Weights weights_;
  Outbox out_;
  Time now_ = Time::FromNanoseconds(1000);
};

// ---- chunks -----------------------------------------------------------------

TEST_F(SessionTest, AChunkHoldsWholeBlocksAndAtMostChunkBytes) {
  Use(ThreeBlocks());
  Push(1);
  const auto sent = Sent();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(ChainSize(sent[0].payload), 1u << 20);
  EXPECT_EQ(ChainSize(sent[1].payload), 1u << 20);
  EXPECT_THAT(Numbers(sent[2].payload),
              ElementsAre(2 * kBlockElements + 1, 2 * kBlockElements + 2));
  for (uint32_t b = 0; b < 3; ++b) {
    ASSERT_EQ(HeadOf<v1::PushRequest>(sent[b]).blocks_size(), 1);
    EXPECT_EQ(HeadOf<v1::PushRequest>(sent[b]).blocks(0).block(), b);
  }
}

TEST_F(SessionTest, BlocksOfOneServerShareAChunkThatHasRoom) {
  Session::Options options;
  options.chunk_bytes = 2 << 20;
  Use(ThreeBlocks(), options);
  Pull();
  const auto sent = Sent();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(HeadOf<v1::PullRequest>(sent[0]).blocks_size(), 2);
  EXPECT_EQ(HeadOf<v1::PullRequest>(sent[1]).blocks_size(), 1);
}

TEST_F(SessionTest, EachServerGetsItsOwnBlocks) {
  Use(Small());
  Push(1);
  const auto sent = Sent();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].to, PeerId::Ps(0));
  EXPECT_THAT(Numbers(sent[0].payload), ElementsAre(1, 2));
  EXPECT_EQ(sent[1].to, PeerId::Ps(1));
  EXPECT_THAT(Numbers(sent[1].payload), ElementsAre(1, 2, 3));
}

TEST_F(SessionTest, Promise8_AtMostCallsPerServerAreUnderWay) {
  Session::Options options;
  options.calls_per_server = 2;
  Use(ThreeBlocks(), options);
  Push(1);
  const auto first = Sent();
  ASSERT_EQ(first.size(), 2u);
  Answer(first[0], PushReplyTo(first[0]));
  EXPECT_EQ(Sent().size(), 1u);
}

TEST_F(SessionTest, ARequestSaysWhoAsksAndWhomItMeans) {
  Use(Small());
  Push(4);
  const auto sent = Sent();
  const auto& request = HeadOf<v1::PushRequest>(sent[1]);
  const v1::Header& header = request.header();
  EXPECT_EQ(header.term(), 1u);
  EXPECT_EQ(header.configuration(), Pair(1, 1));
  EXPECT_EQ(header.worker(), 3u);
  EXPECT_EQ(header.generation(), Pair(1, 9));
  EXPECT_EQ(header.sequence(), 4u);
  EXPECT_EQ(header.snapshot(), Pair(1, 2));
  EXPECT_EQ(header.server_generation(), Pair(1, 2));
  EXPECT_EQ(request.encoding(), v1::FP32);
  EXPECT_EQ(request.epoch(), 6u);
  EXPECT_EQ(request.portion(), 7u);
  EXPECT_EQ(request.offset(), 8u);
}

TEST_F(SessionTest, APushSaysWhatItWasComputedOn) {
  Use(Small());
  Pull();
  const auto pulls = Sent();
  const v1::PullReply read = PullReplyTo(pulls[0]);
  Answer(pulls[0], read, Values(read, 5));
  Push(1);
  const auto sent = Sent();
  const v1::PushBlock& block = HeadOf<v1::PushRequest>(sent[0]).blocks(0);
  ASSERT_EQ(block.block(), read.blocks(0).block());
  EXPECT_EQ(block.computed_on().life(), read.blocks(0).version().life());
  EXPECT_EQ(block.computed_on().counter(), read.blocks(0).version().counter());
}

TEST_F(SessionTest, APushSaysWhichOneBeforeItWasAcknowledged) {
  Use(Small());
  Push(1);
  auto sent = Sent();
  EXPECT_EQ(HeadOf<v1::PushRequest>(sent[0]).acknowledged(), 0u);
  for (const auto& item : sent) Answer(item, PushReplyTo(item));
  Push(2);
  sent = Sent();
  EXPECT_EQ(HeadOf<v1::PushRequest>(sent[0]).acknowledged(), 1u);
}

// ---- pulls ------------------------------------------------------------------

TEST_F(SessionTest, APullIsFinishedWhenEveryServerHasAnswered) {
  Use(Small());
  Pull();
  const auto sent = Sent();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(HeadOf<v1::PullRequest>(sent[0]).clock(), 4u);
  const v1::PullReply a = PullReplyTo(sent[0]);
  Answer(sent[0], a, Values(a, 5));
  EXPECT_TRUE(IsOpen());
  const v1::PullReply b = PullReplyTo(sent[1]);
  Answer(sent[1], b, Values(b, 6));
  EXPECT_TRUE(End().ok());
  EXPECT_THAT(weights_.variable(0), ElementsAre(5, 5));
  EXPECT_THAT(weights_.variable(1), ElementsAre(6, 6, 6));
}

TEST_F(SessionTest, APullWithoutAClockNeverWaits) {
  Use(Small());
  session_->StartPull(kOp, &weights_, absl::nullopt, now_, &out_);
  EXPECT_FALSE(HeadOf<v1::PullRequest>(Sent()[0]).has_clock());
}

TEST_F(SessionTest, APullNamesTheVersionItHasAndKeepsUnchangedBlocks) {
  Use(MakeConfiguration({{"a", {2}, 0}, {"b", {1}, 0}}, 1));
  Pull();
  auto sent = Sent();
  v1::PullReply reply = PullReplyTo(sent[0]);
  Answer(sent[0], reply, Values(reply, 5));
  ASSERT_TRUE(End().ok());
  Pull();
  sent = Sent();
  const auto& request = HeadOf<v1::PullRequest>(sent[0]);
  EXPECT_EQ(request.blocks(0).known().life(), 1u);
  reply.mutable_blocks(0)->set_elements(0);  // Unchanged.
  reply.mutable_blocks(1)->mutable_version()->set_counter(1);
  Answer(sent[0], reply, Values(reply, 6));
  ASSERT_TRUE(End().ok());
  EXPECT_THAT(weights_.variable(0), ElementsAre(5, 5));
  EXPECT_THAT(weights_.variable(1), ElementsAre(6));
  EXPECT_EQ(weights_.version(1, 0).counter(), 1u);
}

// A pull of two blocks whose answer is spoilt in one way.
class BadPullAnswerTest : public SessionTest {
 protected:
  void SetUp() override {
    Use(MakeConfiguration({{"a", {2}, 0}, {"b", {1}, 0}}, 1));
    Pull();
    sent_ = Sent();
    reply_ = PullReplyTo(sent_[0]);
    payload_ = Values(reply_, 5);
  }
  // Nothing was copied, and no version remembered.
  void ExpectNothingChanged() {
    Answer(sent_[0], reply_, payload_);
    EXPECT_THAT(weights_.variable(0), ElementsAre(0, 0));
    EXPECT_THAT(weights_.variable(1), ElementsAre(0));
    EXPECT_EQ(weights_.version(0, 0).life(), 0u);
  }
  void ExpectRefused(const std::string& sentence) {
    ExpectNothingChanged();
    const absl::Status end = End();
    EXPECT_TRUE(absl::IsInvalidArgument(end)) << end;
    EXPECT_THAT(std::string(end.message()), HasSubstr(sentence));
  }

  std::vector<Outbox::SendItem> sent_;
  v1::PullReply reply_;
  BufferChain payload_;
};

TEST_F(BadPullAnswerTest, Promise9_AnotherBlockChangesNothing) {
  reply_.mutable_blocks(1)->set_slice(0);
  ExpectRefused("asked was block 0 of slice 1");
}

TEST_F(BadPullAnswerTest, Promise9_AnotherNumberOfElementsChangesNothing) {
  reply_.mutable_blocks(1)->set_elements(2);
  ExpectRefused("with 2 elements");
}

TEST_F(BadPullAnswerTest, Promise9_TooFewBytesChangeNothing) {
  payload_ = {Floats({1, 2})};
  ExpectRefused("a pull's answer has 8 bytes; its blocks need 12");
}

TEST_F(BadPullAnswerTest, Promise9_TooManyBytesChangeNothing) {
  payload_.push_back(Floats({1}));
  ExpectRefused("a pull's answer has 16 bytes; its blocks need 12");
}

TEST_F(BadPullAnswerTest, Promise9_AnotherEncodingChangesNothing) {
  reply_.set_encoding(v1::ENCODING_UNSPECIFIED);
  ExpectRefused("in fp32");
}

TEST_F(BadPullAnswerTest, Promise9_ABlockNeverPulledCannotBeUnchanged) {
  reply_.mutable_blocks(1)->set_elements(0);
  payload_ = Values(reply_, 5);
  ExpectRefused("block 0 of slice 1 has not changed");
}

TEST_F(BadPullAnswerTest, Promise9_AMissingBlockChangesNothingAndIsAskedAgain) {
  reply_.mutable_blocks()->RemoveLast();
  payload_ = Values(reply_, 5);
  ExpectNothingChanged();
  EXPECT_TRUE(IsOpen());
  TickWhenWanted();
  EXPECT_EQ(Sent().size(), 1u);
}

TEST_F(BadPullAnswerTest, Promise9_TheAnswerToAnotherMethodChangesNothing) {
  Answer(sent_[0], v1::PushReply());
  const absl::Status end = End();
  EXPECT_TRUE(absl::IsInvalidArgument(end)) << end;
  EXPECT_THAT(std::string(end.message()),
              HasSubstr("ps-0 answered another method"));
}

TEST_F(SessionTest, PullLatencyIsTheMedianByServer) {
  Use(Small());
  EXPECT_EQ(session_->PullLatency(0), absl::ZeroDuration());
  for (const int ms : {1, 9, 2}) {
    Pull();
    const auto sent = Sent();
    now_ = now_ + absl::Milliseconds(ms);
    for (const auto& item : sent) {
      const v1::PullReply reply = PullReplyTo(item);
      Answer(item, reply, Values(reply, 1));
    }
    ASSERT_TRUE(End().ok());
  }
  EXPECT_EQ(session_->PullLatency(0), absl::Milliseconds(2));
  EXPECT_EQ(session_->PullLatency(7), absl::ZeroDuration());
}

// ---- pushes -----------------------------------------------------------------

TEST_F(SessionTest, Promise1_APushIsFinishedOnlyWhenEveryBlockIsAnswered) {
  Use(ThreeBlocks());
  Push(1);
  const auto sent = Sent();
  Answer(sent[0], PushReplyTo(sent[0]));
  Answer(sent[2], PushReplyTo(sent[2]));
  EXPECT_TRUE(IsOpen());
  Answer(sent[1], PushReplyTo(sent[1]));
  EXPECT_TRUE(End().ok());
}

TEST_F(SessionTest, Promise1_ARepeatedBlockCountsAsAcknowledged) {
  Use(ThreeBlocks());
  Push(1);
  for (const auto& item : Sent()) {
    Answer(item,
           PushReplyTo(item, Pair(1, 1), v1::PushedBlock::ALREADY_APPLIED));
  }
  EXPECT_TRUE(End().ok());
}

TEST_F(SessionTest, Promise1_AResendKeepsNumberStampAndBytes) {
  Use(Small());
  Push(4);
  const auto first = Sent();
  Answer(first[1], absl::UnavailableError("connection reset"));
  EXPECT_TRUE(Sent().empty());
  TickWhenWanted();
  const auto again = Sent();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_NE(again[0].call, first[1].call);
  EXPECT_EQ(again[0].to, PeerId::Ps(1));
  EXPECT_EQ(again[0].head->SerializeAsString(),
            first[1].head->SerializeAsString());
  EXPECT_EQ(Numbers(again[0].payload), Numbers(first[1].payload));
  EXPECT_EQ(session_->chunks_resent(), 1u);
}

TEST_F(SessionTest, TwoChunksHaveTwoRequestIds) {
  Use(ThreeBlocks());
  Push(1);
  std::set<uint64_t> ids;
  for (const auto& item : Sent()) {
    ids.insert(HeadOf<v1::PushRequest>(item).header().request_id());
  }
  EXPECT_EQ(ids.size(), 3u);
}

TEST_F(SessionTest, ASecondAnswerToACallIsIgnored) {
  Use(Small());
  Push(1);
  const auto sent = Sent();
  Answer(sent[0], absl::UnavailableError("lost"));
  Answer(sent[0], PushReplyTo(sent[0]));  // Belongs to a call that has ended.
  Answer(sent[1], PushReplyTo(sent[1]));
  Answer(sent[1], PushReplyTo(sent[1]));
  EXPECT_TRUE(IsOpen());
  TickWhenWanted();
  const auto again = Sent();
  ASSERT_EQ(again.size(), 1u);
  Answer(again[0], PushReplyTo(again[0]));
  EXPECT_TRUE(End().ok());
}

TEST_F(SessionTest, WhatIsNotAReplyToThisSessionIsLeftToOthers) {
  Use(Small());
  Push(1);
  const auto sent = Sent();
  Message message;
  message.call = sent[0].call;
  EXPECT_FALSE(session_->Receive(message, now_, &out_));  // A request.
  message.is_reply = true;
  message.call = 1;
  message.status = absl::UnavailableError("");
  EXPECT_FALSE(session_->Receive(message, now_, &out_));
}

TEST_F(SessionTest, Promise1_AnAnswerOfAnotherLifeOfTheServerDoesNotCount) {
  Use(Small());
  Push(1);
  const auto sent = Sent();
  Answer(sent[1], PushReplyTo(sent[1]));
  Answer(sent[0], PushReplyTo(sent[0], Pair(1, 7)));
  EXPECT_TRUE(IsOpen());
  TickWhenWanted();
  EXPECT_EQ(Sent().size(), 1u);
}

TEST_F(SessionTest, Promise1_AnAnswerThatNamesOneBlockTwiceIsNotOneForTwo) {
  Use(MakeConfiguration({{"a", {2}, 0}, {"b", {3}, 0}}, 1));
  Push(1);
  const auto sent = Sent();
  v1::PushReply reply = PushReplyTo(sent[0]);
  *reply.mutable_blocks(1) = reply.blocks(0);
  Answer(sent[0], reply);
  EXPECT_TRUE(IsOpen());
  EXPECT_THAT(session_->waiting_for(), HasSubstr("answered for 1 of 2 blocks"));
}

TEST_F(SessionTest, Promise1_ABlockWithoutAResultIsNotAcknowledged) {
  Use(Small());
  Push(1);
  const auto sent = Sent();
  v1::PushReply reply = PushReplyTo(sent[0]);
  reply.mutable_blocks(0)->clear_result();
  Answer(sent[0], reply);
  Answer(sent[1], PushReplyTo(sent[1]));
  EXPECT_TRUE(IsOpen());
}

TEST_F(SessionTest, Promise9_APushAnsweredAsAPullEndsWithASentence) {
  Use(Small());
  Push(1);
  Answer(Sent()[0], v1::PullReply());
  const absl::Status end = End();
  EXPECT_TRUE(absl::IsInvalidArgument(end)) << end;
}

// ---- refusals ---------------------------------------------------------------

TEST_F(SessionTest, SupersededEndsAChunkOfAPush) {
  Use(Small());
  Push(1);
  const auto sent = Sent();
  Answer(sent[0], Refuse(v1::Refusal::SUPERSEDED, "push", "later one known"));
  Answer(sent[1],
         PushReplyTo(sent[1], Pair(1, 2), v1::PushedBlock::SUPERSEDED));
  EXPECT_TRUE(End().ok());
}

TEST_F(SessionTest, Promise2_SupersededIsNoAnswerToAPull) {
  Use(Small());
  Pull();
  const auto sent = Sent();
  for (const auto& item : sent) {
    Answer(item, Refuse(v1::Refusal::SUPERSEDED, "pull", "what is this"));
  }
  EXPECT_TRUE(IsOpen());
}

class EndingRefusalTest
    : public SessionTest,
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
    : public SessionTest,
      public ::testing::WithParamInterface<v1::Refusal::Reason> {};

TEST_P(PassingRefusalTest, TheChunkIsSentAgainNotBeforeTheHintAndNamesWhy) {
  Use(Small());
  Push(1);
  const auto sent = Sent();
  Answer(sent[1], PushReplyTo(sent[1]));
  Answer(sent[0], RefuseForNow(GetParam(), "coordinator", absl::Seconds(3),
                               "so says the server"));
  EXPECT_EQ(session_->waiting_for(),
            "ps-0 to answer a push: so says the server");
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

TEST_F(SessionTest, AFailureOfTheTransportIsTriedAgainEverLessOften) {
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

TEST_F(SessionTest, AMethodThatTheServerDoesNotKnowIsNotTriedAgain) {
  Use(Small());
  Push(1);
  Answer(Sent()[0], absl::UnimplementedError("no such method"));
  EXPECT_TRUE(absl::IsUnimplemented(End()));
}

// ---- deadlines --------------------------------------------------------------

TEST_F(SessionTest, Promise4_AGivenUpPushNamesWhomItWaitedFor) {
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
            "push given up after 30s; waiting for ps-1 to answer a push: "
            "connection refused");
  EXPECT_EQ(session_->next_tick(), Time::Never());
}

TEST_F(SessionTest, Promise4_AGivenUpPullNamesItsOwnServer) {
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
            "pull given up after 5m; waiting for ps-1 to answer a pull");
}

TEST_F(SessionTest, ThePushAfterOneThatWasGivenUpSaysSo) {
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

TEST_F(SessionTest, Promise1_BlocksAcknowledgedByALostLifeAreResentToTheNext) {
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

TEST_F(SessionTest, Promise1_AnAnswerFromBeforeTheNewLifeComesTooLate) {
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

TEST_F(SessionTest, ANewLifeOfAServerLeavesAPullAlone) {
  Use(Small());
  Pull();
  Sent();
  ASSERT_TRUE(session_->Configure(WithNewLife(Small(), 0), Pair(1, 9)).ok());
  TickAt(now_);
  EXPECT_TRUE(Sent().empty());
}

TEST_F(SessionTest, AnOlderConfigurationChangesNothing) {
  Use(WithNewLife(Small(), 0));
  EXPECT_TRUE(session_->Configure(Small(), Pair(1, 9)).ok());
  EXPECT_EQ(session_->configuration_version(), Pair(1, 2));
  Push(1);
  EXPECT_EQ(HeadOf<v1::PushRequest>(Sent()[0]).header().server_generation(),
            Pair(1, 8));
}

TEST_F(SessionTest, Promise9_AnotherLayoutIsRefusedAndChangesNothing) {
  Use(Small());
  v1::Configuration other = WithNewLife(Small(), 0);
  other.mutable_layout()->mutable_slices(0)->set_server(1);
  EXPECT_TRUE(absl::IsInvalidArgument(session_->Configure(other, Pair(1, 9))));
  EXPECT_EQ(session_->configuration_version(), Pair(1, 1));
  EXPECT_EQ(session_->placement().slices()[0].server, 0u);
}

TEST_F(SessionTest, Promise9_ABrokenLayoutIsRefusedAndChangesNothing) {
  Session session({});
  v1::Configuration broken = Small();
  broken.mutable_layout()->mutable_slices(0)->set_row_end(1);
  EXPECT_TRUE(absl::IsInvalidArgument(session.Configure(broken, Pair(1, 9))));
  EXPECT_FALSE(session.configured());
}

TEST_F(SessionTest, WithNothingOpenNobodyIsWaitedForAndNoTickIsWanted) {
  Use(Small());
  EXPECT_EQ(session_->waiting_for(), "");
  EXPECT_EQ(session_->next_tick(), Time::Never());
  EXPECT_FALSE(session_->TakeFinished().has_value());
}

TEST_F(SessionTest, Promise4_TheOldestOpenOperationIsNamed) {
  Use(Small());
  Pull();
  EXPECT_EQ(session_->waiting_for(), "ps-0 to answer a pull");
}

}  // namespace
}  // namespace paramd
