#include "worker/stages/stage_core.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/testing/core_driver.h"
#include "proto/job_end.h"
#include "proto/refusal.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLease = absl::Seconds(10);

class StageCoreTest : public ::testing::Test {
 protected:
  StageCoreTest()
      : core_({.index = 3,
               .worker = 1,
               .build = "b1",
               .start_timeout = absl::Seconds(60),
               .lease = kLease}),
        driver_(&core_) {
    driver_.Start();
  }

  static v1::StageHeader Header(uint64_t mini_batch, uint64_t operation) {
    v1::StageHeader header;
    header.set_worker(1);
    header.set_incarnation(7);
    header.mutable_generation()->set_term(1);
    header.mutable_generation()->set_counter(4);
    header.set_mini_batch(mini_batch);
    header.set_operation(operation);
    return header;
  }
  static v1::ComputeStageRequest Begin(uint64_t mini_batch) {
    v1::ComputeStageRequest request;
    *request.mutable_header() = Header(mini_batch, 1);
    request.mutable_operation()->mutable_begin()->set_build("b1");
    return request;
  }
  static v1::ComputeStageRequest Update(uint64_t mini_batch,
                                        uint64_t operation) {
    v1::ComputeStageRequest request;
    *request.mutable_header() = Header(mini_batch, operation);
    request.mutable_operation()->mutable_update();
    return request;
  }

  CallId Call(const google::protobuf::Message& request) {
    return driver_.Begin(PeerId::Worker(1), request);
  }
  v1::ComputeStageReply::State StateOf(CallId call) {
    const auto answer = driver_.Take(call);
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    if (!answer.status.ok()) return v1::ComputeStageReply::STATE_UNSPECIFIED;
    return static_cast<const v1::ComputeStageReply&>(*answer.head).state();
  }
  absl::Status RefusalOfCall(const google::protobuf::Message& request) {
    const CallId call = Call(request);
    EXPECT_TRUE(driver_.answered(call));
    return driver_.Take(call).status;
  }
  // The work that was asked for has ended.
  void End(absl::Status status = absl::OkStatus()) {
    const auto io = driver_.TakeIo<v1::ComputeStageRequest>();
    ASSERT_TRUE(io.has_value());
    driver_.End(io->first, std::move(status),
                std::make_unique<v1::ComputeStageReply>());
  }

  StageCore core_;
  testing::CoreDriver driver_;
};

TEST_F(StageCoreTest, AnOperationIsComputedOnceHoweverOftenItIsAskedFor) {
  const CallId first = Call(Begin(1));
  EXPECT_FALSE(driver_.answered(first));
  driver_.Advance(StageCore::kPatience);
  EXPECT_EQ(StateOf(first), v1::ComputeStageReply::TAKEN);
  v1::ComputeStageRequest again = Begin(1);
  again.set_taken(true);
  const CallId second = Call(again);
  End();
  EXPECT_EQ(StateOf(second), v1::ComputeStageReply::DONE);
  EXPECT_EQ(StateOf(Call(again)), v1::ComputeStageReply::DONE);
  EXPECT_FALSE(driver_.TakeIo<v1::ComputeStageRequest>().has_value());
}

TEST_F(StageCoreTest, ADeviceThatIsLostIsToldAndEndsItsProcess) {
  const CallId first = Call(Begin(1));
  End(RefuseForNow(v1::Refusal::NOT_READY, "stage-3", absl::Seconds(1), "new"));
  EXPECT_EQ(RefusalOf(driver_.Take(first).status).reason(),
            v1::Refusal::NOT_READY);
  EXPECT_FALSE(driver_.exited);
  const CallId second = Call(Begin(2));
  End(absl::UnavailableError("cuda:0 is lost"));
  const absl::Status lost = absl::UnavailableError("stage-3: cuda:0 is lost");
  EXPECT_EQ(driver_.Take(second).status, lost);
  ASSERT_TRUE(driver_.exited);
  EXPECT_EQ(driver_.exit_status, lost);
}

TEST_F(StageCoreTest, WhatIsNotNextBeginsAnew) {
  EXPECT_EQ(RefusalOf(RefusalOfCall(Update(1, 2))).reason(),
            v1::Refusal::NOT_READY);
  Call(Begin(1));
  End();
  EXPECT_THAT(RefusalOfCall(Update(1, 3)).message(),
              HasSubstr("stage-3 does not have the operations before this one: "
                        "the mini-batch begins anew"));
  v1::FetchStageResultRequest fetch;
  *fetch.mutable_header() = Header(1, 2);
  EXPECT_EQ(RefusalOf(RefusalOfCall(fetch)).reason(), v1::Refusal::NOT_READY);
  const CallId next = Call(Update(1, 2));
  End();
  EXPECT_EQ(StateOf(next), v1::ComputeStageReply::DONE);
}

TEST_F(StageCoreTest, ALaterMiniBatchWaitsForWhatNobodyWantsAnyMore) {
  Call(Begin(1));
  const CallId later = Call(Begin(2));
  EXPECT_FALSE(driver_.answered(later));
  End();
  EXPECT_EQ(StateOf(later), v1::ComputeStageReply::BUSY);
  const CallId again = Call(Begin(2));
  End();
  EXPECT_EQ(StateOf(again), v1::ComputeStageReply::DONE);
  EXPECT_EQ(RefusalOf(RefusalOfCall(Begin(1))).reason(),
            v1::Refusal::SUPERSEDED);
}

TEST_F(StageCoreTest, TheErrorOfAnOperationIsItsAnswer) {
  const CallId call = Call(Begin(1));
  End(absl::InvalidArgumentError("no such layer"));
  EXPECT_EQ(driver_.Take(call).status,
            absl::InvalidArgumentError("stage-3: no such layer"));
}

TEST_F(StageCoreTest, AnotherBuildIsRefused) {
  v1::ComputeStageRequest request = Begin(1);
  request.mutable_operation()->mutable_begin()->set_build("b2");
  const absl::Status status = RefusalOfCall(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              HasSubstr("stage-3 is another build of paramd than worker-1"));
}

TEST_F(StageCoreTest, AnotherWorkerIsRefusedByName) {
  v1::ComputeStageRequest request = Begin(1);
  request.mutable_header()->set_worker(0);
  const CallId call = driver_.Begin(PeerId::Worker(0), request);
  const absl::Status status = driver_.Take(call).status;
  EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::OTHER_JOB);
  EXPECT_THAT(status.message(), HasSubstr("stage-3 computes for worker-1; the "
                                          "caller is worker-0"));
  // And who says that it is another one.
  EXPECT_EQ(
      RefusalOf(driver_.Take(driver_.Begin(PeerId::Worker(0), Begin(1))).status)
          .reason(),
      v1::Refusal::INVALID);
}

TEST_F(StageCoreTest, ANewerProcessTakesThePlaceOfALivingOneAndNoOlderDoes) {
  const CallId left = Call(Begin(5));
  v1::ComputeStageRequest older = Begin(1);
  older.mutable_header()->set_incarnation(6);
  older.mutable_header()->mutable_generation()->set_counter(3);
  EXPECT_EQ(RefusalOf(RefusalOfCall(older)).reason(), v1::Refusal::FENCED);
  v1::ComputeStageRequest newer = Begin(1);
  newer.mutable_header()->set_incarnation(8);
  newer.mutable_header()->mutable_generation()->set_counter(5);
  const CallId taken = Call(newer);
  EXPECT_EQ(RefusalOf(driver_.Take(left).status).reason(), v1::Refusal::FENCED);
  End();  // Of the first one: nobody hears of it.
  EXPECT_FALSE(driver_.answered(taken));
  End();
  EXPECT_EQ(StateOf(taken), v1::ComputeStageReply::DONE);
  EXPECT_EQ(RefusalOf(RefusalOfCall(Begin(6))).reason(), v1::Refusal::FENCED);
}

TEST_F(StageCoreTest, WeightsThatAreThereAreOfTheOwnerThatSentThem) {
  v1::ComputeStageRequest same = Begin(6);
  same.mutable_operation()->mutable_begin()->set_same_weights(true);
  Call(Begin(5));
  End();
  const CallId kept = Call(same);
  End();
  EXPECT_EQ(StateOf(kept), v1::ComputeStageReply::DONE);
  // Another process of its worker computes meanwhile.
  v1::ComputeStageRequest newer = Begin(1);
  newer.mutable_header()->set_incarnation(8);
  newer.mutable_header()->mutable_generation()->set_counter(5);
  Call(newer);
  End();
  driver_.StandStill(kLease + absl::Seconds(1));
  same.mutable_header()->set_mini_batch(7);
  const absl::Status status = RefusalOfCall(same);
  EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::NOT_READY);
  EXPECT_THAT(status.message(), HasSubstr("the weights of stage 0"));
}

TEST_F(StageCoreTest, APieceThatComesTwiceIsThereOnce) {
  const std::string bytes(128, 'x');
  v1::PutStageContentRequest put;
  *put.mutable_header() = Header(1, 1);
  put.set_bytes(bytes.size());
  const auto piece = [&](uint64_t offset) {
    put.set_offset(offset);
    Message message;
    message.from = PeerId::Worker(1);
    message.head = &put;
    message.payload.push_back(Buffer::Copy(bytes.substr(offset, 64)));
    Outbox out;
    core_.Receive(std::move(message), driver_.now(), &out);
    return out.replies.at(0).status;
  };
  v1::ComputeStageRequest begin = Begin(1);
  v1::StageArray* const array = begin.mutable_operation()->add_arrays();
  array->set_dtype(static_cast<uint32_t>(DType::kFloat32));
  array->add_dims(bytes.size() / sizeof(float));
  EXPECT_TRUE(piece(0).ok());
  EXPECT_TRUE(piece(0).ok());
  EXPECT_THAT(RefusalOfCall(begin).message(),
              HasSubstr("all of the operation's content"));
  EXPECT_TRUE(piece(64).ok());
  const CallId whole = Call(begin);
  End();
  EXPECT_EQ(StateOf(whole), v1::ComputeStageReply::DONE);
}

TEST_F(StageCoreTest, OneThatHasNotCalledForALeaseIsFollowedByAnybody) {
  Call(Begin(5));
  End();
  driver_.StandStill(kLease + absl::Seconds(1));
  v1::ComputeStageRequest other = Begin(1);
  other.mutable_header()->set_incarnation(6);
  other.mutable_header()->clear_generation();
  const CallId call = Call(other);
  End();
  EXPECT_EQ(StateOf(call), v1::ComputeStageReply::DONE);
}

TEST_F(StageCoreTest, Promise4_ItWaitsForItsWorkerAndNamesIt) {
  EXPECT_EQ(core_.overdue(driver_.now()), "worker-1");
  driver_.Advance(absl::Seconds(60));
  ASSERT_TRUE(driver_.exited);
  EXPECT_EQ(driver_.exit_status,
            absl::UnavailableError("waited 1m (start_timeout_ms) for the first "
                                   "call of worker-1"));
}

TEST_F(StageCoreTest, AGreetingIsEnoughToWaitForLonger) {
  v1::GreetStageRequest greet;
  *greet.mutable_header() = Header(0, 0);
  EXPECT_TRUE(driver_.Call(PeerId::Worker(1), greet).status.ok());
  driver_.Advance(absl::Minutes(9));
  EXPECT_FALSE(driver_.exited);
  EXPECT_EQ(core_.overdue(driver_.now()),
            "worker-1, which has not called for a while");
  EXPECT_TRUE(driver_.Call(PeerId::Worker(1), greet).status.ok());
  EXPECT_EQ(core_.overdue(driver_.now()), "worker-1 to train");
}

TEST_F(StageCoreTest, Promise4_AWorkerThatNeverComesBackIsNotWaitedForForever) {
  Call(Begin(1));
  End();
  driver_.Advance(absl::Minutes(9));
  // One whom it does not serve is not the one that it waits for.
  v1::GreetStageRequest greet;
  *greet.mutable_header() = Header(0, 0);
  greet.mutable_header()->set_worker(0);
  EXPECT_FALSE(driver_.Call(PeerId::Worker(0), greet).status.ok());
  EXPECT_FALSE(driver_.exited);
  driver_.Advance(absl::Minutes(1));
  ASSERT_TRUE(driver_.exited);
  EXPECT_EQ(driver_.exit_status,
            absl::UnavailableError("stage-3 has not heard of worker-1 for 10m: "
                                   "is it running?"));
}

TEST_F(StageCoreTest, Promise5_OneThatStoodStillDoesNotBlameItsWorker) {
  Call(Begin(1));
  End();
  driver_.StandStill(absl::Minutes(20));
  driver_.Tick();
  driver_.Advance(absl::Minutes(9));
  EXPECT_FALSE(driver_.exited);
  driver_.Advance(absl::Minutes(1));
  EXPECT_TRUE(driver_.exited) << "it has had time to call";
}

TEST_F(StageCoreTest, Promise7_ItEndsAsItsWorkerSaysThatTheJobDoes) {
  v1::ReleaseStageRequest release;
  *release.mutable_header() = Header(0, 0);
  *release.mutable_finished() =
      ToFinished(absl::InvalidArgumentError("a wrong file"));
  EXPECT_TRUE(driver_.Call(PeerId::Worker(1), release).status.ok());
  EXPECT_TRUE(driver_.exited);
  EXPECT_EQ(driver_.exit_status, absl::InvalidArgumentError("a wrong file"));
}

}  // namespace
}  // namespace paramd
