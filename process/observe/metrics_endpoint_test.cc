#include "process/observe/metrics_endpoint.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

int PortOf(const MetricsEndpoint& endpoint) {
  const std::string url = endpoint.url();
  const size_t colon = url.rfind(':');
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(
      url.substr(colon + 1, url.rfind('/') - colon - 1), &port))
      << url;
  return port;
}

int Connect(const MetricsEndpoint& endpoint) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(PortOf(endpoint)));
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
            0);
  return fd;
}

// The whole answer to one GET, headers included.
std::string Get(const MetricsEndpoint& endpoint, const std::string& path,
                const std::string& host = "localhost") {
  const int fd = Connect(endpoint);
  const std::string request =
      absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: ", host,
                   "\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(write(fd, request.data(), request.size()),
            static_cast<ssize_t>(request.size()));
  std::string answer;
  char bytes[4096];
  for (ssize_t count; (count = read(fd, bytes, sizeof(bytes))) > 0;) {
    answer.append(bytes, count);
  }
  close(fd);
  return answer;
}

std::unique_ptr<MetricsEndpoint> Endpoint(
    absl::Duration patience = absl::Minutes(1)) {
  auto endpoint =
      MetricsEndpoint::Listen({.address = "127.0.0.1:0", .patience = patience});
  EXPECT_TRUE(endpoint.ok()) << endpoint.status();
  return *std::move(endpoint);
}

v1::StatusReply WithPulls(uint64_t pulls) {
  v1::StatusReply status;
  status.mutable_server()->set_pulls(pulls);
  return status;
}

TEST(MetricsEndpointTest, AScrapeGetsAFreshStatus) {
  auto endpoint = Endpoint();
  uint64_t pulls = 40;
  endpoint->SetSource([&](auto done) { done(WithPulls(++pulls)); });
  const std::string first = Get(*endpoint, "/metrics");
  EXPECT_THAT(first, StartsWith("HTTP/1.1 200"));
  const std::string second = Get(*endpoint, "/metrics");
  EXPECT_THAT(second, HasSubstr("Content-Type: text/plain; version=0.0.4;"));
  const std::string sample =
      "# HELP paramd_server_answered_pulls_total Pulls answered.\n"
      "# TYPE paramd_server_answered_pulls_total counter\n"
      "paramd_server_answered_pulls_total ";
  const auto pulls_in = [&](const std::string& answer) {
    const size_t at = answer.find(sample);
    EXPECT_NE(at, std::string::npos) << answer;
    return std::atoi(answer.c_str() + at + sample.size());
  };
  EXPECT_GT(pulls_in(first), 40);
  EXPECT_GT(pulls_in(second), pulls_in(first));
  EXPECT_THAT(second, HasSubstr("\nprocess_cpu_seconds_total "));
  EXPECT_THAT(Get(*endpoint, "/other"), StartsWith("HTTP/1.1 404"));
}

TEST(MetricsEndpointTest, WhoWasRefusedHereIsCounted) {
  auto endpoint = Endpoint();
  endpoint->SetSource([](auto done) { done(WithPulls(1)); });
  const std::string sample =
      "paramd_refused_connections_total{port=\"http\",reason=\"over_limit\"} ";
  const auto count = [&] {
    const std::string answer = Get(*endpoint, "/metrics");
    const size_t at = answer.find(sample);
    return at == std::string::npos
               ? 0  // It came before the server was known to itself.
               : std::atoi(answer.c_str() + at + sample.size());
  };
  EXPECT_EQ(count(), 0);
  std::vector<int> silent;
  while (count() == 0) {
    for (int i = 0; i < 33; ++i) silent.push_back(Connect(*endpoint));
  }
  for (const int fd : silent) close(fd);
}

TEST(MetricsEndpointTest, ThePageItsTextAndItsFiguresAreServed) {
  MetricsEndpoint::Options options;
  options.address = "127.0.0.1:0";
  options.configuration = "epochs  3  from the job file\n";
  options.patience = absl::Minutes(1);
  const auto endpoint = MetricsEndpoint::Listen(options);
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  (*endpoint)->SetSource([](auto done) {
    v1::StatusReply status;
    status.mutable_task()->set_type(v1::WORKER);
    status.mutable_job()->set_name("<b>j\x1b[2J</b>");
    status.mutable_job()->set_state(v1::RUNNING);
    done(status);
  });
  const std::string text = Get(**endpoint, "/");
  EXPECT_THAT(text, HasSubstr("Content-Type: text/plain"));
  EXPECT_THAT(text, HasSubstr("\r\n\r\ntrains: "));
  EXPECT_THAT(text, Not(HasSubstr("\x1b"))) << "a terminal would obey it";
  const std::string json = Get(**endpoint, "/status.json?since=x");
  EXPECT_THAT(json, HasSubstr("Content-Type: application/json"));
  EXPECT_THAT(json, HasSubstr("\"verdict\": \"trains: "));
  EXPECT_THAT(Get(**endpoint, "/config"), HasSubstr("from the job file"));
  const std::string page =
      Get(**endpoint, "/", "localhost\r\nAccept: text/html");
  EXPECT_THAT(page, HasSubstr("Content-Type: text/html"));
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy: default-src 'none'; "
                              "script-src 'sha256-"));
  EXPECT_THAT(page, Not(HasSubstr("src="))) << "it loads something";
  EXPECT_LT(page.size(), 100u << 10);
}

TEST(MetricsEndpointTest, WhoSaysNothingYetIsUnavailable) {
  const auto endpoint = Endpoint(absl::Milliseconds(1));
  EXPECT_THAT(Get(*endpoint, "/"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Get(*endpoint, "/status.json"),
              HasSubstr("\"verdict\": \"this process has not said anything "
                        "yet\""));
}

TEST(MetricsEndpointTest, WithoutAnAnswerTheLastStatusIsServedAndAskedForOnce) {
  auto endpoint = Endpoint(absl::Milliseconds(1));
  int questions = 0;
  std::function<void(v1::StatusReply)> open;
  endpoint->SetSource([&](auto done) {
    ++questions;
    open = std::move(done);
  });
  // Nothing is known yet.
  EXPECT_THAT(Get(*endpoint, "/metrics"), Not(HasSubstr("paramd_server")));
  open(WithPulls(5));
  EXPECT_THAT(Get(*endpoint, "/metrics"),
              HasSubstr("paramd_server_answered_pulls_total 5\n"));
  EXPECT_EQ(questions, 2);
  const std::string late = Get(*endpoint, "/metrics");
  EXPECT_THAT(late, HasSubstr("paramd_server_answered_pulls_total 5\n"));
  EXPECT_THAT(late, Not(HasSubstr("paramd_status_age_seconds 0\n")));
  EXPECT_EQ(questions, 2);
  // An answer after the source was changed is nobody's.
  endpoint->SetSource(nullptr);
  open(WithPulls(9));
  EXPECT_THAT(Get(*endpoint, "/metrics"),
              HasSubstr("paramd_server_answered_pulls_total 5\n"));
  // And one after the endpoint is gone does no harm.
  endpoint.reset();
  open(WithPulls(9));
}

TEST(MetricsEndpointTest, NobodyIsAskedAnyMoreWhenTheSourceHasChanged) {
  auto endpoint = Endpoint();
  std::promise<void> asked, release;
  std::atomic<bool> has_begun{false}, is_over{false};
  endpoint->SetSource([&](auto done) {
    if (has_begun.exchange(true)) return done(WithPulls(1));
    asked.set_value();
    release.get_future().wait();
    is_over = true;
    done(WithPulls(1));
  });
  std::thread scrape([&] { Get(*endpoint, "/metrics"); });
  asked.get_future().wait();
  std::promise<void> changing;
  std::thread change([&] {
    changing.set_value();
    endpoint->SetSource(nullptr);
    EXPECT_TRUE(is_over) << "what it captured may be gone now";
  });
  changing.get_future().wait();
  release.set_value();
  change.join();
  scrape.join();
}

TEST(MetricsEndpointTest, WhenTheCertificateExpiresIsAMetric) {
  const std::string name = "paramd_tls_certificate_expiry_timestamp_seconds";
  EXPECT_THAT(Get(*Endpoint(), "/metrics"), Not(HasSubstr(name)));
  MetricsEndpoint::Options options;
  options.address = "127.0.0.1:0";
  options.certificate_until = [] { return absl::FromUnixSeconds(1800000000); };
  const auto endpoint = MetricsEndpoint::Listen(options);
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  EXPECT_THAT(Get(**endpoint, "/metrics"),
              HasSubstr(absl::StrCat(name, " 1800000000\n")));
}

TEST(MetricsEndpointTest, APageOfAnotherNameIsNotAnswered) {
  const auto endpoint = Endpoint();
  for (const char* const host : {"127.0.0.1", "127.0.0.1:9090", "localhost:1",
                                 "LOCALHOST", "[::1]:9090", "10.1.2.3"}) {
    EXPECT_THAT(Get(*endpoint, "/metrics", host), StartsWith("HTTP/1.1 200"))
        << host;
  }
  for (const char* const host :
       {"evil.example", "evil.example:9090", "127.0.0.1.evil.example", "",
        "localhost.evil.example"}) {
    EXPECT_THAT(Get(*endpoint, "/metrics", host), StartsWith("HTTP/1.1 421"))
        << host;
  }
  const auto near =
      MetricsEndpoint::Listen({.address = "127.0.0.1:0", .insecure = true});
  ASSERT_TRUE(near.ok()) << near.status();
  EXPECT_THAT(Get(**near, "/metrics", "evil.example"),
              StartsWith("HTTP/1.1 421"));
  // Who listens for others may be known to them by any name.
  const auto open =
      MetricsEndpoint::Listen({.address = "0.0.0.0:0", .insecure = true});
  ASSERT_TRUE(open.ok()) << open.status();
  EXPECT_THAT(Get(**open, "/metrics", "ps-0.job.svc"),
              StartsWith("HTTP/1.1 200"));
}

TEST(MetricsEndpointTest, WhereItCannotListenItSaysWhy) {
  const auto first = Endpoint();
  const auto taken = MetricsEndpoint::Listen(
      {.address = absl::StrCat("127.0.0.1:", PortOf(*first))});
  EXPECT_EQ(taken.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(taken.status().message(), HasSubstr("Address already in use"));
  const auto open = MetricsEndpoint::Listen({.address = "0.0.0.0:0"});
  EXPECT_EQ(open.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(open.status().message(), HasSubstr("--insecure"));
  EXPECT_TRUE(
      MetricsEndpoint::Listen({.address = "0.0.0.0:0", .insecure = true}).ok());
  EXPECT_THAT(MetricsEndpoint::Listen({.address = "9090"}).status().message(),
              HasSubstr("is not host:port"));
}

}  // namespace
}  // namespace paramd
