#ifndef PARAMD_NET_CALLER_H_
#define PARAMD_NET_CALLER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "net/certified_name.h"
#include "net/method_table.h"
#include "proto/paramd/v1/services.pb.h"
#include "tensor/message.h"

namespace paramd {

// The key of the call metadata in which a caller says who it is.
inline constexpr char kCallerKey[] = "paramd-caller";
// The key under which it says which shard of a server it means: "0", "1", ….
// Without it: the first.
inline constexpr char kShardKey[] = "paramd-shard";
// The key under which it says which process it means: the incarnation that
// answered its Hello, as ProcessText.
inline constexpr char kIncarnationKey[] = "paramd-incarnation";

// Who makes a call. Filled in one place, IdentifyCaller.
struct Caller {
  // The peer that cores see: the chief speaks as the coordinator; operators and
  // unknown callers are outside.
  PeerId task;
  v1::Role role = v1::ROLE_ANYONE;
  std::string name;  // Of its certificate, "operator/0"; empty: it has none.
  // True: nothing but the caller's word. Without TLS always, but for who could
  // open the process's Unix socket.
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

// How a call came to a process that speaks TLS.
struct Connection {
  std::string grpc_peer;
  bool is_tls = false;  // Else over the Unix socket, the one other acceptor.
  std::vector<std::string> uris;  // Of the caller's certificate.
};

// The same where TLS is on: whoever calls is who its certificate says, and
// worker 0 also the chief. NOT_ALLOWED if the certificate names nobody, or
// belongs to another job than `job`, or if `text` says another task; and for a
// task that comes over the Unix socket, which is for operators.
absl::StatusOr<Caller> ProveCaller(absl::string_view text,
                                   const Connection& connection,
                                   absl::string_view job);

// An incarnation as 16 hexadecimal digits; empty for 0, which is no process.
std::string ProcessText(uint64_t incarnation);

// Whether a call that says `meant` under kIncarnationKey is for `process`, both
// as ProcessText; one that is empty is nobody's to compare. NOT_READY, with
// that key as the entity, if it is for another: whoever calls says Hello again,
// and learns who is here. INVALID if a task of the job says nothing and calls
// what a core serves; anybody else may call whoever is there.
absl::Status CheckMeant(absl::string_view meant, absl::string_view process,
                        const Caller& caller, const Method& method);
// NOT_ALLOWED, with both, if a caller that proves which task it is says another
// in its Hello.
absl::Status CheckHelloOf(const Caller& caller, const v1::HelloRequest& hello);
// Whether CheckMeant is what a call was refused for.
bool IsForAnotherProcess(const absl::Status& status);

// kPermissionDenied (NOT_ALLOWED), naming the method, the caller's role and the
// roles that may, if the table in services.proto does not allow the call. What
// only operators may do is allowed over the Unix socket, or with an operator's
// certificate.
absl::Status CheckAllowed(const Caller& caller, const Method& method);

}  // namespace paramd

#endif  // PARAMD_NET_CALLER_H_
