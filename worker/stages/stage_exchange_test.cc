#include "worker/stages/stage_exchange.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "worker/stages/sent_weights.h"
#include "worker/stages/stage_return.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

class StageExchangeTest : public ::testing::Test {
 protected:
  StageExchangeTest()
      : calls_({.index = 0, .incarnation = 7, .first = 0, .count = 1}),
        result_(6) {
    lane_.calls = &calls_;
    lane_.mini_batch = 3;
    lane_.piece_bytes = 8;
    AddArray(DType::kFloat32, {result_.size()}, &expected_);
    to_.push_back(AsWritableBytes(absl::MakeSpan(result_)));
  }

  StageExchange Exchange(std::vector<float> content) {
    numbers_.push_back(std::move(content));
    content_.Add(DType::kFloat32, {numbers_.back().size()},
                 AsBytes(absl::Span<const float>(numbers_.back())));
    v1::StageOperation operation;
    operation.mutable_update();
    return StageExchange(lane_, PeerId::Stage(0), /*number=*/2, operation,
                         content_, {&expected_, absl::MakeConstSpan(to_)});
  }
  // What goes out next, or null.
  template <class Request>
  static std::unique_ptr<Request> Take(StageExchange* exchange,
                                       BufferChain* payload = nullptr) {
    auto call = exchange->Next();
    if (!call.has_value()) return nullptr;
    auto* const request = dynamic_cast<Request*>(call->head.get());
    EXPECT_NE(request, nullptr);
    if (payload != nullptr) *payload = call->payload;
    return std::make_unique<Request>(*request);
  }
  static StageCalls::Answer State(v1::ComputeStageReply::State state) {
    auto reply = std::make_unique<v1::ComputeStageReply>();
    reply->set_state(state);
    return {absl::OkStatus(), std::move(reply), {}};
  }
  // The result's numbers [begin, end).
  static BufferChain Piece(int begin, int end) {
    std::vector<float> numbers;
    for (int i = begin; i < end; ++i) {
      numbers.push_back(static_cast<float>(i));
    }
    BufferChain piece;
    piece.push_back(Buffer::Copy(AsBytes(absl::Span<const float>(numbers))));
    return piece;
  }
  StageCalls::Answer DoneWith(int numbers) const {
    auto reply = std::make_unique<v1::ComputeStageReply>();
    reply->set_state(v1::ComputeStageReply::DONE);
    *reply->mutable_arrays() = expected_;
    reply->set_bytes(result_.size() * sizeof(float));
    return {absl::OkStatus(), std::move(reply), Piece(0, numbers)};
  }

  StageCalls calls_;
  LaneState lane_;
  std::vector<std::vector<float>> numbers_;  // Where the content lies.
  StageContent content_;
  std::vector<float> result_;
  StageArrays expected_;
  std::vector<absl::Span<std::byte>> to_;
};

TEST_F(StageExchangeTest, ItPutsItsContentAsksUntilItIsDoneAndFetchesTheRest) {
  StageExchange exchange = Exchange({1, 2, 3, 4});
  EXPECT_EQ(Take<v1::PutStageContentRequest>(&exchange)->offset(), 0u);
  EXPECT_EQ(Take<v1::PutStageContentRequest>(&exchange)->offset(), 8u);
  EXPECT_FALSE(exchange.Next().has_value());
  EXPECT_TRUE(exchange.Take(1, {absl::OkStatus(), nullptr, {}}).ok());
  EXPECT_FALSE(exchange.Next().has_value()) << "a piece is not there";
  EXPECT_TRUE(exchange.Take(0, {absl::OkStatus(), nullptr, {}}).ok());
  auto asked = Take<v1::ComputeStageRequest>(&exchange);
  EXPECT_EQ(asked->header().operation(), 2u);
  EXPECT_EQ(asked->header().mini_batch(), 3u);
  EXPECT_TRUE(exchange.Take(2, State(v1::ComputeStageReply::BUSY)).ok());
  asked = Take<v1::ComputeStageRequest>(&exchange);
  EXPECT_FALSE(asked->taken());
  EXPECT_TRUE(exchange.Take(3, State(v1::ComputeStageReply::TAKEN)).ok());
  asked = Take<v1::ComputeStageRequest>(&exchange);
  EXPECT_TRUE(asked->taken());
  EXPECT_FALSE(asked->has_operation());
  EXPECT_TRUE(exchange.Take(4, DoneWith(2)).ok());
  EXPECT_EQ(Take<v1::FetchStageResultRequest>(&exchange)->offset(), 8u);
  EXPECT_EQ(Take<v1::FetchStageResultRequest>(&exchange)->offset(), 16u);
  EXPECT_TRUE(exchange.Take(6, {absl::OkStatus(), nullptr, Piece(4, 6)}).ok());
  EXPECT_FALSE(exchange.is_done());
  EXPECT_TRUE(exchange.Take(5, {absl::OkStatus(), nullptr, Piece(2, 4)}).ok());
  EXPECT_TRUE(exchange.is_done());
  EXPECT_EQ(result_, (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

TEST_F(StageExchangeTest, ASmallContentGoesWithTheQuestionUntilItIsTaken) {
  StageExchange exchange = Exchange({1, 2});
  BufferChain payload;
  Take<v1::ComputeStageRequest>(&exchange, &payload);
  EXPECT_EQ(ChainSize(payload), 8u);
  EXPECT_TRUE(exchange.Take(0, State(v1::ComputeStageReply::TAKEN)).ok());
  Take<v1::ComputeStageRequest>(&exchange, &payload);
  EXPECT_EQ(ChainSize(payload), 0u);
}

TEST_F(StageExchangeTest, AFailureOrAnotherResultEndsIt) {
  StageExchange failed = Exchange({1, 2});
  Take<v1::ComputeStageRequest>(&failed);
  EXPECT_EQ(failed.Take(0, {absl::UnavailableError("lost"), nullptr, {}}),
            absl::UnavailableError("lost"));
  EXPECT_FALSE(failed.Next().has_value());
  EXPECT_FALSE(failed.is_done());
  content_ = StageContent();
  StageExchange other = Exchange({1, 2});
  Take<v1::ComputeStageRequest>(&other);
  EXPECT_THAT(other.Take(0, State(v1::ComputeStageReply::DONE)).message(),
              HasSubstr("computed nothing where float32 [6] was expected"));
}

TEST_F(StageExchangeTest, AnAbandonedStepIsNotAskedForAgain) {
  std::atomic<bool> abandoned{false};
  lane_.abandoned = &abandoned;
  StageExchange exchange = Exchange({1, 2});
  Take<v1::ComputeStageRequest>(&exchange);
  abandoned = true;
  EXPECT_EQ(exchange.Take(0, State(v1::ComputeStageReply::TAKEN)).code(),
            absl::StatusCode::kCancelled);
  EXPECT_FALSE(exchange.Next().has_value());
}

TEST(StageReturnTest, WhatMayPassIsLookedForUntilItsPatienceEnds) {
  const absl::Status lost = absl::UnavailableError("stage-0: lost");
  EXPECT_TRUE(CheckMayComeBack(lost).ok());
  StageLoss loss = {lost, 1, absl::Seconds(1), absl::Seconds(1)};
  ReturnVerdict verdict = JudgeReturn(loss, lost, absl::Seconds(2));
  EXPECT_TRUE(verdict.end.ok());
  EXPECT_FALSE(verdict.begins);
  verdict = JudgeReturn(loss, absl::OkStatus(), absl::Seconds(2));
  EXPECT_TRUE(verdict.begins);
  loss.waited = loss.since_first = absl::Seconds(2);
  verdict = JudgeReturn(loss, lost, absl::Seconds(2));
  EXPECT_EQ(verdict.end,
            absl::UnavailableError("waited 2s (start_timeout_ms) for a stage: "
                                   "stage-0: lost"));
}

TEST(StageReturnTest, EachLossOfALongMiniBatchIsWaitedForAnew) {
  const absl::Status lost = absl::UnavailableError("stage-0: lost");
  StageLoss loss = {lost, 2, absl::Seconds(1), absl::Minutes(9)};
  EXPECT_TRUE(JudgeReturn(loss, lost, absl::Seconds(2)).end.ok());
  EXPECT_TRUE(JudgeReturn(loss, absl::OkStatus(), absl::Seconds(2)).begins);
  loss.waited = absl::Seconds(2);
  EXPECT_FALSE(JudgeReturn(loss, lost, absl::Seconds(2)).end.ok());
}

TEST(StageReturnTest, AStageThatAnswersAndFailsForeverEndsTheWorker) {
  const absl::Status lost = absl::UnavailableError("stage-0: no memory");
  StageLoss loss = {lost, kMostLosses, absl::Seconds(0), absl::Minutes(9)};
  EXPECT_TRUE(JudgeReturn(loss, absl::OkStatus(), absl::Seconds(2)).begins);
  ++loss.times;
  EXPECT_EQ(JudgeReturn(loss, absl::OkStatus(), absl::Seconds(2)).end,
            absl::UnavailableError("a batch failed 11 times in 9m, each time "
                                   "at a stage, whose log may say why: "
                                   "stage-0: no memory"));
  // So often at once, while all of them come back one after the other.
  loss.since_first = absl::Seconds(1);
  EXPECT_TRUE(JudgeReturn(loss, absl::OkStatus(), absl::Seconds(2)).begins);
}

TEST(StageReturnTest, WhatDoesNotPassEndsTheWorker) {
  EXPECT_EQ(CheckMayComeBack(Refuse(v1::Refusal::OTHER_JOB, "job", "another")),
            absl::InvalidArgumentError("another"));
  EXPECT_EQ(CheckMayComeBack(Refuse(v1::Refusal::FENCED, "worker", "newer")),
            absl::AbortedError("newer"));
  EXPECT_EQ(CheckMayComeBack(absl::InternalError("odd")),
            absl::InternalError("odd"));
}

TEST(SentWeightsTest, TheSameAreSentOnceOfAModelThatEvaluates) {
  const std::vector<float> one = {1, 2}, other = {1, 3};
  const std::vector<absl::Span<const float>> ones = {one}, others = {other};
  SentWeights sent;
  EXPECT_FALSE(sent.Begin(ones)) << "it may be one that trains";
  sent.Begun(true, ones);
  EXPECT_FALSE(sent.Begin(ones));
  sent.Begun(true, ones);
  EXPECT_TRUE(sent.Begin(ones));
  sent.Begun(true, ones);
  EXPECT_FALSE(sent.Begin(others));
  sent.Begun(true, others);
  EXPECT_TRUE(sent.Begin(others));
  sent.Begun(false, others);
  EXPECT_FALSE(sent.Begin(others)) << "the stage may not have them";
}

}  // namespace
}  // namespace paramd
