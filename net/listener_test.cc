#include "net/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "base/time.h"
#include "net/listen_address.h"
#include "net/testing/loopback_address.h"

namespace paramd {
namespace {

// A connection as a client has it.
class Client {
 public:
  Client(const std::string& host, int port) {
    sockaddr_in name = {};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = inet_addr(host.c_str());
    name.sin_port = htons(static_cast<uint16_t>(port));
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&name), sizeof(name)),
              0);
  }
  ~Client() { close(fd_); }

  // Waits for a byte. False if the connection is closed instead.
  bool IsGreeted() {
    char byte;
    return read(fd_, &byte, 1) == 1;
  }

 private:
  const int fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
};

// A listener whose connections are greeted with a byte, with few descriptors.
class ListenerTest : public ::testing::Test {
 protected:
  static constexpr int kPort = 2222;
  static constexpr rlim_t kDescriptors = 200;
  static constexpr int kMost = kDescriptors / 2;

  ListenerTest() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = kDescriptors;
    setrlimit(RLIMIT_NOFILE, &few);
    absl::StatusOr<std::unique_ptr<Listener>> listener;
    do {
      host_ = DrawLoopbackHost();
      listener = Listener::Bind(absl::StrCat(host_, ":", kPort), false, 1024);
    } while (!listener.ok());
    listener_ = *std::move(listener);
    setrlimit(RLIMIT_NOFILE, &before_);
  }
  ~ListenerTest() override {
    listener_.reset();
    for (const int fd : taken_) close(fd);
    setrlimit(RLIMIT_NOFILE, &before_);
  }

  void Start() {
    listener_->Start([this](int, int fd) {
      EXPECT_NE(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
      EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
      {
        MutexLock lock(&mutex_);
        taken_.push_back(fd);
      }
      EXPECT_EQ(write(fd, "!", 1), 1);
    });
  }
  std::unique_ptr<Client> Connect() {
    return std::make_unique<Client>(host_, kPort);
  }
  // As gRPC does when a connection is over.
  void CloseTaken() {
    MutexLock lock(&mutex_);
    for (const int fd : taken_) close(fd);
    taken_.clear();
  }

  std::string host_;
  std::unique_ptr<Listener> listener_;
  rlimit before_ = {};

 private:
  Mutex mutex_;
  std::vector<int> taken_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(ListenerTest, Promise8_ConnectionsBeyondTheBoundAreClosedAtOnce) {
  Start();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < kMost; ++i) {
    clients.push_back(Connect());
    EXPECT_TRUE(clients.back()->IsGreeted());
  }
  EXPECT_FALSE(Connect()->IsGreeted());
  EXPECT_FALSE(Connect()->IsGreeted());
  EXPECT_EQ(listener_->closed_at_once(), 2u);
  CloseTaken();
  for (int i = 0; i < kMost; ++i) {
    clients[i] = Connect();
    EXPECT_TRUE(clients[i]->IsGreeted()) << i;
  }
  EXPECT_FALSE(Connect()->IsGreeted());
}

TEST_F(ListenerTest, WhatIsAddedHasConnectionsOfItsOwn) {
  const std::string other = absl::StrCat(host_, ":", kPort + 1);
  const auto added = ListenAt(other, /*or_everywhere=*/false);
  ASSERT_TRUE(added.ok()) << added.status();
  listener_->Add((*added)[0]);
  Start();
  std::vector<std::unique_ptr<Client>> strangers;
  for (int i = 0; i < kMost; ++i) strangers.push_back(Connect());
  EXPECT_FALSE(Connect()->IsGreeted());
  std::vector<std::unique_ptr<Client>> operators;
  for (int i = 0; i < 32; ++i) {
    operators.push_back(std::make_unique<Client>(host_, kPort + 1));
    EXPECT_TRUE(operators.back()->IsGreeted()) << i;
  }
  EXPECT_FALSE(Client(host_, kPort + 1).IsGreeted());
  listener_.reset();
  close((*added)[0]);
}

TEST_F(ListenerTest, WhatCannotBeOpenedYetIsAskedForAgain) {
  const auto added =
      ListenAt(absl::StrCat(host_, ":", kPort + 1), /*or_everywhere=*/false);
  ASSERT_TRUE(added.ok()) << added.status();
  std::atomic<int> asked = 0;
  listener_->AddWhenOpen([&]() -> absl::optional<int> {
    if (++asked < 2) return absl::nullopt;
    return (*added)[0];
  });
  Start();
  // The kernel has the connection until it is accepted.
  EXPECT_TRUE(Client(host_, kPort + 1).IsGreeted());
  EXPECT_EQ(asked, 2);
  EXPECT_TRUE(Connect()->IsGreeted());
  EXPECT_EQ(asked, 2) << "and never again";
  listener_.reset();
  close((*added)[0]);
}

TEST_F(ListenerTest, WhatCanNeverBeOpenedIsAskedForOnce) {
  std::atomic<int> asked = 0;
  listener_->AddWhenOpen([&]() -> absl::optional<int> {
    ++asked;
    return -1;
  });
  Start();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Connect()->IsGreeted());
  EXPECT_LE(asked, 1);
}

TEST_F(ListenerTest, WithoutADescriptorConnectionsWaitAndAreTakenLater) {
  const auto client = Connect();
  std::vector<int> hoard;
  rlimit few = before_;
  few.rlim_cur = kDescriptors;
  setrlimit(RLIMIT_NOFILE, &few);
  const auto take_all = [&] {
    for (int fd; (fd = open("/dev/null", O_RDONLY)) >= 0;) hoard.push_back(fd);
  };
  take_all();
  Start();
  // A thread that gRPC had for an earlier test may give one back.
  while (listener_->without_descriptor() == 0) take_all();
  for (const int held : hoard) close(held);
  EXPECT_TRUE(client->IsGreeted());
  EXPECT_TRUE(Connect()->IsGreeted());
}

TEST_F(ListenerTest, Promise8_ManyThatConnectAreLookedAtNoMoreOftenThanOne) {
  std::atomic<int> looks = 0;
  listener_->Watch([&] {
    ++looks;
    return true;
  });
  const Time begin = MonotonicNow();
  Start();
  for (int i = 0; i < kMost; ++i) EXPECT_TRUE(Connect()->IsGreeted());
  const int made = looks;
  EXPECT_LE(made * absl::Milliseconds(100), MonotonicNow() - begin);
  while (looks == made) absl::SleepFor(absl::Milliseconds(5));
  listener_.reset();
}

TEST_F(ListenerTest, WhoConnectsBeforeTheStartIsTaken) {
  const auto early = Connect();
  Start();
  EXPECT_TRUE(early->IsGreeted());
}

TEST_F(ListenerTest, WhatCannotBeBoundIsSaid) {
  const auto second =
      Listener::Bind(absl::StrCat(host_, ":", kPort), false, 1024);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace paramd
