#include "net/grpc_status.h"

#include <string>

#include "gtest/gtest.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

TEST(GrpcStatusTest, CodeMessageAndRefusalSurviveBothWays) {
  const absl::Status status =
      RefuseForNow(v1::Refusal::WAIT, "worker-2", absl::Milliseconds(250),
                   "worker-2 is at clock 3");
  EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(status)), status);
  EXPECT_EQ(RefusalOf(FromGrpcStatus(ToGrpcStatus(status))).retry_after_ms(),
            250u);
  EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(absl::NotFoundError("x"))),
            absl::NotFoundError("x"));
  EXPECT_TRUE(FromGrpcStatus(ToGrpcStatus(absl::OkStatus())).ok());
  EXPECT_EQ(FromGrpcStatus(grpc::Status::CANCELLED).code(),
            absl::StatusCode::kUnavailable);
}

TEST(GrpcStatusTest, WhatNobodyDefinedIsUnknownWithoutDetails) {
  const grpc::Status odd(static_cast<grpc::StatusCode>(20), "?", "\xff\xff");
  EXPECT_EQ(FromGrpcStatus(odd), absl::UnknownError("?"));
}

TEST(GrpcStatusTest, AMessageIsCutToWhatFitsAHeader) {
  const std::string text(5000, 'x');
  EXPECT_EQ(ToGrpcStatus(absl::InternalError(text)).error_message().size(),
            2048u);
}

}  // namespace
}  // namespace paramd
