#include "client/core/session.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "client/core/testing/configurations.h"
#include "client/core/testing/session_test_base.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using testing::Floats;
using ::testing::HasSubstr;
using testing::MakeConfiguration;
using testing::Numbers;
using testing::Pair;

using testing::kOp;

class SessionTest : public testing::SessionTestBase {
 protected:
  // One variable of nine blocks on ps-0.
  static v1::Configuration NineBlocks() {
    return MakeConfiguration({{"w", {9 * kMaxBlockElements}, 0}}, 1);
  }
  // Pushes, and answers each chunk as it comes; how many blocks each had.
  std::vector<int> BlocksOfEachPush(uint64_t sequence) {
    std::vector<int> blocks;
    Push(sequence);
    for (auto sent = Sent(); !sent.empty(); sent = Sent()) {
      for (const Outbox::SendItem& item : sent) {
        blocks.push_back(HeadOf<v1::PushRequest>(item).blocks_size());
        Answer(item, PushReplyTo(item));
      }
    }
    EXPECT_TRUE(End().ok());
    return blocks;
  }
};

// ---- chunks -----------------------------------------------------------------

TEST_F(SessionTest, AChunkHoldsWholeBlocksAndAtMostChunkBytes) {
  Use(ThreeBlocks());
  Push(1);
  const auto sent = Sent();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(ChainSize(sent[0].payload), 1u << 20);
  EXPECT_EQ(ChainSize(sent[1].payload), 1u << 20);
  EXPECT_THAT(Numbers(sent[2].payload), ElementsAre(2 * kMaxBlockElements + 1,
                                                    2 * kMaxBlockElements + 2));
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

TEST_F(SessionTest, AChunkThroughSharedMemoryIsUpToFourTimesAsLong) {
  Session::Options options;
  options.chunk_bytes = kMaxBlockElements * sizeof(float);
  Use(NineBlocks(), options);
  in_shared_memory_ = true;
  EXPECT_EQ(BlocksOfEachPush(1), (std::vector<int>(9, 1)))
      << "until the first answer nobody knows";
  EXPECT_EQ(BlocksOfEachPush(2), (std::vector<int>{4, 4, 1}));
  in_shared_memory_ = false;
  EXPECT_EQ(BlocksOfEachPush(3), (std::vector<int>{4, 4, 1}));
  EXPECT_EQ(BlocksOfEachPush(4), (std::vector<int>(9, 1)));
}

TEST_F(SessionTest, AChunkThroughSharedMemoryHasAtMost4MiB) {
  Session::Options options;
  options.chunk_bytes = 3 << 20;
  Use(NineBlocks(), options);
  in_shared_memory_ = true;
  EXPECT_EQ(BlocksOfEachPush(1), (std::vector<int>{3, 3, 3}));
  EXPECT_EQ(BlocksOfEachPush(2), (std::vector<int>{4, 4, 1}));
}

TEST_F(SessionTest, AChunkAboveItsUsualSizeHasAtMost1024Blocks) {
  std::vector<testing::OwnedVariable> variables;
  for (int v = 0; v < 1100; ++v) {
    variables.push_back({absl::StrCat("v", v), {2}, 0});
  }
  Session::Options options;
  options.chunk_bytes = 500 * 2 * sizeof(float);
  Use(MakeConfiguration(variables, 1), options);
  in_shared_memory_ = true;
  EXPECT_EQ(BlocksOfEachPush(1), (std::vector<int>{500, 500, 100}));
  EXPECT_EQ(BlocksOfEachPush(2), (std::vector<int>{1024, 76}));
}

TEST_F(SessionTest, Promise8_OfLongChunksTwoAreUnderWay) {
  Session::Options options;
  options.chunk_bytes = kMaxBlockElements * sizeof(float);
  Use(NineBlocks(), options);
  in_shared_memory_ = true;
  (void)BlocksOfEachPush(1);
  Pull(kOp + 1);
  EXPECT_EQ(Sent().size(), 2u) << "eight blocks are under way";
  EXPECT_EQ(session_->next_tick(), now_ + absl::Minutes(5))
      << "nothing is to be done before the answer";
  Push(2);
  const auto sent = Sent();
  EXPECT_EQ(sent.size(), 2u) << "a pull takes nothing of a push's share";
  Answer(sent[0], PushReplyTo(sent[0]));
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
  EXPECT_EQ(request.input_begin(), 7u);
  EXPECT_EQ(request.input_end(), 8u);
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

// Its owner may have written there since.
TEST_F(SessionTest, APullIntoLentMemoryAsksForAllOfIt) {
  Use(Small());
  std::vector<float> lent(2);
  WeightMemory memory;
  memory.lent = LentWeights{{lent.data(), lent.data()}};
  weights_ = Weights::WithoutSparse(session_->placement(), memory);
  for (const float value : {7.0f, 8.0f}) {
    Pull();
    for (const Outbox::SendItem& sent : Sent()) {
      const bool is_lent = sent.to.index == 0;
      EXPECT_EQ(HeadOf<v1::PullRequest>(sent).blocks(0).known().life(),
                is_lent || value == 7.0f ? 0u : 1u);
      const v1::PullReply reply = PullReplyTo(sent);
      Answer(sent, reply, Values(reply, value));
    }
    EXPECT_TRUE(End().ok());
    EXPECT_THAT(lent, ::testing::Each(value));
    lent[1] = 0;
  }
  // Nor may an answer leave some of it as it is.
  Pull();
  for (const Outbox::SendItem& sent : Sent()) {
    v1::PullReply reply = PullReplyTo(sent);
    if (sent.to.index == 0) reply.mutable_blocks(0)->set_elements(0);
    Answer(sent, reply, Values(reply, 9));
  }
  EXPECT_THAT(std::string(End().message()), HasSubstr("has not changed"));
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
  ExpectRefused(
      "a pull's answer has 8 bytes of encoding 1; its blocks need 12");
}

TEST_F(BadPullAnswerTest, Promise9_TooManyBytesChangeNothing) {
  payload_.push_back(Floats({1}));
  ExpectRefused(
      "a pull's answer has 16 bytes of encoding 1; its blocks need 12");
}

TEST_F(BadPullAnswerTest, Promise9_AnotherEncodingChangesNothing) {
  reply_.set_encoding(v1::BF16);
  ExpectRefused("12 bytes of encoding 2; its blocks need 12 of encoding 1");
}

TEST_F(BadPullAnswerTest, Promise9_ABlockWithoutItsVersionChangesNothing) {
  reply_.mutable_blocks(1)->mutable_version()->set_life(0);
  ExpectRefused("block 0 of slice 1 without its version");
}

TEST_F(BadPullAnswerTest, Promise9_ABlockNeverPulledCannotBeUnchanged) {
  reply_.mutable_blocks(1)->set_elements(0);
  payload_ = Values(reply_, 5);
  ExpectRefused("block 0 of slice 1 has not changed");
}

TEST_F(BadPullAnswerTest, Promise9_APackedBlockThatNobodyAskedForIsRefused) {
  reply_.mutable_blocks(1)->set_nonzero(1);
  payload_.push_back(Buffer::Copy(std::string(1, '\x01')));
  ExpectRefused("block 0 of slice 1 packed, which was not asked for");
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
    Answer(item, absl::UnavailableError("connection reset"));
  }
  TickWhenWanted();
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

Session::Options HalfFormats() {
  Session::Options options;
  options.push_format = NumberFormat::kBf16;
  options.pull_format = NumberFormat::kFp16;
  return options;
}

TEST_F(SessionTest, AGradientTravelsInTheFormatOfPushes) {
  Use(Small(), HalfFormats());
  Push(1);
  const auto sent = Sent();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(HeadOf<v1::PushRequest>(sent[0]).encoding(), v1::BF16);
  ASSERT_EQ(ChainSize(sent[0].payload), 4u);
  float numbers[2];
  DecodeNumbers(NumberFormat::kBf16, sent[0].payload[0].bytes().data(), 2,
                numbers);
  EXPECT_EQ(numbers[0], 1);
  EXPECT_EQ(numbers[1], 2);
}

TEST_F(SessionTest, WeightsAreReadInTheFormatOfPulls) {
  Use(Small(), HalfFormats());
  Pull();
  for (const Outbox::SendItem& sent : Sent()) {
    EXPECT_EQ(HeadOf<v1::PullRequest>(sent).encoding(), v1::FP16);
    v1::PullReply reply = PullReplyTo(sent, session_->placement());
    reply.set_encoding(v1::FP16);
    const size_t count = reply.blocks(0).elements();
    const std::vector<float> numbers(count, 0.75f);
    Buffer payload = Buffer::Allocate(2 * count);
    EncodeNumbers(NumberFormat::kFp16, numbers.data(), count,
                  payload.mutable_bytes().data());
    Answer(sent, reply, {payload});
  }
  ASSERT_TRUE(session_->TakeFinished().has_value());
  EXPECT_EQ(weights_.variable(1)[2], 0.75f);
}

}  // namespace
}  // namespace paramd
