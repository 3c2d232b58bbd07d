#ifndef PARAMD_NET_LISTEN_ADDRESS_H_
#define PARAMD_NET_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/status.h"

namespace paramd {

// Whether this process may listen on `address` ("host:port"). Without TLS only
// where every address of the host is a loopback one, unless `insecure`:
// otherwise kInvalidArgument that names the ways out. Also kInvalidArgument if
// it is not host:port or the host's name is not known.
absl::Status CheckListenAddress(const std::string& address, bool insecure);

// Why binding `address` fails now, in one sentence: kAlreadyExists if the port
// is in use, else kInvalidArgument.
absl::Status WhyBindFails(const std::string& address);

}  // namespace paramd

#endif  // PARAMD_NET_LISTEN_ADDRESS_H_
