// How many connections and calls a process takes, and what takes room of what.
#include <sys/resource.h>

#include <atomic>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "net/caller.h"
#include "net/descriptors.h"
#include "net/grpc_runtime.h"
#include "net/testing/grpc_runtime_test_base.h"
#include "net/testing/loopback_address.h"
#include "net/testing/raw_caller.h"
#include "net/testing/toy_core.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using testing::kIncarnation;
using testing::kPull;
using testing::kPush;

GrpcRuntimeOptions Options(v1::TaskType type, uint32_t shards) {
  GrpcRuntimeOptions options;
  options.self.set_type(type);
  options.incarnation = kIncarnation;
  options.shards_per_server = shards;
  return options;
}

// A parameter server of several shards, in whose place the test answers.
class RequestLimitsTest : public ::testing::Test {
 protected:
  ~RequestLimitsTest() override {
    if (!thread_.joinable()) return;
    runtime_->Stop(absl::CancelledError("the test says so"));
    thread_.join();
  }

  void Listen(uint32_t shards, uint32_t workers) {
    shards_ = std::vector<ToyCore>(shards);
    GrpcRuntimeOptions options = Options(v1::PS, shards);
    options.workers = workers;
    while (runtime_ == nullptr) {
      host_ = DrawLoopbackHost();
      address_ = absl::StrCat(host_, ":2222");
      options.listen_address = address_;
      auto made = MakeGrpcRuntime(options);
      if (made.ok()) runtime_ = *std::move(made);
    }
    for (uint32_t shard = 0; shard < shards; ++shard) {
      runtime_->AddCore(PeerId::Ps(shard), &shards_[shard]);
    }
  }
  void Start() {
    thread_ = std::thread([this] { (void)runtime_->Run(); });
  }
  // The connections that it has: lines of the kernel's table.
  int Connections() const {
    unsigned part[4];
    EXPECT_EQ(std::sscanf(host_.c_str(), "%u.%u.%u.%u", &part[0], &part[1],
                          &part[2], &part[3]),
              4);
    char local[32];
    std::snprintf(local, sizeof(local), "%02X%02X%02X%02X:%04X", part[3],
                  part[2], part[1], part[0], 2222);
    std::ifstream table("/proc/net/tcp");
    std::string number, from, to, state, rest;
    int count = 0;
    while (table >> number >> from >> to >> state &&
           std::getline(table, rest)) {
      count += from == local && state == "01" ? 1 : 0;
    }
    return count;
  }

  std::string host_, address_;
  std::vector<ToyCore> shards_;
  std::unique_ptr<Runtime> runtime_;

 private:
  std::thread thread_;
};

TEST_F(RequestLimitsTest, RequestsBeyondTheBoundAreRefusedWithAHint) {
  Listen(/*shards=*/1, /*workers=*/0);  // Answers nobody.
  Start();
  const std::vector<absl::Status> told =
      CallAtOnce(address_, kPull, /*calls=*/1024 + 64, /*enough=*/64);
  for (const absl::Status& status : told) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_EQ(status.message(), "1024 calls of Pull wait for ps-0");
    EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::OVER_LIMIT);
    EXPECT_EQ(RefusalOf(status).retry_after_ms(), 100u);
  }
}

TEST_F(RequestLimitsTest, ACallerThatHasGoneFreesItsSlotAtOnce) {
  Listen(/*shards=*/1, /*workers=*/0);
  std::atomic<bool> answers{false};
  shards_[0].on_receive = [&](Message m, Time, Outbox* out) {
    if (answers) out->Reply(m.call, std::make_unique<v1::PullReply>());
  };
  Start();
  CallAtOnce(address_, kPull, /*calls=*/1024 + 64, /*enough=*/64);
  answers = true;
  RawCaller caller(address_);
  // Until the server has heard that they are gone, not until their deadlines.
  absl::Status status = absl::UnknownError("not asked");
  for (int i = 0; i < 10000 && !status.ok(); ++i) {
    status = caller.Call(kPull, "", "").status();
  }
  EXPECT_TRUE(status.ok()) << status;
}

// As in sync mode: pulls of all workers wait for one that has not pushed yet.
class ParkedPullsTest : public RequestLimitsTest,
                        public ::testing::WithParamInterface<int> {};

TEST_P(ParkedPullsTest, Promise4_WhatReleasesThemIsNeverRefusedForThem) {
  constexpr int kShards = 8, kCallsEach = 4;
  const int workers = GetParam();
  Listen(kShards, static_cast<uint32_t>(workers));
  std::atomic<int> parked{0};
  std::promise<void> all_parked;
  std::vector<CallId> kept[kShards];
  for (int s = 0; s < kShards; ++s) {
    shards_[s].on_receive = [&, s](Message m, Time, Outbox* out) {
      if (m.head->GetDescriptor() == v1::PullRequest::descriptor()) {
        kept[s].push_back(m.call);
        if (++parked == workers * kShards * kCallsEach) all_parked.set_value();
        return;
      }
      for (const CallId call : std::exchange(kept[s], {})) {
        out->Reply(call, std::make_unique<v1::PullReply>());
      }
      out->Reply(m.call, std::make_unique<v1::PushReply>());
    };
  }
  Start();
  ManyCalls::Options pulls;
  pulls.callers = workers;
  pulls.shards = kShards;
  pulls.calls_each = kCallsEach;
  ManyCalls waiting(address_, kPull, pulls);
  all_parked.get_future().wait();

  ManyCalls::Options push;
  push.shards = kShards;
  push.who = "worker/1";
  push.process = ProcessText(kIncarnation);
  EXPECT_EQ(ManyCalls(address_, kPush, push).Wait(), absl::OkStatus());
  EXPECT_EQ(waiting.Wait(), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(Workers, ParkedPullsTest, ::testing::Values(40, 128));

TEST_F(RequestLimitsTest, AServerOfSeveralShardsHasOnePairOfConnections) {
  constexpr uint32_t kShards = 4;
  Listen(kShards, /*workers=*/1);
  for (ToyCore& shard : shards_) {
    shard.on_receive = [](Message m, Time, Outbox* out) {
      out->Reply(m.call, std::make_unique<v1::PullReply>());
    };
  }
  Start();
  GrpcRuntimeOptions options = Options(v1::WORKER, kShards);
  options.listen_address = absl::StrCat(host_, ":2223");
  for (uint32_t server = 0; server < kShards; ++server) {
    options.peers[PeerId::Ps(server)] = address_;
  }
  auto runtime = MakeGrpcRuntime(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  ToyCore worker;
  worker.on_start = [&](Time, Outbox* out) {
    for (uint32_t server = 0; server < kShards; ++server) {
      out->Send(PeerId::Ps(server), 1 + server,
                std::make_unique<v1::PullRequest>(), {}, absl::Seconds(60));
    }
  };
  uint32_t answered = 0;
  int connections = 0;
  worker.on_receive = [&](Message m, Time, Outbox* out) {
    EXPECT_TRUE(m.status.ok()) << m.status;
    if (++answered < kShards) return;
    connections = Connections();
    out->Exit(absl::OkStatus());
  };
  (*runtime)->AddCore(PeerId::Worker(0), &worker);
  EXPECT_TRUE((*runtime)->Run().ok());
  EXPECT_EQ(connections, 2);
}

TEST(DescriptorsTest, WhatCannotBeOpenedIsSaidBeforeAnythingWaits) {
  rlimit before = {};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit few = before;
  few.rlim_cur = 400;
  setrlimit(RLIMIT_NOFILE, &few);
  EXPECT_TRUE(CheckDescriptors(/*workers=*/40, /*called=*/3).ok());
  const absl::Status refused = CheckDescriptors(/*workers=*/40, /*called=*/4);
  RaiseDescriptorLimit();
  EXPECT_GT(DescriptorLimit(), 400u);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_EQ(
      refused.message(),
      "this process may open 400 files and needs 404: 4 connections from "
      "each of 40 workers, 5 to each of 4 other processes, as many as come in "
      "for the rest; raise the limit (ulimit -Hn 404) or start fewer");
}

TEST(DescriptorsTest, ThereIsRoomForTheConnectionsOfAllWorkers) {
  EXPECT_EQ(ConnectionsOf(0), 1024u);
  // All of them may greet it anew, beside the connections that they have.
  EXPECT_GT(ConnectionsOf(1024), 4u * 1024);
}

}  // namespace
}  // namespace paramd
