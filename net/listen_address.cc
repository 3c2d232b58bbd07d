#include "net/listen_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "base/status_macros.h"

namespace paramd {
namespace {

bool IsLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
  }
  if (address->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
  }
  return false;
}

}  // namespace

absl::Status CheckListenAddress(const std::string& address, bool insecure) {
  ASSIGN_OR_RETURN(const ListenAddresses addresses,
                   ResolveListenAddress(address));
  if (insecure) return absl::OkStatus();
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    if (IsLoopback(a->ai_addr)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "listening on ", address,
        " without TLS would let in anybody who "
        "reaches it: pass --insecure if the network is trusted, or set up TLS "
        "once this build has it; loopback addresses need neither"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ListenAddresses> ResolveListenAddress(
    const std::string& address) {
  const size_t colon = address.rfind(':');
  uint32_t port;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", address, "' is not host:port"));
  }
  absl::string_view host = absl::string_view(address).substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(std::string(host).c_str(),
                                std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on ", address, ": ", gai_strerror(error)));
  }
  return ListenAddresses(found, &freeaddrinfo);
}

absl::Status CannotListen(const std::string& address, int error) {
  const std::string sentence =
      absl::StrCat("cannot listen on ", address, ": ", strerror(error));
  return error == EADDRINUSE
             ? absl::AlreadyExistsError(absl::StrCat(
                   sentence, "; stop the process that has it, or give this "
                             "one another address"))
             : absl::InvalidArgumentError(sentence);
}

absl::Status WhyBindFails(const std::string& address) {
  ASSIGN_OR_RETURN(const ListenAddresses addresses,
                   ResolveListenAddress(address));
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    const bool bound =
        bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, 1) == 0;
    const int error = errno;
    close(fd);
    if (!bound) return CannotListen(address, error);
  }
  return absl::InvalidArgumentError(absl::StrCat("cannot listen on ", address));
}

}  // namespace paramd
