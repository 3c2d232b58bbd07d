#include "net/blocking_call.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "net/testing/grpc_runtime_test_base.h"
#include "proto/paramd/v1/membership.pb.h"

namespace paramd {
namespace {

using testing::ProcessOptions;
using testing::RunningProcess;

constexpr absl::Duration kDeadline = absl::Seconds(20);

// Answers beats with a round, and pieces of a state with some bytes.
absl::StatusOr<ProcessAnswer> Answered(
    const google::protobuf::Message& request) {
  ProcessAnswer answer;
  if (request.GetDescriptor() == v1::ReadStateRequest::descriptor()) {
    answer.head = std::make_unique<v1::ReadStateReply>();
    answer.payload = {Buffer::Copy("some"), Buffer::Copy(" bytes")};
    return answer;
  }
  const auto& beat = static_cast<const v1::BeatRequest&>(request);
  if (beat.worker() == 5) return absl::InvalidArgumentError("there is none");
  auto reply = std::make_unique<v1::BeatReply>();
  reply->set_round(beat.worker() + 10);
  answer.head = std::move(reply);
  return answer;
}

class BlockingCallTest : public ::testing::Test {
 protected:
  // A process that has a core, as each has.
  void Start(ProcessCalls calls) {
    GrpcRuntimeOptions options = ProcessOptions(v1::WORKER, 0, address_);
    options.process_calls = std::move(calls);
    auto runtime = MakeGrpcRuntime(std::move(options));
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    process_ = std::make_unique<RunningProcess>(*std::move(runtime));
    process_->runtime().AddCore(PeerId::Worker(0), &core_);
    process_->Start();
  }

  const std::string address_ = absl::StrCat(DrawLoopbackHost(), ":2222");
  ToyCore core_;
  std::unique_ptr<RunningProcess> process_;
  BlockingCaller caller_{PeerId::Worker(1), address_};
};

TEST_F(BlockingCallTest, WhatIsForTheProcessIsAnsweredWithItsPayload) {
  Start(Answered);
  v1::BeatRequest beat;
  beat.set_worker(1);
  const auto reply = caller_.Call(beat, kDeadline);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(static_cast<const v1::BeatReply&>(*reply->head).round(), 11u);
  const auto state = caller_.Call(v1::ReadStateRequest(), kDeadline);
  ASSERT_TRUE(state.ok()) << state.status();
  size_t bytes = 0;
  for (const Buffer& piece : state->payload) bytes += piece.size();
  EXPECT_EQ(bytes, 10u);
}

TEST_F(BlockingCallTest, ARefusalIsThatOfWhoeverAnswers) {
  Start(Answered);
  v1::BeatRequest beat;
  beat.set_worker(5);
  const auto reply = caller_.Call(beat, kDeadline);
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(reply.status().message(), "there is none");
}

TEST_F(BlockingCallTest, AProcessThatServesNoneSaysSo) {
  Start(nullptr);
  EXPECT_EQ(caller_.Call(v1::BeatRequest(), kDeadline).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST_F(BlockingCallTest, NobodyThereIsUnavailableAndNamed) {
  const auto reply = caller_.Call(v1::BeatRequest(), kDeadline);
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(reply.status().message(), absl::StrCat(address_, ": refused"));
}

}  // namespace
}  // namespace paramd
