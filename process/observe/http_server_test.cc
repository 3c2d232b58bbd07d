#include "process/observe/http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/clock.h"
#include "net/listen_address.h"

namespace paramd {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest() {
    server_ = std::make_unique<HttpServer>(
        Listeners(), [](const HttpServer::Request& request) {
          return HttpServer::Response{
              200, "text/plain",
              absl::StrCat("you said ", request.path,
                           request.query.empty() ? "" : " and ", request.query,
                           request.wants_html ? " in a browser" : "")};
        });
  }

  static std::vector<int> Listeners() {
    auto listeners = ListenAt("127.0.0.1:0", /*or_everywhere=*/false);
    EXPECT_TRUE(listeners.ok()) << listeners.status();
    return *std::move(listeners);
  }

  int Connect() { return Connect(server_->port()); }
  static int Connect(int port) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ConnectTo(port, fd);
    return fd;
  }
  static void ConnectTo(int port, int fd) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    EXPECT_EQ(
        connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }

  static void Send(int fd, const std::string& text) {
    EXPECT_EQ(send(fd, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }

  // What comes until the server closes.
  static std::string ReceiveAll(int fd) {
    std::string answer;
    char bytes[4096];
    for (ssize_t count; (count = read(fd, bytes, sizeof(bytes))) > 0;) {
      answer.append(bytes, count);
    }
    close(fd);
    return answer;
  }

  std::string Ask(const std::string& request) {
    const int fd = Connect();
    Send(fd, request);
    return ReceiveAll(fd);
  }

  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AGetIsAnsweredAndTheConnectionClosed) {
  EXPECT_EQ(Ask("GET /a/b?c=d HTTP/1.1\r\nHost: x\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
            "Content-Length: 21\r\nConnection: close\r\n\r\n"
            "you said /a/b and c=d");
  EXPECT_THAT(Ask("HEAD / HTTP/1.0\r\n\r\n"), EndsWith("close\r\n\r\n"));
}

TEST_F(HttpServerTest, ABrowserSaysThatItWantsHtml) {
  EXPECT_THAT(Ask("GET /a HTTP/1.1\r\nAccept: text/html,*/*\r\n\r\n"),
              EndsWith("you said /a in a browser"));
  EXPECT_THAT(Ask("GET /a HTTP/1.1\r\nAccept: */*\r\n\r\n"),
              EndsWith("you said /a"));
  // What comes after the header is nobody's.
  EXPECT_THAT(Ask("GET /a HTTP/1.1\r\n\r\nAccept: text/html\r\n\r\n"),
              EndsWith("you said /a"));
}

TEST_F(HttpServerTest, FurtherFieldsStandInTheHeader) {
  HttpServer server(Listeners(), [](const HttpServer::Request&) {
    return HttpServer::Response{200, "text/plain", "x", "A: b\r\nC: d\r\n"};
  });
  const int fd = Connect(server.port());
  Send(fd, "GET / HTTP/1.1\r\n\r\n");
  EXPECT_THAT(ReceiveAll(fd),
              EndsWith("Connection: close\r\nA: b\r\nC: d\r\n\r\nx"));
}

TEST_F(HttpServerTest, WhatIsNoGetIsRefused) {
  EXPECT_THAT(Ask("POST / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(Ask("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask("GET /a\nb HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask("GET / HTTP/2\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
}

TEST_F(HttpServerTest, ARequestMayComeInPiecesWhileOthersAreAnswered) {
  const int slow = Connect();
  Send(slow, "GET /slow HT");
  EXPECT_THAT(Ask("GET /quick HTTP/1.1\r\n\r\n"), EndsWith("said /quick"));
  Send(slow, "TP/1.1\r\n\r");
  Send(slow, "\n");
  EXPECT_THAT(ReceiveAll(slow), EndsWith("said /slow"));
}

TEST_F(HttpServerTest, AnEndlessRequestIsClosed) {
  const int fd = Connect();
  const std::string piece(4096, 'x');
  // Fails once the server has closed.
  while (send(fd, piece.data(), piece.size(), MSG_NOSIGNAL) > 0) {
  }
  EXPECT_EQ(ReceiveAll(fd), "");
}

TEST_F(HttpServerTest, WhoStaysSilentIsHungUpOn) {
  server_ = std::make_unique<HttpServer>(Listeners(), nullptr, nullptr,
                                         /*patience=*/absl::Milliseconds(5));
  EXPECT_EQ(ReceiveAll(Connect()), "");
}

TEST_F(HttpServerTest, OfMoreConnectionsThanItHoldsTheOldestGivesWay) {
  std::vector<int> idle;
  for (int i = 0; i < 40; ++i) {
    idle.push_back(Connect());
    if (i == 0) Send(idle[0], "GET /");
  }
  const int last = Connect();
  Send(last, "GET /last HTTP/1.1\r\n\r\n");
  EXPECT_THAT(ReceiveAll(last), EndsWith("said /last"));
  // The first of them had to go, and was told so.
  EXPECT_THAT(ReceiveAll(idle[0]),
              EndsWith("\r\n\r\ntoo many connections are open, and this was "
                       "the oldest one.\n"));
  // Who has not asked anything is told nothing: it may just be about to.
  EXPECT_EQ(ReceiveAll(idle[1]), "");
  for (size_t i = 2; i < idle.size(); ++i) close(idle[i]);
}

// Who has to be seen to be closed: the kernel closes later than the server.
bool IsClosed(int fd) {
  char byte;
  while (true) {
    const ssize_t count = recv(fd, &byte, 1, 0);
    if (count <= 0) return true;  // What the server still said is before it.
  }
}

TEST_F(HttpServerTest, Promise8_AHundredWhoSendAByteNowAndThenKeepNobodyAway) {
  server_ = std::make_unique<HttpServer>(
      Listeners(),
      [](const HttpServer::Request&) {
        return HttpServer::Response{200, "text/plain", "here"};
      },
      nullptr, /*patience=*/absl::Hours(1));
  std::vector<int> slow;
  for (int i = 0; i < 100; ++i) {
    slow.push_back(Connect());
    Send(slow.back(), "G");
  }
  for (const char* const byte : {"E", "T", " "}) {
    EXPECT_THAT(Ask("GET / HTTP/1.1\r\n\r\n"), EndsWith("here"));
    // Those that are left go on.
    for (int i = 80; i < 100; ++i) Send(slow[i], byte);
  }
  // Of 101 that were open at once, 32 may be. The later ones took places that
  // had become free.
  EXPECT_EQ(server_->over_limit(), 69u);
  for (int i = 0; i < 69; ++i) EXPECT_TRUE(IsClosed(slow[i])) << i;
  Send(slow[99], "/ HTTP/1.1\r\n\r\n");
  EXPECT_THAT(ReceiveAll(slow[99]), EndsWith("here"));
  slow.pop_back();
  for (const int fd : slow) close(fd);
}

TEST_F(HttpServerTest, Promise8_AHundredWhoNeverReadKeepNobodyAway) {
  const std::string body(1 << 20, 'x');
  std::vector<int> listeners = Listeners();
  const int few = 4096;  // What the kernel takes of an answer is bounded, too.
  setsockopt(listeners[0], SOL_SOCKET, SO_SNDBUF, &few, sizeof(few));
  server_ = std::make_unique<HttpServer>(
      listeners,
      [&](const HttpServer::Request& request) {
        return HttpServer::Response{200, "text/plain",
                                    request.path == "/all" ? body : "here"};
      },
      nullptr, /*patience=*/absl::Hours(1));
  std::vector<int> deaf;
  for (int i = 0; i < 100; ++i) {
    deaf.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    setsockopt(deaf.back(), SOL_SOCKET, SO_RCVBUF, &few, sizeof(few));
    ConnectTo(server_->port(), deaf.back());
    Send(deaf.back(), "GET /all HTTP/1.1\r\n\r\n");
  }
  EXPECT_THAT(Ask("GET / HTTP/1.1\r\n\r\n"), EndsWith("here"));
  // So no more than 32 of their answers are held.
  EXPECT_EQ(server_->over_limit(), 69u);
  for (const int fd : deaf) close(fd);
  EXPECT_THAT(Ask("GET /all HTTP/1.1\r\n\r\n"), EndsWith(body));
}

TEST_F(HttpServerTest, WhoTakesTooLongIsCountedAndWhoStaysSilentIsNot) {
  server_ = std::make_unique<HttpServer>(Listeners(), nullptr, nullptr,
                                         /*patience=*/absl::Milliseconds(5));
  EXPECT_EQ(ReceiveAll(Connect()), "");
  EXPECT_EQ(server_->unfinished(), 0u);
  // On a busy machine one may be closed before it has sent anything.
  while (server_->unfinished() == 0) {
    const int slow = Connect();
    send(slow, "G", 1, MSG_NOSIGNAL);
    EXPECT_EQ(ReceiveAll(slow), "");
  }
  EXPECT_EQ(server_->unfinished(), 1u);
}

TEST_F(HttpServerTest, WhoSendsTooMuchIsCounted) {
  const int endless = Connect();
  const std::string piece(4096, 'x');
  while (send(endless, piece.data(), piece.size(), MSG_NOSIGNAL) > 0) {
  }
  close(endless);
  EXPECT_EQ(server_->unfinished(), 1u);
}

TEST_F(HttpServerTest, WithoutADescriptorItWaitsAndDoesNotSpin) {
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  rlimit before = {};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit few = before;
  few.rlim_cur = 64;
  setrlimit(RLIMIT_NOFILE, &few);
  std::vector<int> hoard;
  const auto take_all = [&] {
    for (int fd; (fd = open("/dev/null", O_RDONLY)) >= 0;) hoard.push_back(fd);
  };
  take_all();
  const Time began = MonotonicNow();
  ConnectTo(server_->port(), client);
  // A thread that gRPC had for an earlier test may give one back.
  while (server_->without_descriptor() < 3) take_all();
  EXPECT_GE(MonotonicNow() - began, absl::Milliseconds(200));
  for (const int fd : hoard) close(fd);
  setrlimit(RLIMIT_NOFILE, &before);
  Send(client, "GET /late HTTP/1.1\r\n\r\n");
  EXPECT_THAT(ReceiveAll(client), EndsWith("said /late"));
}

TEST_F(HttpServerTest, AnEndWhileSomebodyIsConnectedIsAnEnd) {
  const int fd = Connect();
  Send(fd, "GET /");
  server_.reset();
  EXPECT_EQ(ReceiveAll(fd), "");
}

TEST_F(HttpServerTest, ItAnswersAtEachOfItsAddresses) {
  std::vector<int> listeners = Listeners();
  listeners.push_back(Listeners()[0]);
  sockaddr_in second = {};
  socklen_t size = sizeof(second);
  getsockname(listeners[1], reinterpret_cast<sockaddr*>(&second), &size);
  server_ = std::make_unique<HttpServer>(listeners, [](const auto&) {
    return HttpServer::Response{200, "text/plain", "here"};
  });
  for (const int port : {server_->port(), int{ntohs(second.sin_port)}}) {
    const int fd = Connect(port);
    Send(fd, "GET / HTTP/1.1\r\n\r\n");
    EXPECT_THAT(ReceiveAll(fd), HasSubstr("here"));
  }
}

}  // namespace
}  // namespace paramd
