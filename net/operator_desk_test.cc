#include "net/operator_desk.h"

#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/mutex.h"
#include "net/in_process_runtime.h"
#include "net/operator_socket.h"
#include "net/testing/raw_caller.h"
#include "net/testing/toy_core.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr char kSet[] = "/paramd.v1.Coordinator/Set";
constexpr char kStopJob[] = "/paramd.v1.Coordinator/StopJob";

// A coordinator in a process without a transport, and the desk before it.
class OperatorDeskTest : public ::testing::Test {
 protected:
  OperatorDeskTest()
      : socket_(
            absl::StrCat(::testing::TempDir(), "/desk-", getpid(), ".sock")) {
    coordinator_.on_receive = [this](Message message, Time, Outbox* out) {
      const auto* set = dynamic_cast<const v1::SetRequest*>(message.head);
      if (set == nullptr) {
        out->Reply(message.call, std::make_unique<v1::StopJobReply>());
        out->Exit(absl::OkStatus());
      } else if (set->value() == "wrong") {
        out->Refuse(message.call,
                    Refuse(v1::Refusal::INVALID, "staleness", "no"));
      } else {
        {
          const MutexLock lock(&mutex_);
          asked_by_.push_back(set->origin().who());
        }
        auto reply = std::make_unique<v1::SetReply>();
        reply->set_value(set->value());
        out->Reply(message.call, std::move(reply));
      }
    };
    behind_->AddCore(PeerId::Coordinator(), &coordinator_);
    GrpcRuntimeOptions options;
    options.operator_socket = socket_;
    options.job_name = "job";
    auto desk = OperatorDesk::Open(std::move(options), behind_.get());
    EXPECT_TRUE(desk.ok()) << desk.status();
    if (desk.ok()) desk_ = *std::move(desk);
    runs_ = std::thread([this] {
      behind_->Run().IgnoreError();
      desk_.reset();
    });
  }
  ~OperatorDeskTest() override {
    behind_->Stop(absl::OkStatus());
    runs_.join();
  }

  absl::StatusOr<std::string> Call(const char* method,
                                   const google::protobuf::Message& request) {
    const auto address = OperatorAddress::Of(socket_);
    if (!address.ok()) return address.status();
    return RawCaller((*address)->target())
        .Call(method, "operator/0", request.SerializeAsString());
  }

  const std::string socket_;
  ToyCore coordinator_;
  Mutex mutex_;
  std::vector<std::string> asked_by_ ABSL_GUARDED_BY(mutex_);
  const std::unique_ptr<Runtime> behind_ = MakeInProcessRuntime();
  std::unique_ptr<OperatorDesk> desk_;
  std::thread runs_;
};

TEST_F(OperatorDeskTest, WhatItIsAskedTheCoordinatorBehindItAnswers) {
  v1::SetRequest set;
  set.set_value("8");
  set.mutable_origin()->set_who("somebody else");
  const auto answer = Call(kSet, set);
  ASSERT_TRUE(answer.ok()) << answer.status();
  v1::SetReply reply;
  ASSERT_TRUE(reply.ParseFromString(*answer));
  EXPECT_EQ(reply.value(), "8");
  {
    const MutexLock lock(&mutex_);
    EXPECT_THAT(asked_by_,
                ::testing::ElementsAre(absl::StrCat("uid ", getuid())));
  }
  set.set_value("wrong");
  EXPECT_EQ(Call(kSet, set).status().message(), "no");
}

TEST_F(OperatorDeskTest, TheLastAnswerIsSentThoughAllEnds) {
  EXPECT_TRUE(Call(kStopJob, v1::StopJobRequest()).ok());
}

}  // namespace
}  // namespace paramd
