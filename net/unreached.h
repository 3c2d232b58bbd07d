#ifndef PARAMD_NET_UNREACHED_H_
#define PARAMD_NET_UNREACHED_H_

#include <string>

#include "absl/strings/string_view.h"

namespace paramd {

// Why a connection is not there, in a few words for whoever waits: "no such
// host", "no answer from DNS", "refused", "no route", "timed out", "connection
// lost", "not a paramd process". `grpc_message` is gRPC's text, the only place
// where it says so; one that is not known is cut at 80 bytes.
std::string WhyUnreached(absl::string_view grpc_message);

}  // namespace paramd

#endif  // PARAMD_NET_UNREACHED_H_
