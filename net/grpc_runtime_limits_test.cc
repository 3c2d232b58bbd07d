// Requests that are too much, and answers that nobody takes.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
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
#include "net/grpc_runtime.h"
#include "net/method_table.h"
#include "net/testing/grpc_runtime_test_base.h"
#include "net/testing/raw_caller.h"
#include "net/testing/raw_connection.h"
#include "net/testing/raw_stream.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using testing::kIncarnation;
using testing::kPull;
using testing::kPush;
using testing::ProcessOptions;
using testing::RunningProcess;

using GrpcRuntimeLimitsTest = testing::GrpcRuntimeTestBase;

// Of this process, as /proc/self/statm says.
uint64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

TEST_F(GrpcRuntimeLimitsTest,
       AnOverlongMessageIsRefusedAndTheConnectionSurvives) {
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

TEST_F(GrpcRuntimeLimitsTest, Promise8_AClaimOfFourGigabytesTakesNoMemory) {
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

// With memory for all of it.
TEST(GrpcRuntimeQuotaTest, Promise8_AnEndlessMessageIsCutByItsConnection) {
  GrpcRuntimeOptions options =
      ProcessOptions(v1::PS, 0, absl::StrCat(DrawLoopbackHost(), ":2222"));
  options.memory_limit_bytes = uint64_t{1} << 40;
  auto runtime = MakeGrpcRuntime(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  ToyCore shard;
  shard.on_receive = [](Message m, Time, Outbox* out) {
    out->Reply(m.call, std::make_unique<v1::PullReply>());
  };
  RunningProcess ps(*std::move(runtime));
  ps.runtime().AddCore(PeerId::Ps(0), &shard);
  ps.Start();
  RawCaller other(options.listen_address);
  ASSERT_TRUE(other.Call(kPull, "", "").ok());
  RawConnection endless(options.listen_address);
  endless.Call(kPush);
  // Not compressed, 2^32 - 1 bytes long.
  endless.SendData(std::string("\0\xff\xff\xff\xff", 5));
  const std::string part(1 << 20, 'x');
  int parts = 0;
  while (parts < 4096 && endless.SendData(part)) ++parts;
  EXPECT_LT(parts, 4096);
  EXPECT_GE(parts, 64 * 4) << "as much as 64 calls may send at once";
  EXPECT_TRUE(other.Call(kPull, "", "").ok());
}

// gRPC, whose memory is short before any one connection has sent too much by
// itself, would close others first: those that are idle.
TEST(GrpcRuntimeQuotaTest, Promise8_WhoSendsNoMessagesIsClosedBeforeOthersAre) {
  GrpcRuntimeOptions options =
      ProcessOptions(v1::PS, 0, absl::StrCat(DrawLoopbackHost(), ":2222"));
  options.memory_limit_bytes = uint64_t{256} << 20;
  auto runtime = MakeGrpcRuntime(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  ToyCore shard;
  RunningProcess ps(*std::move(runtime));
  ps.runtime().AddCore(PeerId::Ps(0), &shard);
  ps.Start();
  // Not compressed, 2^32 - 1 bytes long.
  const std::string claim("\0\xff\xff\xff\xff", 5);
  const std::string part(1 << 20, 'x');
  RawConnection slow(options.listen_address), endless(options.listen_address);
  for (RawConnection* const connection : {&slow, &endless}) {
    connection->Call(kPush);
    connection->SendData(claim);
  }
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(slow.SendData(part));
  // More than a quarter of the memory, and less than all.
  for (int i = 0; i < 80 && endless.SendData(part); ++i) {
  }
  endless.ReadToTheEnd();  // Until it is closed.
  std::promise<v1::StatusReply> status;
  ps.runtime().Post([&] { status.set_value(ps.runtime().Status()); });
  const v1::StatusReply said = status.get_future().get();
  ASSERT_EQ(said.refused_connections_size(), 1);
  EXPECT_EQ(said.refused_connections(0).unfinished(), 1u);
  EXPECT_TRUE(slow.SendData(part)) << "a session may have so much under way";
}

// A core's thread is none of gRPC's, which looks for more memory to give back
// whenever some has come back to it.
TEST(GrpcRuntimeQuotaTest, PayloadsAreGivenBackByAnyThreadWhenMemoryIsShort) {
  GrpcRuntimeOptions options =
      ProcessOptions(v1::PS, 0, absl::StrCat(DrawLoopbackHost(), ":2222"));
  options.memory_limit_bytes = 32 << 20;
  // Then a connection may have sent all that memory before it is closed.
  options.shards_per_server = 32;
  auto runtime = MakeGrpcRuntime(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  std::vector<BufferChain> held;
  ToyCore shard;
  shard.on_receive = [&](Message m, Time, Outbox* out) {
    held.push_back(std::move(m.payload));
    if (held.size() >= 4) held.clear();
    out->Reply(m.call, std::make_unique<v1::PushReply>());
  };
  RunningProcess ps(*std::move(runtime));
  ps.runtime().AddCore(PeerId::Ps(0), &shard);
  ps.Start();
  v1::PushRequest push;
  push.set_payload(std::string(4 << 20, 'x'));
  const std::string request = push.SerializeAsString();
  std::vector<std::thread> strangers;
  for (int i = 0; i < 4; ++i) {
    strangers.emplace_back([&] {
      const std::string part(1 << 20, 'x');
      for (int j = 0; j < 10; ++j) {
        RawConnection endless(options.listen_address);
        endless.Call(kPush);
        endless.SendData(std::string("\0\xff\xff\xff\xff", 5));
        while (endless.SendData(part)) {
        }
      }
    });
  }
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      RawCaller caller(options.listen_address, ProcessText(kIncarnation));
      for (int j = 0; j < 20; ++j)
        (void)caller.Call(kPush, "worker/1", request);
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (std::thread& stranger : strangers) stranger.join();
  RawCaller other(options.listen_address, ProcessText(kIncarnation));
  const auto answered = other.Call(kPush, "worker/1", request);
  EXPECT_TRUE(answered.ok()) << answered.status();
}

TEST_F(GrpcRuntimeLimitsTest,
       Promise8_ACompressedMessageIsRefusedAndNotInflated) {
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

TEST_F(GrpcRuntimeLimitsTest, MalformedBytesAreRefusedAndReachNoCore) {
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

TEST_F(GrpcRuntimeLimitsTest,
       Promise8_AnAnswerThatNobodyReadsIsGivenUpForMemory) {
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
      ProcessOptions(v1::PS, 0, absl::StrCat(DrawLoopbackHost(), ":2222"));
  options.longest_unread = absl::Milliseconds(50);
  auto runtime = MakeGrpcRuntime(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  ToyCore shard;  // Lives longer than the process that runs it.
  std::promise<void> free;
  RunningProcess ps(*std::move(runtime));
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

TEST_F(GrpcRuntimeLimitsTest, ACoreHearsOfRequestsWhoseCallersWaitNoMore) {
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
      ProcessOptions(v1::WORKER, 1, absl::StrCat(host_, ":2223"));
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

}  // namespace
}  // namespace paramd
