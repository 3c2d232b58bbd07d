#ifndef PARAMD_NET_LISTEN_ADDRESS_H_
#define PARAMD_NET_LISTEN_ADDRESS_H_

#include <netdb.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paramd {

// Whether this process may listen on `address` ("host:port"). Without TLS only
// where every address of the host is a loopback one, unless `insecure`:
// otherwise kInvalidArgument that names the ways out. Also kInvalidArgument if
// it is not host:port or the host's name is not known.
absl::Status CheckListenAddress(const std::string& address, bool insecure);

// Why binding `address` failed with `error`, an errno, in one sentence:
// kAlreadyExists if the port is in use, else kInvalidArgument.
absl::Status CannotListen(const std::string& address, int error);

// As CannotListen, found out by trying.
absl::Status WhyBindFails(const std::string& address);

// The addresses of `address`, at least one. kInvalidArgument as above.
using ListenAddresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;
absl::StatusOr<ListenAddresses> ResolveListenAddress(
    const std::string& address);

}  // namespace paramd

#endif  // PARAMD_NET_LISTEN_ADDRESS_H_
