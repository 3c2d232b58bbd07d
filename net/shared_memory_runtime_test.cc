// Payloads between the runtimes of one machine: which way they go, what
// arrives, and what becomes of them when a side goes.
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "net/grpc_runtime.h"
#include "net/memory_dial.h"
#include "net/testing/loopback_address.h"
#include "net/testing/raw_caller.h"
#include "net/testing/toy_core.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/hello.pb.h"

namespace paramd {
namespace {

constexpr char kHello[] = "/paramd.v1.Control/Hello";
constexpr char kPushMethod[] = "/paramd.v1.ParameterServer/Push";
constexpr size_t kBig = 300000;

std::string TextPattern(size_t size, uint64_t seed) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<char>((i * 7 + i / 4096 + seed * 13) & 0xff);
  }
  return bytes;
}

// Which shared memory a payload lies in, by its inode; 0: in none.
uint64_t MemoryOf(const BufferChain& payload) {
  if (payload.empty()) return 0;
  const auto at = reinterpret_cast<uintptr_t>(payload[0].bytes().data());
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    uintptr_t begin, end;
    char dash;
    std::string mode, offset, device, name;
    uint64_t inode;
    words >> std::hex >> begin >> dash >> end >> mode >> offset >> device >>
        std::dec >> inode >> name;
    if (at < begin || at >= end) continue;
    return absl::StartsWith(name, "/memfd:paramd") ? inode : 0;
  }
  return 0;
}

// A parameter server that answers a push with what was pushed, and a pull with
// TextPattern(kBig, clock).
class Server {
 public:
  explicit Server(const std::string& address, bool shared_memory = true) {
    GrpcRuntimeOptions options;
    options.self.set_type(v1::PS);
    options.listen_address = address;
    options.shared_memory = shared_memory;
    auto runtime = MakeGrpcRuntime(options);
    if (!runtime.ok()) return;
    runtime_ = *std::move(runtime);
    core_.on_receive = [this](Message m, Time, Outbox* out) {
      if (const auto* pull = dynamic_cast<const v1::PullRequest*>(m.head)) {
        out->Reply(m.call, std::make_unique<v1::PullReply>(),
                   {Buffer::Copy(TextPattern(kBig, pull->clock()))});
        return;
      }
      if (on_push) on_push(m);
      if (answers) {
        out->Reply(m.call, std::make_unique<v1::PushReply>(),
                   std::move(m.payload));
      }
    };
    runtime_->AddCore(PeerId::Ps(0), &core_);
  }
  ~Server() {
    if (!loop_.joinable()) return;
    runtime_->Stop(absl::CancelledError());
    loop_.join();
  }

  bool listens() const { return runtime_ != nullptr; }
  void Start() {
    loop_ = std::thread([this] { (void)runtime_->Run(); });
  }

  std::function<void(const Message&)> on_push;  // On the server's loop thread.
  bool answers = true;

 private:
  ToyCore core_;
  std::unique_ptr<Runtime> runtime_;
  std::thread loop_;
};

class SharedMemoryRuntimeTest : public ::testing::Test {
 protected:
  SharedMemoryRuntimeTest() {
    do {
      host_ = DrawLoopbackHost();
      server_ = std::make_unique<Server>(ServerAddress());
    } while (!server_->listens());
  }

  std::string ServerAddress() const { return absl::StrCat(host_, ":2222"); }

  // Runs a worker that pushes TextPattern(kBig, n), n = 1, 2, …, one after the
  // other, or pulls it, until `enough` accepts an answer; after a failure n
  // comes again.
  void Exchange(std::function<bool(uint64_t n, const Message&)> enough,
                bool shared_memory = true,
                absl::Duration deadline = absl::Seconds(60)) {
    GrpcRuntimeOptions options;
    options.self.set_type(v1::WORKER);
    options.listen_address = absl::StrCat(host_, ":2223");
    options.peers = {{PeerId::Ps(0), ServerAddress()}};
    options.shared_memory = shared_memory;
    const auto runtime = MakeGrpcRuntime(options);
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    ToyCore worker;
    uint64_t n = 1;
    worker.on_start = worker.on_tick = [&](Time, Outbox* out) {
      if (pulls_) {
        auto pull = std::make_unique<v1::PullRequest>();
        pull->set_clock(n);
        out->Send(PeerId::Ps(0), n, std::move(pull), {}, deadline);
        return;
      }
      out->Send(PeerId::Ps(0), n, std::make_unique<v1::PushRequest>(),
                {Buffer::Copy(TextPattern(kBig, n))}, deadline);
    };
    worker.on_receive = [&](Message m, Time now, Outbox* out) {
      if (enough(n, m)) return out->Exit(absl::OkStatus());
      n += m.status.ok();
      worker.tick = now;
    };
    (*runtime)->AddCore(PeerId::Worker(0), &worker);
    EXPECT_TRUE((*runtime)->Run().ok());
  }

  std::string host_;
  std::unique_ptr<Server> server_;
  bool pulls_ = false;
};

TEST_F(SharedMemoryRuntimeTest, AnAnswerGoesThroughItWhereOnlyItHasAPayload) {
  server_->Start();
  pulls_ = true;
  int in_messages = 0, in_memory = 0;
  Exchange([&](uint64_t n, const Message& m) {
    EXPECT_TRUE(m.status.ok()) << m.status;
    EXPECT_EQ(FlattenForTest(m.payload), TextPattern(kBig, n));
    ++(MemoryOf(m.payload) != 0 ? in_memory : in_messages);
    return in_memory == 20 || in_messages == 20000;
  });
  EXPECT_EQ(in_memory, 20);
}

TEST_F(SharedMemoryRuntimeTest, PayloadsGoBothWaysThroughOneMemory) {
  std::map<uint64_t, int> pushed, answered;  // By memory.
  server_->on_push = [&](const Message& m) { ++pushed[MemoryOf(m.payload)]; };
  server_->Start();
  Exchange([&](uint64_t n, const Message& m) {
    EXPECT_TRUE(m.status.ok()) << m.status;
    EXPECT_EQ(FlattenForTest(m.payload), TextPattern(kBig, n));
    const uint64_t memory = MemoryOf(m.payload);
    EXPECT_EQ(m.in_shared_memory, memory != 0);
    ++answered[memory];
    return memory != 0 && answered[memory] == 20;
  });
  server_.reset();
  // Until the memory is taken over, which takes moments, there is none.
  EXPECT_EQ(answered, pushed);
  EXPECT_LE(answered.size(), 2u);
}

TEST_F(SharedMemoryRuntimeTest, EitherSideTurnsItOff) {
  server_->Start();
  const auto through_messages = [](uint64_t n, const Message& m) {
    EXPECT_TRUE(m.status.ok()) << m.status;
    EXPECT_EQ(FlattenForTest(m.payload), TextPattern(kBig, n));
    EXPECT_EQ(MemoryOf(m.payload), 0u);
    EXPECT_FALSE(m.in_shared_memory);
    return n == 50;
  };
  Exchange(through_messages, /*shared_memory=*/false);
  server_.reset();
  server_ = std::make_unique<Server>(ServerAddress(), /*shared_memory=*/false);
  ASSERT_TRUE(server_->listens());
  server_->Start();
  Exchange(through_messages);
}

TEST_F(SharedMemoryRuntimeTest, WhatAServerKeepsIsNotWrittenOver) {
  std::vector<BufferChain> kept;
  int in_memory = 0;
  server_->on_push = [&](const Message& m) {
    kept.push_back(m.payload);
    in_memory += MemoryOf(m.payload) != 0;
  };
  server_->Start();
  // More than the arena holds: the others come in messages.
  uint64_t last = 0;
  std::map<bool, int> said;
  Exchange([&](uint64_t n, const Message& m) {
    EXPECT_TRUE(m.status.ok()) << m.status;
    last = n;
    ++said[m.in_shared_memory];
    return n == 100;
  });
  server_.reset();
  ASSERT_EQ(kept.size(), last);
  EXPECT_GT(in_memory, 10);
  EXPECT_LT(in_memory, 60);
  EXPECT_EQ(said[true], in_memory) << "the worker hears that there is no room";
  // Also when who sent it has gone.
  for (uint64_t n = 1; n <= last; ++n) {
    ASSERT_EQ(FlattenForTest(kept[n - 1]), TextPattern(kBig, n)) << n;
  }
}

TEST_F(SharedMemoryRuntimeTest, AWorkerThatStartsAnewHasNewMemory) {
  std::vector<uint64_t> memories;
  // What the first life sent, and what it was when it came.
  BufferChain kept;
  std::string came;
  server_->on_push = [&](const Message& m) {
    if (!kept.empty() || MemoryOf(m.payload) == 0) return;
    kept = m.payload;
    came = FlattenForTest(kept);
  };
  server_->Start();
  for (int life = 0; life < 2; ++life) {
    Exchange([&](uint64_t, const Message& m) {
      EXPECT_TRUE(m.status.ok()) << m.status;
      const uint64_t memory = MemoryOf(m.payload);
      if (memory != 0) memories.push_back(memory);
      return memory != 0;
    });
  }
  server_.reset();
  ASSERT_EQ(memories.size(), 2u);
  EXPECT_NE(memories[0], memories[1]);
  EXPECT_EQ(MemoryOf(kept), memories[0]);
  EXPECT_EQ(FlattenForTest(kept), came);
}

TEST_F(SharedMemoryRuntimeTest, AServerThatStartsAnewIsHandedNewMemory) {
  server_->Start();
  uint64_t before = 0;
  BufferChain kept;
  uint64_t kept_n = 0;
  Exchange([&](uint64_t n, const Message& m) {
    if (!m.status.ok()) return false;
    const uint64_t memory = MemoryOf(m.payload);
    EXPECT_EQ(FlattenForTest(m.payload), TextPattern(kBig, n));
    if (memory == 0) return false;
    if (before == 0) {
      before = memory;
      kept = m.payload;
      kept_n = n;
      server_.reset();
      server_ = std::make_unique<Server>(ServerAddress());
      EXPECT_TRUE(server_->listens());
      server_->Start();
    }
    return memory != before;
  });
  EXPECT_EQ(FlattenForTest(kept), TextPattern(kBig, kept_n));
}

TEST_F(SharedMemoryRuntimeTest, MemoryIsRenewedWhenCallsWereLostInIt) {
  server_->answers = false;
  std::vector<uint64_t> memories;  // In the order of coming.
  server_->on_push = [&, server = server_.get()](const Message& m) {
    const uint64_t memory = MemoryOf(m.payload);
    if (memory == 0) return;
    if (memories.empty() || memories.back() != memory) {
      memories.push_back(memory);
    }
    if (memories.size() == 3) server->answers = true;
  };
  server_->Start();
  Exchange(
      [&](uint64_t, const Message& m) {
        EXPECT_TRUE(m.status.ok() ||
                    m.status.code() == absl::StatusCode::kDeadlineExceeded)
            << m.status;
        return m.status.ok();
      },
      /*shared_memory=*/true, /*deadline=*/absl::Milliseconds(20));
  server_.reset();
  EXPECT_GE(memories.size(), 3u);
}

// A process that says what it likes of memory that it has handed over.
class LyingPeerTest : public SharedMemoryRuntimeTest {
 protected:
  LyingPeerTest() {
    server_->on_push = [this](const Message& m) {
      received_.push_back(FlattenForTest(m.payload));
    };
    server_->Start();
    const auto hello = RawCaller(ServerAddress()).Call(kHello, "worker/0", [] {
      v1::HelloRequest request;
      request.set_protocol_min(1);
      request.set_protocol_max(1);
      return request.SerializeAsString();
    }());
    EXPECT_TRUE(hello.ok()) << hello.status();
    v1::HelloReply reply;
    EXPECT_TRUE(reply.ParseFromString(hello.value_or("")));
    auto dial = MemoryDial::Begin(reply.shared_memory());
    EXPECT_TRUE(dial.ok()) << dial.status();
    dial_ = *std::move(dial);
    while (absl::IsNotFound(dial_->Look())) std::this_thread::yield();
    EXPECT_NE(dial_->memory(), nullptr);
  }

  absl::Status Call(const v1::PushRequest& push) {
    return RawCaller(ServerAddress())
        .Call(kPushMethod, "worker/0", push.SerializeAsString())
        .status();
  }

  std::vector<std::string> received_;
  std::shared_ptr<MemoryDial> dial_;
};

TEST_F(LyingPeerTest, LiesAreRefusedAndReachNoCore) {
  v1::PushRequest push;
  ASSERT_TRUE(dial_->memory()->Put({Buffer::Copy(TextPattern(kBig, 1))},
                                   push.mutable_shared()));
  v1::PushRequest lie = push;
  lie.mutable_shared()->mutable_pieces(0)->set_offset(uint64_t{1} << 63);
  absl::Status told = Call(lie);
  EXPECT_EQ(told.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(told.message(), "do not lie in an arena"))
      << told;
  lie = push;
  lie.mutable_shared()->mutable_pieces(0)->set_length(~uint64_t{0});
  EXPECT_EQ(Call(lie).code(), absl::StatusCode::kInvalidArgument);
  lie = push;
  lie.set_payload("and more");
  EXPECT_EQ(Call(lie).code(), absl::StatusCode::kInvalidArgument);
  lie = push;
  lie.mutable_shared()->set_memory(push.shared().memory() + 1);
  EXPECT_EQ(Call(lie).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Call(push).ok());
  EXPECT_EQ(Call(push).code(), absl::StatusCode::kInvalidArgument);  // Again.
  server_.reset();
  EXPECT_EQ(received_, std::vector<std::string>{TextPattern(kBig, 1)});
}

TEST_F(LyingPeerTest, ThePayloadCountsForTheLimitWhereverItLies) {
  v1::PushRequest push;
  ASSERT_TRUE(dial_->memory()->Put(
      {Buffer::Copy(std::string((4 << 20) + (64 << 10), 'x'))},
      push.mutable_shared()));
  const absl::Status told = Call(push);
  EXPECT_TRUE(absl::StrContains(told.message(), "the limit is 4259840"))
      << told;
  server_.reset();
  EXPECT_TRUE(received_.empty());
}

}  // namespace
}  // namespace paramd
