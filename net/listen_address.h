#ifndef PARAMD_NET_LISTEN_ADDRESS_H_
#define PARAMD_NET_LISTEN_ADDRESS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paramd {

// Whether every address of the host in `address` ("host:port") is a loopback
// one, as it has to be without TLS. Otherwise kInvalidArgument that names the
// ways out; also if it is not host:port or the host has no address.
absl::Status CheckListenAddress(const std::string& address);

// Whether two addresses can't both be listened on, as far as their texts say:
// one port, other than 0, and one host, or one that is all of the machine.
bool OverlapAddresses(absl::string_view a, absl::string_view b);

// Sockets that listen at `address` ("host:port"; port 0: any free one), one for
// each address of the host that this machine has, at least one. They do not
// block; what is set on them is inherited by the connections. The caller closes
// them.
//
// With `or_everywhere` a host that has no address, or none of this machine, is
// a name that others know this machine by (a Kubernetes service may get its
// address only when its process is ready), as is one other than localhost whose
// addresses are all loopback ones (127.0.1.1 in Debian's /etc/hosts): then the
// one socket listens at all addresses of the machine, and a warning says so.
//
// kAlreadyExists if the port is in use; kInvalidArgument if it can't be bound.
absl::StatusOr<std::vector<int>> ListenAt(const std::string& address,
                                          bool or_everywhere);

}  // namespace paramd

#endif  // PARAMD_NET_LISTEN_ADDRESS_H_
