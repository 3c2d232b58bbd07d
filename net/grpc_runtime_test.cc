// What only the network can do to a process: who calls, who answers, who has
// gone. What every runtime promises is in runtime_test.cc.
#include "net/grpc_runtime.h"

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "base/chrome_trace.h"
#include "net/caller.h"
#include "net/operator_socket.h"
#include "net/testing/grpc_runtime_test_base.h"
#include "net/testing/raw_caller.h"
#include "net/testing/raw_stream.h"
#include "proto/grpc/health/v1/health.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using testing::kIncarnation;
using testing::kPull;
using testing::kPush;
using testing::OperatorSocketOf;
using testing::ProcessOptions;
using testing::RunningProcess;

constexpr char kSeal[] = "/paramd.v1.ParameterServer/Seal";
constexpr char kHello[] = "/paramd.v1.Control/Hello";
constexpr char kStatus[] = "/paramd.v1.Control/Status";
constexpr char kStop[] = "/paramd.v1.Control/Stop";
constexpr char kCheck[] = "/grpc.health.v1.Health/Check";

using GrpcRuntimeTest = testing::GrpcRuntimeTestBase;

TEST_F(GrpcRuntimeTest, AWrongRoleIsRefusedByName) {
  ps_->Start();
  RawCaller caller(ps_address_, ProcessText(kIncarnation));
  const absl::Status seal = caller.Call(kSeal, "worker/1", "").status();
  EXPECT_EQ(seal.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(RefusalOf(seal).reason(), v1::Refusal::NOT_ALLOWED);
  EXPECT_EQ(seal.message(), "Seal is for chief; the caller is worker");
  EXPECT_EQ(caller.Call(kPush, "", "").status().message(),
            "Push is for worker or chief; the caller is anyone");
  EXPECT_EQ(caller.Call(kPush, "worker/x", "").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(caller.Call(kPush, "worker/1", "").ok());
  EXPECT_TRUE(caller.Call(kPull, "", "").ok());
  ps_->Stop();
  EXPECT_EQ(ps_->Wait().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(received_, 2);
}

TEST_F(GrpcRuntimeTest, Promise1_ACallForAnotherProcessReachesNoCore) {
  ps_->Start();
  RawCaller caller(ps_address_, ProcessText(kIncarnation + 1));
  for (const char* who : {"worker/1", ""}) {
    const absl::Status refused = caller.Call(kPull, who, "").status();
    EXPECT_TRUE(IsForAnotherProcess(refused)) << refused;
  }
  EXPECT_EQ(
      RefusalOf(RawCaller(ps_address_).Call(kPush, "worker/1", "").status())
          .reason(),
      v1::Refusal::INVALID);
  ps_->Stop();
  EXPECT_EQ(ps_->Wait().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(received_, 0);
}

// Two tasks of two shards: this is the second one, with ps 2 and 3.
TEST(GrpcRuntimeShardsTest, ACallReachesTheShardThatItMeans) {
  const std::string host = DrawLoopbackHost();
  const auto options = [&](v1::TaskType type, uint32_t index, int port) {
    GrpcRuntimeOptions made =
        ProcessOptions(type, index, absl::StrCat(host, ":", port));
    made.shards_per_server = 2;
    return made;
  };
  auto runtime = MakeGrpcRuntime(options(v1::PS, 1, 2222));
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  ToyCore shards[2];
  RunningProcess ps(*std::move(runtime));
  for (uint32_t shard : {0, 1}) {
    ps.runtime().AddCore(PeerId::Ps(2 + shard), &shards[shard]);
    shards[shard].on_receive = [shard](Message m, Time, Outbox* out) {
      auto reply = std::make_unique<v1::PullReply>();
      reply->mutable_server_generation()->set_counter(shard);
      out->Reply(m.call, std::move(reply));
    };
  }
  ps.Start();

  GrpcRuntimeOptions worker_options = options(v1::WORKER, 0, 2223);
  for (uint32_t server : {2, 3}) {
    worker_options.peers[PeerId::Ps(server)] = absl::StrCat(host, ":2222");
  }
  auto worker_runtime = MakeGrpcRuntime(worker_options);
  ASSERT_TRUE(worker_runtime.ok()) << worker_runtime.status();
  ToyCore worker;
  std::map<CallId, uint64_t> answered;
  worker.on_start = [&](Time, Outbox* out) {
    for (uint32_t server : {2, 3}) {
      out->Send(PeerId::Ps(server), server, std::make_unique<v1::PullRequest>(),
                {}, absl::Seconds(60));
    }
  };
  worker.on_receive = [&](Message m, Time, Outbox* out) {
    EXPECT_TRUE(m.status.ok()) << m.status;
    if (!m.status.ok()) return out->Exit(m.status);
    answered[m.call] = static_cast<const v1::PullReply*>(m.head)
                           ->server_generation()
                           .counter();
    if (answered.size() == 2) out->Exit(absl::OkStatus());
  };
  (*worker_runtime)->AddCore(PeerId::Worker(0), &worker);
  EXPECT_TRUE((*worker_runtime)->Run().ok());
  EXPECT_EQ(answered[2], 0u);
  EXPECT_EQ(answered[3], 1u);

  // Who says nothing means the first.
  RawCaller caller(absl::StrCat(host, ":2222"));
  EXPECT_TRUE(caller.Call(kPull, "", "").ok());
}

TEST(GrpcRuntimeTraceTest, ARecordingHasTheCallsThatComeMeanwhile) {
  const std::string address = absl::StrCat(DrawLoopbackHost(), ":2222");
  ChromeTrace trace("", 0, ChromeTrace::Keeps::kWhatIsAskedFor);
  GrpcRuntimeOptions options = ProcessOptions(v1::PS, 0, address);
  options.trace = &trace;
  auto runtime = MakeGrpcRuntime(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  ToyCore core;
  RunningProcess ps(*std::move(runtime));
  ps.runtime().AddCore(PeerId::Ps(0), &core);
  core.on_receive = [](Message m, Time, Outbox* out) {
    if (m.head->GetDescriptor() == v1::PullRequest::descriptor()) {
      return out->Reply(m.call, std::make_unique<v1::PullReply>());
    }
    out->Reply(m.call, std::make_unique<v1::PushReply>());
  };
  ps.Start();
  RawCaller caller(address, ProcessText(kIncarnation));
  EXPECT_TRUE(caller.Call(kPull, "worker/1", "").ok());
  trace.Record(Time::Never());
  v1::PushRequest push;
  push.mutable_header()->set_request_id(71);
  EXPECT_TRUE(caller.Call(kPush, "worker/1", push.SerializeAsString()).ok());
  const ChromeTrace::Recording recording = trace.TakeRecording();
  ASSERT_EQ(recording.events.size(), 1u);
  const ChromeTrace::Event& event = recording.events[0];
  EXPECT_STREQ(event.name, "Push");
  EXPECT_EQ(event.lane, ChromeTrace::Lane::kCalls);
  EXPECT_LE(event.begin, event.end);
  ASSERT_EQ(event.flows.size(), 1u);
  EXPECT_EQ(event.flows[0].id, 71u);
}

TEST(GrpcRuntimeShardsTest, AShardThatEndsBeforeTheOthersIsNotReadyAnyMore) {
  const std::string address = absl::StrCat(DrawLoopbackHost(), ":2222");
  GrpcRuntimeOptions options = ProcessOptions(v1::PS, 1, address);
  options.shards_per_server = 2;
  auto runtime = MakeGrpcRuntime(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  ToyCore shards[2];
  RunningProcess ps(*std::move(runtime));
  for (uint32_t shard : {0, 1}) {
    ps.runtime().AddCore(PeerId::Ps(2 + shard), &shards[shard]);
  }
  shards[0].on_receive = [](Message m, Time, Outbox* out) {
    out->Reply(m.call, std::make_unique<v1::PullReply>());
    out->Exit(absl::OkStatus());
  };
  ps.Start();
  RawCaller caller(address, ProcessText(kIncarnation));
  EXPECT_TRUE(caller.Call(kPull, "", "").ok());
  const absl::Status ended = caller.Call(kPull, "", "").status();
  EXPECT_EQ(RefusalOf(ended).reason(), v1::Refusal::NOT_READY) << ended;
  EXPECT_EQ(ended.message(),
            "ps-2 has ended; the others of its process have not yet");
}

TEST_F(GrpcRuntimeTest, WhatTheProcessDoesNotServeIsUnimplemented) {
  ps_->Start();
  RawCaller caller(ps_address_, ProcessText(kIncarnation));
  EXPECT_EQ(
      caller.Call("/paramd.v1.Coordinator/Heartbeat", "worker/1", "").status(),
      absl::UnimplementedError(
          "Heartbeat is served by coordinator; this is ps-0"));
  EXPECT_EQ(
      caller.Call("/paramd.v1.ParameterServer/Nothing", "", "").status().code(),
      absl::StatusCode::kUnimplemented);
}

TEST_F(GrpcRuntimeTest, AnotherJobIsRefusedByNameOnBothSides) {
  ps_->Start();
  GrpcRuntimeOptions other = ProcessOptions(v1::WORKER, 1, "");
  other.job_digest = "bbbb";
  other.job_settings = {"seed=2"};
  PullUntil(other, [&](const Message& m) {
    EXPECT_EQ(RefusalOf(m.status).reason(), v1::Refusal::OTHER_JOB);
    EXPECT_EQ(RefusalOf(m.status).entity(), "seed");
    EXPECT_EQ(m.status.message(),
              absl::StrCat("ps-0 at ", ps_address_,
                           ": the same job with another job file answers: seed "
                           "differs: worker-1 has '2', ps-0 has '1'; give "
                           "every process the same one"));
    return true;
  });
  GrpcRuntimeOptions same = ProcessOptions(v1::WORKER, 1, "");
  PullUntil(same, [](const Message& m) {
    EXPECT_TRUE(m.status.ok()) << m.status;
    return true;
  });
}

TEST_F(GrpcRuntimeTest, AStrangerWithoutACommonProtocolIsRefused) {
  ps_->Start();
  v1::HelloRequest hello;
  hello.set_protocol_min(2);
  hello.set_protocol_max(3);
  const absl::Status refused =
      RawCaller(ps_address_)
          .Call(kHello, "worker/4", hello.SerializeAsString())
          .status();
  EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::PROTOCOL);
  EXPECT_EQ(refused.message(),
            "no common protocol: the caller speaks 2 to 3, ps-0 speaks 1 to 1");
}

TEST_F(GrpcRuntimeTest, SomebodyElseAtThePeersAddressIsNotTalkedTo) {
  ToyCore shard;
  shard.on_receive = [](Message, Time, Outbox*) { ADD_FAILURE(); };
  auto runtime =
      MakeGrpcRuntime(ProcessOptions(v1::PS, 1, absl::StrCat(host_, ":2224")));
  ASSERT_TRUE(runtime.ok());
  RunningProcess other(*std::move(runtime));
  other.runtime().AddCore(PeerId::Ps(1), &shard);
  other.Start();
  ps_address_ = absl::StrCat(host_, ":2224");
  PullUntil(ProcessOptions(v1::WORKER, 1, ""), [&](const Message& m) {
    EXPECT_EQ(RefusalOf(m.status).reason(), v1::Refusal::OTHER_JOB);
    EXPECT_EQ(m.status.message(),
              absl::StrCat("ps-0 at ", ps_address_,
                           ": another task answers: ps-1 instead of ps-0"));
    return true;
  });
}

TEST_F(GrpcRuntimeTest, APeerThatComesLaterIsReached) {
  bool refused = false;
  // Nobody listens at first.
  ps_.reset();
  PullUntil(ProcessOptions(v1::WORKER, 1, ""), [&](const Message& m) {
    if (m.status.ok()) return true;
    EXPECT_EQ(m.status.code(), absl::StatusCode::kUnavailable);
    if (!refused) {
      refused = true;
      auto runtime = MakeGrpcRuntime(ProcessOptions(v1::PS, 0, ps_address_));
      if (!runtime.ok()) {
        ADD_FAILURE() << runtime.status();
        return true;
      }
      ps_ = std::make_unique<RunningProcess>(*std::move(runtime));
      ps_->runtime().AddCore(PeerId::Ps(0), &shard_);
      ps_->Start();
    }
    return false;
  });
  EXPECT_TRUE(refused);
}

TEST_F(GrpcRuntimeTest, APeerThatStartsAnewIsGreetedAgain) {
  ps_->Start();
  bool replaced = false;
  PullUntil(ProcessOptions(v1::WORKER, 1, ""), [&](const Message& m) {
    if (!replaced) {
      EXPECT_TRUE(m.status.ok()) << m.status;
      replaced = true;
      ps_.reset();
      GrpcRuntimeOptions options = ProcessOptions(v1::PS, 0, ps_address_);
      options.job_digest = "eeee";
      auto runtime = MakeGrpcRuntime(options);
      if (!runtime.ok()) {
        ADD_FAILURE() << runtime.status();
        return true;
      }
      ps_ = std::make_unique<RunningProcess>(*std::move(runtime));
      ps_->runtime().AddCore(PeerId::Ps(0), &shard_);
      ps_->Start();
      return false;
    }
    EXPECT_FALSE(m.status.ok());
    return RefusalOf(m.status).reason() == v1::Refusal::OTHER_JOB;
  });
}

TEST_F(GrpcRuntimeTest, StatusSaysWhoIsThereAndWhatTheFillersSay) {
  ps_->runtime().OnStatus(
      [](v1::StatusReply* reply) { reply->mutable_server()->set_pulls(5); });
  ps_->Start();
  const auto bytes = RawCaller(ps_address_).Call(kStatus, "", "");
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  v1::StatusReply status;
  ASSERT_TRUE(status.ParseFromString(*bytes));
  EXPECT_EQ(status.task().type(), v1::PS);
  EXPECT_EQ(status.incarnation(), 77u);
  EXPECT_EQ(status.server().pulls(), 5u);
}

TEST_F(GrpcRuntimeTest, AServerIsRestoredWhenItsStatusSaysSo) {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service("restored");
  const auto check = [&request](const std::string& address) {
    const auto bytes =
        RawCaller(address).Call(kCheck, "", request.SerializeAsString());
    grpc::health::v1::HealthCheckResponse response;
    EXPECT_TRUE(response.ParseFromString(bytes.value_or(""))) << bytes.status();
    return response.status();
  };
  bool restored = false;
  ps_->runtime().OnStatus([&restored](v1::StatusReply* reply) {
    reply->mutable_server()->set_restored(restored);
    restored = true;
  });
  ps_->Start();
  EXPECT_EQ(check(ps_address_),
            grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(check(ps_address_), grpc::health::v1::HealthCheckResponse::SERVING);
  // A worker has nothing to restore.
  const std::string address = absl::StrCat(host_, ":2227");
  auto runtime = MakeGrpcRuntime(ProcessOptions(v1::WORKER, 1, address));
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  ToyCore core;
  RunningProcess worker(*std::move(runtime));
  worker.runtime().AddCore(PeerId::Worker(1), &core);
  worker.Start();
  EXPECT_EQ(check(address), grpc::health::v1::HealthCheckResponse::SERVING);
}

TEST_F(GrpcRuntimeTest, AWatcherIsToldThatTheProcessDrains) {
  shard_.on_drain = [](Outbox*) {};  // Is not done for now.
  ps_->Start();
  RawStream watch(ps_address_, "/grpc.health.v1.Health/Watch");
  ASSERT_TRUE(watch.Send(""));
  using grpc::health::v1::HealthCheckResponse;
  EXPECT_EQ(watch.ReadAs<HealthCheckResponse>().status(),
            HealthCheckResponse::SERVING);
  ps_->runtime().Drain(absl::CancelledError("drained"), absl::Seconds(60));
  EXPECT_EQ(watch.ReadAs<HealthCheckResponse>().status(),
            HealthCheckResponse::NOT_SERVING);
}

TEST_F(GrpcRuntimeTest, AWatchOfHealthEndsWithTheProcess) {
  ps_->Start();
  RawStream watch(ps_address_, "/grpc.health.v1.Health/Watch");
  ASSERT_TRUE(watch.Send(""));
  EXPECT_TRUE(watch.Read().has_value());
  ps_->Stop();
  EXPECT_EQ(ps_->Wait().code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(watch.Read().has_value());
  EXPECT_EQ(watch.Finish(), absl::UnavailableError("this process is ending"));
}

TEST_F(GrpcRuntimeTest, AnOperatorMayStopAProcessAndNobodyElse) {
  ps_->Start();
  RawCaller stranger(ps_address_);
  EXPECT_EQ(stranger.Call(kStop, "operator/0", "").status().code(),
            absl::StatusCode::kPermissionDenied);
  const auto socket = OperatorAddress::Of(OperatorSocketOf(ps_address_));
  ASSERT_TRUE(socket.ok()) << socket.status();
  RawCaller caller((*socket)->target());
  EXPECT_EQ(caller.Call(kStop, "worker/1", "").status().code(),
            absl::StatusCode::kPermissionDenied);
  v1::StopRequest stop;
  stop.set_reason("maintenance");
  EXPECT_TRUE(caller.Call(kStop, "operator/0", stop.SerializeAsString()).ok());
  const absl::Status ended = ps_->Wait();
  EXPECT_EQ(ended.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(absl::StrContains(ended.message(), "maintenance")) << ended;
}

TEST_F(GrpcRuntimeTest, AnEndingProcessLeavesNobodyWithoutAnAnswer) {
  // Answers nothing; the third request ends it.
  int requests = 0;
  shard_.on_receive = [&](Message m, Time, Outbox* out) {
    if (++requests < 3) return;
    out->Reply(m.call, std::make_unique<v1::PullReply>());
    out->Exit(absl::OkStatus());
  };
  ps_->Start();
  std::vector<absl::Status> answers(3);
  std::vector<std::thread> callers;
  for (absl::Status& answer : answers) {
    callers.emplace_back([&answer, address = ps_address_] {
      answer = RawCaller(address).Call(kPull, "", "").status();
    });
  }
  for (std::thread& caller : callers) caller.join();
  int answered = 0;
  for (const absl::Status& answer : answers) {
    answered += answer.ok();
    if (!answer.ok()) {
      EXPECT_EQ(answer, absl::UnavailableError("this process is ending"));
    }
  }
  EXPECT_EQ(answered, 1);
  EXPECT_TRUE(ps_->Wait().ok());
}

TEST(GrpcRuntimeListenTest, APortInUseIsOneSentence) {
  std::string address;
  absl::StatusOr<std::unique_ptr<Runtime>> first;
  do {
    address = absl::StrCat(DrawLoopbackHost(), ":2222");
    first = MakeGrpcRuntime(ProcessOptions(v1::PS, 0, address));
  } while (!first.ok());
  EXPECT_EQ(MakeGrpcRuntime(ProcessOptions(v1::PS, 1, address)).status(),
            absl::AlreadyExistsError(absl::StrCat(
                "cannot listen on ", address,
                ": Address already in use; stop the process that has it, or "
                "give this one another address")));
}

TEST(GrpcRuntimeListenTest, WithoutTlsOnlyLoopbackIsBound) {
  const absl::Status refused =
      MakeGrpcRuntime(ProcessOptions(v1::PS, 0, "0.0.0.0:2222")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(refused.message(), "--insecure")) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "TLS")) << refused;
}

}  // namespace
}  // namespace paramd
