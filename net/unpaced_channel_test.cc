#include "net/unpaced_channel.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/channel.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

constexpr int kMostDescriptors = 1024;

// Of this process, the descriptor connected to that port; -1: there is none.
// gRPC calls IPv4 through sockets of IPv6.
int ConnectedTo(int port) {
  for (int fd = 0; fd < kMostDescriptors; ++fd) {
    sockaddr_in6 peer = {};
    socklen_t size = sizeof(peer);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
        peer.sin6_family == AF_INET6 && ntohs(peer.sin6_port) == port) {
      return fd;
    }
  }
  return -1;
}

TEST(UnpacedChannelTest, ItsConnectionSendsUnpaced) {
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(name);
  auto* const generic = reinterpret_cast<sockaddr*>(&name);
  const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(listening, generic, size), 0);
  ASSERT_EQ(listen(listening, 1), 0);
  ASSERT_EQ(getsockname(listening, generic, &size), 0);
  const int port = ntohs(name.sin_port);
  {
    grpc::ChannelArguments args;
    SendUnpaced(&args);
    const auto channel =
        grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port),
                                  grpc::InsecureChannelCredentials(), args);
    channel->GetState(/*try_to_connect=*/true);
    const int server = accept(listening, nullptr, nullptr);
    const int client = ConnectedTo(port);
    ASSERT_GE(client, 0);
    char choice[16] = {};
    size = sizeof(choice) - 1;
    ASSERT_EQ(getsockopt(client, IPPROTO_TCP, TCP_CONGESTION, choice, &size),
              0);
    EXPECT_FALSE(absl::StartsWith(choice, "bbr")) << choice;
    close(server);
  }
  close(listening);
}

}  // namespace
}  // namespace paramd
