#include "net/listen_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "base/check.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "net/loopback.h"

namespace paramd {
namespace {

constexpr int kPortBacklog = 4096;
// A connection whose peer acknowledges nothing for so long is lost.
constexpr int kUserTimeoutMs = 20000;

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::Status CheckPort(const std::string& address) {
  const size_t colon = address.rfind(':');
  uint32_t port;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", address, "' is not host:port"));
  }
  return absl::OkStatus();
}

std::string PortOf(const std::string& address) {
  return address.substr(address.rfind(':') + 1);
}

// The addresses of `address`, at least one; else why there is none.
// REQUIRES: CheckPort.
absl::StatusOr<Addresses> Resolve(const std::string& address) {
  absl::string_view host =
      absl::string_view(address).substr(0, address.rfind(':'));
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(std::string(host).c_str(),
                                PortOf(address).c_str(), &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(gai_strerror(error));
  }
  return Addresses(found, &freeaddrinfo);
}

absl::Status NotHere(const std::string& address, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(
      "cannot listen on ", address, ": ", why,
      "; correct the name, or pass --insecure if others know this machine by "
      "it: then it listens on all addresses"));
}

absl::Status CannotListen(const std::string& address, int error) {
  if (error == EADDRNOTAVAIL) return NotHere(address, strerror(error));
  const std::string sentence =
      absl::StrCat("cannot listen on ", address, ": ", strerror(error));
  if (error == EADDRINUSE) {
    return absl::AlreadyExistsError(absl::StrCat(
        sentence,
        "; stop the process that has it, or give this one another address"));
  }
  return absl::InvalidArgumentError(
      error == EACCES
          ? absl::StrCat(sentence, "; ports below 1024 are for root")
          : sentence);
}

void Set(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof(value));
}

// A listening socket, or -1 and errno.
int Open(int family, const sockaddr* address, socklen_t size) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  Set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  Set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  Set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
  if (family == AF_INET6) Set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(fd, address, size) == 0 && listen(fd, kPortBacklog) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

// On all addresses: of both families, where the machine has IPv6.
absl::StatusOr<std::vector<int>> ListenEverywhere(const std::string& address,
                                                  absl::string_view why) {
  uint32_t port = 0;
  CHECK(absl::SimpleAtoi(PortOf(address), &port), "the port was checked");
  sockaddr_in6 v6 = {};
  v6.sin6_family = AF_INET6;
  v6.sin6_addr = in6addr_any;
  v6.sin6_port = htons(static_cast<uint16_t>(port));
  int fd = Open(AF_INET6, reinterpret_cast<sockaddr*>(&v6), sizeof(v6));
  if (fd < 0 && errno != EADDRINUSE) {
    sockaddr_in v4 = {};
    v4.sin_family = AF_INET;
    v4.sin_addr.s_addr = htonl(INADDR_ANY);
    v4.sin_port = v6.sin6_port;
    fd = Open(AF_INET, reinterpret_cast<sockaddr*>(&v4), sizeof(v4));
  }
  if (fd < 0) return CannotListen(address, errno);
  Log(LogLevel::kWarning, "listening on all addresses of this machine",
      {{"port", port}, {"instead_of", address}, {"why", why}});
  return std::vector<int>{fd};
}

// Whether the host is a name for others that means only this machine to itself:
// Debian's /etc/hosts gives a machine's own name 127.0.1.1.
bool IsNameOfLoopback(const std::string& address, const addrinfo* addresses) {
  const std::string host = address.substr(0, address.rfind(':'));
  addrinfo numeric = {};
  numeric.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  const bool is_number = host[0] == '[' || getaddrinfo(host.c_str(), nullptr,
                                                       &numeric, &found) == 0;
  if (found != nullptr) freeaddrinfo(found);
  if (is_number || absl::EqualsIgnoreCase(host, "localhost") ||
      absl::EndsWithIgnoreCase(host, ".localhost")) {
    return false;
  }
  for (const addrinfo* a = addresses; a != nullptr; a = a->ai_next) {
    if (!IsLoopback(a->ai_addr)) return false;
  }
  return true;
}

}  // namespace

bool OverlapAddresses(absl::string_view a, absl::string_view b) {
  const size_t colon_a = a.rfind(':');
  const size_t colon_b = b.rfind(':');
  if (colon_a == absl::string_view::npos ||
      colon_b == absl::string_view::npos ||
      a.substr(colon_a) != b.substr(colon_b) || a.substr(colon_a) == ":0") {
    return false;
  }
  const absl::string_view host_a = a.substr(0, colon_a);
  const absl::string_view host_b = b.substr(0, colon_b);
  const auto is_everywhere = [](absl::string_view host) {
    return host == "0.0.0.0" || host == "[::]";
  };
  return absl::EqualsIgnoreCase(host_a, host_b) || is_everywhere(host_a) ||
         is_everywhere(host_b);
}

absl::Status CheckListenAddress(const std::string& address) {
  RETURN_IF_ERROR(CheckPort(address));
  const absl::StatusOr<Addresses> addresses = Resolve(address);
  if (!addresses.ok()) return NotHere(address, addresses.status().message());
  for (const addrinfo* a = addresses->get(); a != nullptr; a = a->ai_next) {
    if (IsLoopback(a->ai_addr)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "listening on ", address,
        " without TLS would let in anybody who reaches it: give it "
        "certificates with --tls_dir (paramd tls init makes them), or pass "
        "--insecure if the network is trusted; loopback addresses need "
        "neither"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int>> ListenAt(const std::string& address,
                                          bool or_everywhere) {
  RETURN_IF_ERROR(CheckPort(address));
  const absl::StatusOr<Addresses> addresses = Resolve(address);
  if (!addresses.ok()) {
    const absl::string_view why = addresses.status().message();
    if (or_everywhere) return ListenEverywhere(address, why);
    return NotHere(address, why);
  }
  if (or_everywhere && IsNameOfLoopback(address, addresses->get())) {
    return ListenEverywhere(address,
                            "its name is a loopback address on this machine "
                            "(/etc/hosts), where others don't reach it");
  }
  if (IsNameOfLoopback(address, addresses->get())) {
    Log(LogLevel::kWarning, "only this machine can reach it",
        {{"address", address},
         {"why",
          "its name is a loopback address here (/etc/hosts); pass "
          "--insecure to listen on all addresses"}});
  }
  std::vector<int> sockets;
  std::set<std::string> seen;
  int error = 0;
  for (const addrinfo* a = addresses->get();
       a != nullptr && error != EADDRINUSE; a = a->ai_next) {
    const std::string bytes(reinterpret_cast<const char*>(a->ai_addr),
                            a->ai_addrlen);
    if (!seen.insert(bytes).second) continue;
    const int fd = Open(a->ai_family, a->ai_addr, a->ai_addrlen);
    if (fd >= 0) {
      sockets.push_back(fd);
    } else {
      error = errno;
    }
  }
  // Of several addresses of a name some may be those of another machine, or of
  // a family that this one has not.
  if (!sockets.empty() && error != EADDRINUSE) return sockets;
  for (const int fd : sockets) close(fd);
  if ((error == EADDRNOTAVAIL || error == EAFNOSUPPORT) && or_everywhere) {
    return ListenEverywhere(address, "its address is not of this machine");
  }
  return CannotListen(address, error);
}

}  // namespace paramd
