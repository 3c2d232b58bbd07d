#ifndef PARAMD_NET_CALLER_H_
#define PARAMD_NET_CALLER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "net/method_table.h"
#include "proto/paramd/v1/services.pb.h"
#include "tensor/message.h"

namespace paramd {

// The key of the call metadata in which a caller says who it is.
inline constexpr char kCallerKey[] = "paramd-caller";
// The key under which it says which shard of a server it means: "0", "1", ….
// Without it: the first.
inline constexpr char kShardKey[] = "paramd-shard";

// Who makes a call. Filled in one place, IdentifyCaller.
struct Caller {
  // The peer that cores see: the chief speaks as the coordinator; operators and
  // unknown callers are outside.
  PeerId task;
  v1::Role role = v1::ROLE_ANYONE;
  // True: nothing but the caller's word. There is no TLS yet, so always, but
  // for who could open the process's Unix socket.
  bool claimed = true;
  // "127.0.0.1:41234"
  std::string address;
};

// "ps/0", "worker/3", "chief/0": what a core of this name says of itself; empty
// for the outside.
std::string CallerText(PeerId self);

// Who calls, from the value of kCallerKey (empty: anyone) and gRPC's name of
// the connection's other end ("ipv4:127.0.0.1:41234"). kInvalidArgument if the
// value is not role/index.
absl::StatusOr<Caller> IdentifyCaller(absl::string_view text,
                                      absl::string_view grpc_peer);

// kPermissionDenied (NOT_ALLOWED), naming the method, the caller's role and the
// roles that may, if the table in services.proto does not allow the call. What
// only operators may do is allowed over the Unix socket alone.
absl::Status CheckAllowed(const Caller& caller, const Method& method);

}  // namespace paramd

#endif  // PARAMD_NET_CALLER_H_
