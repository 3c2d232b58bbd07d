#include "net/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace paramd {
namespace {

// Every Linux has it, and lets everybody choose it.
constexpr absl::string_view kUnpaced = "reno";
constexpr absl::string_view kPaced = "bbr";
constexpr size_t kControlNameBytes = 16;  // The kernel's TCP_CA_NAME_MAX.

bool SameHost(const sockaddr_storage& a, const sockaddr_storage& b) {
  if (a.ss_family != b.ss_family) return false;
  if (a.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(a).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(b).sin_addr.s_addr;
  }
  return a.ss_family == AF_INET6 &&
         IN6_ARE_ADDR_EQUAL(
             &reinterpret_cast<const sockaddr_in6&>(a).sin6_addr,
             &reinterpret_cast<const sockaddr_in6&>(b).sin6_addr);
}

}  // namespace

bool IsLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
  }
  if (address->sa_family == AF_INET6) {
    const in6_addr& v6 =
        reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&v6) ||
           (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
  }
  return false;
}

bool StaysOnMachine(int fd) {
  sockaddr_storage here = {}, there = {};
  socklen_t here_size = sizeof(here), there_size = sizeof(there);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_size) != 0 ||
      getpeername(fd, reinterpret_cast<sockaddr*>(&there), &there_size) != 0) {
    return false;
  }
  return IsLoopback(reinterpret_cast<const sockaddr*>(&there)) ||
         SameHost(here, there);
}

void SendUnpaced(int fd) {
  char name[kControlNameBytes] = {};
  socklen_t size = sizeof(name) - 1;
  if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size) != 0 ||
      !absl::StartsWith(name, kPaced)) {
    return;
  }
  setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kUnpaced.data(),
             static_cast<socklen_t>(kUnpaced.size()));
}

}  // namespace paramd
