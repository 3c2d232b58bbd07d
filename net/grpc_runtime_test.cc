// What only the network can do to a process. What every runtime promises is in
// runtime_test.cc.
#include "net/grpc_runtime.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"

#include "net/caller.h"
#include "net/method_table.h"
#include "net/operator_socket.h"
#include "net/testing/loopback_address.h"
#include "net/testing/raw_caller.h"
#include "net/testing/raw_connection.h"
#include "net/testing/raw_stream.h"
#include "net/testing/toy_core.h"
#include "proto/grpc/health/v1/health.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr char kPull[] = "/paramd.v1.ParameterServer/Pull";
constexpr char kPush[] = "/paramd.v1.ParameterServer/Push";
constexpr char kSeal[] = "/paramd.v1.ParameterServer/Seal";
constexpr char kHello[] = "/paramd.v1.Control/Hello";
constexpr char kStatus[] = "/paramd.v1.Control/Status";
constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
// Of every process.
constexpr uint64_t kIncarnation = 77;
constexpr char kStop[] = "/paramd.v1.Control/Stop";

// Its own for each process that a test starts.
std::string OperatorSocketOf(const std::string& address) {
  return absl::StrCat(testing::TempDir(), "/",
                      absl::StrReplaceAll(address, {{":", "-"}}), ".sock");
}

GrpcRuntimeOptions Options(v1::TaskType type, uint32_t index,
                           const std::string& address) {
  GrpcRuntimeOptions options;
  if (type == v1::PS) options.operator_socket = OperatorSocketOf(address);
  options.self.set_type(type);
  options.self.set_index(index);
  options.incarnation = kIncarnation;
  options.job_name = "job";
  options.job_digest = "aaaa";
  options.job_settings = {"seed=1"};
  options.cluster = {"ps=1"};
  options.memory_limit_bytes = 1;
  options.listen_address = address;
  return options;
}

// Of this process, as /proc/self/statm says.
uint64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// A process: a runtime and the thread that runs it.
class Process {
 public:
  explicit Process(std::unique_ptr<Runtime> runtime)
      : runtime_(std::move(runtime)) {}
  ~Process() {
    if (!thread_.joinable()) return;
    Stop();
    (void)Wait();
  }

  Runtime& runtime() { return *runtime_; }
  void Start() {
    thread_ = std::thread([this] { status_ = runtime_->Run(); });
  }
  void Stop() { runtime_->Stop(absl::CancelledError("the test says so")); }
  // What Run returned.
  absl::Status Wait() {
    thread_.join();
    return status_;
  }

 private:
  std::unique_ptr<Runtime> runtime_;
  std::thread thread_;
  absl::Status status_;
};

// A parameter server at ps_address_; tests dial it.
class GrpcRuntimeTest : public testing::Test {
 protected:
  GrpcRuntimeTest() {
    do {
      host_ = DrawLoopbackHost();
      ps_address_ = absl::StrCat(host_, ":2222");
      auto runtime = MakeGrpcRuntime(Options(v1::PS, 0, ps_address_));
      if (runtime.ok()) ps_ = std::make_unique<Process>(*std::move(runtime));
    } while (ps_ == nullptr);
    ps_->runtime().AddCore(PeerId::Ps(0), &shard_);
    shard_.on_receive = [this](Message m, Time, Outbox* out) {
      ++received_;
      out->Reply(m.call, Answer(m));
    };
  }

  static Outbox::Head Answer(const Message& m) {
    if (m.head->GetDescriptor() == v1::PullRequest::descriptor()) {
      return std::make_unique<v1::PullReply>();
    }
    return std::make_unique<v1::PushReply>();
  }

  // Runs a worker with these options that calls Pull on ps-0 until `enough`
  // accepts an answer.
  void PullUntil(GrpcRuntimeOptions options,
                 std::function<bool(const Message&)> enough) {
    options.listen_address = absl::StrCat(host_, ":2223");
    options.peers = {{PeerId::Ps(0), ps_address_}};
    auto runtime = MakeGrpcRuntime(options);
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    ToyCore worker;
    const auto pull = [](Outbox* out) {
      out->Send(PeerId::Ps(0), 1, std::make_unique<v1::PullRequest>(), {},
                absl::Seconds(60));
    };
    worker.on_start = [&](Time, Outbox* out) { pull(out); };
    worker.on_tick = worker.on_start;
    worker.on_receive = [&](Message m, Time now, Outbox* out) {
      if (enough(m)) {
        out->Exit(absl::OkStatus());
      } else {
        worker.tick = now + absl::Milliseconds(10);
      }
    };
    (*runtime)->AddCore(PeerId::Worker(options.self.index()), &worker);
    EXPECT_TRUE((*runtime)->Run().ok());
  }

  std::string host_, ps_address_;
  ToyCore shard_;
  int received_ = 0;  // Of the server's loop thread until it has ended.
  std::unique_ptr<Process> ps_;
};

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
  EXPECT_EQ(RefusalOf(RawCaller(ps_address_).Call(kPush, "worker/1", "").status())
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
        Options(type, index, absl::StrCat(host, ":", port));
    made.shards_per_server = 2;
    return made;
  };
  auto runtime = MakeGrpcRuntime(options(v1::PS, 1, 2222));
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  ToyCore shards[2];
  Process ps(*std::move(runtime));
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

TEST_F(GrpcRuntimeTest, AnOverlongMessageIsRefusedAndTheConnectionSurvives) {
  ps_->Start();
  RawCaller caller(ps_address_, ProcessText(kIncarnation));
  v1::PushRequest push;
  push.set_payload(std::string(kMostBulkBytes + 1, 'x'));
  const absl::Status refused =
      caller.Call(kPush, "worker/1", push.SerializeAsString()).status();
  EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::OVER_LIMIT) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "the limit is 4259840"))
      << refused;
  push.set_payload(std::string(4 << 20, 'x'));
  EXPECT_TRUE(caller.Call(kPush, "worker/1", push.SerializeAsString()).ok());
  // Beyond gRPC's own limit the words are gRPC's.
  push.set_payload(std::string(17 << 20, 'x'));
  EXPECT_EQ(
      caller.Call(kPush, "worker/1", push.SerializeAsString()).status().code(),
      absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(caller.Call(kPull, "", "").ok());
}

TEST_F(GrpcRuntimeTest, Promise8_AClaimOfFourGigabytesTakesNoMemory) {
  ps_->Start();
  RawCaller other(ps_address_);
  ASSERT_TRUE(other.Call(kPull, "", "").ok());
  const uint64_t before = ResidentBytes();
  std::vector<std::unique_ptr<RawConnection>> claimants;
  for (int i = 0; i < 8; ++i) {
    claimants.push_back(std::make_unique<RawConnection>(ps_address_));
    claimants.back()->Call(kPush);
    // Not compressed, 2^32 - 1 bytes long.
    claimants.back()->SendData(std::string("\0\xff\xff\xff\xff", 5));
  }
  EXPECT_LT(ResidentBytes(), before + (uint64_t{16} << 20));
  // They send what they have promised, until they lose the call.
  const std::string part(1 << 20, 'x');
  for (int i = 0; i < 1024 && !claimants.empty(); ++i) {
    claimants.erase(std::remove_if(claimants.begin(), claimants.end(),
                                   [&](auto& claimant) {
                                     return !claimant->SendData(part);
                                   }),
                    claimants.end());
  }
  EXPECT_TRUE(claimants.empty())
      << claimants.size() << " claimants sent a gigabyte each";
  // A sanitizer keeps what was freed.
  if (std::getenv("PARAMD_SANITIZER") == nullptr) {
    EXPECT_LT(ResidentBytes(), before + (uint64_t{512} << 20));
  }
  EXPECT_TRUE(other.Call(kPull, "", "").ok() || other.Call(kPull, "", "").ok())
      << "its connection may be among those that were closed";
  ps_->Stop();
  (void)ps_->Wait();
  EXPECT_LE(received_, 3) << "none of them reached the core";
}

TEST_F(GrpcRuntimeTest, Promise8_ACompressedMessageIsRefusedAndNotInflated) {
  ps_->Start();
  RawCaller caller(ps_address_);
  v1::PushRequest push;
  push.set_payload(std::string(4 << 20, 'x'));
  const absl::Status refused =
      caller.CallCompressed(kPush, "worker/1", push.SerializeAsString())
          .status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "gzip")) << refused;
  // Within the limit as it travels, beyond gRPC's own when it is inflated.
  push.set_payload(std::string(64 << 20, 'x'));
  EXPECT_EQ(caller.CallCompressed(kPush, "worker/1", push.SerializeAsString())
                .status()
                .code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(caller.Call(kPull, "", "").ok());
  ps_->Stop();
  (void)ps_->Wait();
  EXPECT_EQ(received_, 1) << "only the pull reached the core";
}

TEST_F(GrpcRuntimeTest, MalformedBytesAreRefusedAndReachNoCore) {
  ps_->Start();
  RawCaller caller(ps_address_, ProcessText(kIncarnation));
  const absl::Status refused =
      caller.Call(kPush, "worker/1", "\xc2\x3e\x05").status();
  EXPECT_EQ(refused.message(),
            "malformed PushRequest: the payload has 5 bytes; 0 follow");
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  ps_->Stop();
  EXPECT_EQ(ps_->Wait().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(received_, 0);
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
  GrpcRuntimeOptions other = Options(v1::WORKER, 1, "");
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
  GrpcRuntimeOptions same = Options(v1::WORKER, 1, "");
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
      MakeGrpcRuntime(Options(v1::PS, 1, absl::StrCat(host_, ":2224")));
  ASSERT_TRUE(runtime.ok());
  Process other(*std::move(runtime));
  other.runtime().AddCore(PeerId::Ps(1), &shard);
  other.Start();
  ps_address_ = absl::StrCat(host_, ":2224");
  PullUntil(Options(v1::WORKER, 1, ""), [&](const Message& m) {
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
  PullUntil(Options(v1::WORKER, 1, ""), [&](const Message& m) {
    if (m.status.ok()) return true;
    EXPECT_EQ(m.status.code(), absl::StatusCode::kUnavailable);
    if (!refused) {
      refused = true;
      auto runtime = MakeGrpcRuntime(Options(v1::PS, 0, ps_address_));
      if (!runtime.ok()) {
        ADD_FAILURE() << runtime.status();
        return true;
      }
      ps_ = std::make_unique<Process>(*std::move(runtime));
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
  PullUntil(Options(v1::WORKER, 1, ""), [&](const Message& m) {
    if (!replaced) {
      EXPECT_TRUE(m.status.ok()) << m.status;
      replaced = true;
      ps_.reset();
      GrpcRuntimeOptions options = Options(v1::PS, 0, ps_address_);
      options.job_digest = "eeee";
      auto runtime = MakeGrpcRuntime(options);
      if (!runtime.ok()) {
        ADD_FAILURE() << runtime.status();
        return true;
      }
      ps_ = std::make_unique<Process>(*std::move(runtime));
      ps_->runtime().AddCore(PeerId::Ps(0), &shard_);
      ps_->Start();
      return false;
    }
    EXPECT_FALSE(m.status.ok());
    return RefusalOf(m.status).reason() == v1::Refusal::OTHER_JOB;
  });
}

TEST_F(GrpcRuntimeTest, Promise8_AnAnswerThatNobodyReadsIsGivenUpForMemory) {
  Buffer payload = Buffer::Allocate(size_t{4} << 20);
  std::memset(payload.mutable_bytes().data(), 1, payload.size());
  shard_.on_receive = [&](Message m, Time now, Outbox* out) {
    out->Reply(m.call, std::make_unique<v1::PullReply>(), {payload});
    shard_.tick = now;
  };
  std::promise<void> free;
  shard_.on_tick = [&](Time now, Outbox* out) {
    shard_.tick =
        payload.unique() ? Time::Never() : now + absl::Milliseconds(20);
    payload.unique() ? free.set_value() : out->CancelOldestReply();
  };
  ps_->Start();
  RawStream reader(ps_address_, kPull);
  ASSERT_TRUE(reader.Send(v1::PullRequest()));
  reader.HalfClose();
  free.get_future().wait();
  EXPECT_FALSE(reader.Read().has_value());
  EXPECT_FALSE(reader.Finish().ok());
}

TEST(GrpcRuntimeUnreadTest, Promise8_ACallWhoseAnswerNobodyTakesIsCut) {
  GrpcRuntimeOptions options =
      Options(v1::PS, 0, absl::StrCat(DrawLoopbackHost(), ":2222"));
  options.longest_unread = absl::Milliseconds(50);
  auto runtime = MakeGrpcRuntime(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  ToyCore shard;  // Lives longer than the process that runs it.
  std::promise<void> free;
  Process ps(*std::move(runtime));
  Buffer payload = Buffer::Allocate(size_t{4} << 20);
  std::memset(payload.mutable_bytes().data(), 1, payload.size());
  shard.on_receive = [&](Message m, Time now, Outbox* out) {
    out->Reply(m.call, std::make_unique<v1::PullReply>(), {payload});
    shard.tick = now;
  };
  shard.on_tick = [&](Time now, Outbox*) {
    if (payload.unique()) return free.set_value();
    shard.tick = now + absl::Milliseconds(20);
  };
  ps.runtime().AddCore(PeerId::Ps(0), &shard);
  ps.Start();
  RawStream reader(options.listen_address, kPull);
  ASSERT_TRUE(reader.Send(v1::PullRequest()));
  reader.HalfClose();
  free.get_future().wait();
  EXPECT_FALSE(reader.Read().has_value());
  EXPECT_FALSE(reader.Finish().ok());
}

TEST_F(GrpcRuntimeTest, ACoreHearsOfRequestsWhoseCallersWaitNoMore) {
  CallId asked = 0;
  int pulls = 0;
  shard_.on_receive = [&](Message m, Time, Outbox* out) {
    asked = m.call;
    if (++pulls == 1) out->Reply(m.call, Answer(m));
  };
  std::promise<CallId> expired;
  ps_->runtime().OnExpired(PeerId::Ps(0),
                           [&](CallId call) { expired.set_value(call); });
  ps_->Start();
  GrpcRuntimeOptions options =
      Options(v1::WORKER, 1, absl::StrCat(host_, ":2223"));
  options.peers = {{PeerId::Ps(0), ps_address_}};
  auto runtime = MakeGrpcRuntime(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  ToyCore worker;
  const auto pull = [](CallId call, Outbox* out) {
    out->Send(PeerId::Ps(0), call, std::make_unique<v1::PullRequest>(), {},
              call == 1 ? absl::Seconds(60) : absl::Seconds(2));
  };
  worker.on_start = [&](Time, Outbox* out) { pull(1, out); };
  worker.on_receive = [&](Message m, Time, Outbox* out) {
    if (m.call == 1) return pull(2, out);  // The connection is there.
    EXPECT_EQ(m.status.code(), absl::StatusCode::kDeadlineExceeded);
    out->Exit(absl::OkStatus());
  };
  (*runtime)->AddCore(PeerId::Worker(1), &worker);
  EXPECT_TRUE((*runtime)->Run().ok());
  const CallId told = expired.get_future().get();
  ps_->Stop();
  (void)ps_->Wait();
  EXPECT_EQ(told, asked);
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
  auto runtime = MakeGrpcRuntime(Options(v1::WORKER, 1, address));
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  ToyCore core;
  Process worker(*std::move(runtime));
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
    first = MakeGrpcRuntime(Options(v1::PS, 0, address));
  } while (!first.ok());
  EXPECT_EQ(MakeGrpcRuntime(Options(v1::PS, 1, address)).status(),
            absl::AlreadyExistsError(absl::StrCat(
                "cannot listen on ", address,
                ": Address already in use; stop the process that has it, or "
                "give this one another address")));
}

TEST(GrpcRuntimeListenTest, WithoutTlsOnlyLoopbackIsBound) {
  const absl::Status refused =
      MakeGrpcRuntime(Options(v1::PS, 0, "0.0.0.0:2222")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(refused.message(), "--insecure")) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "TLS")) << refused;
}

}  // namespace
}  // namespace paramd
