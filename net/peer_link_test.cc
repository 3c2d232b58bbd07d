// Why a peer is not reached, as its callers are told. Who answers instead is in
// grpc_runtime_test.cc.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"

#include "net/grpc_runtime.h"
#include "net/testing/loopback_address.h"
#include "net/testing/name_server.h"
#include "net/testing/toy_core.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

class PeerLinkTest : public ::testing::Test {
 protected:
  // What a worker is told that calls ps-0 at `address`: what `enough` accepts,
  // or what comes first.
  absl::Status Call(const std::string& address,
                    absl::Duration hello_deadline = absl::Seconds(60),
                    std::function<bool(const absl::Status&)> enough = nullptr,
                    absl::Duration longest_silence = absl::Seconds(60)) {
    GrpcRuntimeOptions options;
    options.self.set_type(v1::WORKER);
    options.hello_deadline = hello_deadline;
    options.longest_silence = longest_silence;
    options.peers = {{PeerId::Ps(0), address}};
    const auto runtime = Listen(&options);
    ToyCore worker;
    worker.on_start = [](Time, Outbox* out) {
      out->Send(PeerId::Ps(0), 1, std::make_unique<v1::PullRequest>(), {},
                absl::Seconds(60));
    };
    worker.on_tick = worker.on_start;
    absl::Status told;
    worker.on_receive = [&](Message m, Time now, Outbox* out) {
      told = m.status;
      worker.tick = now + absl::Milliseconds(10);
      if (enough == nullptr || enough(told)) out->Exit(absl::OkStatus());
    };
    runtime->AddCore(PeerId::Worker(0), &worker);
    EXPECT_TRUE(runtime->Run().ok());
    return told;
  }
  // A process at an address of its own.
  static std::unique_ptr<Runtime> Listen(GrpcRuntimeOptions* options) {
    while (true) {
      options->listen_address = absl::StrCat(DrawLoopbackHost(), ":2222");
      auto runtime = MakeGrpcRuntime(*options);
      if (runtime.ok()) return *std::move(runtime);
    }
  }
  static absl::Status Unreached(const std::string& address,
                                const std::string& why) {
    absl::Status status =
        absl::UnavailableError(absl::StrCat("ps-0 at ", address, ": ", why));
    // Where nobody listens the process that did has ended.
    if (why == "refused") MarkEnded(&status);
    return status;
  }
};

// A socket that listens, and whose connections nobody takes.
class SilentSocket {
 public:
  SilentSocket() {
    sockaddr_in name = {};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(name);
    auto* const generic = reinterpret_cast<sockaddr*>(&name);
    EXPECT_EQ(bind(fd_, generic, size), 0);
    EXPECT_EQ(listen(fd_, 16), 0);
    EXPECT_EQ(getsockname(fd_, generic, &size), 0);
    port_ = ntohs(name.sin_port);
  }
  ~SilentSocket() { close(fd_); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  const int fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int port_ = 0;
};

TEST_F(PeerLinkTest, AClosedPortIsRefused) {
  // Nothing of this machine listens there.
  EXPECT_EQ(Call("127.255.255.254:1"),
            Unreached("127.255.255.254:1", "refused"));
}

TEST_F(PeerLinkTest, ANameThatNobodyHasIsNoSuchHost) {
  // Resolvers deny names of this kind without asking the network.
  EXPECT_EQ(Call("nowhere.onion:2222"),
            Unreached("nowhere.onion:2222", "no such host"));
}

// A server whose name has another address, or none, before it is called.
class MovingNameTest : public PeerLinkTest {
 protected:
  MovingNameTest() {
    GrpcRuntimeOptions options;
    options.self.set_type(v1::PS);
    ps_ = Listen(&options);
    host_ = options.listen_address.substr(0, options.listen_address.find(':'));
    shard_.on_receive = [](Message m, Time, Outbox* out) {
      out->Reply(m.call, std::make_unique<v1::PullReply>());
    };
    ps_->AddCore(PeerId::Ps(0), &shard_);
    loop_ = std::thread([this] { (void)ps_->Run(); });
  }
  ~MovingNameTest() override {
    ps_->Stop(absl::CancelledError());
    loop_.join();
  }

  // Calls the server by a name that gets its address when the call has failed.
  // What it failed of.
  std::string MoveAndReach() {
    const std::string address = names_.Target("ps-0.train:2222");
    absl::Status before;
    EXPECT_TRUE(Call(address, absl::Seconds(60), [&](const absl::Status& told) {
                  if (told.ok()) return true;
                  before = told;
                  names_.SetAddress(host_);
                  return false;
                }).ok());
    return std::string(
        absl::StripPrefix(before.message(), Unreached(address, "").message()));
  }

  NameServer names_;

 private:
  ToyCore shard_;
  std::unique_ptr<Runtime> ps_;
  std::string host_;
  std::thread loop_;
};

TEST_F(MovingNameTest, ANameThatGetsAnAddressIsReached) {
  EXPECT_EQ(MoveAndReach(), "no such host");
}

TEST_F(MovingNameTest, ANameThatGetsAnotherAddressIsReached) {
  names_.SetAddress("127.255.255.254");
  EXPECT_EQ(MoveAndReach(), "refused");
}

// As a pod that goes: its name has no address until the next one is there. A
// channel of gRPC dials the old one for as long as it has no other.
TEST_F(MovingNameTest, ANameThatLosesItsAddressIsNoLongerDialledThere) {
  names_.SetAddress("127.255.255.254");
  const std::string address = names_.Target("ps-0.train:2222");
  const absl::Status refused = Unreached(address, "refused");
  EXPECT_EQ(Call(address, absl::Seconds(60),
                 [&](const absl::Status& told) {
                   names_.SetAddress("0.0.0.0");  // None.
                   return told != refused;
                 }),
            Unreached(address, "no such host"));
}

// A server that a worker has called, and that says nothing for a while.
class SilentPeerTest : public PeerLinkTest {
 protected:
  static constexpr absl::Duration kSilence = absl::Milliseconds(30);

  // In a thread of its own.
  struct Process {
    explicit Process(uint64_t incarnation) {
      GrpcRuntimeOptions options;
      options.self.set_type(v1::PS);
      options.incarnation = incarnation;
      runtime = Listen(&options);
      address = options.listen_address;
      core.on_receive = [this](Message m, Time, Outbox* out) {
        ++calls;
        out->Reply(m.call, std::make_unique<v1::PullReply>());
      };
      runtime->AddCore(PeerId::Ps(0), &core);
    }
    ~Process() {
      runtime->Stop(absl::CancelledError());
      loop.join();
    }
    void Start() {
      loop = std::thread([this] { (void)runtime->Run(); });
    }
    std::string host() const { return address.substr(0, address.find(':')); }

    std::unique_ptr<Runtime> runtime;
    std::string address;
    ToyCore core;
    std::atomic<int> calls{0};
    std::thread loop;
  };
};

// As where a machine vanishes: its connections are never reset.
TEST_F(SilentPeerTest, WhoeverHasItsNameByNowIsCalledInsteadOfASilentOne) {
  NameServer names;
  std::promise<void> end;
  const std::shared_future<void> has_ended = end.get_future();
  Process first(1), second(2);
  first.core.on_receive = [&](Message, Time, Outbox*) {
    names.SetAddress(second.host());
    has_ended.wait();
  };
  first.Start();
  second.Start();
  names.SetAddress(first.host());
  const std::string address = names.Target("ps-0.train:2222");
  absl::Status before;
  const absl::Status told = Call(
      address, absl::Seconds(1),
      [&before](const absl::Status& status) {
        if (!status.ok()) before = status;
        return status.ok();
      },
      kSilence);
  end.set_value();
  EXPECT_TRUE(told.ok()) << told;
  EXPECT_EQ(before,
            Unreached(address, "silent; another process answers by now"));
  EXPECT_FALSE(HasEnded(before)) << "it may be there, where nobody hears it";
  EXPECT_EQ(second.calls.load(), 1);
}

TEST_F(SilentPeerTest, OneThatIsOnlySlowKeepsItsCalls) {
  Process slow(1);
  CallId call = 0;
  slow.core.on_receive = [&](Message m, Time now, Outbox*) {
    ++slow.calls;
    call = m.call;
    slow.core.tick = now + 10 * kSilence;
  };
  slow.core.on_tick = [&](Time, Outbox* out) {
    out->Reply(call, std::make_unique<v1::PullReply>());
  };
  slow.Start();
  const absl::Status told =
      Call(slow.address, absl::Seconds(60), nullptr, kSilence);
  EXPECT_TRUE(told.ok()) << told;
  EXPECT_EQ(slow.calls.load(), 1);
}

TEST_F(PeerLinkTest, AChiefThatIsElsewhereIsReachedThere) {
  GrpcRuntimeOptions at_chief;
  at_chief.self.set_type(v1::WORKER);
  const auto chief = Listen(&at_chief);
  ToyCore coordinator;
  coordinator.on_receive = [](Message m, Time, Outbox* out) {
    out->Reply(m.call, std::make_unique<v1::HeartbeatReply>());
  };
  chief->AddCore(PeerId::Coordinator(), &coordinator);
  std::thread loop([&] { (void)chief->Run(); });

  std::string where = "127.255.255.254:1";  // Nobody listens there.
  GrpcRuntimeOptions options;
  options.self.set_type(v1::WORKER);
  options.self.set_index(1);
  options.peers = {{PeerId::Coordinator(), where}};
  options.find_coordinator = [&where] { return where; };
  const auto runtime = Listen(&options);
  ToyCore worker;
  worker.on_start = [](Time, Outbox* out) {
    out->Send(PeerId::Coordinator(), 1,
              std::make_unique<v1::HeartbeatRequest>(), {}, absl::Seconds(60));
  };
  worker.on_tick = worker.on_start;
  int refused = 0;
  worker.on_receive = [&](Message m, Time now, Outbox* out) {
    if (m.status.ok()) return out->Exit(absl::OkStatus());
    ++refused;
    where = at_chief.listen_address;
    worker.tick = now + absl::Milliseconds(10);
  };
  runtime->AddCore(PeerId::Worker(1), &worker);
  EXPECT_TRUE(runtime->Run().ok());
  EXPECT_EQ(refused, 1);
  chief->Stop(absl::CancelledError());
  loop.join();
}

// Two processes that may be the chief's, and a worker that hears which one is.
class TwoChiefsTest : public PeerLinkTest {
 protected:
  TwoChiefsTest() {
    for (int i = 0; i < 2; ++i) {
      GrpcRuntimeOptions options;
      options.self.set_type(v1::WORKER);
      options.incarnation = i + 1;
      chiefs_[i] = Listen(&options);
      addresses_[i] = options.listen_address;
      coordinators_[i].on_receive = [this, i](Message m, Time, Outbox* out) {
        ++calls_[i];
        out->Reply(m.call, std::make_unique<v1::HeartbeatReply>());
      };
      chiefs_[i]->AddCore(PeerId::Coordinator(), &coordinators_[i]);
    }
    where_ = addresses_[0];
  }
  // Until the worker exits.
  void Run(absl::Duration longest_silence = absl::Seconds(60)) {
    std::thread loops[2];
    for (int i = 0; i < 2; ++i) {
      loops[i] = std::thread([this, i] { (void)chiefs_[i]->Run(); });
    }
    GrpcRuntimeOptions options;
    options.self.set_type(v1::WORKER);
    options.self.set_index(1);
    options.longest_silence = longest_silence;
    options.peers = {{PeerId::Coordinator(), where_}};
    options.find_coordinator = [this] { return where_; };
    const auto runtime = Listen(&options);
    runtime->AddCore(PeerId::Worker(1), &worker_);
    const absl::Status status = runtime->Run();
    EXPECT_TRUE(status.ok()) << status;
    for (int i = 0; i < 2; ++i) {
      chiefs_[i]->Stop(absl::CancelledError());
      loops[i].join();
    }
  }
  static void Send(CallId id, Outbox* out) {
    out->Send(PeerId::Coordinator(), id,
              std::make_unique<v1::HeartbeatRequest>(), {}, absl::Seconds(60));
  }

  ToyCore worker_;
  std::string addresses_[2];
  std::string where_;  // The chief is.
  ToyCore coordinators_[2];
  int calls_[2] = {0, 0};  // Of their threads until Run is over.

 private:
  std::unique_ptr<Runtime> chiefs_[2];
};

TEST_F(TwoChiefsTest, OneThatIsElsewhereIsLeftThoughTheOneBeforeAnswers) {
  worker_.on_start = [](Time, Outbox* out) { Send(1, out); };
  worker_.on_tick = worker_.on_start;
  worker_.on_receive = [&](Message m, Time now, Outbox* out) {
    if (!m.status.ok()) return out->Exit(m.status);
    if (std::exchange(where_, addresses_[1]) == where_) {
      return out->Exit(absl::OkStatus());
    }
    worker_.tick = now;
  };
  Run();
  EXPECT_EQ(calls_[0], 1);
  EXPECT_EQ(calls_[1], 1);
}

TEST_F(TwoChiefsTest, OneThatWasSilentAndSpeaksAgainIsNotFollowedAgain) {
  constexpr absl::Duration kSilence = absl::Milliseconds(30);
  std::promise<void> end;
  coordinators_[0].on_receive = [&](Message m, Time, Outbox* out) {
    if (++calls_[0] == 1) end.get_future().wait();
    out->Reply(m.call, std::make_unique<v1::HeartbeatReply>());
  };
  worker_.on_start = [&](Time now, Outbox* out) {
    Send(1, out);
    worker_.tick = now + kSilence;
  };
  int ticks = 0;
  worker_.on_tick = [&](Time now, Outbox* out) {
    worker_.tick = now + kSilence;
    // By the first of them it has been asked beside its connection.
    if (++ticks == 10) {
      where_ = addresses_[1];
      Send(2, out);
    } else if (ticks == 30) {
      Send(3, out);
    }
  };
  std::map<CallId, absl::Status> told;
  worker_.on_receive = [&](Message m, Time, Outbox* out) {
    told[m.call] = m.status;
    if (m.call == 2) end.set_value();
    if (told.size() == 3) out->Exit(absl::OkStatus());
  };
  Run(kSilence);
  for (const auto& [call, status] : told) EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(calls_[0], 1);
  EXPECT_EQ(calls_[1], 2);
}

TEST_F(PeerLinkTest, ASocketThatNeverAnswersTimesOut) {
  const SilentSocket silent;
  EXPECT_EQ(Call(silent.address()), Unreached(silent.address(), "timed out"));
}

TEST_F(PeerLinkTest, AHelloWithoutAnAnswerTimesOut) {
  GrpcRuntimeOptions options;
  options.self.set_type(v1::PS);
  const auto ps = Listen(&options);  // And does not run.
  EXPECT_EQ(Call(options.listen_address, absl::Milliseconds(100)),
            Unreached(options.listen_address, "timed out"));
}

TEST_F(PeerLinkTest, AServerThatKnowsNoHelloIsNotAParamdProcess) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  const auto queue = builder.AddCompletionQueue();
  const std::unique_ptr<grpc::Server> stranger = builder.BuildAndStart();
  ASSERT_NE(stranger, nullptr);
  std::thread loop([&queue] {
    void* tag;
    bool ok;
    while (queue->Next(&tag, &ok)) {
    }
  });
  const std::string address = absl::StrCat("127.0.0.1:", port);
  EXPECT_EQ(Call(address), Unreached(address, "not a paramd process"));
  stranger->Shutdown();
  queue->Shutdown();
  loop.join();
}

}  // namespace
}  // namespace paramd
