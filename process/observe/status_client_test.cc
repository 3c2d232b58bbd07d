#include "process/observe/status_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "absl/strings/str_cat.h"

#include "process/testing/fake_process.h"

namespace paramd {
namespace {

using Patience = StatusClient::Patience;

// Something at 127.0.0.1 that accepts connections, if it is told to, and says
// what it is given, in no language that a process of paramd would use.
class Stranger {
 public:
  Stranger() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address_);
    auto* address = reinterpret_cast<sockaddr*>(&address_);
    EXPECT_EQ(bind(socket_, address, size), 0);
    EXPECT_EQ(listen(socket_, 8), 0);
    EXPECT_EQ(getsockname(socket_, address, &size), 0);
  }
  ~Stranger() {
    shutdown(socket_, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    close(socket_);
  }

  void Speak(const std::string& text) {
    thread_ = std::thread([this, text] {
      for (int peer; (peer = accept(socket_, nullptr, nullptr)) >= 0;) {
        EXPECT_EQ(write(peer, text.data(), text.size()),
                  static_cast<ssize_t>(text.size()));
        // Until the other end has had enough.
        char ignored[256];
        while (read(peer, ignored, sizeof(ignored)) > 0) {
        }
        close(peer);
      }
    });
  }
  std::string address() const {
    return absl::StrCat("127.0.0.1:", ntohs(address_.sin_port));
  }

 private:
  int socket_;
  sockaddr_in address_ = {};
  std::thread thread_;
};

absl::StatusOr<v1::StatusReply> Ask(const std::string& address,
                                    absl::Duration deadline) {
  return StatusClient({address}).Ask(deadline, Patience::kFailAtOnce)[0];
}

TEST(StatusClientTest, AnswersAndFailuresComeInTheOrderOfTheAddresses) {
  v1::StatusReply reply;
  reply.set_host("box");
  FakeProcess process(reply);
  // Nobody listens on port 1 of this address.
  StatusClient client({"127.77.77.77:1", process.address()});
  const auto answers = client.Ask(absl::Minutes(1), Patience::kFailAtOnce);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].status(), absl::UnavailableError("refused"));
  ASSERT_TRUE(answers[1].ok()) << answers[1].status();
  EXPECT_EQ(answers[1]->host(), "box");
}

TEST(StatusClientTest, TheReasonIsSaidInAFewWords) {
  EXPECT_EQ(Ask("no-such-host.invalid:1", absl::Minutes(1)).status().code(),
            absl::StatusCode::kUnavailable);
  Stranger silent;
  EXPECT_EQ(Ask(silent.address(), absl::Milliseconds(200)).status(),
            absl::UnavailableError("no answer within 200ms"));
  Stranger web;
  web.Speak("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(Ask(web.address(), absl::Minutes(1)).status(),
            absl::UnavailableError("not a paramd process"));
}

TEST(StatusClientTest, WhatATerminalWouldObeyIsEscaped) {
  v1::StatusReply reply;
  reply.set_host("\x1b[2Jbox\nps-1");
  reply.mutable_job()->set_checkpoint_path(
      "\xc2\x9b"
      "31m\r");
  FakeProcess process(reply);
  const auto answer = Ask(process.address(), absl::Minutes(1));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->host(), R"(\x1b[2Jbox\nps-1)");
  EXPECT_EQ(answer->job().checkpoint_path(), R"(\xc2\x9b31m\x0d)");
}

TEST(StatusClientTest, NoProxyIsAskedWhateverTheEnvironmentSays) {
  FakeProcess process({});
  // Nobody listens there.
  setenv("http_proxy", "http://127.77.77.77:1", /*overwrite=*/1);
  const auto answer = Ask(process.address(), absl::Minutes(1));
  unsetenv("http_proxy");
  EXPECT_TRUE(answer.ok()) << answer.status();
}

TEST(StatusClientTest, AnIpv6AddressStandsInBrackets) {
  const std::string reason(Ask("[::1]:1", absl::Minutes(1)).status().message());
  EXPECT_TRUE(reason == "refused" || reason == "no route") << reason;
}

}  // namespace
}  // namespace paramd
